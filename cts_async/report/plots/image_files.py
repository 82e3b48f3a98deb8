"""Figures as files for papers: SVG, PNG and PDF, as wide as a column, drawn by kaleido in a Chromium of this machine.

Nothing is fetched: plotly.js is the one that is installed, and the browser's way out is a proxy that does not exist.
What plotly draws by chance (ids, mostly) is drawn from a fixed seed, and PDFs have no date, so that the same figure
gives the same file with the same browser.
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
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from cts_async.engine.processes import child_environment
from cts_async.errors import UsageError, write_error
from cts_async.report.plots.figure import Figure
from cts_async.report.plots.style import FONT_PX, template
from cts_async.safe_files import atomic_writer


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


FORMATS: Final = ("svg", "png", "pdf")
WIDTH_PX: Final = 340
"""3.5 inches at CSS' 96 px: a column of a two-column paper."""
PNG_SCALE: Final = 4
"""PNGs have four pixels for each of CSS, 384 per inch."""
BROWSER_VARIABLES: Final = (
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XDG_RUNTIME_DIR",
    "FONTCONFIG_FILE",
    "FONTCONFIG_PATH",
)
_SMALLER: Final = FONT_PX["print"] / FONT_PX["light"]
_NOBODY: Final = "127.0.0.1:9"
_NEITHER: Final = "the HTML report needs neither"
_POLICY: Final = (
    '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; script-src file:; '
    "style-src 'unsafe-inline'; img-src data: blob:; font-src data:\">"
)
"""Of the page that figures are drawn in: scripts from this machine's files, and nothing else from anywhere."""
_SEEDED: Final = """
let state = 1;
Math.random = () => {
  state = (state * 48271) % 2147483647;
  return state / 2147483647;
};
"""


def check_export(formats: Sequence[str]) -> None:
    """Raise UsageError where these formats cannot be written here, before anything is computed."""
    if not formats:
        raise UsageError(f"no format to write figures in: name some of {', '.join(FORMATS)}")
    for form in formats:
        if form not in FORMATS:
            raise UsageError(f"figures are written as {', '.join(FORMATS)}, not as {form!r}")
    plotly_path()
    if find_spec("kaleido") is None:
        raise UsageError(
            f"figures as files need kaleido (pip install 'cts-async[plots]') and Chrome or Chromium; {_NEITHER}"
        )
    if _browser() is None:
        named = os.environ.get("BROWSER_PATH")
        found = f"BROWSER_PATH names none ({named})" if named else "there is none"
        raise UsageError(
            f"figures as files need Chrome or Chromium, and {found}: install it (apt-get install chromium), or "
            f"set BROWSER_PATH to where it is; {_NEITHER}"
        )


def export(figures: Sequence[Figure], folder: Path, formats: Sequence[str]) -> list[Path]:
    """Write NAME.FORMAT for each figure into the folder, which is made if need be; give the files.

    Everything is drawn before the first file is written, each of them whole or not at all. Raises UsageError.
    """
    check_export(formats)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_error(folder, error) from None
    browser = _browser()
    with _silent("choreographer", "kaleido"), _keyless_environment():
        files = asyncio.run(_drawn(figures, formats, browser))
    written = []
    for name, data in files:
        with atomic_writer(folder / name) as file:
            file.write(data)
        written.append(folder / name)
    return written


@contextmanager
def _silent(*names: str) -> Iterator[None]:
    """Loggers that say nothing: what matters of it is in the error."""
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL + 1)
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@contextmanager
def _keyless_environment() -> Iterator[None]:
    """Leave only what a browser needs in the environment: choreographer hands all of it to the browser."""
    before = dict(os.environ)
    try:
        os.environ.clear()
        os.environ.update(child_environment(*BROWSER_VARIABLES, environ=before))
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _browser() -> str | None:
    from choreographer.browsers.chromium import Chromium

    path: str | None = Chromium.find_browser(skip_local=False)
    return path if path and Path(path).is_file() else None


async def _drawn(
    figures: Sequence[Figure], formats: Sequence[str], browser: str | None
) -> list[tuple[str, bytes]]:
    """Files by name. Raises UsageError where the browser does not do its part."""
    import kaleido

    with TemporaryDirectory() as folder:
        page = _page(Path(folder))
        try:
            async with kaleido.Kaleido(page_generator=page, path=browser, proxy_server=_NOBODY) as drawing:
                return [
                    (
                        f"{figure.name}.{form}",
                        _finished(figure, await drawing.calc_fig(*_asked(figure, form))),
                    )
                    for figure in figures
                    for form in formats
                ]
        except Exception as error:  # what a browser and its driver raise has no common base
            said = str(next(iter(error.args), "")).partition("\n")[0].rstrip(".") or type(error).__name__
            raise UsageError(f"{browser} did not draw the figures: {said}; {_NEITHER}") from error


def _page(folder: Path) -> Any:
    """What kaleido draws in: a page of scripts of this machine only (kaleido's own fetches MathJax)."""
    import kaleido

    seeded = folder / "seeded.js"
    seeded.write_text(_SEEDED, encoding="utf-8")
    page = kaleido.PageGenerator(plotly=plotly_path().as_uri(), mathjax=False, others=[seeded.as_uri()])
    page.header = page.header.replace("<head>", f"<head>{_POLICY}")
    return page


def in_print(figure: Figure) -> dict[str, Any]:
    """The figure's spec in the colours and sizes of print."""
    given = figure.spec["layout"]
    sizes = {"width": WIDTH_PX, "height": round(given["height"] * _SMALLER)}
    layout = {**given, **sizes, "template": template("print")}
    return {"data": list(figure.spec["data"]), "layout": layout}


def _asked(figure: Figure, form: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What kaleido is asked for: a spec, and options."""
    return in_print(figure), {"format": form, "scale": PNG_SCALE if form == "png" else 1}


def _finished(figure: Figure, data: bytes) -> bytes:
    """An SVG says what is to be seen in it; a PDF no longer says when it was made, in as many digits."""
    if data.startswith(b"%PDF"):
        return re.sub(rb"(?<=Date \(D:)\d{14}", b"20000101000000", data)
    if data.startswith(b"<svg "):
        opening, _, rest = data.partition(b">")
        told = f' role="img"><title>{escape(figure.title)}</title><desc>{escape(figure.alt)}</desc>'
        return opening + told.encode() + rest
    return data
