"""What a dataset holds, found by reading it to its end: each fact a number for programs, a phrase for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cts_async.datasets.annotations import Annotations
from cts_async.datasets.dataset import Dataset
from cts_async.datasets.gold import normalise, read_gold
from cts_async.records import Instance, language_of


@dataclass(frozen=True, slots=True)
class Fact:
    """`text` says `value`, which is fit for JSON; a `detail` is left out where one line has to do."""

    key: str
    value: Any
    text: str
    detail: bool = False


@dataclass(frozen=True, slots=True)
class Contents:
    """`facts` in order of interest, the first being what there is how many of; `notes` are remarks on the reading."""

    facts: tuple[Fact, ...]
    notes: tuple[str, ...] = ()

    def joined(self, other: Contents) -> Contents:
        """Both, one after the other."""
        return Contents(self.facts + other.facts, self.notes + other.notes)

    def as_json(self) -> dict[str, Any]:
        return {**{fact.key: fact.value for fact in self.facts}, "notes": list(self.notes)}


@dataclass(slots=True)
class Span:
    """The smallest, mean and greatest of the numbers added, of which there are `n`."""

    n: int = 0
    total: int = 0
    low: int = 0
    high: int = 0

    def add(self, number: int) -> None:
        self.low = min(self.low, number) if self.n else number
        self.high = max(self.high, number)
        self.n, self.total = self.n + 1, self.total + number

    def as_json(self) -> dict[str, float]:
        return {"min": self.low, "mean": self.total / self.n if self.n else 0.0, "max": self.high}

    def __str__(self) -> str:
        mean = f", mean {self.total / self.n:.1f}" if self.n else ""
        return f"{self.low:,} to {self.high:,}{mean}"


def contents_of(dataset: Dataset, fields: Mapping[str, str] | None = None) -> Contents:
    """Read instances, gold and annotations to their end. Raises InputError for whatever is wrong with them.

    Memory: a few words for each distinct query.
    """
    tally = _Tally()
    for instance in dataset.instances():
        tally.add(instance)
    facts = [*_instances(tally)]
    if dataset.gold_path is not None:
        facts.append(_joined(dataset.gold_path, fields, dataset.instances()))
    if dataset.annotations is not None:
        facts += _annotated(dataset.annotations(), tally)
    return Contents((*facts, *_lengths(tally)), dataset.notes)


@dataclass(slots=True)
class _Tally:
    """One pass over the instances. Distinct texts are told apart by their 64-bit hashes."""

    ids: set[int] = field(default_factory=set)
    queries: set[int] = field(default_factory=set)
    intents: set[int] = field(default_factory=set)
    languages: Counter[str] = field(default_factory=Counter)
    nuggets: Span = field(default_factory=Span)
    without_nuggets: int = 0
    alike: int = 0
    query_chars: Span = field(default_factory=Span)
    intent_chars: Span = field(default_factory=Span)

    def add(self, instance: Instance) -> None:
        self.ids.add(hash(instance.id))
        self.queries.add(hash(instance.blurred_query))
        self.intents.add(hash(instance.fused_query))
        self.languages[language_of(instance.blurred_query)] += 1
        self.query_chars.add(len(instance.blurred_query))
        self.intent_chars.add(len(instance.fused_query))
        self.alike += normalise(instance.blurred_query) == normalise(instance.fused_query)
        if instance.nuggets:
            self.nuggets.add(len(instance.nuggets))
        else:
            self.without_nuggets += 1


def _instances(tally: _Tally) -> Iterator[Fact]:
    n = tally.query_chars.n
    yield Fact("instances", n, counted(n, "instance"))
    yield Fact("queries", len(tally.queries), f"{counted(len(tally.queries), 'distinct query')} q")
    yield Fact("intents", len(tally.intents), f"{counted(len(tally.intents), 'distinct intent')} q*")
    if tally.alike:
        yield Fact("alike", tally.alike, f"{tally.alike:,} with q the same as q*: nothing to clarify")
    yield _nuggets(tally)


def _nuggets(tally: _Tally) -> Fact:
    scored, spread, without = tally.nuggets.n, tally.nuggets, tally.without_nuggets
    value = {"instances": scored, "total": spread.total, **spread.as_json()}
    text = (
        f"{spread.total:,} nuggets, {spread} an instance"
        if scored
        else "no nuggets: gold has to be built (cts gold)"
    )
    if scored and without:
        text += f"; {without:,} without any can run, not be scored"
    return Fact("nuggets", value, text)


def _lengths(tally: _Tally) -> Iterator[Fact]:
    spoken = ", ".join(f"{language} {n:,}" for language, n in tally.languages.most_common())
    yield Fact("languages", dict(tally.languages), f"languages: {spoken}", detail=True)
    yield Fact(
        "query_chars", tally.query_chars.as_json(), f"characters of q: {tally.query_chars}", detail=True
    )
    yield Fact(
        "intent_chars", tally.intent_chars.as_json(), f"characters of q*: {tally.intent_chars}", detail=True
    )


def _joined(path: Path, fields: Mapping[str, str] | None, instances: Iterable[Instance]) -> Fact:
    """Which of the gold's records belong to an instance."""
    gold = read_gold(path, fields)
    lines = {record.line for record in gold.records()}
    records = len(lines)
    for instance in instances:
        found = gold.by_query.get(normalise(instance.fused_query)) or gold.by_id.get(instance.id)
        if found is not None:
            lines.discard(found.line)
    text = f"gold: {counted(records, 'record')}, {len(lines):,} of them of no instance"
    return Fact("gold", {"path": str(path), "records": records, "unused": len(lines)}, text)


def _annotated(annotations: Annotations, tally: _Tally) -> Iterator[Fact]:
    """What people wrote about these instances; a dataset may know of more than were chosen."""
    questions, pairs = Span(), Span()
    queries = [one for text, one in annotations.queries.items() if hash(text) in tally.queries]
    for query in queries:
        questions.add(len(query.questions))
    for id, answered in annotations.pairs.items():
        if hash(id) in tally.ids:
            pairs.add(len(answered))
    yield Fact(
        "annotated_questions",
        {"total": questions.total, **questions.as_json()},
        f"{questions.total:,} annotated questions, {questions} a query",
    )
    yield Fact(
        "human_answers",
        {"total": pairs.total, "instances": pairs.n, **pairs.as_json()},
        f"{pairs.total:,} human answers, {pairs} an instance",
    )
    levels = Counter(one.ambiguity for one in queries if one.ambiguity is not None)
    if levels:
        shown = ", ".join(f"{level}: {levels[level]:,}" for level in sorted(levels))
        value = {str(level): levels[level] for level in sorted(levels)}
        yield Fact("ambiguity", value, f"queries by ambiguity level: {shown}")


def counted(n: int, noun: str) -> str:
    """`1 query`, `2 queries`, `1,000 panes`."""
    if n == 1:
        return f"1 {noun}"
    plural = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"{n:,} {plural}"
