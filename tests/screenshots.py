"""`make screenshots`: the two pictures of the README, of example runs over the sample world.

Their models are the functions of `example_world`; nothing in them is a model's score, and every name says "example".
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from browser.viewing import ROOT, viewing
from chromium import NONE_FOUND, chromium, find_chromium
from example_world import play_examples
from playwright.sync_api import Page

IMAGES = ROOT / "docs" / "images"
SIZE = {"width": 1280, "height": 860}
RUN = "sample-example-large-k3+all-example"
INSTANCE = "s04"


def main() -> None:
    if find_chromium() is None:
        raise SystemExit(NONE_FOUND)
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        play_examples(Path(folder))
        with viewing(Path(folder) / "runs") as viewer, chromium() as browser:
            page = browser.new_page(
                viewport=SIZE, locale="en-US", color_scheme="light", reduced_motion="reduce"
            )
            page.goto(viewer.at("run", run=RUN))
            page.locator("tr[data-id]").first.wait_for()
            take(page, "run")
            page.goto(viewer.at("instance", run=RUN, id=INSTANCE))
            page.locator("ol.trace > li.answer").wait_for()
            take(page, "instance")


def take(page: Page, name: str) -> None:
    """Write docs/images/NAME.png, from the top of the page."""
    path = IMAGES / f"{name}.png"
    page.screenshot(path=path)
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
