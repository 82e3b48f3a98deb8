"""`make screenshots`: the two pictures of the README, of example runs over the sample world.

Their models are the functions of `example_world`; nothing in them is a model's score, and every name says "example".
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from browser.viewing import ROOT, viewing
from chromium import NONE_FOUND, chromium, find_chromium
from example_world import play_examples
from playwright.sync_api import Browser, Page

IMAGES = ROOT / "docs" / "images"
RUN = "sample-example-large-k3+all-example"
INSTANCE = "s04"
WIDTH = 1280


def main() -> None:
    if find_chromium() is None:
        raise SystemExit(NONE_FOUND)
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        play_examples(Path(folder))
        with viewing(Path(folder) / "runs") as viewer, chromium() as browser:
            with shown(browser, viewer.at("run", run=RUN), height=1080) as page:
                page.locator("tr[data-id]").first.wait_for()
                take(page, "run")
            with shown(browser, viewer.at("instance", run=RUN, id=INSTANCE), height=1280) as page:
                page.locator("ol.trace > li.answer").wait_for()
                take(page, "instance")


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
