"""Figures of runs, as plotly draws them.

`figures` makes them as plain data, `template` gives the colours that they are drawn in, `plotly_js` what draws them in
a page, and `export` writes them as files for papers.
"""

from cts_async.report.plots.bundle import plotly_js
from cts_async.report.plots.drawn import Drawn, figures
from cts_async.report.plots.figure import Figure, LeftOut
from cts_async.report.plots.image_files import FORMATS, check_export, export
from cts_async.report.plots.material import Material
from cts_async.report.plots.themes import THEMES, Theme, template

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
