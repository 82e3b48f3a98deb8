"""What a clarifying question asks for, by rules for Chinese and English (paper, sections 6.2 and 7.2).

The paper's prompt A names the aspects that a question may be about; these are the types, with the words
that it uses for them and what we count to each:

- `time`: a date, year, period, season or time of day; how recent; how long.
- `region`: a country, province, city, district or any other place; "here or elsewhere".
- `entity`: which bearer of a name is meant: a person, organisation, product, model, work, law, version.
- `scope`: which part, aspect, kind, purpose or audience; how wide or detailed.
- `criterion`: by what to judge or select: a definition, standard, threshold, budget, preference.
- `other`: none of these can be made out.

The rules look at what is *asked*, not at what is mentioned: the words bound to a question word ("哪个城市",
"which year"), the words after "specific" or "某个", the alternatives of "还是" and "or". In "您想查哪个城市的缴费
标准？" the standard belongs to the topic and the question is about a region only. Examples ("比如北京、上海", "e.g.")
are read only where the rest says nothing. A question may ask for several types at once.

The rules are deterministic and use no model. Their agreement with labels given by hand is measured, type by
type, in tests/analysis/test_question_types.py.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from cts_async.analysis import questions_en, questions_zh
from cts_async.analysis.lexicon import QUESTION_TYPES, QuestionType
from cts_async.records import language_of

__all__ = ["QUESTION_TYPES", "OwnLabels", "QuestionType", "Reading", "labelled", "read_question"]


@dataclass(frozen=True, slots=True)
class Reading:
    """What one question asks for."""

    types: tuple[QuestionType, ...]
    """At least one, each once, the primary one first: what is asked for first in the question."""
    mentions_region: bool
    """It asks for a region, or a word for places stands anywhere in it: the paper's region question (table 4)."""

    @property
    def primary(self) -> QuestionType:
        return self.types[0]

    @property
    def region_only(self) -> bool:
        """It asks for a region and for nothing else (paper, table 5)."""
        return self.types == ("region",)


@lru_cache(maxsize=1 << 16)
def read_question(question: str) -> Reading:
    """Classify a question by its words; an empty text is `other`."""
    text = unicodedata.normalize("NFKC", question).casefold().replace("’", "'")
    language = questions_zh if language_of(text) == "zh" else questions_en
    without_examples = language.EXAMPLES.sub("", text)
    types = language.asked_types(without_examples) or language.asked_types(text)
    # Names of places do not count as a mention.
    mentioned = {kind for _, kind in language.MENTIONS.find(text)}
    mentions_region = "region" in types or "region" in mentioned
    return Reading(tuple(dict.fromkeys(types)) or ("other",), mentions_region)


class OwnLabels:
    """Reads a question by a researcher's label for its exact text (without outer spaces), else by the rules."""

    def __init__(self, types: Mapping[str, Sequence[QuestionType]]) -> None:
        self._readings = {question: labelled(kinds) for question, kinds in types.items()}
        self._seen: dict[str, bool] = {}

    def __call__(self, question: str) -> Reading:
        reading = self._readings.get(question.strip())
        self._seen[question] = reading is not None
        if reading is None:
            return read_question(question)
        return reading

    @property
    def note(self) -> str:
        """How many of the distinct questions read so far had a label."""
        labels = sum(self._seen.values())
        return f"types: {labels} of {len(self._seen)} distinct questions by label, the others by the rules"


def labelled(types: Iterable[QuestionType]) -> Reading:
    """The reading that given labels make; the first is the primary one."""
    distinct = tuple(dict.fromkeys(types))
    return Reading(distinct or ("other",), "region" in distinct)
