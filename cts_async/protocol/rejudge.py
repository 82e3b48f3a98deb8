"""Judging answers that exist already: finished runs', or somebody's candidates, by several judges at once.

The answers are never changed; a judge adds `judgments/<judge>.jsonl` to a run, and candidates are judged into
directories of their own (see `judge_files`), one file as the release's eval_gold.py does it. Each judge has its own
stream of jobs, so that one that is slow or gone holds up no other, and is asked each question once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

from cts_async.engine.budget import Budget
from cts_async.engine.events import Events, JobsFound, Notice
from cts_async.engine.runner import Context, Job, Runner
from cts_async.engine.signals import stoppable
from cts_async.errors import StepError
from cts_async.protocol.answers import Judging, Wanted
from cts_async.protocol.judge import Judge, nothing_covered
from cts_async.protocol.judge_plan import JudgePlan, Target, opened_targets
from cts_async.protocol.resources import instances_in_flight, manifest_prices, open_budget, opened
from cts_async.protocol.results import LatestLines, Line, failure_line, judged
from cts_async.protocol.run_files import Also, RunFiles
from cts_async.protocol.views import JudgeView
from cts_async.records import Judgment
from cts_async.values import value


@value
class Verdict:
    """One that is wanted: a judge's on one answer. `scoring` ones are the results themselves."""

    judge: str
    n: int
    """The number of its target, and of that target's files."""
    judging: Judging
    scoring: bool


async def run_judging(plan: JudgePlan, environ: Mapping[str, str], events: Events) -> None:
    """Judge or resume. Raises RunStopped when it ends early."""
    config = plan.config
    outage_s = config.max_outage_s
    async with (
        stoppable() as stopper,
        opened(plan.specs, plan.prompts, environ, events, max_outage_s=outage_s) as crew,
    ):
        usual = config.in_flight or instances_in_flight(crew)
        with opened_verdicts(plan, events) as files:
            runner = Runner(
                crew.lanes, events=events, seed=config.seed, in_flight=usual, budget=budget_of(plan, events)
            )
            stopper.watch(runner)
            judges = [crew.judge(name) for name in plan.judges]
            streams = [_jobs(plan, judge, files, events) for judge in judges]
            await runner.run(*streams, in_flight=[plan.in_flight(judge.name, usual) for judge in judges])


@contextmanager
def opened_verdicts(plan: JudgePlan, events: Events, also: Also = dict) -> Iterator[list[RunFiles]]:
    """The files of every target, in order, with what was found there told to `events`. Raises UsageError.

    `also` is what a session's note tells besides, see `run_files.noted`; finished runs note no session.
    """
    notes = {
        "command": plan.config.command,
        "n_expected": plan.n_answers,
        "embedded": plan.embedded,
        "prices": manifest_prices(plan.specs.values()),
    }
    texts = {name: plan.prompts.text(name) for name in plan.prompt_names}
    sync = plan.config.sync
    with opened_targets(
        plan.targets,
        plan.out,
        plan.identity,
        notes,
        judges=plan.settings,
        prompts=texts,
        sync=sync,
        also=also,
    ) as files:
        _tell(plan, files, events)
        yield files


def budget_of(plan: JudgePlan, events: Events) -> Budget | None:
    """What judging may spend, with what was spent on it before; None where no line is drawn."""
    return open_budget(
        plan.config.budget, plan.specs.values(), plan.journals, plan.judges, events, only_judging=True
    )


def verdicts_left(
    plan: JudgePlan, judge: str, files: Sequence[RunFiles], events: Events
) -> Iterator[Verdict]:
    """What is wanted of one judge, system after system."""
    for n, (target, of) in enumerate(zip(plan.targets, files, strict=True)):
        if target.scoring == judge:
            left = _scoring_left(plan, judge, target, of, events)
        else:
            left = _further_left(plan, judge, target, of, events)
        for judging in left:
            yield Verdict(judge, n, judging, target.scoring == judge)


def line_of(verdict: Verdict, ended: Judgment | StepError) -> Line:
    """The line that a verdict becomes: of the results with the answer, of a further judge's file with its digest."""
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
        judging, of = verdict.judging, files[verdict.n]
        walk = partial(judge_answer, judge=judge, judging=judging)
        finish = partial(_finish, files=of, verdict=verdict)
        id = plan.targets[verdict.n].job_id(judging.instance.id)
        yield Job(group, id, of.journal, walk, finish, shared=judging in plan.repeats)


async def _finish(ended: Judgment | StepError, *, files: RunFiles, verdict: Verdict) -> None:
    line = line_of(verdict, ended)
    if verdict.scoring:
        await files.add_result(line)
    else:
        await files.add_judgment(verdict.judge, line)


def _tell(plan: JudgePlan, files: Sequence[RunFiles], events: Events) -> None:
    """Say what was found that a person should know."""
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
    """For the judge whose verdicts are the results."""
    again = plan.config.retry_failed
    done = files.finished
    n_outdated = _outdated(judge, target, done, events, but_failures=again)
    n_left_failed = 0 if again else done.n_failed
    _found(plan, judge, target, len(done) - done.n_failed + n_left_failed - n_outdated, events, n_left_failed)
    if not n_outdated and done.have_all(target.answers.ids, but_failures=again):
        return  # without reading the file again
    yield from _left(target, done, partial(files.needs_work, retry_failed=again), n_outdated)


def _further_left(
    plan: JudgePlan, judge: str, target: Target, files: RunFiles, events: Events
) -> Iterator[Judging]:
    """For a judge whose verdicts stand beside the results; what has no answer is left to the results."""
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
    """How many verdicts are on other answers than those that have their ids now; says so where there are any."""
    n = done.n_outdated(target.answers.ids, target.answers.marks, but_failures=but_failures)
    if n:
        told = (
            f"1 answer has changed since {judge} judged it, and is"
            if n == 1
            else f"{n} answers have changed since {judge} judged them, and are"
        )
        events.emit(Notice(f"{target.name}: {told} judged again"))
    return n


def _left(target: Target, done: LatestLines, lacks: Wanted, n_outdated: int) -> Iterator[Judging]:
    """The answers without a verdict; all have to be read where some have one on another answer."""
    if not n_outdated:
        yield from target.answers.stream(lacks)
        return
    for judging in target.answers.stream(lambda id: True):
        if lacks(judging.instance.id) or done.outdated(judging.instance.id, judging.mark):
            yield judging


def _found(plan: JudgePlan, judge: str, target: Target, n: int, events: Events, n_failed: int = 0) -> None:
    found = min(n, len(target.answers))
    events.emit(JobsFound(plan.group(judge), found, min(n_failed, found)))
