"""Answers of the user: what they give away beyond their questions, and in which words they say `unknown`.

What an answer gives away is measured by the audit's own rule (`protocol.audit.text.disclosure`), so that a diagnosis and
an audit of the same run agree. The wording of `unknown` stands in the journal only: a result has the word itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cts_async.engine.journal import read_records
from cts_async.errors import UnusableOutput
from cts_async.llm.parsing import ShortPhrase, wording_of_unknown
from cts_async.protocol.audit.text import Disclosure


@dataclass(frozen=True, slots=True)
class GivenAway:
    """What the known answers of one run give away, over all of them together."""

    n_known: int
    """Answers that are not `unknown`."""
    mean_share: float | None
    """Mean share of the words that q* has beyond q and the question; None without known answers."""
    n_over_informing: int
    """Answers that tell nearly all of these words (`Disclosure.over_informs`)."""
    n_named: int
    """Those of them that `cts audit` names; people's answers it does not name."""

    @property
    def rate(self) -> float | None:
        """Fraction of the known answers that over-inform; None without known answers."""
        if self.n_known == 0:
            return None
        return self.n_over_informing / self.n_known


def given_away(disclosures: Iterable[Disclosure], *, people_answered: bool = False) -> GivenAway:
    """Count over the known answers of a run; of people's answers the audit names none."""
    # The mean is over answers, not over instances: an instance of which much is unknown weighs less.
    shares: list[float] = []
    n_over_informing = n_named = 0
    for disclosed in disclosures:
        shares.append(disclosed.share)
        n_over_informing += disclosed.over_informs
        if not people_answered:  # as the audit: their answers are data, and no model's
            n_named += disclosed.problem != ""
    mean: float | None = None
    if shares:
        mean = sum(shares) / len(shares)
    return GivenAway(len(shares), mean, n_over_informing, n_named)


@dataclass(frozen=True, slots=True)
class UnknownWording:
    """How the User Answerer of one run said that it does not know; instances without an outcome are left out."""

    exact: int = 0
    """Replies that are the word `unknown` and nothing else."""
    paraphrased: int = 0
    """Replies that mean the same: another spelling ("Unknown."), or other words ("not specified")."""


def unknown_wording(journal: Path, answers: Mapping[str, Sequence[str]]) -> UnknownWording | None:
    """Count the recorded replies of the User Answerer; None if the journal has none.

    `answers` are those of each instance's result, in order: a reply that was passed on as something else does not count.
    """
    wordings: dict[tuple[str, int], str] = {}
    for record in read_records(journal):
        instance, step, response = record.get("instance"), record.get("step"), record.get("response")
        if not record.get("ok") or not isinstance(response, dict) or instance not in answers:
            continue
        # A custom role's own calls to models (answer/1/llm/2) are no answers.
        role, _, number = str(step).partition("/")
        if role != "answer" or not number.isdecimal():
            continue
        # A slice: a journal may have more turns than the result has answers.
        passed_on = answers[str(instance)][int(number) - 1 : int(number)]
        wording = wording_of_unknown(str(response.get("text")))
        if passed_on and not _means_unknown(passed_on[0]):
            wording = ""
        # Of a step that was repeated the latest record counts.
        wordings[str(instance), int(number)] = wording
    if not wordings:
        return None
    counts = Counter(wordings.values())
    return UnknownWording(counts["exact"], counts["paraphrased"])


def _means_unknown(answer: str) -> bool:
    """True for `unknown`, and for its paraphrases, which are answers in runs as published.

    Thoughts that end with the word were an answer up to version 0.11: they told more than that.
    """
    try:
        return ShortPhrase(with_marks=True).parse(answer).unknown
    except UnusableOutput:
        return False
