"""Conversations that were held (`cts converse`), evaluated again from their runs' own files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cts_async.config import EvaluationConfig
from cts_async.datasets.dataset import Dataset
from cts_async.errors import UsageError
from cts_async.protocol.results import read_results
from cts_async.protocol.run_files import RESULTS
from cts_async.protocol.run_folders import opened_again
from cts_async.records import Instance
from cts_async.report.summary import RunSummary
from cts_async.report.talk_judgments import open_judgments, open_scorer
from cts_async.report.talk_report import TalkReport, evaluate_talks


@dataclass(frozen=True, slots=True)
class HeldTalks:
    """Runs of conversations over the same data; what they talked about are the instances that one of them has."""

    dataset: Dataset
    runs: tuple[Path, ...]
    ids: frozenset[str]

    def directories(self) -> Sequence[Path]:
        return self.runs

    def instances(self) -> Iterator[Instance]:
        return (one for one in self.dataset.instances() if one.id in self.ids)


def evaluate_held(runs: Sequence[RunSummary], asked: EvaluationConfig) -> TalkReport:
    """The tables of `cts converse` over what was held so far; what cannot be evaluated is said.

    Raises UsageError for documents and judgments that cannot be read.
    """
    try:
        dataset = opened_again(runs[0].manifest)
    except UsageError as error:
        return TalkReport((), (f"Not evaluated, since the data cannot be read again: {error}.",))
    directories = tuple(run.directory for run in runs)
    ids = frozenset(line["id"] for directory in directories for line in read_results(directory / RESULTS))
    held = HeldTalks(dataset, directories, ids)
    judgments = open_judgments(asked, held)
    return evaluate_talks(held, judgments, open_scorer(asked.encoder), asked.measures, _nobody)


def _nobody(what: str, done: int, of: int) -> None:
    """Nobody waits for the progress of this."""
