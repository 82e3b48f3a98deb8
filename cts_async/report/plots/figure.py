"""A figure as data: what plotly draws, and what is said to those who do not see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure. Nobody's text in `spec` is markup: what plotly would take for some is escaped."""

    name: str
    """Its file's name when it is exported, and its anchor in a page."""
    title: str
    caption: str
    alt: str
    """What is to be seen, in one or two sentences with numbers."""
    spec: Mapping[str, Any]
    """`{"data": [...], "layout": {...}}` as plotly takes it, colours from the template alone where they can be."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A figure that these runs have no data for."""

    name: str
    title: str
    reason: str
    """One sentence."""
