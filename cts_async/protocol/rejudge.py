"""Judging answers that exist already: a finished run's, or somebody's candidates.

The answers are never changed; a judge adds `judgments/<judge>.jsonl` to a run, and a candidates file is
judged into a directory of its own (`per_item.jsonl`, `summary.json`), as the release's eval_gold.py does.

Answers are read twice and never held: once to check every line before anything starts, once to judge.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from cts_async.config import JudgeConfig
from cts_async.datasets import (
    CandidateLine,
    FailedLine,
    GoldIndex,
    GoldRecord,
    candidate_files,
    open_dataset,
    read_candidates,
    read_gold,
    sha256_of,
)
from cts_async.engine.events import Events, JobsFound
from cts_async.engine.run_dir import read_manifest
from cts_async.engine.runner import Context, Job, Runner
from cts_async.engine.stop import stoppable
from cts_async.errors import InputError, RunStopped, StepError, UsageError
from cts_async.llm.catalog import Catalogue, ModelSpec
from cts_async.protocol.campaign import instances_in_flight
from cts_async.protocol.crew import opened, prices_of
from cts_async.protocol.judge import Judge
from cts_async.protocol.latest import HASHES, LatestLines, first_repetition
from cts_async.protocol.prompts import load_prompts
from cts_async.protocol.results import Line, failure_line, judged
from cts_async.protocol.roles import PAPER_SUPPORT, resolve_all
from cts_async.protocol.run_files import PER_ITEM, RESULTS, STEPS, RunFiles, further_files, opened_files
from cts_async.protocol.spending import open_budget
from cts_async.protocol.views import JudgeView
from cts_async.records import Instance, Judgment
from cts_async.values import value


@value
class Judging:
    """One answer to be judged, or the failure that stands in its place."""

    instance: Instance
    answer: str
    failure: StepError | None = None


Wanted = Callable[[str], bool]
"""Whether the answer with this id is to be judged."""
Answers = Callable[[Wanted], Iterator[Judging]]
"""Streams the answers that are wanted from their file, as often as it is called."""


@dataclass(frozen=True, slots=True)
class JudgePlan:
    """What will be judged, by whom, and into which directory; everything checked."""

    config: JudgeConfig
    directory: Path
    specs: Mapping[str, ModelSpec]
    judges: tuple[str, ...]
    answers: Answers
    n_answers: int
    ids: array[int]
    """Hashes of a candidates file's ids, in its order (see `latest`); empty for a finished run."""
    identity: Mapping[str, Any] | None
    """None for a finished run, which keeps its own."""

    @property
    def embedded(self) -> bool:
        return any(spec.embedded for spec in self.specs.values())

    def group(self, judge: str) -> str:
        """The name of a judge's jobs: where there are several judges, one that is gone holds up its own only."""
        return self.directory.name if len(self.judges) == 1 else f"{self.directory.name}, {judge}"


def plan_judging(config: JudgeConfig, catalogue: Catalogue, environ: Mapping[str, str]) -> JudgePlan:
    """Check everything. Raises UsageError; starts and writes nothing."""
    judges = config.judges or (catalogue.roles.get("judge") or PAPER_SUPPORT,)
    if config.run is not None:
        _refuse_scoring_judge(config.run, judges)
        answers, n_answers = _answers_of_run(config.run, config.limit)
        ids, directory, identity = array(HASHES), config.run, None
    elif config.gold and config.candidates and config.out:
        if len(judges) > 1:
            raise UsageError("one --judge for a candidates file; judge the --out directory again for another")
        gold = read_gold(config.gold, config.fields)
        answers, ids = _answers_of_candidates(config.candidates, gold, config)
        n_answers, directory = len(ids), config.out
        identity = {
            "system": Path(config.candidates).stem,
            "gold_sha256": sha256_of(config.gold),
            "candidates": config.candidates,
            "judges": list(judges),
        }
    else:
        raise UsageError("name a run (cts judge runs/NAME), or --gold G --candidates C --out DIR")
    specs = resolve_all({name: ["judge"] for name in judges}, catalogue, environ)
    return JudgePlan(config, directory, specs, tuple(judges), answers, n_answers, ids, identity)


async def run_judging(plan: JudgePlan, environ: Mapping[str, str], events: Events) -> None:
    """Judge or resume. Raises RunStopped when it ends early."""
    prompts = load_prompts()
    config = plan.config
    async with (
        stoppable() as stopper,
        opened(plan.specs, prompts, environ, events, max_outage_s=config.max_outage_s) as crew,
    ):
        judges = [crew.judge(name) for name in plan.judges]
        prices = prices_of(plan.specs.values())
        runner = Runner(
            crew.lanes,
            events=events,
            seed=config.seed,
            in_flight=config.in_flight or instances_in_flight(crew),
            budget=open_budget(
                config.budget,
                [model.spec for model in crew.models.values()],
                [plan.directory / STEPS],
                plan.judges,
                events,
                only_judging=True,
            ),
        )
        stopper.watch(runner)
        if plan.identity is None:
            with further_files(plan.directory, prices, embedded=plan.embedded, sync=config.sync) as files:
                await runner.run(_further_jobs(plan, judges, files, events))
            return
        notes = {"command": config.command, "n_expected": plan.n_answers, "embedded": plan.embedded}
        texts = {name: prompts.text(name) for name in prompts.sha256 if name.startswith("judge.")}
        identity = {**plan.identity, "prompts": {name: prompts.sha256[name] for name in texts}}
        with opened_files(
            plan.directory,
            identity,
            {**notes, "prices": prices},
            prompts=texts,
            results=PER_ITEM,
            sync=config.sync,
        ) as files:
            files.tell(events, plan.n_answers, retry_failed=config.retry_failed)
            await runner.run(_candidate_jobs(plan, judges[0], files))


def _refuse_scoring_judge(run: Path, judges: tuple[str, ...]) -> None:
    """A run's first judge has labelled every answer already; a second file of the same would only confuse."""
    scoring = ((read_manifest(run) or {}).get("identity", {}).get("judges") or [None])[0]
    if scoring in judges:
        raise UsageError(
            f"{run}: {scoring} is the judge that scored it; its labels are in {RESULTS}; name another with --judge"
        )


def _answers_of_run(run: Path, limit: int | None) -> tuple[Answers, int]:
    """A run's answers with the nuggets of the dataset that its manifest names, and how many there are."""
    manifest = read_manifest(run)
    if manifest is None:
        raise InputError(run, "no run here (run.json is missing)")
    data = manifest.get("data")
    if not isinstance(data, dict) or "spec" not in data:
        raise InputError(run / "run.json", "does not say which data the run was over", field="data")
    gold = Path(data["gold"]) if data.get("gold") else None
    dataset = open_dataset(data["spec"], gold, data.get("fields") or {})
    recorded = manifest["identity"]["data"]["sha256"]
    if sha256_of(dataset.path) != recorded:
        raise UsageError(f"{dataset.path} has changed since {run} was made: its answers belong to other data")
    lines = LatestLines(run / RESULTS)

    def instances() -> Iterator[Instance]:
        judgeable = (one for one in dataset.instances() if one.nuggets and lines.failed(one.id) is False)
        return islice(judgeable, limit)

    def answers(wanted: Wanted) -> Iterator[Judging]:
        for instance in instances():
            if wanted(instance.id) and (line := lines.line(instance.id)):
                yield Judging(instance, str(line["answer"]))

    if len(lines) == lines.n_failed:
        raise UsageError(f"{run}: no answers to judge yet")
    n_answers = sum(1 for _ in instances())
    if not n_answers:
        raise UsageError(f"{run}: its data has no nuggets: there is nothing to judge by")
    return answers, n_answers


def _answers_of_candidates(pattern: str, gold: GoldIndex, config: JudgeConfig) -> tuple[Answers, array[int]]:
    """The candidates that join the gold, and the hashes of their ids; every line is checked once."""
    files = candidate_files(pattern)

    def answers(wanted: Wanted) -> Iterator[Judging]:
        try:
            for line, name, record in islice(_joined(files, gold, config.fields), config.limit):
                if wanted(name):
                    yield _judging(line, name, record)
        except InputError as error:
            raise RunStopped(f"{error}; the file has changed since it was checked") from None

    ids = array(HASHES, (hash(name) for _, name, _ in _joined(files, gold, config.fields)))
    if repeated := first_repetition(ids):
        rows = [row for n, row in enumerate(_joined(files, gold, config.fields)) if n in repeated]
        (earlier, _, _), (line, name, _) = rows
        raise InputError(
            line.path, f"{name!r} already stands on line {earlier.line}", line=line.line, field="id"
        )
    if not ids:
        if not any(file.stat().st_size for file in files):
            raise InputError(pattern, "is empty; expected a candidate answer on each line")
        raise InputError(
            pattern,
            f"nothing in it can be joined with the gold {gold.path}, neither by id nor by fused_query; "
            "other names of fields are given with --field OURS=THEIRS",
        )
    return answers, ids if config.limit is None else ids[: config.limit]


def _joined(
    files: Sequence[Path], gold: GoldIndex, fields: Mapping[str, str]
) -> Iterator[tuple[CandidateLine | FailedLine, str, GoldRecord]]:
    """Every line that the gold knows, with its name and its record of gold."""
    for line in read_candidates(files, fields):
        id, query = _names(line)
        record = gold.find(id or None, query or None)
        if record is not None:
            yield line, id or record.id or f"line {line.line}", record


def _names(line: CandidateLine | FailedLine) -> tuple[str, str]:
    if isinstance(line, FailedLine):
        return line.id, line.fused_query
    return line.candidate.id, line.candidate.fused_query


def _judging(line: CandidateLine | FailedLine, name: str, record: GoldRecord) -> Judging:
    instance = Instance(name, _names(line)[1] or record.fused_query or "", "", record.nuggets)
    if isinstance(line, FailedLine):
        return Judging(instance, "", NoAnswer(line.failure.message))
    if not line.candidate.answer:
        return Judging(instance, "", NoAnswer("the candidate's answer is empty"))
    return Judging(instance, line.candidate.answer)


class NoAnswer(StepError):
    """There is no answer to judge: a failure, which is not a score of 0."""

    kind = "no_answer"
    step = "candidate"


def _further_jobs(plan: JudgePlan, judges: list[Judge], files: RunFiles, events: Events) -> Iterator[Job]:
    for judge in judges:
        done = files.judged(judge.name)
        events.emit(JobsFound(plan.group(judge.name), min(len(done) - done.n_failed, plan.n_answers)))
        for judging in plan.answers(done.lacks):
            finish = partial(_add_judgment, files=files, judge=judge, judging=judging)
            yield _job(plan, judge, judging, files, finish)


def _candidate_jobs(plan: JudgePlan, judge: Judge, files: RunFiles) -> Iterator[Job]:
    if files.finished.have_all(plan.ids, but_failures=plan.config.retry_failed):
        return  # without reading the file again
    for judging in plan.answers(partial(files.needs_work, retry_failed=plan.config.retry_failed)):
        yield _job(plan, judge, judging, files, partial(_add_item, files=files, judging=judging))


def _job(plan: JudgePlan, judge: Judge, judging: Judging, files: RunFiles, finish: Any) -> Job:
    walk = partial(_walk, judge=judge, judging=judging)
    return Job(plan.group(judge.name), judging.instance.id, files.journal, walk, finish)


async def _walk(ctx: Context, *, judge: Judge, judging: Judging) -> Judgment:
    if judging.failure:
        raise judging.failure
    instance = judging.instance
    return await judge.judge(ctx, JudgeView(instance.fused_query, instance.nuggets, judging.answer))


async def _add_judgment(
    ended: Judgment | StepError, *, files: RunFiles, judge: Judge, judging: Judging
) -> None:
    await files.add_judgment(judge.name, _line(ended, judging, judge.name))


async def _add_item(ended: Judgment | StepError, *, files: RunFiles, judging: Judging) -> None:
    line = _line(ended, judging, "")
    await files.add_result({**line, "answer": judging.answer})


def _line(ended: Judgment | StepError, judging: Judging, judge: str) -> Line:
    instance = judging.instance
    if isinstance(ended, StepError):
        return {**failure_line("", instance, ended), "judge": judge or None}
    return {"id": instance.id, "fused_query": instance.fused_query, **judged(instance.nuggets, ended)}
