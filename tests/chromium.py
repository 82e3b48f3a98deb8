"""The system's Chromium, driven by playwright: for tests, pictures and measurements."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from playwright.sync_api import Browser, sync_playwright

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
NONE_FOUND: Final = (
    "no Chromium: apt-get install chromium (as .ci/run does), or name a browser's program in CHROMIUM"
)
FEATURES_OFF: Final = (
    "AimEnabled",
    "AvoidCorsURLLoaderRestartOnRedirect",
    "AvoidUnnecessaryBeforeUnloadCheckSync",
    "DestroyProfileOnBrowserClose",
    "HttpsFirstBalancedModeAutoEnable",
    "HttpsUpgrades",
    "LensOverlay",
    "MediaRouter",
    "NetworkTimeServiceQuerying",
    "OptimizationHints",
    "PaintHolding",
    "PreconnectToSearch",
    "TcpPortRandomizationWin",
    "SpareRendererForSitePerProcess",
    "ThirdPartyStoragePartitioning",
    "WebUIOmniboxAimPopup",
    "WebUIOmniboxPopup",
)
"""What playwright turns off, since only the last such flag counts; and the two pages that Chromium loads behind the
address bar of each window, for as much CPU time as one of ours takes."""
FLAGS: Final = (
    f"--disable-features={','.join(FEATURES_OFF)}",
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
"""Nothing of its own goes out; no sandbox, since tests run as root in containers and open only their own pages."""


def find_chromium() -> str | None:
    """The browser's program: what the variable CHROMIUM names, else the first of NAMES on the path."""
    named = os.environ.get("CHROMIUM")
    return next(filter(None, map(shutil.which, [named] if named else NAMES)), None)


@contextmanager
def chromium(*flags: str) -> Iterator[Browser]:
    """Chromium, started and ended. Ask `find_chromium` first. Meanwhile this thread has an event loop running."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=[*FLAGS, *flags])
        try:
            yield browser
        finally:
            browser.close()
