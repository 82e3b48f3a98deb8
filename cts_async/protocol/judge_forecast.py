"""What judging will take, before it is started: calls, tokens, dollars, and time under each account's limits.

Prompts are rendered over an even sample of the real answers; what was judged already is left out, and a question
that several answers ask is counted once. Assumed are the length of replies and the time of a call (see `forecast`).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import ceil
from statistics import fmean

from cts_async.llm.catalog import ModelSpec
from cts_async.llm.messages import input_tokens
from cts_async.protocol.assumed import PER_NUGGET
from cts_async.protocol.assumed_steps import AROUND
from cts_async.protocol.effort import SENDING_S, TOKENS_PER_S, Effort, Work, effort_of
from cts_async.protocol.forecast import SAMPLE
from cts_async.protocol.judge import nuggets_by_call
from cts_async.protocol.judge_files import Target
from cts_async.protocol.judge_plan import JudgePlan
from cts_async.protocol.judging import Judging
from cts_async.protocol.lane_forecast import LaneForecast, under_limits
from cts_async.protocol.latest import HASHES, LatestLines
from cts_async.protocol.results import judged_mark
from cts_async.protocol.run_files import PER_ITEM, judgments_path
from cts_async.records import language_of


@dataclass(frozen=True, slots=True)
class JudgeForecast:
    """What one judge has left to do."""

    judge: str
    n_left: int
    """Answers without its verdict."""
    n_questions: int
    """Different ones among them that it has not answered for another answer either."""
    work: Work


@dataclass(frozen=True, slots=True)
class JudgingForecast:
    """All judges that are models, and their accounts."""

    judges: tuple[JudgeForecast, ...]
    lanes: tuple[LaneForecast, ...]

    @property
    def total(self) -> Effort:
        return sum((one.work.effort for one in self.judges), Effort())

    @property
    def time_s(self) -> float:
        """Accounts work side by side: the longest counts."""
        return max((lane.time_s for lane in self.lanes), default=0.0)


def foresee(plan: JudgePlan) -> JudgingForecast:
    """Read the answers and what is there of verdicts; starts and writes nothing."""
    judges = tuple(_of_judge(plan, name, spec) for name, spec in plan.specs.items())
    accounts: dict[str, list[JudgeForecast]] = {}
    for one in judges:
        accounts.setdefault(plan.specs[one.judge].account, []).append(one)
    lanes = tuple(_lane(plan.specs[own[0].judge], own) for own in accounts.values())
    return JudgingForecast(judges, lanes)


def _of_judge(plan: JudgePlan, judge: str, spec: ModelSpec) -> JudgeForecast:
    every = max(1, ceil(plan.n_answers / SAMPLE))
    found = _Left()
    for target in plan.targets:
        wanted = _wanted(plan, judge, target)
        for judging in target.answers.stream(_all):
            if judging.failure is None:
                found.take(judging, left=wanted(judging), sampled_every=every)
    n_questions, calls = found.questions(spec.judge_nuggets)
    prompts = [tokens for judging in found.sample for tokens in _prompts(plan, spec, judging)]
    nuggets = sum(len(judging.instance.nuggets) for judging in found.sample)
    output = nuggets / max(1, len(prompts)) * PER_NUGGET + AROUND
    each = effort_of(spec, 1.0, fmean(prompts) if prompts else 0.0, output)
    work = Work("", "judge", judge, calls, each, SENDING_S + output / TOKENS_PER_S, in_a_row=1.0)
    return JudgeForecast(judge, len(found.left), n_questions, work)


class _Left:
    """Digests of what is left and of what is done, and some answers of those that are left."""

    def __init__(self) -> None:
        self.left, self.done, self.n_nuggets = array(HASHES), array(HASHES), array("I")
        self.sample: list[Judging] = []

    def take(self, judging: Judging, *, left: bool, sampled_every: int) -> None:
        if not left:
            self.done.append(judging.digest)
            return
        if len(self.left) % sampled_every == 0:
            self.sample.append(judging)
        self.left.append(judging.digest)
        self.n_nuggets.append(len(judging.instance.nuggets))

    def questions(self, per_call: int) -> tuple[int, int]:
        """Different questions that nobody has answered yet, and the calls that they take."""
        import numpy as np

        digests, first = np.unique(np.array(self.left, np.int64), return_index=True)
        new = first[~np.isin(digests, np.array(self.done, np.int64))]
        n_nuggets = np.array(self.n_nuggets, np.int64)[new]
        return len(new), int((-(-n_nuggets // per_call)).sum())


def _all(id: str) -> bool:
    return True


def _wanted(plan: JudgePlan, judge: str, target: Target) -> Callable[[Judging], bool]:
    """Whether an answer still has to be judged, as the judging itself will see it."""
    further = target.scoring != judge
    path = judgments_path(target.directory, judge) if further else target.directory / PER_ITEM
    return partial(_needs, LatestLines(path, judged_mark), again=further or plan.config.retry_failed)


def _needs(lines: LatestLines, judging: Judging, *, again: bool) -> bool:
    known = lines.failed(judging.instance.id)
    return known is None or (known and again) or lines.outdated(judging.instance.id, judging.mark)


def _prompts(plan: JudgePlan, spec: ModelSpec, judging: Judging) -> list[float]:
    """Tokens of each call that an answer takes."""
    instance = judging.instance
    prompt = plan.prompts.get("judge", language_of(instance.fused_query), spec.prompt_size)
    texts = nuggets_by_call(instance.nuggets, spec.judge_nuggets)
    return [
        input_tokens(prompt.render(query=instance.fused_query, nuggets=text, candidate_answer=judging.answer))
        for text in texts
    ]


def _lane(spec: ModelSpec, own: list[JudgeForecast]) -> LaneForecast:
    work = [one.work for one in own]
    effort = sum((one.effort for one in work), Effort())
    return LaneForecast(spec.name, tuple(one.judge for one in own), effort, under_limits(spec, work))
