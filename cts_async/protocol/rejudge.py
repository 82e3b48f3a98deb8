"""`cts judge`: judges answers that exist already, of finished runs or of candidate files, by several judges at once.

The answers are never changed: a judge adds `judgments/<judge>.jsonl` to a run, and candidates are judged into
directories of their own (see `judge_plan`). Each judge has its own stream of jobs, so that a slow or unreachable one
holds up no other, and each distinct question is asked once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import partial
from typing import Any, Final

from cts_async.engine.budget import Budget
from cts_async.engine.events import Events, JobsFound, Notice
from cts_async.engine.journal import Journal
from cts_async.engine.processes import allow_more_files
from cts_async.engine.run_dir import read_manifest
from cts_async.engine.runner import Context, Job
from cts_async.errors import StepError, write_error
from cts_async.protocol.answers import Judging, Wanted
from cts_async.protocol.judge import Judge, nothing_covered
from cts_async.protocol.judge_plan import SYSTEMS, JudgePlan, Target, width_of
from cts_async.protocol.resources import Resources, instances_in_flight, open_budget
from cts_async.protocol.results import LatestLines, Line, failure_line, judged
from cts_async.protocol.run import Jobs, execute
from cts_async.protocol.run_files import (
    FURTHER,
    PER_ITEM,
    STEPS,
    Also,
    RunFiles,
    RunRecord,
    open_finished_run,
    open_run_files,
    recorded_session,
    with_judges,
)
from cts_async.protocol.views import JudgeView
from cts_async.records import Judgment
from cts_async.values import value

_FILES_EACH: Final = 4
"""Files that one target keeps open."""


@value
class Verdict:
    """A verdict to be made: of one judge on one answer. `scoring` verdicts are the results themselves."""

    judge: str
    n: int
    """Index of its target, and of that target's files."""
    judging: Judging
    scoring: bool


async def run_judging(plan: JudgePlan, environ: Mapping[str, str], events: Events) -> None:
    """Judge or resume. Raises RunStopped when it ends early."""
    await execute(plan, environ, events, _open_jobs)


@asynccontextmanager
async def _open_jobs(plan: JudgePlan, resources: Resources, events: Events) -> AsyncIterator[Jobs]:
    with open_verdicts(plan, events) as files:
        usual = plan.config.in_flight or instances_in_flight(resources)
        yield Jobs(
            streams=[_jobs(plan, resources.judge(name), files, events) for name in plan.judges],
            budget=budget_of(plan, events),
            in_flight=[width_of(name, plan.judges, usual) for name in plan.judges],
        )


def budget_of(plan: JudgePlan, events: Events) -> Budget | None:
    """What judging may spend, less what was spent on it before; None without limits."""
    return open_budget(
        plan.config.budget, plan.specs.values(), plan.journals, plan.judges, events, only_judging=True
    )


@contextmanager
def open_verdicts(plan: JudgePlan, events: Events, also: Also = dict) -> Iterator[list[RunFiles]]:
    """The files of every target, in order; emits what was found in them. Raises UsageError, StorageFull.

    `also` as in `run_files.recorded_session`; finished runs record no session.
    """
    allow_more_files(len(plan.targets) * _FILES_EACH)
    with ExitStack() as stack:
        files = _open_runs(plan, stack) if plan.identity is None else _open_candidates(plan, stack, also)
        _report_found(plan, files, events)
        yield files


def _open_runs(plan: JudgePlan, stack: ExitStack) -> list[RunFiles]:
    """Finished runs: each finds the verdicts in the others' journals, too."""
    notes, sync = plan.manifest_notes(), plan.config.sync
    runs = [
        stack.enter_context(open_finished_run(target.directory, plan.settings, notes, sync=sync))
        for target in plan.targets
    ]
    for files in runs:
        files.journal.beside = [other.journal for other in runs if other is not files]
    return runs


def _open_candidates(plan: JudgePlan, stack: ExitStack, also: Also) -> list[RunFiles]:
    sync = plan.config.sync
    prompts = {name: plan.prompts.text(name) for name in plan.prompt_names}
    journal = None
    if plan.targets[0].shared_journal:
        earlier = (read_manifest(plan.out) or {}).get(SYSTEMS, [])
        systems = {SYSTEMS: list(dict.fromkeys([*earlier, *(target.name for target in plan.targets)]))}
        notes = {**plan.manifest_notes(), **systems}
        record = RunRecord(plan.identity or {}, notes, prompts, option="--out")
        stack.enter_context(recorded_session(plan.out, record, also))
        try:
            journal = Journal(plan.out / STEPS, sync=sync)
        except OSError as error:
            raise write_error(plan.out, error, verb="write there") from None
        stack.callback(journal.close)
        prompts = {}  # the parent directory has them for all targets
    opened = []
    for target in plan.targets:
        notes = _target_notes(plan, target)
        record = RunRecord(target.identity or {}, notes, prompts, results=PER_ITEM, option="--out")
        opened.append(
            stack.enter_context(
                open_run_files(target.directory, record, sync=sync, journal=journal, also=also)
            )
        )
    return opened


def _target_notes(plan: JudgePlan, target: Target) -> dict[str, Any]:
    notes = {**plan.manifest_notes(), "n_expected": len(target.answers)}
    further = {name: how for name, how in plan.settings.items() if name != target.scoring}
    if judges := with_judges(target.directory, read_manifest(target.directory) or {}, further):
        notes[FURTHER] = judges
    if target.shared_journal:
        notes["journal"] = f"../{STEPS}"
    return notes


def verdicts_left(
    plan: JudgePlan, judge: str, files: Sequence[RunFiles], events: Events
) -> Iterator[Verdict]:
    """The verdicts that one judge still has to make, target after target."""
    for n, (target, run) in enumerate(zip(plan.targets, files, strict=True)):
        if target.scoring == judge:
            left = _scoring_left(plan, judge, target, run, events)
        else:
            left = _further_left(plan, judge, target, run, events)
        for judging in left:
            yield Verdict(judge, n, judging, target.scoring == judge)


def line_of(verdict: Verdict, ended: Judgment | StepError) -> Line:
    """The line of a verdict: in the results with the answer, in a further judge's file with the answer's digest."""
    judging, instance = verdict.judging, verdict.judging.instance
    if isinstance(ended, StepError):
        line: Line = {**failure_line("", instance, ended), "judge": verdict.judge}
    else:
        line = {"id": instance.id, "fused_query": instance.fused_query, **judged(instance.nuggets, ended)}
    if verdict.scoring:
        return {**line, "answer": judging.answer}
    return {**line, "answer_digest": judging.answer_digest}


async def judge_answer(ctx: Context, *, judge: Judge, judging: Judging) -> Judgment:
    """A judge's verdict. Raises StepError, also where there is no answer to judge."""
    if judging.failure:
        raise judging.failure
    instance = judging.instance
    if not judging.answer:
        return nothing_covered(judge.name, instance.nuggets)
    return await judge.judge(ctx, JudgeView(instance.fused_query, instance.nuggets, judging.answer))


def _jobs(plan: JudgePlan, judge: Judge, files: Sequence[RunFiles], events: Events) -> Iterator[Job]:
    group = plan.group(judge.name)
    for verdict in verdicts_left(plan, judge.name, files, events):
        judging, run = verdict.judging, files[verdict.n]
        walk = partial(judge_answer, judge=judge, judging=judging)
        finish = partial(_finish, files=run, verdict=verdict)
        id = plan.targets[verdict.n].job_id(judging.instance.id)
        yield Job(group, id, run.journal, walk, finish, shared=judging in plan.repeats)


async def _finish(ended: Judgment | StepError, *, files: RunFiles, verdict: Verdict) -> None:
    line = line_of(verdict, ended)
    if verdict.scoring:
        await files.add_result(line)
    else:
        await files.add_judgment(verdict.judge, line)


def _report_found(plan: JudgePlan, files: Sequence[RunFiles], events: Events) -> None:
    """Emit a notice for each damage of a journal, and for what is left out of the input files."""
    for journal in dict.fromkeys(one.journal for one in files):
        for text in journal.report.notices(journal.path):
            events.emit(Notice(text))
    for text in plan.notes:
        events.emit(Notice(text))
    for target in plan.targets:
        if n := target.answers.n_unknown:
            events.emit(
                Notice(
                    f"{target.name}: {n} of {n + len(target.answers)} answers are left out: the gold has "
                    "neither their id nor their fused_query"
                )
            )


def _scoring_left(
    plan: JudgePlan, judge: str, target: Target, files: RunFiles, events: Events
) -> Iterator[Judging]:
    """The answers left for the judge whose verdicts are the results."""
    again = plan.config.retry_failed
    done = files.finished
    n_outdated = _outdated(judge, target, done, events, but_failures=again)
    n_left_failed = 0 if again else done.n_failed
    _found(plan, judge, target, len(done) - done.n_failed + n_left_failed - n_outdated, events, n_left_failed)
    if not n_outdated and done.have_all(target.answers.ids, but_failures=again):
        return  # saves reading the answers again
    yield from _left(target, done, partial(files.needs_work, retry_failed=again), n_outdated)


def _further_left(
    plan: JudgePlan, judge: str, target: Target, files: RunFiles, events: Events
) -> Iterator[Judging]:
    """The answers left for a further judge; failures of answers are recorded in the results only."""
    done = files.judged(judge)
    n_outdated = _outdated(judge, target, done, events, but_failures=True)
    _found(plan, judge, target, len(done) - done.n_failed - n_outdated, events)
    if not n_outdated and done.have_all(target.answers.ids, but_failures=True):
        return
    for judging in _left(target, done, done.lacks, n_outdated):
        if judging.failure:
            _found(plan, judge, target, 1, events)
        else:
            yield judging


def _outdated(judge: str, target: Target, done: LatestLines, events: Events, *, but_failures: bool) -> int:
    """Number of verdicts on answers that have been replaced under their ids since; emits a notice if there are any."""
    n = done.n_outdated(target.answers.ids, target.answers.marks, but_failures=but_failures)
    if n:
        changed = "1 answer has" if n == 1 else f"{n} answers have"
        judged_again = "and is" if n == 1 else "and are"
        it = "it" if n == 1 else "them"
        events.emit(
            Notice(f"{target.name}: {changed} changed since {judge} judged {it}, {judged_again} judged again")
        )
    return n


def _left(target: Target, done: LatestLines, lacks: Wanted, n_outdated: int) -> Iterator[Judging]:
    """The answers without a valid verdict; all answers have to be read if some verdicts are outdated."""
    if not n_outdated:
        yield from target.answers.stream(lacks)
        return
    for judging in target.answers.stream(lambda id: True):
        if lacks(judging.instance.id) or done.outdated(judging.instance.id, judging.mark):
            yield judging


def _found(plan: JudgePlan, judge: str, target: Target, n: int, events: Events, n_failed: int = 0) -> None:
    found = min(n, len(target.answers))
    events.emit(JobsFound(plan.group(judge), found, min(n_failed, found)))
