"""`make screenshots`: the pictures of the README.

The first is what `make run` prints of the baseline. The others show example runs over the sample world: their models are
the functions of `example_world`; nothing in them is a model's score, and every name says "example".
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from browser.viewing import ROOT, viewing
from chromium import NONE_FOUND, chromium, find_chromium
from example_world import play_examples
from playwright.sync_api import Browser, Page
from rich.console import Console

import cts_async
from cts_async.report.results import print_results
from cts_async.report.summary import summarise_runs

IMAGES = ROOT / "docs" / "images"
RUN = "sample-example-large-k3+all-example"
INSTANCE = "s04"
WIDTH = 1280
BASELINE = {"every_role": "baseline", "references": ("orig", "gold")}
SYSTEMS = ("orig", "baseline-k1", "baseline-k2", "baseline-k3", "gold")


def main() -> None:
    if find_chromium() is None:
        raise SystemExit(NONE_FOUND)
    IMAGES.mkdir(parents=True, exist_ok=True)
    take_table()
    with tempfile.TemporaryDirectory() as folder:
        play_examples(Path(folder))
        with viewing(Path(folder) / "runs") as viewer, chromium() as browser:
            with shown(browser, viewer.at("run", run=RUN), height=1080) as page:
                page.locator("tr[data-id]").first.wait_for()
                take(page, "run")
            with shown(browser, viewer.at("instance", run=RUN, id=INSTANCE), height=1280) as page:
                page.locator("ol.trace > li.answer").wait_for()
                take(page, "instance")


def take_table() -> None:
    """Write docs/images/baseline.png: the table that the baseline's run ends with, as a terminal shows it."""
    with tempfile.TemporaryDirectory() as folder:
        runs = cts_async.run("baseline", (1, 2, 3), **BASELINE, runs_dir=Path(folder), quiet=True)
        console = Console(record=True, width=96, file=io.StringIO())
        summaries = {summary.label: summary for summary in summarise_runs(runs.paths)}
        print_results(console, [summaries[label] for label in SYSTEMS])
    page_of = f"<main style='display: inline-block; padding: 12px 16px'>{console.export_html(inline_styles=True)}</main>"
    with chromium() as browser:
        page = browser.new_page(viewport={"width": WIDTH, "height": 600}, device_scale_factor=2)
        page.set_content(page_of)
        path = IMAGES / "baseline.png"
        page.locator("main").screenshot(path=path)
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1000:.0f} kB")


@contextmanager
def shown(browser: Browser, address: str, *, height: int) -> Iterator[Page]:
    """A page in English, light, at rest, and without a mark for the keyboard's focus."""
    page = browser.new_page(
        viewport={"width": WIDTH, "height": height},
        locale="en-US",
        color_scheme="light",
        reduced_motion="reduce",
    )
    page.goto(address)
    yield page
    page.close()


def take(page: Page, name: str) -> None:
    """Write docs/images/NAME.png: the window, or as much of it as the page fills."""
    page.mouse.click(WIDTH - 8, 300)
    bottom = page.evaluate("Math.ceil(document.querySelector('main').getBoundingClientRect().bottom)")
    height = min(page.viewport_size["height"], bottom)
    path = IMAGES / f"{name}.png"
    page.screenshot(path=path, clip={"x": 0, "y": 0, "width": WIDTH, "height": height})
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
