"""The mark of figures that the embedded model had a part in, where no system's name has it: they have it themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from cts_async.report.plots.figure import Figure
from cts_async.report.plots.material import Material
from cts_async.report.plots.words import listed

_MARK: Final = "smoke test"
_TOGETHER: Final = frozenset({"agreement", "answerability", "type_gain", "calibration"})
"""Figures without systems' names."""
_ROOM_PX: Final = 28
"""Above the axes, for the mark."""


def embedded_systems(material: Material) -> tuple[list[str], int]:
    """The systems that the embedded model played for, and how many there are in all."""
    played = {}
    if material.compared:
        played = {one.label: one.embedded for one in material.compared.board.entrants}
    if material.diagnosed:
        systems = [one.system for one in material.diagnosed.diagnosis.systems]
        played = {one.label: one.embedded for one in systems} | played
    return [name for name, by_it in played.items() if by_it], len(played)


def with_mark(figure: Figure, embedded: Sequence[str], n_systems: int) -> Figure:
    """The figure, marked in itself and its texts if it takes all systems together.

    Others have marked names. Where the embedded model played for every system, their text alternatives say so, too.
    """
    if not embedded:
        return figure
    whose = "" if len(embedded) == n_systems else f" for {listed(embedded)}"
    told = f" Smoke test: the embedded model played{whose}."
    if figure.name in _TOGETHER:
        marked = _marked(figure.spec)
        return replace(figure, alt=figure.alt + told, caption=figure.caption + told, spec=marked)
    if whose or _MARK in figure.alt:
        return figure
    return replace(figure, alt=figure.alt + told)


def _marked(spec: Any) -> dict[str, Any]:
    layout = spec["layout"]
    corner = {"xref": "paper", "x": 1, "xanchor": "right", "yref": "paper", "y": 1, "yanchor": "bottom"}
    marks = [*layout.get("annotations", ()), {**corner, "text": _MARK, "showarrow": False}]
    margin = {**layout.get("margin", {}), "t": _ROOM_PX}
    height = layout["height"] + _ROOM_PX
    return {**spec, "layout": {**layout, "annotations": marks, "margin": margin, "height": height}}
