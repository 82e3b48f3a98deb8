"""Counts as they are shown: the largest first, and equal ones by name, whatever was counted first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

Named = TypeVar("Named", str, tuple[str, str], tuple[str, str, str])


def ranked(counts: Mapping[Named, int]) -> list[tuple[Named, int]]:
    """What was counted, with how often; [] for nothing."""
    return sorted(counts.items(), key=lambda counted: (-counted[1], counted[0]))
