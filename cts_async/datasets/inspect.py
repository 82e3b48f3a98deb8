"""Datasets to look at: what they contain, their items one by one, validation, and conversion to other files."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal

import orjson

from cts_async.datasets.candidates import FailedLine, candidate_files, read_candidates
from cts_async.datasets.gold import normalise, read_gold
from cts_async.datasets.instances import Annotations, Dataset
from cts_async.datasets.io import CSV_SUFFIXES, JSONL_SUFFIXES
from cts_async.datasets.registry import FILE, find_kind, imported_on_call, open_dataset
from cts_async.datasets.trec import read_facet_qrels, read_run
from cts_async.errors import InputError, UsageError
from cts_async.records import Instance, Nugget, language_of
from cts_async.safe_files import atomic_writer

# --- Facts


@dataclass(frozen=True, slots=True)
class Fact:
    """A number for programs (`value`, as JSON) and a phrase for people (`text`); details are left out of summaries."""

    key: str
    value: Any
    text: str
    detail: bool = False


@dataclass(frozen=True, slots=True)
class Contents:
    """Facts about a dataset, the first being how many items it has; `notes` are remarks on the reading."""

    facts: tuple[Fact, ...]
    notes: tuple[str, ...] = ()

    def joined(self, other: Contents) -> Contents:
        """Return both, one after the other."""
        return Contents(self.facts + other.facts, self.notes + other.notes)

    def as_json(self) -> dict[str, Any]:
        return {**{fact.key: fact.value for fact in self.facts}, "notes": list(self.notes)}


@dataclass(slots=True)
class Span:
    """The minimum, mean and maximum of the numbers added, of which there are `n`."""

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


def counted(n: int, noun: str) -> str:
    """Return `1 query`, `2 queries`, `1,000 panes`."""
    if n == 1:
        return f"1 {noun}"
    plural = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"{n:,} {plural}"


# --- Contents of a dataset


def contents_of(dataset: Dataset, fields: Mapping[str, str] | None = None) -> Contents:
    """Read instances, gold and annotations to their end. Raises InputError for whatever is wrong with them."""
    tally = _Tally()
    for instance in dataset.instances():
        tally.add(instance)
    facts = list(tally.facts())
    if dataset.gold_path is not None:
        facts.append(_gold_fact(dataset.gold_path, fields, dataset.instances()))
    if dataset.annotations is not None:
        facts += _annotation_facts(dataset.annotations(), tally)
    return Contents((*facts, *tally.details()), dataset.notes)


@dataclass(slots=True)
class _Tally:
    """Counts over the instances. Distinct texts are counted by their hashes, to save memory."""

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

    def facts(self) -> Iterator[Fact]:
        n, queries, intents = self.query_chars.n, len(self.queries), len(self.intents)
        yield Fact("instances", n, counted(n, "instance"))
        yield Fact("queries", queries, f"{counted(queries, 'distinct query')} q")
        yield Fact("intents", intents, f"{counted(intents, 'distinct intent')} q*")
        if self.alike:
            yield Fact("alike", self.alike, f"{self.alike:,} with q the same as q*: nothing to clarify")
        spread, text = self.nuggets, "no nuggets: gold has to be built (cts gold)"
        if spread.n:
            text = f"{spread.total:,} nuggets, {spread} an instance"
            if self.without_nuggets:
                text += f"; {self.without_nuggets:,} without nuggets can be run but not scored"
        yield Fact("nuggets", {"instances": spread.n, "total": spread.total, **spread.as_json()}, text)

    def details(self) -> Iterator[Fact]:
        languages = ", ".join(f"{language} {n:,}" for language, n in self.languages.most_common())
        yield Fact("languages", dict(self.languages), f"languages: {languages}", detail=True)
        for key, what, chars in (("query", "q", self.query_chars), ("intent", "q*", self.intent_chars)):
            yield Fact(f"{key}_chars", chars.as_json(), f"characters of {what}: {chars}", detail=True)


def _gold_fact(path: Path, fields: Mapping[str, str] | None, instances: Iterable[Instance]) -> Fact:
    """How many of the gold's records belong to an instance."""
    gold = read_gold(path, fields)
    unused = {record.line for record in gold.records()}
    records = len(unused)
    for instance in instances:
        found = gold.by_query.get(normalise(instance.fused_query)) or gold.by_id.get(instance.id)
        if found is not None:
            unused.discard(found.line)
    text = f"gold: {counted(records, 'record')}, {len(unused):,} of them of no instance"
    return Fact("gold", {"path": str(path), "records": records, "unused": len(unused)}, text)


def _annotation_facts(annotations: Annotations, tally: _Tally) -> Iterator[Fact]:
    """What people wrote about these instances; the annotations may cover more than were chosen."""
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
    levels = sorted(Counter(one.ambiguity for one in queries if one.ambiguity is not None).items())
    if levels:
        text = ", ".join(f"{level}: {n:,}" for level, n in levels)
        value = {str(level): n for level, n in levels}
        yield Fact("ambiguity", value, f"queries by ambiguity level: {text}")


# --- Opening, and single items

Item = Mapping[str, Any]
"""An instance or another item of a dataset as JSON; `id` names it."""
_MAX_IDS: Final = 10_000
"""Ids that are searched for one similar to a wrong one."""


@dataclass(frozen=True, slots=True)
class Inspected:
    """A dataset to look at. `kind` is its name in the registry, or "file"."""

    kind: str
    title: str
    paths: tuple[Path, ...]
    contents: Callable[[], Contents] = field(repr=False)
    """Reads everything there is."""
    items: Callable[[], Iterator[Item]] = field(repr=False)
    """Streams the items in file order."""
    dataset: Dataset | None = field(default=None, repr=False)
    """None if it has no instances."""


def open_to_inspect(
    spec: str, gold: Path | None = None, fields: Mapping[str, str] | None = None
) -> Inspected:
    """Open what `--data` takes, or a kind without instances. Errors as `open_dataset`; some come only on reading."""
    name, _, target = spec.partition(":")
    kind = find_kind(name)
    if kind is not None and kind.inspect is not None:
        return kind.inspect(target, gold)
    dataset = open_dataset(spec, gold, fields)
    kind = kind or FILE
    further = (path for path in (dataset.gold_path, dataset.corpus) if path is not None)
    return Inspected(
        kind.name,
        kind.title,
        (dataset.path, *dataset.more_paths, *further),
        partial(kind.contents or contents_of, dataset, fields),
        partial(_instance_items, dataset),
        dataset,
    )


def item_of(found: Inspected, id: str) -> Item:
    """Return the item with this id; UsageError that names similar ids if there is none."""
    ids: list[str] = []
    for item in found.items():
        if item["id"] == id:
            return item
        if len(ids) < _MAX_IDS:
            ids.append(str(item["id"]))
    close = get_close_matches(id, ids, n=3) or ids[:3]
    raise UsageError(f"--id {id}: not in {found.paths[0]}; there are {', '.join(map(repr, close))} ...")


def _nugget_row(nugget: Nugget) -> dict[str, Any]:
    """Return a nugget as a gold file has it."""
    row: dict[str, Any] = {"id": nugget.id, "text": nugget.text, "weight": nugget.weight}
    return row | ({"source_ids": list(nugget.source_ids)} if nugget.source_ids else {})


def _instance_items(dataset: Dataset) -> Iterator[Item]:
    annotations = dataset.annotations() if dataset.annotations is not None else None
    for instance in dataset.instances():
        item: dict[str, Any] = {
            "id": instance.id,
            "blurred_query": instance.blurred_query,
            "fused_query": instance.fused_query,
            "nuggets": [_nugget_row(nugget) for nugget in instance.nuggets],
        }
        if annotations is not None:
            pairs = annotations.pairs.get(instance.id, ())
            item["human_answers"] = [{"question": question, "answer": answer} for question, answer in pairs]
            query = annotations.queries.get(instance.blurred_query)
            item["ambiguity"] = query.ambiguity if query is not None else None
        yield item


# --- Validation of other files (`cts data validate --as`)


def _gold_contents(path: str, fields: Mapping[str, str]) -> Contents:
    gold = read_gold(Path(path), fields)
    records = {record.line: record for record in gold.records()}
    nuggets, weights = Span(), 0.0
    for record in records.values():
        nuggets.add(len(record.nuggets))
        weights += sum(nugget.weight for nugget in record.nuggets)
    facts = (
        Fact("records", len(records), counted(len(records), "gold record")),
        Fact("nuggets", nuggets.total, f"{counted(nuggets.total, 'nugget')}, {nuggets} a record"),
        Fact("mean_weight", weights / nuggets.total, f"mean weight {weights / nuggets.total:.2f}"),
    )
    return Contents(facts, gold.notes)


def _candidates_contents(path: str, fields: Mapping[str, str]) -> Contents:
    """`path`: a file, a pattern or a directory."""
    files = candidate_files(path)
    answers = failed = empty = 0
    for line in read_candidates(files, fields):
        if isinstance(line, FailedLine):
            failed += 1
        else:
            answers += 1
            empty += not line.candidate.answer
    if not answers + failed:
        raise InputError(path, "contains no candidate answers")
    facts = (
        Fact("candidates", answers, counted(answers, "candidate answer")),
        Fact("files", len(files), counted(len(files), "file")),
        Fact("empty", empty, f"{empty:,} of them empty"),
        Fact("failed", failed, f"{failed:,} failed"),
    )
    return Contents(facts)


def _qrels_contents(path: str, fields: Mapping[str, str]) -> Contents:
    qrels = read_facet_qrels(Path(path))
    judged = sum(map(len, qrels.values()))
    relevant = sum(grade > 0 for grades in qrels.values() for grade in grades.values())
    facts = (
        Fact("judgments", judged, counted(judged, "judgement")),
        Fact("relevant", relevant, f"{relevant:,} of them relevant (grade 1 or more)"),
        Fact("topics", len(qrels), f"for {counted(len(qrels), 'topic')} or facets"),
    )
    return Contents(facts)


def _run_contents(path: str, fields: Mapping[str, str]) -> Contents:
    depth = Span()
    for ranking in read_run(Path(path)).values():
        depth.add(len(ranking))
    facts = (
        Fact("topics", depth.n, f"rankings of {counted(depth.n, 'topic')}"),
        Fact("documents", {"total": depth.total, **depth.as_json()}, f"{depth} documents a topic"),
    )
    return Contents(facts)


FILE_READERS: Final[Mapping[str, Callable[[str, Mapping[str, str]], Contents]]] = {
    "gold": _gold_contents,
    "candidates": _candidates_contents,
    "qrels": _qrels_contents,
    "run": _run_contents,
    "evaluations": imported_on_call("cts_async.neighbours.qulac.gains", "evaluations_contents"),
}
"""Reads a file to its end, by the word after `--as`. Raises InputError."""


# --- Conversion

CSV_COLUMNS: Final = ("id", "fused_query", "blurred_query", "gold")
"""`gold` is a JSON object in a cell, or empty."""


def convert(found: Inspected, to: Path, *, limit: int | None = None, force: bool = False) -> int:
    """Write the first `limit` instances, or other items (JSON Lines only), to `to`; return how many.

    `--data FILE` reads the file back. It appears whole or not at all. UsageError for an unknown suffix, a file that
    exists (unless `force`) or belongs to the dataset, and what CSV cannot hold.
    """
    as_csv = to.suffix.lower() in CSV_SUFFIXES
    if not as_csv and to.suffix.lower() not in JSONL_SUFFIXES:
        raise UsageError(f"--to {to}: the name must end in {', '.join((*JSONL_SUFFIXES, *CSV_SUFFIXES))}")
    if as_csv and found.dataset is None:
        raise UsageError(f"--to {to}: panes contain lists, which CSV cannot hold; write them as .jsonl")
    if any(_same_file(to, path) for path in found.paths):
        raise UsageError(f"--to {to}: that is the dataset itself; choose another name")
    if to.exists() and not force:
        raise UsageError(f"--to {to}: exists already; --force replaces it")
    if found.dataset is None:
        return _write(to, map(_json_line, islice(found.items(), limit)))
    instances = islice(found.dataset.instances(), limit)
    if as_csv:
        return _write(to, _csv_lines(to, instances), header=_csv_line(CSV_COLUMNS))
    return _write(to, (_json_line(instance_row(instance)) for instance in instances))


def instance_row(instance: Instance) -> dict[str, Any]:
    """Return an instance as `read_queries` understands it, with its nuggets, if any, in `gold`."""
    row: dict[str, Any] = {
        "id": instance.id,
        "fused_query": instance.fused_query,
        "blurred_query": instance.blurred_query,
    }
    return row | ({"gold": _gold_json(instance)} if instance.nuggets else {})


def _gold_json(instance: Instance) -> dict[str, Any]:
    return {"nuggets": [_nugget_row(nugget) for nugget in instance.nuggets]}


def _json_line(row: Any) -> bytes:
    return orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)


def _csv_lines(to: Path, instances: Iterable[Instance]) -> Iterator[bytes]:
    for instance in instances:
        gold = orjson.dumps(_gold_json(instance)).decode() if instance.nuggets else ""
        cells = (instance.id, instance.fused_query, instance.blurred_query, gold)
        if any("\0" in cell for cell in cells):
            problem = f"{instance.id} contains a NUL character, which CSV cannot hold; write it as .jsonl"
            raise UsageError(f"--to {to}: {problem}")
        yield _csv_line(cells)


def _csv_line(cells: Sequence[str]) -> bytes:
    line = io.StringIO()
    # By default the csv module of Python 3.11 leaves a lone carriage return unquoted, and then refuses to read it.
    lone = any("\r" in cell for cell in cells)
    quoting: Literal[0, 1] = csv.QUOTE_ALL if lone else csv.QUOTE_MINIMAL
    csv.writer(line, lineterminator="\n", quoting=quoting).writerow(cells)
    return line.getvalue().encode()


def _write(to: Path, lines: Iterable[bytes], header: bytes = b"") -> int:
    n = 0
    with atomic_writer(to) as file:
        file.write(header)
        for line in lines:
            file.write(line)
            n += 1
    return n


def _same_file(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False
