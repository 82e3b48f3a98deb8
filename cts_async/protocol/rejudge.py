"""Judging answers that exist already: finished runs', or somebody's candidates, by several judges at once.

The answers are never changed; a judge adds `judgments/<judge>.jsonl` to a run, and candidates are judged into
directories of their own (see `judge_files`), one file as the release's eval_gold.py does it. Each judge has its own
stream of jobs, so that one that is slow or gone holds up no other, and is asked each question once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from cts_async.engine.events import Events, JobsFound, Notice
from cts_async.engine.runner import Context, Job, Runner
from cts_async.engine.shards import until_free
from cts_async.engine.stop import stoppable
from cts_async.errors import StepError
from cts_async.protocol.crew import instances_in_flight, opened, prices_of
from cts_async.protocol.judge import Judge
from cts_async.protocol.judge_files import Target, opened_targets
from cts_async.protocol.judge_plan import JudgePlan
from cts_async.protocol.judging import Judging, Wanted
from cts_async.protocol.latest import LatestLines
from cts_async.protocol.results import Line, failure_line, judged
from cts_async.protocol.run_files import RunFiles
from cts_async.protocol.spending import open_budget
from cts_async.protocol.views import JudgeView
from cts_async.records import Judgment


async def run_judging(plan: JudgePlan, environ: Mapping[str, str], events: Events) -> None:
    """Judge or resume. Raises RunStopped when it ends early."""
    config = plan.config
    notes = {
        "command": config.command,
        "n_expected": plan.n_answers,
        "embedded": plan.embedded,
        "prices": prices_of(plan.specs.values()),
    }
    texts = {name: plan.prompts.text(name) for name in plan.prompt_names}
    async with (
        stoppable() as stopper,
        opened(plan.specs, plan.prompts, environ, events, max_outage_s=config.max_outage_s) as crew,
    ):
        judges = [crew.judge(name) for name in plan.judges]
        usual = config.in_flight or instances_in_flight(crew)
        await until_free([journal.parent for journal in plan.journals], events)
        with opened_targets(
            plan.targets, plan.out, plan.identity, notes, prompts=texts, sync=config.sync
        ) as files:
            # What lay in shards is in the journals only now.
            budget = open_budget(
                config.budget, plan.specs.values(), plan.journals, plan.judges, events, only_judging=True
            )
            runner = Runner(crew.lanes, events=events, seed=config.seed, in_flight=usual, budget=budget)
            stopper.watch(runner)
            _tell(plan, files, events)
            streams = [_jobs(plan, judge, files, events) for judge in judges]
            widths = [plan.in_flight(judge.name, usual) for judge in judges]
            await runner.run(*streams, in_flight=widths)


def _tell(plan: JudgePlan, files: Sequence[RunFiles], events: Events) -> None:
    """Say what was found that a person should know."""
    for journal in dict.fromkeys(one.journal for one in files):
        for text in journal.report.notices(journal.path):
            events.emit(Notice(text))
    for target in plan.targets:
        if n := target.answers.n_unknown:
            events.emit(
                Notice(
                    f"{target.name}: {n} of {n + len(target.answers)} answers are left out: the gold has "
                    "neither their id nor their fused_query"
                )
            )


def _jobs(plan: JudgePlan, judge: Judge, files: Sequence[RunFiles], events: Events) -> Iterator[Job]:
    """One judge's jobs, system after system."""
    for target, of in zip(plan.targets, files, strict=True):
        jobs = _scoring_jobs if target.scoring == judge.name else _further_jobs
        yield from jobs(plan, judge, target, of, events)


def _scoring_jobs(
    plan: JudgePlan, judge: Judge, target: Target, files: RunFiles, events: Events
) -> Iterator[Job]:
    """Those of the judge whose verdicts are the results."""
    again = plan.config.retry_failed
    done = files.finished
    n_outdated = _outdated(judge, target, done, events, but_failures=again)
    n_left_failed = 0 if again else done.n_failed
    _found(plan, judge, target, len(done) - done.n_failed + n_left_failed - n_outdated, events, n_left_failed)
    if not n_outdated and done.have_all(target.answers.ids, but_failures=again):
        return  # without reading the file again
    for judging in _left(target, done, partial(files.needs_work, retry_failed=again), n_outdated):
        finish = partial(_add_item, files=files, judge=judge, judging=judging)
        yield _job(plan, judge, target, judging, files, finish)


def _further_jobs(
    plan: JudgePlan, judge: Judge, target: Target, files: RunFiles, events: Events
) -> Iterator[Job]:
    """Those of a judge whose verdicts stand beside the results; what has no answer is left to the results."""
    done = files.judged(judge.name)
    n_outdated = _outdated(judge, target, done, events, but_failures=True)
    _found(plan, judge, target, len(done) - done.n_failed - n_outdated, events)
    if not n_outdated and done.have_all(target.answers.ids, but_failures=True):
        return
    for judging in _left(target, done, done.lacks, n_outdated):
        if judging.failure:
            _found(plan, judge, target, 1, events)
            continue
        finish = partial(_add_judgment, files=files, judge=judge, judging=judging)
        yield _job(plan, judge, target, judging, files, finish)


def _outdated(judge: Judge, target: Target, done: LatestLines, events: Events, *, but_failures: bool) -> int:
    """How many verdicts are on other answers than those that have their ids now; says so where there are any."""
    n = done.n_outdated(target.answers.ids, target.answers.marks, but_failures=but_failures)
    if n:
        told = (
            f"1 answer has changed since {judge.name} judged it, and is"
            if n == 1
            else f"{n} answers have changed since {judge.name} judged them, and are"
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


def _found(plan: JudgePlan, judge: Judge, target: Target, n: int, events: Events, n_failed: int = 0) -> None:
    found = min(n, len(target.answers))
    events.emit(JobsFound(plan.group(judge.name), found, min(n_failed, found)))


def _job(
    plan: JudgePlan,
    judge: Judge,
    target: Target,
    judging: Judging,
    files: RunFiles,
    finish: Callable[[Any], Any],
) -> Job:
    walk = partial(_walk, judge=judge, judging=judging)
    id = target.job_id(judging.instance.id)
    return Job(plan.group(judge.name), id, files.journal, walk, finish, shared=judging in plan.repeats)


async def _walk(ctx: Context, *, judge: Judge, judging: Judging) -> Judgment:
    if judging.failure:
        raise judging.failure
    instance = judging.instance
    return await judge.judge(ctx, JudgeView(instance.fused_query, instance.nuggets, judging.answer))


async def _add_judgment(
    ended: Judgment | StepError, *, files: RunFiles, judge: Judge, judging: Judging
) -> None:
    line = {**_line(ended, judging, judge.name), "answer_digest": judging.answer_digest}
    await files.add_judgment(judge.name, line)


async def _add_item(ended: Judgment | StepError, *, files: RunFiles, judge: Judge, judging: Judging) -> None:
    line = _line(ended, judging, judge.name)
    await files.add_result({**line, "answer": judging.answer})


def _line(ended: Judgment | StepError, judging: Judging, judge: str) -> Line:
    instance = judging.instance
    if isinstance(ended, StepError):
        return {**failure_line("", instance, ended), "judge": judge}
    return {"id": instance.id, "fused_query": instance.fused_query, **judged(instance.nuggets, ended)}
