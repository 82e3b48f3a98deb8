"""Answers to be judged as pieces, and the bench that workers judge them at.

The nuggets of a query travel once to each worker, as a part that its answers share; a question that several answers
ask goes to one worker, so that it is asked once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from cts_async.cluster.lines import RESULTS, travelling
from cts_async.cluster.messages import Piece
from cts_async.cluster.needs import Needs, keys_of
from cts_async.cluster.share import share_in_flight
from cts_async.cluster.trades import Done, Elsewhere
from cts_async.engine.events import Events
from cts_async.engine.journal import StepMemory
from cts_async.engine.lane import Lane
from cts_async.engine.runner import Job
from cts_async.errors import StepError
from cts_async.llm.catalog import ModelSpec
from cts_async.protocol.answers import Judging, NoAnswer
from cts_async.protocol.judge import LEXICAL, Judge
from cts_async.protocol.judge_plan import JudgePlan, width_of
from cts_async.protocol.prompts import PromptSet
from cts_async.protocol.rejudge import Verdict, judge_answer, line_of, verdicts_left
from cts_async.protocol.resources import Crew, LaneOf, instances_in_flight, opened
from cts_async.protocol.run_files import RunFiles
from cts_async.records import Instance, Judgment, Nugget
from cts_async.values import value

MOST_PARTS: Final = 100_000
"""Queries whose nuggets are kept by head and workers: a few kilobytes each."""


@value
class Task:
    """One verdict that is wanted."""

    judge: str
    scoring: bool
    id: str
    query: str
    answer: str
    failure: str | None = None
    """Why there is no answer to judge."""
    nuggets: tuple[Nugget, ...] | None = None
    """None where they are the piece's only part."""


class JudgingPieces:
    """The pieces of a plan, a stream for each judge, and the nuggets that they share."""

    def __init__(self, plan: JudgePlan, files: Sequence[RunFiles], events: Events, *, again: bool) -> None:
        self._plan, self._files, self._events, self._again = plan, files, events, again
        self._numbers: dict[int, int] = {}
        self._nuggets: list[tuple[Nugget, ...]] = []

    def part(self, number: int) -> tuple[Nugget, ...]:
        """The nuggets with this number."""
        return self._nuggets[number]

    def streams(self) -> list[Iterator[Piece]]:
        """One for each judge, in their order; the n-th pieces of all are equally old."""
        return [self._of(n, judge) for n, judge in enumerate(self._plan.judges)]

    def _of(self, first: int, judge: str) -> Iterator[Piece]:
        plan, n_judges = self._plan, len(self._plan.judges)
        group = plan.group(judge)
        for n, verdict in enumerate(verdicts_left(plan, judge, self._files, self._events)):
            judging = verdict.judging
            repeated = judge != LEXICAL and judging in plan.repeats
            part = self._number(judging.instance.nuggets)
            yield Piece(
                seq=first + n * n_judges,
                group=group,
                id=plan.targets[verdict.n].job_id(judging.instance.id),
                place=verdict.n,
                task=_task(verdict, apart=part is not None),
                same=hash((judge, judging.digest)) if repeated else 0,
                parts=() if part is None else (part,),
                again=self._again,
                stream=first,
            )

    def _number(self, nuggets: tuple[Nugget, ...]) -> int | None:
        """The same tuple has the same number: it is kept, so that no other takes its place in memory.

        None where there are too many to be kept: each answer then brings its own.
        """
        number = self._numbers.get(id(nuggets))
        if number is None and len(self._nuggets) < MOST_PARTS:
            number = self._numbers[id(nuggets)] = len(self._nuggets)
            self._nuggets.append(nuggets)
        return number


def _task(verdict: Verdict, *, apart: bool) -> Task:
    judging = verdict.judging
    failure = None if judging.failure is None else str(judging.failure)
    of = judging.instance
    nuggets = None if apart else of.nuggets
    return Task(verdict.judge, verdict.scoring, of.id, of.fused_query, judging.answer, failure, nuggets)


@dataclass(frozen=True, slots=True)
class JudgingTrade:
    """Judges that travel."""

    specs: Mapping[str, ModelSpec]
    judges: tuple[str, ...]
    prompts: PromptSet
    max_outage_s: float
    in_flight: int | None
    needs: Needs

    @asynccontextmanager
    async def opened(
        self, environ: Mapping[str, str], events: Events, lane_of: LaneOf, *, workers: int
    ) -> AsyncIterator[JudgingBench]:
        """The judges, on this machine. Raises UsageError for a key that is missing here."""
        self.needs.check(environ)
        async with opened(
            self.specs, self.prompts, environ, events, max_outage_s=self.max_outage_s, lane_of=lane_of
        ) as crew:
            judges = {name: crew.judge(name) for name in self.judges}
            width = share_in_flight(self.in_flight, instances_in_flight(crew), workers)
            yield JudgingBench(crew, judges, width)


def trade_of(plan: JudgePlan) -> JudgingTrade:
    """What workers have to be told of `plan`."""
    return JudgingTrade(
        specs=plan.specs,
        judges=plan.judges,
        prompts=plan.prompts,
        max_outage_s=plan.config.max_outage_s,
        in_flight=plan.config.in_flight,
        needs=Needs.of(keys_of(plan.specs.values())),
    )


@dataclass(frozen=True, slots=True)
class JudgingBench:
    """Judges by name, and how many answers this worker works on at once."""

    crew: Crew
    judges: Mapping[str, Judge]
    in_flight: int

    @property
    def lanes(self) -> Sequence[Lane]:
        return self.crew.lanes

    def width(self, stream: int) -> int:
        """That of the judge whose stream it is."""
        return width_of([*self.judges][stream], self.judges, self.in_flight)

    def job(
        self,
        piece: Piece,
        parts: Mapping[int, Any],
        journal: StepMemory,
        elsewhere: Elsewhere | None,
        done: Done,
    ) -> Job:
        """One verdict."""
        verdict = _verdict(piece, parts)
        return Job(
            group=piece.group,
            id=piece.id,
            journal=journal,
            walk=partial(judge_answer, judge=self.judges[verdict.judge], judging=verdict.judging),
            finish=partial(_finish, verdict=verdict, done=done),
            shared=piece.same != 0,
            elsewhere=elsewhere,
        )


def _verdict(piece: Piece, parts: Mapping[int, Any]) -> Verdict:
    task: Task = piece.task
    nuggets = parts[piece.parts[0]] if task.nuggets is None else task.nuggets
    failure = None if task.failure is None else NoAnswer(task.failure)
    judging = Judging(Instance(task.id, task.query, "", nuggets), task.answer, failure)
    return Verdict(task.judge, piece.place, judging, task.scoring)


async def _finish(ended: Judgment | StepError, *, verdict: Verdict, done: Done) -> None:
    judge = RESULTS if verdict.scoring else verdict.judge
    done((travelling(verdict.n, judge, line_of(verdict, ended)),), isinstance(ended, StepError))
