"""All figures that there is something to draw for, in the order of a report, and why others are left out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cts_async.report.comparison import Judged, RunsCompared
from cts_async.report.plots.figure import Figure, LeftOut
from cts_async.report.plots.gain import gain
from cts_async.report.plots.leaderboard import leaderboard
from cts_async.report.plots.material import Material, judged_by, scored_systems


@dataclass(frozen=True, slots=True)
class Drawn:
    """What `figures` made."""

    figures: tuple[Figure, ...]
    left_out: tuple[LeftOut, ...]


def figures(material: Material) -> Drawn:
    """Every figure of the material. Names are distinct, and good for files and anchors."""
    made = list(_made(material))
    return Drawn(
        tuple(one for one in made if isinstance(one, Figure)),
        tuple(one for one in made if isinstance(one, LeftOut)),
    )


def _made(material: Material) -> Iterator[Figure | LeftOut]:
    if material.compared and (judged := judged_by(material.compared, material.judge)):
        yield from _of_scores(material.compared, judged)


def _of_scores(compared: RunsCompared, judged: Judged) -> Iterator[Figure | LeftOut]:
    systems = scored_systems(compared.board, judged.judge, compared.seed)
    names = {one.label: one.name for one in systems}
    yield leaderboard(systems, judged.judge)
    yield gain(judged.standings, names, compared.baseline, judged.judge)
