"""People's answers in the User Answerer's place: what somebody with this intent said to this question.

No model is asked, so nothing is paid, and nothing about the intent is made up: a question that people were not asked
gets `unknown`. Where they were asked it twice, the first answer counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cts_async.config import RunConfig
from cts_async.datasets import Dataset
from cts_async.datasets.annotations import HumanPairs
from cts_async.engine.runner import Context
from cts_async.engine.step import Executed, Step, step_key
from cts_async.errors import UnusableOutput, UsageError
from cts_async.llm.parsing import ShortPhrase
from cts_async.protocol.question_match import THRESHOLD, best_match
from cts_async.protocol.views import AnswererView
from cts_async.records import UNKNOWN, Answer


@dataclass(frozen=True, slots=True)
class HumanAnswerer:
    """Answers from `pairs`, (question, answer) by instance id: one durable step for each question, and no call."""

    pairs: Mapping[str, HumanPairs]

    async def answer(self, ctx: Context, view: AnswererView, turn: int) -> Answer:
        """What people answered to the most similar question, or `unknown`; see `question_match`."""
        reply = human_reply(view.question, self.pairs.get(ctx.job.id, ()))

        async def execute(_: UnusableOutput | None) -> Executed:
            return Executed(reply)

        name, request = f"answer/{turn}", {"fields": {"clarification_question": view.question}}
        # The reply is in the key: where the data has another answer, the step is another.
        key = step_key("human answer", ctx.job.id, name, request, reply)
        return await ctx.step(Step(name, key, execute, _read, request=request))


def human_reply(question: str, pairs: HumanPairs) -> dict[str, Any]:
    """What the journal remembers: `text`, the answer; `question` and `similarity` in per cent where one matched.

    An answer without words is `unknown`.
    """
    match = best_match(question, (asked for asked, _ in pairs))
    if match is None:
        return {"text": UNKNOWN, "question": None}
    asked, answer = pairs[match.index]
    text = answer if _has_words(answer) else UNKNOWN
    return {"text": text, "question": asked, "similarity": round(match.similarity, 1)}


def _read(reply: Any) -> Answer:
    """The answer in the form that a model's has; "I don't know" is what somebody answered."""
    return ShortPhrase(strict=True).parse(str(reply["text"]))


def _has_words(answer: str) -> bool:
    try:
        ShortPhrase().parse(answer)
    except UnusableOutput:
        return False
    return True


def people_of(config: RunConfig, dataset: Dataset) -> Mapping[str, HumanPairs] | None:
    """Who answers instead of a model, by instance id; None where nobody was asked for (`--answers`).

    UsageError unless the data are those that the answers belong to.
    """
    wanted = config.answers
    if wanted is None:
        return None
    if dataset.annotations is None:
        problem = f"nobody answered questions about {dataset.name}; people did for qulac and clariq"
        raise UsageError(f"--answers {wanted}: {problem} (--data qulac:PATH --answers qulac)")
    kind = dataset.name.partition("-need")[0]
    if wanted != kind:
        raise UsageError(f"--answers {wanted}: these data have the answers of {kind}: --answers {kind}")
    if "select" in config.modes:
        raise UsageError(
            f"--answers {wanted}: people answered questions, they chose no queries: not --mode select"
        )
    pairs = dataset.annotations().pairs
    if not any(pairs.values()):
        raise UsageError(f"--answers {wanted}: {dataset.path} has questions without answers only")
    return pairs


def answers_identity(config: RunConfig) -> dict[str, Any]:
    """What a run's identity says of who answers; nothing where a model does."""
    return {"answers": {"of": config.answers, "similarity": THRESHOLD}} if config.answers else {}
