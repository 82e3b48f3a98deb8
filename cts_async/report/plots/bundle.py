"""plotly.js as the installed plotly package brings it, found without importing that package (which takes a second)."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from cts_async.errors import UsageError


def plotly_path() -> Path:
    """The minified bundle, the only one that the package has. Raises UsageError where it is missing."""
    found = find_spec("plotly")
    for folder in (found.submodule_search_locations or ()) if found else ():
        path = Path(folder) / "package_data" / "plotly.min.js"
        if path.is_file():
            return path
    raise UsageError(
        "plotly.js is not here: reinstall the package that has it (pip install --force-reinstall plotly)"
    )


def plotly_js() -> str:
    """Its text (about 5 MB), to be put into a page. Raises UsageError where it is missing."""
    return plotly_path().read_text(encoding="utf-8")
