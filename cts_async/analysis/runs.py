"""Finished runs as analyses see them: what was asked, answered, rewritten and judged, by instance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cts_async.engine.run_dir import read_manifest
from cts_async.errors import InputError
from cts_async.protocol.results import Line, failed, latest_results
from cts_async.protocol.run_files import JUDGMENTS, RESULTS
from cts_async.records import UNKNOWN, Coverage


@dataclass(frozen=True, slots=True)
class Verdict:
    """One judge's labels for one answer, and the score they make (0..100)."""

    score: float
    coverage: Mapping[str, Coverage]
    """Label by nugget id, in the order of the gold."""
    weights: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Item:
    """One finished instance of one run. `questions[i]` was answered with `answers[i]`; both empty for `orig`."""

    id: str
    fused_query: str
    blurred_query: str
    questions: tuple[str, ...]
    answers: tuple[str, ...]
    rewritten_query: str
    answer: str
    verdicts: Mapping[str, Verdict]
    """By judge; a judge that failed on this answer has none."""

    @property
    def unknown(self) -> tuple[bool, ...]:
        """Of each answer, whether the User Answerer said `unknown`."""
        return tuple(answer == UNKNOWN for answer in self.answers)


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A run directory, read whole. `players` are model names by role: clarifier, support, agent, judge NAME."""

    directory: Path
    label: str
    clarifier: str
    """Empty for the reference points `orig` and `gold`."""
    k: int
    players: Mapping[str, str]
    judges: tuple[str, ...]
    """The scoring judge first; empty for a run without judging."""
    items: Mapping[str, Item] = field(repr=False)
    """By id, in the order in which they finished."""
    n_failed: int
    n_expected: int
    data: Mapping[str, Any]
    """Which data the run was over: name and sha256 of its file and of its gold."""
    embedded: bool
    """Some role was played by the embedded model: its scores are a smoke test."""

    def scores(self, judge: str) -> dict[str, float]:
        """`restore_score_100` by id, of the instances that this judge has labelled."""
        return {id: item.verdicts[judge].score for id, item in self.items.items() if judge in item.verdicts}


def read_run(directory: Path) -> FinishedRun:
    """Read a run directory. Raises InputError where there is none."""
    manifest = read_manifest(directory)
    if manifest is None:
        raise InputError(directory, "no run here (run.json is missing)")
    lines = latest_results(directory / RESULTS)
    verdicts = _verdicts(directory, lines)
    identity = manifest.get("identity", {})
    players = dict(manifest.get("players", {}))
    done = {id: line for id, line in lines.items() if not failed(line)}
    return FinishedRun(
        directory=directory,
        label=str(identity.get("system") or directory.name),
        clarifier=str(players.get("clarifier", "")),
        k=int(identity.get("k") or 0),
        players=players,
        judges=tuple(verdicts),
        items={
            id: _item(line, {j: of[id] for j, of in verdicts.items() if id in of})
            for id, line in done.items()
        },
        n_failed=len(lines) - len(done),
        n_expected=max(int(manifest.get("n_expected", 0)), len(lines)),
        data=dict(identity.get("data", {})),
        embedded=bool(manifest.get("embedded")),
    )


def _verdicts(directory: Path, lines: Mapping[str, Line]) -> dict[str, dict[str, Verdict]]:
    """Verdicts by judge and id, the scoring judge first."""
    found: dict[str, dict[str, Verdict]] = {}
    for id, line in lines.items():
        if verdict := _verdict(line):
            found.setdefault(str(line["judge"]), {})[id] = verdict
    for path in sorted((directory / JUDGMENTS).glob("*.jsonl")):
        for id, line in latest_results(path).items():
            # A verdict may stand there whose answer was not recorded before a crash: it does not count yet.
            if id in lines and not failed(lines[id]) and (verdict := _verdict(line)):
                found.setdefault(str(line.get("judge") or path.stem), {})[id] = verdict
    return found


def _verdict(line: Line) -> Verdict | None:
    if failed(line) or not line.get("nuggets") or line.get("restore_score_100") is None:
        return None
    nuggets = line["nuggets"]
    return Verdict(
        float(line["restore_score_100"]),
        {nugget["id"]: nugget["coverage"] for nugget in nuggets},
        {nugget["id"]: float(nugget["weight"]) for nugget in nuggets},
    )


def _item(line: Line, verdicts: Mapping[str, Verdict]) -> Item:
    return Item(
        id=str(line["id"]),
        fused_query=str(line.get("fused_query") or ""),
        blurred_query=str(line.get("blurred_query") or ""),
        questions=tuple(line.get("questions") or ()),
        answers=tuple(line.get("answers") or ()),
        rewritten_query=str(line.get("rewritten_query") or ""),
        answer=str(line.get("answer") or ""),
        verdicts=verdicts,
    )
