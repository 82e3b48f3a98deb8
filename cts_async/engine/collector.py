"""Python's garbage collector, set for processes that do nothing but calls."""

from __future__ import annotations

import gc
from typing import Final

GC_EVERY: Final = 20_000
"""New objects after which Python looks for cycles among the youngest; its default is 700."""


def collect_seldom() -> None:
    """To be called when everything is loaded, before work begins.

    What is loaded by now stays, and what a call leaves behind is freed without the collector: looking for cycles as
    often as Python does by default would cost a sixth of all time.
    """
    gc.freeze()
    gc.set_threshold(GC_EVERY)
