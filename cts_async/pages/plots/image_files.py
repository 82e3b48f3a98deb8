"""Figures as files for papers: SVG, PNG and PDF of the width of a column, drawn by kaleido in this machine's Chromium.

Nothing is fetched: plotly.js is the installed one, and the browser's proxy does not exist. What plotly draws at random
(ids, mostly) has a fixed seed, and PDFs have a fixed date: the same browser draws the same figure into the same bytes.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import escape
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any, Final

from cts_async.engine.processes import child_environment
from cts_async.errors import UsageError, install_command, write_error
from cts_async.pages.plots.figure import Figure, template
from cts_async.safe_files import atomic_writer


def plotly_path() -> Path:
    """plotly.js of the installed package, which is not imported (a second). Raises UsageError if it is missing."""
    spec = find_spec("plotly")
    folders: Sequence[str] = ()
    if spec is not None:
        folders = spec.submodule_search_locations or ()
    for folder in folders:
        path = Path(folder) / "package_data" / "plotly.min.js"
        if path.is_file():
            return path
    raise UsageError("plotly.js not found: reinstall the package (pip install --force-reinstall plotly)")


def plotly_js() -> str:
    """Its text, about 5 MB. Raises UsageError if it is missing."""
    return plotly_path().read_text(encoding="utf-8")


FORMATS: Final = ("svg", "png", "pdf")
WIDTH_PX: Final = 316
"""Just below 84 mm at 96 px an inch: a column of a two-column paper. Text of 11 px is 8.25 pt there."""
PNG_SCALE: Final = 4
"""PNG pixels per CSS pixel: 384 per inch."""
BROWSER_VARIABLES: Final = (
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XDG_RUNTIME_DIR",
    "FONTCONFIG_FILE",
    "FONTCONFIG_PATH",
)
_NO_PROXY: Final = "127.0.0.1:9"
_ALTERNATIVE: Final = "the HTML report needs neither"
_POLICY: Final = (
    '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; script-src file:; '
    "style-src 'unsafe-inline'; img-src data: blob:; font-src data:\">"
)
"""The policy of the page that figures are drawn in: scripts from local files, and nothing else."""


def check_export(formats: Sequence[str]) -> None:
    """Raise UsageError if these formats cannot be written here, before anything is computed."""
    unknown = ", ".join(repr(form) for form in formats if form not in FORMATS)
    if unknown or not formats:
        raise UsageError(f"figures can be written as {', '.join(FORMATS)}, not as {unknown or 'nothing'}")
    plotly_path()
    if find_spec("kaleido") is None:
        raise UsageError(
            f"figures as files need kaleido ({install_command('plots')}) and Chrome or Chromium; {_ALTERNATIVE}"
        )
    if _browser() is None:
        path = os.environ.get("BROWSER_PATH")
        problem = "none was found"
        if path:
            problem = f"BROWSER_PATH ({path}) is not one"
        raise UsageError(
            f"figures as files need Chrome or Chromium, but {problem}: install it (apt-get install chromium), or "
            f"set BROWSER_PATH to where it is; {_ALTERNATIVE}"
        )


def write_figures(figures: Sequence[Figure], folder: Path, formats: Sequence[str]) -> list[Path]:
    """Write NAME.FORMAT for each figure into the folder, which is created if necessary; return the files.

    All figures are drawn before the first file is written, and each file is written whole or not at all. Raises
    UsageError.
    """
    check_export(formats)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_error(folder, error) from None
    browser = _browser()
    # Both log their errors, and raise them, too.
    for name in ("choreographer", "kaleido"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    with _keyless_environment():
        files = asyncio.run(_draw(figures, formats, browser))
    written = []
    for name, data in files:
        with atomic_writer(folder / name) as file:
            file.write(data)
        written.append(folder / name)
    return written


@contextmanager
def _keyless_environment() -> Iterator[None]:
    """Remove keys from the environment: choreographer passes all of it on to the browser."""
    before = dict(os.environ)
    try:
        os.environ.clear()
        os.environ.update(child_environment(*BROWSER_VARIABLES, environ=before))
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _browser() -> str | None:
    try:
        from choreographer.browsers.chromium import Chromium
    except RuntimeError:  # it looks for the home directory when it is imported
        raise UsageError(f"figures as files need a home directory: set HOME; {_ALTERNATIVE}") from None
    path: str | None = Chromium.find_browser(skip_local=False)
    # It returns BROWSER_PATH as it is, whether or not there is such a file.
    if not path or not Path(path).is_file():
        return None
    return path


async def _draw(
    figures: Sequence[Figure], formats: Sequence[str], browser: str | None
) -> list[tuple[str, bytes]]:
    """Files by name. Raises UsageError if the browser fails."""
    import kaleido

    try:
        async with kaleido.Kaleido(page_generator=_page(), path=browser, proxy_server=_NO_PROXY) as drawing:
            files: list[tuple[str, bytes]] = []
            for figure, form in product(figures, formats):
                # Only pixels have a scale: in SVG and PDF it would change the size on paper.
                scale = 1
                if form == "png":
                    scale = PNG_SCALE
                data = await drawing.calc_fig(in_print(figure), {"format": form, "scale": scale})
                files.append((f"{figure.name}.{form}", _finished(figure, data)))
            return files
    # The errors of kaleido and choreographer have no common base.
    except Exception as error:
        problem = _first_line(error) or type(error).__name__
        raise UsageError(f"{browser} did not draw the figures: {problem}; {_ALTERNATIVE}") from error


def _first_line(error: Exception) -> str:
    if not error.args:
        return ""
    return str(error.args[0]).partition("\n")[0].rstrip(".")


def _page() -> Any:
    """The page that kaleido draws in, with local scripts only (its own page would fetch MathJax)."""
    import kaleido

    seeded = Path(__file__).with_name("seeded.js").as_uri()
    page = kaleido.PageGenerator(plotly=plotly_path().as_uri(), mathjax=False, others=[seeded])
    page.header = page.header.replace("<head>", f"<head>{_POLICY}")
    return page


def in_print(figure: Figure) -> dict[str, Any]:
    """The spec of a figure in the colours and sizes of print."""
    style = template("print")
    # Heights are made for the text of a page; that of print is smaller.
    scale = style["layout"]["font"]["size"] / template("light")["layout"]["font"]["size"]
    layout = dict(figure.spec["layout"])
    layout["width"] = WIDTH_PX
    layout["height"] = round(layout["height"] * scale)
    layout["template"] = style
    return {"data": list(figure.spec["data"]), "layout": layout}


def _finished(figure: Figure, data: bytes) -> bytes:
    """Add the text alternative to an SVG; replace the date of a PDF by a fixed one of the same length."""
    if data.startswith(b"%PDF"):
        return re.sub(rb"(?<=Date \(D:)\d{14}", b"20000101000000", data)
    if data.startswith(b"<svg "):
        opening, _, drawing = data.partition(b">")
        labels = f' role="img"><title>{escape(figure.title)}</title><desc>{escape(figure.alt)}</desc>'
        return opening + labels.encode() + drawing
    return data
