"""Figures of runs, as plotly draws them.

`figures` makes them as plain data, `template` gives the colours that they are drawn in, `plotly_js` what draws them in
a page, and `export` writes them as files for papers.
"""

from cts_async.report.plots.all_figures import Drawn, figures
from cts_async.report.plots.figure import Figure, LeftOut
from cts_async.report.plots.image_files import FORMATS, check_export, export, plotly_js
from cts_async.report.plots.material import Material
from cts_async.report.plots.style import THEMES, Theme, template

__all__ = [
    "FORMATS",
    "THEMES",
    "Drawn",
    "Figure",
    "LeftOut",
    "Material",
    "Theme",
    "check_export",
    "export",
    "figures",
    "plotly_js",
    "template",
]
