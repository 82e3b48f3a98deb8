"""MIMICS-Duo made by hand: panes, and directories with the four files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cts_async.neighbours.mimics_duo.panes import ASPECTS, ONLINE, QUALITY, RATING, Pane

SHARED = Path(__file__).resolve().parents[1].parent / "shared" / "data" / "mimics-duo"

_KEY = ["query", "question", *(f"option_{i}" for i in range(1, 6))]
HEADERS = {
    ONLINE: [*_KEY, "impression_level", "engagement_level", *(f"option_cctr_{i}" for i in range(1, 6))],
    RATING: [*_KEY, "offline rating"],
    QUALITY: [
        *_KEY,
        *(f"Quality_Option{i}" for i in range(1, 6)),
        "OverallClarificationPaneQuality",
        *8 * [""],
    ],
    ASPECTS: [*_KEY, "Coverage", "Diversity", "Understandability", "Importance Order"],
}


def pane(query: str = "q", options: Sequence[str] = ("a", "b"), **fields: Any) -> Pane:
    """A pane that nobody clicked and everybody found fair, but for the `fields` given."""
    usual: dict[str, Any] = {
        "question": "Select one to refine your search",
        "impression_level": "low",
        "engagement_level": 0,
        "click_probabilities": (0.0,) * len(options),
        "option_qualities": (3,) * len(options),
    }
    labels = (
        "offline_rating",
        "pane_quality",
        "coverage",
        "diversity",
        "understandability",
        "importance_order",
    )
    return Pane(query=query, options=tuple(options), **{**usual, **dict.fromkeys(labels, 3), **fields})


def panes_of(query: str, engagement: Sequence[int], **labels: Sequence[Any]) -> list[Pane]:
    """A query's panes with these engagement levels; `labels` give each pane's value of a field."""
    return [
        pane(query, (f"a{i}", "b"), engagement_level=level, **{name: row[i] for name, row in labels.items()})
        for i, level in enumerate(engagement)
    ]


def tables(panes: Sequence[Pane]) -> dict[str, list[list[str]]]:
    """The cells of the four files, headers first, by the files' names."""
    return {name: [HEADERS[name], *(_row(name, one) for one in panes)] for name in HEADERS}


def write_tables(folder: Path, files: Mapping[str, Sequence[Sequence[str]]]) -> Path:
    """The files as the repository has them: no newline at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in files.items():
        (folder / name).write_text("\n".join("\t".join(row) for row in rows), encoding="utf-8")
    return folder


def write_panes(folder: Path, panes: Sequence[Pane]) -> Path:
    return write_tables(folder, tables(panes))


def _row(name: str, one: Pane) -> list[str]:
    key = [one.query, one.question, *_five(one.options)]
    if name == ONLINE:
        clicks = [f"{p:g}" for p in one.click_probabilities]
        return [*key, one.impression_level, str(one.engagement_level), *clicks, *(5 - len(clicks)) * ["0"]]
    if name == RATING:
        return [*key, str(one.offline_rating)]
    if name == QUALITY:
        return [*key, *_five(one.option_qualities), str(one.pane_quality), *8 * [""]]
    return [*key, *map(str, (one.coverage, one.diversity, one.understandability, one.importance_order))]


def _five(values: Sequence[Any]) -> list[str]:
    return [*map(str, values), *(5 - len(values)) * [""]]
