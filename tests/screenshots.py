"""`make screenshots`: the pictures of the README, of the runs of `cts demo`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from browser.viewing import ROOT, viewing
from chromium import NONE_FOUND, chromium, find_chromium
from example_world import play_examples
from made_views import POOR_K3
from playwright.sync_api import Browser, Page

IMAGES = ROOT / "docs" / "images"
INSTANCE = "s13"
WIDTH = 1280


def main() -> None:
    if find_chromium() is None:
        raise SystemExit(NONE_FOUND)
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        play_examples(Path(folder))
        with viewing(Path(folder) / "runs") as viewer, chromium() as browser:
            with shown(browser, viewer.at(), height=840) as page:
                page.get_by_role("link", name="Leaderboard").click()
                page.locator("tbody tr").first.wait_for()
                take(page, "leaderboard")
            with shown(browser, viewer.at("instance", run=POOR_K3, id=INSTANCE), height=1130) as page:
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
