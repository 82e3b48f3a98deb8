"""`make walk`: the first hour of a user, recorded, on every screen.

    python tests/walk.py [FOLDER]      pictures and printed tables go there [default: a new folder in /tmp]

The demo, an experiment of the user's own against a provider on the loopback, its comparison, why an instance scored
low, and the table for a paper. Every page is looked at wide and narrow, light and dark, in English and Chinese. The
walk fails where a page scrolls sideways, where a control cannot be reached with the keyboard, and where axe-core finds
a serious fault.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from browser.checks import lasting_faults
from browser.viewing import ROOT, Viewer, Watch, opened, viewing
from chromium import NONE_FOUND, chromium, find_chromium
from fake_provider import provider_process
from playwright.sync_api import Page

OWN = "mine"
"""The user's model."""
SCREENS: Mapping[str, dict[str, Any]] = {
    f"{width}-{theme}-{language}": {
        "viewport": {"width": width, "height": height},
        "color_scheme": theme,
        "locale": locale,
        "reduced_motion": "reduce",
    }
    for width, height in ((1400, 900), (390, 844))
    for theme in ("light", "dark")
    for language, locale in (("en", "en-US"), ("zh", "zh-CN"))
}
STOPS = "a[href], button, input, select, textarea, summary, [tabindex='0']"
MOST_TABS = 400


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    folder = parser.parse_args().folder or Path(tempfile.mkdtemp(prefix="cts-walk-"))
    if find_chromium() is None:
        raise SystemExit(NONE_FOUND)
    folder.mkdir(parents=True, exist_ok=True)
    faults = []
    for fault in walk(folder.resolve()):
        faults.append(fault)
        print(fault, flush=True)
    print(f"{folder}: {len(list(folder.glob('*.png')))} pictures, {len(faults)} faults")
    raise SystemExit(bool(faults))


def walk(folder: Path) -> Iterator[str]:
    """Take the walk; yields what is wrong, a line each."""
    with tempfile.TemporaryDirectory() as home:
        place = Path(home)
        typed(place, folder, "demo", "--no-view")
        with provider_process(latency_s=0.002) as provider:
            (place / "cts.toml").write_text(
                f'[models.{OWN}]\nbase_url = "{provider.url}"\nmodel = "fake-1"\n'
                "input_usd_per_mtok = 1.0\noutput_usd_per_mtok = 4.0\n"
            )
            run = ("--all", OWN, "-k", "1", "-k", "3", "--limit", "8", "--config", "cts.toml")
            typed(place, folder, "plan", *run)
            typed(place, folder, "run", *run)
        typed(place, folder, "compare", "runs")
        typed(place, folder, "report", "runs", "--tables", "tables")
        table = place / "tables" / "results.tex"
        (folder / table.name).write_text(table.read_text())
        with viewing(place / "cts-demo") as demo, viewing(place / "runs") as own, chromium() as browser:
            pages = {**pages_of(demo, "demo"), **pages_of(own, "own")}
            pages["own-report"] = (f"file://{place}/runs/report.html", "main table")
            for screen, options in SCREENS.items():
                for name, (address, complete) in pages.items():
                    watch = Watch()
                    with opened(browser, address.partition("#")[0], watch, **options) as page:
                        page.goto(address)
                        page.locator(complete).first.wait_for()
                        yield from (f"{name} {screen}: {fault}" for fault in looked_at(page))
                        page.screenshot(path=folder / f"{name}-{screen}.png")
                    yield from (f"{name} {screen}: {fault}" for fault in watch.faults)


def typed(place: Path, folder: Path, *words: str) -> None:
    """Run `cts WORDS` in `place` on 80 columns; what it prints goes to FOLDER/COMMAND.txt."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "80", "HOME": str(place)}
    done = subprocess.run(
        [sys.executable, "-m", "cts_async", *words], cwd=place, env=environ, capture_output=True, text=True
    )
    (folder / f"{words[0]}.txt").write_text(done.stdout + done.stderr)
    if done.returncode not in (0, 1):  # 1: an instance failed
        raise SystemExit(f"cts {' '.join(words)}: {done.stderr}")


def pages_of(viewer: Viewer, name: str) -> dict[str, tuple[str, str]]:
    """By name: the address of each page, and what is there once it is complete."""
    runs = sorted(viewer.runs.glob("*-k3*/summary.json"))
    data = json.loads((runs[0].parent / "run.json").read_text())["identity"]["data"]
    run, orig = runs[0].parent.name, next(viewer.runs.glob("*-orig*")).name
    worst = lowest(runs[0].parent)
    sha = f"{data['sha256']}.{data['gold_sha256'][:16]}"
    return {
        f"{name}-runs": (viewer.at(), "section.group"),
        f"{name}-leaderboard": (viewer.at("leaderboard", data=sha), "tbody tr"),
        f"{name}-run": (viewer.at("run", run=run), "tr[data-id]"),
        f"{name}-low-instance": (viewer.at("instance", run=run, id=worst), ".nuggets tbody tr"),
        f"{name}-compared": (viewer.at("compare", a=orig, b=run, id=worst), ".nuggets tbody tr"),
    }


def lowest(run: Path) -> str:
    """The id of the instance with the lowest score."""
    lines = [json.loads(line) for line in (run / "results.jsonl").read_text().splitlines()]
    scored = [line for line in lines if "restore_score_100" in line]
    return str(min(scored, key=lambda line: line["restore_score_100"])["id"])


def looked_at(page: Page) -> Iterator[str]:
    """What is wrong with a page."""
    yield from (f"{name}: {found}" for name, found in lasting_faults(page, ("wide",)).items())
    for violation in Axe().run(page).response["violations"]:
        if violation["impact"] in ("serious", "critical"):
            nodes = ", ".join(" ".join(node["target"]) for node in violation["nodes"][:3])
            yield f"axe: {violation['id']} ({violation['impact']}): {nodes}"
    yield from unreached(page)


def unreached(page: Page) -> Iterator[str]:
    """The visible controls that the tab key does not come to, from the start of the page to its end."""
    page.evaluate(
        """(stops) => {
          window.unreached = new Set([...document.querySelectorAll(stops)].filter((one) =>
            one.tabIndex >= 0 && !one.disabled && one.checkVisibility({ checkVisibilityCSS: true })
            && !(one.type === "radio" && !one.checked)));
          document.addEventListener("focusin", ({ target }) => window.unreached.delete(target));
          document.activeElement?.blur();
        }""",
        STOPS,
    )
    for pressed in range(MOST_TABS):  # a page may grow on the way
        if pressed % 10 == 0 and not page.evaluate("window.unreached.size"):
            break
        page.keyboard.press("Tab")
    names: list[str] = page.evaluate(
        "[...window.unreached].filter((one) => one.isConnected).map((one) => one.outerHTML.slice(0, 80))"
    )
    yield from (f"not reached by the tab key: {name}" for name in names)
    page.evaluate("document.activeElement?.blur(); scrollTo(0, 0)")


if __name__ == "__main__":
    main()
