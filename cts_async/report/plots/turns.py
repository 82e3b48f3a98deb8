"""Retrieval turn by turn (AT-CoT, SIGIR 2025, table 8): a panel for each mode, a line for each scheme."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from cts_async.analysis.conversations import NOBODY_ASKED, Cell, TurnRetrieval
from cts_async.analysis.stats import Difference
from cts_async.records import SCHEMES, Mode
from cts_async.report.plots.figure import (
    Figure,
    Spec,
    axis,
    beside,
    counts,
    estimate,
    horizontal_line,
    lines,
    marked,
    means_with_intervals,
    method_of,
    placeholder,
    spec,
)
from cts_async.report.plots.style import N_COLOURS
from cts_async.report.tables import printable

_PANEL_PX: Final = 230
_GAP: Final = 0.12


def turns(
    found: TurnRetrieval, measure: str, seed: int, *, smoke: bool = False, judgments: str = ""
) -> Figure:
    """One measure of one Clarifier's conversations. `judgments` names the documents searched, and who judged them.

    With `smoke` the figure is marked: the embedded model played.
    """
    modes = tuple(dict.fromkeys(cell.mode for cell in found.cells))
    without = _mean(found.without[measure], seed)
    method = method_of(len(found.without[measure]))
    n = counts([len(found.without[measure]), *(cell.n(measure) for cell in found.cells)])
    traces = [
        trace for panel, mode in enumerate(modes) for trace in _panel(found, measure, mode, panel, seed)
    ]
    dotted = f", {without.mean:.3f}" if without else ""
    sources = f" Retrieval: {printable(judgments).rstrip('.')}." if judgments else ""
    return Figure(
        f"turns_{_file_word(measure)}",
        marked(f"{measure} by turn", embedded=smoke),
        f"Mean {measure} of the query as it stands after each turn, by mode and scheme; whiskers are 95 % {method} "
        f"intervals over n = {n} instances. The dotted line is the query without clarification{dotted}.{sources}",
        _alt(found, marked(measure, embedded=smoke), without, measure),
        spec(
            traces,
            height=60 + _PANEL_PX * len(modes),
            legend=True,
            **_panels(found, modes, marked(measure, embedded=smoke), without),
        ),
    )


def apart(figure: Figure, of: str, place: int) -> Figure:
    """The figure under a name and title of its own, for one of several Clarifiers."""
    name, title = f"{figure.name}_{place}-{_file_word(of)}", f"{figure.title}: {printable(of)}"
    return replace(figure, name=name, title=title)


def _panel(found: TurnRetrieval, measure: str, mode: Mode, panel: int, seed: int) -> Iterator[Spec]:
    """A trace for each scheme, then placeholders up to N_COLOURS: a scheme has the same colour in all panels."""
    axes = {"xaxis": f"x{panel + 1}" if panel else "x", "yaxis": f"y{panel + 1}" if panel else "y"}
    of_mode = [cell for cell in found.cells if cell.mode == mode]
    schemes = [scheme for scheme in SCHEMES if found.has(scheme)]
    for place, scheme in enumerate(schemes):
        cells = [
            (cell, mean)
            for cell in of_mode
            if cell.scheme == scheme and (mean := _mean(cell.scores[measure], seed))
        ]
        if not cells:
            yield placeholder() | axes
            continue
        aside = beside(place, len(schemes)) / 2
        first = not any(cell.scheme == scheme for cell in found.cells[: found.cells.index(of_mode[0])])
        yield lines(
            scheme,
            [estimate(cell.turn + aside, mean, _label(cell), ".3f") for cell, mean in cells],
            series=SCHEMES.index(scheme),
            legendgroup=scheme,
            showlegend=first,
            xaxis=axes["xaxis"],
            yaxis=axes["yaxis"],
        )
    yield from (placeholder() | axes for _ in range(N_COLOURS - len(schemes)))


def _label(cell: Cell) -> str:
    return f"{cell.scheme}, {cell.mode}, turn {cell.turn}"


def _panels(found: TurnRetrieval, modes: Sequence[Mode], measure: str, without: Difference | None) -> Spec:
    last = max(cell.turn for cell in found.cells)
    height = (1 - _GAP * (len(modes) - 1)) / len(modes)
    layout: Spec = {
        "margin": {"t": 28},
        "shapes": [],
        "annotations": [],
    }
    for panel, mode in enumerate(modes):
        number, top = str(panel + 1) if panel else "", 1 - panel * (height + _GAP)
        ticks = {"tickvals": list(range(1, last + 1)), "range": [0.5, last + 0.5], "anchor": f"y{number}"}
        layout[f"xaxis{number}"] = axis("turn" if panel == len(modes) - 1 else "", **ticks)
        layout[f"yaxis{number}"] = axis(measure, domain=[max(0.0, top - height), top], anchor=f"x{number}")
        layout["annotations"].append(_heading(mode, top))
        if without:
            layout["shapes"].append(
                horizontal_line(without.mean) | {"xref": f"x{number} domain", "yref": f"y{number}"}
            )
    return layout


def _heading(mode: str, top: float) -> Spec:
    here = {"xref": "paper", "x": 0, "xanchor": "left", "yref": "paper", "y": top, "yanchor": "bottom"}
    return {**here, "text": f"mode {mode}", "showarrow": False}


def _mean(scores: Mapping[str, float], seed: int) -> Difference | None:
    import numpy as np

    values = np.array([scores[id] for id in sorted(scores)], float)
    return means_with_intervals(values[:, None], seed)[0]


def _alt(found: TurnRetrieval, name: str, without: Difference | None, measure: str) -> str:
    means = [(cell, mean) for cell in found.cells if (mean := cell.mean(measure)) is not None]
    start = f" {NOBODY_ASKED} is {without.mean:.3f}." if without else ""
    if not means:
        return f"No conversation has a score.{start}"
    best, most = max(means, key=lambda pair: pair[1])
    return f"The highest {name} is {most:.3f}, of {best.scheme} in mode {best.mode} after turn {best.turn};{start}"


def _file_word(text: str) -> str:
    """Text as part of a file name and of an anchor."""
    return "".join(character if character.isalnum() or character in "-" else "-" for character in text)
