"""The tests' Chromium, for benchmarks, and when a page has been painted."""

from __future__ import annotations

import sys
import time

from playwright.sync_api import Browser, Page

from benchmarks.shared.process import ROOT

sys.path.insert(0, str(ROOT / "tests"))

from chromium import NONE_FOUND, chromium, find_chromium

__all__ = ["NONE_FOUND", "Browser", "Page", "chromium", "find_chromium", "painted"]

_TWO_FRAMES = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
PATIENCE_MS = 120_000


def painted(page: Page, condition: str, began: float) -> float:
    """Seconds since `began` (time.monotonic) until the JavaScript `condition` holds and has been drawn."""
    page.wait_for_function(condition, polling="raf", timeout=PATIENCE_MS)
    page.evaluate(_TWO_FRAMES)
    return time.monotonic() - began
