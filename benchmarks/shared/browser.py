"""The tests' Chromium, for benchmarks, and when a page has been painted."""

from __future__ import annotations

import sys
import time

from playwright.sync_api import Browser, Page

from benchmarks.shared.process import ROOT

sys.path.insert(0, str(ROOT / "tests"))

from chromium import NONE_FOUND, chromium, find_chromium

__all__ = ["NONE_FOUND", "Browser", "Page", "chromium", "find_chromium", "painted"]

PATIENCE_S = 60


def painted(page: Page, condition: str, began: float) -> float:
    """Seconds since `began` (time.monotonic) until the JavaScript `condition` holds and has been drawn.

    Looked at before every frame, within one evaluation: a strict content security policy allows no other.
    Raises TimeoutError after a minute.
    """
    drawn = page.evaluate(
        f"""() => new Promise((done) => {{
          const end = performance.now() + {PATIENCE_S * 1000};
          const look = () => {{
            if ({condition}) requestAnimationFrame(() => requestAnimationFrame(() => done(true)));
            else if (performance.now() > end) done(false);
            else requestAnimationFrame(look);
          }};
          look();
        }})"""
    )
    if not drawn:
        raise TimeoutError(f"not within {PATIENCE_S} s: {condition}")
    return time.monotonic() - began
