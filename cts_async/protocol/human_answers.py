"""Human answers instead of the User Answerer's: what somebody with this intent answered to this question.

No model is asked, so it costs nothing, and nothing about the intent is invented: a question that people were not asked
gets `unknown`. If they were asked it twice, the first answer counts.

A Clarifier's question is matched with those that people were asked: equal but for case, punctuation and space, else the
most similar one, if it is similar enough. Similarity is the mean of two rapidfuzz measures in per cent: `ratio` of the
whole questions, and `token_sort_ratio` of their words without those that most questions share ("are you looking for
..."). One alone is not enough: the first takes such a frame for the question, the second forgives no typing error.

Measured over Qulac's 762 facets by `python -m benchmarks matching`, at the threshold of 85: of a facet's own questions,
changed in one place, 100 % are found (two words swapped, or "could you tell me" put before), 96 % (another frame), 88 %
(two letters swapped) and 86 % (a word left out). 0.3 % of the questions of another topic match one of the facet's. A
question about the same facet that people were not asked matches another one in 5 %; the answer is at any rate that of
somebody with the same intent. At a threshold of 75 these are 0.5 % and 24 %; at 90 they are 0 and 1 %, but only 67 % of
questions in another frame are found.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cts_async.config import RunConfig
from cts_async.datasets import Dataset
from cts_async.datasets.kinds import HumanPairs
from cts_async.engine.reuse import ReuseRule
from cts_async.engine.runner import Context
from cts_async.engine.step import Executed, Step, step_key
from cts_async.errors import UnusableOutput, UsageError
from cts_async.llm.parsing import ShortPhrase
from cts_async.protocol.views import AnswererView
from cts_async.records import UNKNOWN, Answer
from cts_async.search.asking import normalised_question
from cts_async.search.terms import STOP_WORDS


@dataclass(frozen=True, slots=True)
class HumanAnswerer:
    """Answers from `pairs`, (question, answer) by instance id; each answer is a durable step without a call."""

    pairs: Mapping[str, HumanPairs]

    async def answer(self, ctx: Context, view: AnswererView, step: str) -> Answer:
        """The human answer to the most similar question, or `unknown`."""
        reply = human_reply(view.question, self.pairs.get(ctx.job.id, ()))

        async def execute(_: UnusableOutput | None) -> Executed:
            return Executed(reply)

        request = {"fields": {"clarification_question": view.question}}
        # The key contains the reply: if the data's answer changes, it is another step.
        key = step_key("human answer", ctx.job.id, step, request, reply)
        return await ctx.step(Step(step, key, execute, _read, request=request, reuse=ReuseRule.FIXED))


def human_reply(question: str, pairs: HumanPairs) -> dict[str, Any]:
    """The step's result: `text`, the answer; `question` and `similarity` in per cent if one matched.

    An answer without words becomes `unknown`.
    """
    match = best_match(question, [human_question for human_question, _ in pairs])
    if match is None:
        return {"text": UNKNOWN, "question": None}
    index, similarity = match
    matched, answer = pairs[index]
    try:
        ShortPhrase().parse(answer)
    except UnusableOutput:  # no words
        answer = UNKNOWN
    return {"text": answer, "question": matched, "similarity": round(similarity, 1)}


def _read(reply: Any) -> Answer:
    """The answer in the form of a model's; "I don't know" stays as a human answer."""
    return ShortPhrase(strict=True).parse(str(reply["text"]))


def read_human_answers(config: RunConfig, dataset: Dataset) -> Mapping[str, HumanPairs] | None:
    """Human (question, answer) pairs by instance id; None without `--answers`.

    UsageError unless the answers belong to the data.
    """
    source = config.answers
    if source is None:
        return None
    if dataset.annotations is None:
        problem = f"there are no human answers for {dataset.name}; only qulac and clariq have them"
        raise UsageError(f"--answers {source}: {problem} (--data qulac:PATH --answers qulac)")
    # ClariQ's queries of some clarification needs only are a dataset of their own: `clariq-need2-4`.
    kind = dataset.name.partition("-need")[0]
    if source != kind:
        raise UsageError(f"--answers {source}: these data have the answers of {kind}: --answers {kind}")
    if "select" in config.modes:
        raise UsageError(
            f"--answers {source}: people answered questions, they chose no queries: not --mode select"
        )
    pairs = dataset.annotations().pairs
    if not any(pairs.values()):
        raise UsageError(f"--answers {source}: {dataset.path} has questions without answers only")
    return pairs


# --- Matching a question with those that people were asked


THRESHOLD: Final = 85.0
"""Per cent; less similar questions are different ones."""

_SHARED: Final = """
    ask asking curious find finding get information interest interested know like learn learning look looking
    mean need please refer referring search searching see seeking tell thinking try trying want wonder wondering
"""
_FRAME: Final = STOP_WORDS | frozenset(_SHARED.split())


def best_match(question: str, candidates: Iterable[str]) -> tuple[int, float] | None:
    """Index and similarity (from `THRESHOLD` to 100) of the most similar question; None if none reaches it."""
    question = normalised_question(question)
    best_index, best_similarity = 0, 0.0
    for index, candidate in enumerate(candidates):
        similarity = _similarity(question, normalised_question(candidate))
        if similarity > best_similarity:  # of equal ones the first counts
            best_index, best_similarity = index, similarity
    if best_similarity < THRESHOLD:
        return None
    return best_index, best_similarity


def _similarity(question: str, candidate: str) -> float:
    """Similarity of two normalised questions, from 0 to 100; 0 for empty ones."""
    from rapidfuzz import fuzz

    if not question or not candidate:
        return 0.0
    if question == candidate:
        return 100.0
    whole = fuzz.ratio(question, candidate)
    words = fuzz.token_sort_ratio(_content(question), _content(candidate))
    return (whole + words) / 2


def _content(question: str) -> str:
    """The words of a normalised question outside its frame; all words if there are no others."""
    content = " ".join(word for word in question.split() if word not in _FRAME)
    return content or question
