"""Instances opened in a report: what was asked, answered, rewritten and judged, read from a run's own files."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cts_async.analysis.extremes import Extreme, extremes
from cts_async.datasets.dataset import sha256_of
from cts_async.errors import UsageError
from cts_async.protocol.results import Line, answer_digest, failed, read_results
from cts_async.protocol.run_files import JUDGMENTS, results_of
from cts_async.protocol.run_folders import opened_again
from cts_async.records import Nugget
from cts_async.report.comparison import RunsCompared
from cts_async.report.gathered import Gathered

FEW_SYSTEMS = 3
"""Up to so many systems have MANY instances opened for each reason, more of them FEW."""
MANY, FEW = 5, 2
MOST_SYSTEMS = 24


@dataclass(frozen=True, slots=True)
class Opened:
    """One instance of one run. `line` is its line of results: anybody's text, in any shape."""

    extreme: Extreme
    line: Line
    verdicts: Mapping[str, Line]
    """Lines by judge, the one that made the results' score first."""
    nuggets: Mapping[str, Nugget]
    """By id; empty where the gold is not at hand."""


@dataclass(frozen=True, slots=True)
class OpenedRun:
    """A system's instances that are worth a look; their gains are over `baseline`."""

    system: str
    directory: Path
    measure: str
    """What their scores are: "judge gpt" for points of restore_score_100, else a measure of retrieval."""
    decimals: int
    """Of the scores, where they are shown."""
    baseline: str
    embedded: bool
    instances: tuple[Opened, ...]


def open_instances(gathered: Gathered) -> tuple[tuple[OpenedRun, ...], tuple[str, ...]]:
    """Of every system the extremes under the first judge, and what has to be said about them."""
    compared = gathered.compared
    if compared is None:
        return (), ()
    runs = [run for run in _read(compared) if run.instances]
    wanted = {one.extreme.id for run in runs for one in run.instances}
    nuggets, note = _nuggets(gathered, wanted) if wanted else ({}, "")
    found = tuple(replace(run, instances=tuple(_with(run.instances, nuggets))) for run in runs)
    left_out = len(compared.board.entrants) - MOST_SYSTEMS
    more = f"Opened are instances of the first {MOST_SYSTEMS} systems, {left_out} others have none."
    return found, (*([note] if note else []), *([more] if left_out > 0 else []))


def _read(compared: RunsCompared) -> Iterator[OpenedRun]:
    judge = compared.judged[0].judge
    entrants = compared.board.entrants[:MOST_SYSTEMS]
    most = MANY if len(entrants) <= FEW_SYSTEMS else FEW
    for entrant in entrants:
        if entrant.directory.is_dir() and judge in entrant.judges:
            found = extremes(compared.board, judge, entrant.label, compared.baseline, most)
            yield OpenedRun(
                entrant.label,
                entrant.directory,
                measure=f"judge {judge}",
                decimals=1,
                baseline=compared.baseline,
                embedded=entrant.embedded,
                instances=tuple(opened_lines(entrant.directory, found)),
            )


def opened_lines(directory: Path, found: Sequence[Extreme]) -> Iterator[Opened]:
    """Those instances as the run's files have them, without their nuggets; those without a line are left out."""
    wanted = {one.id for one in found}
    lines = _lines(directory / results_of(directory), wanted)
    further = {path.stem: _lines(path, wanted) for path in sorted((directory / JUDGMENTS).glob("*.jsonl"))}
    for one in found:
        if line := lines.get(one.id):
            said = [line, *(of[one.id] for of in further.values() if _is_about(of.get(one.id), line))]
            verdicts = {
                str(verdict.get("judge") or "unnamed"): verdict for verdict in said if _labelled(verdict)
            }
            yield Opened(one, line, verdicts, {})


def _lines(path: Path, wanted: Collection[str]) -> dict[str, Line]:
    """The lines that count of those ids."""
    return {line["id"]: line for line in read_results(path) if line["id"] in wanted}


def _labelled(verdict: Line) -> bool:
    return not failed(verdict) and isinstance(verdict.get("nuggets"), list)


def _is_about(verdict: Line | None, line: Line) -> bool:
    """Whether a verdict is on the answer in `line`, as far as it says."""
    if verdict is None or not isinstance(line.get("answer"), str):
        return verdict is not None
    digest = verdict.get("answer_digest")
    return digest is None or digest == answer_digest(str(line.get("fused_query") or ""), line["answer"])


def _with(instances: Sequence[Opened], nuggets: Mapping[str, Sequence[Nugget]]) -> Iterator[Opened]:
    for one in instances:
        yield replace(one, nuggets={nugget.id: nugget for nugget in nuggets.get(one.extreme.id, ())})


def _nuggets(gathered: Gathered, wanted: Collection[str]) -> tuple[dict[str, tuple[Nugget, ...]], str]:
    """The gold of those instances, from where the first manifest says it is that is still right; else why not."""
    why = "no manifest says where it is"
    for run in gathered.summaries:
        try:
            dataset = opened_again(run.manifest)
            if _other_gold(dataset.gold_path, run.manifest.get("identity", {}).get("data") or {}):
                why = f"{dataset.gold_path} is not the gold of these runs any more"
                continue
            return {one.id: one.nuggets for one in dataset.instances() if one.id in wanted}, ""
        except UsageError as error:
            why = str(error)
    return {}, f"Nuggets have no text here, since their gold cannot be read again: {why}."


def _other_gold(path: Path | None, data: Mapping[str, Any]) -> bool:
    expected = data.get("gold_sha256")
    return path is not None and expected is not None and sha256_of(path) != expected
