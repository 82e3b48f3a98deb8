"""Datasets to look at: what they contain, their items one by one, validation, and conversion to other files."""

from __future__ import annotations

import csv
import io
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal

import orjson

from cts_async.datasets.candidates import (
    FailedLine,
    candidate_files,
    read_candidates,
    read_facet_qrels,
    read_ranking,
)
from cts_async.datasets.gold import normalise, read_gold
from cts_async.datasets.io import CSV_SUFFIXES, JSONL_SUFFIXES
from cts_async.datasets.kinds import (
    FILE,
    Annotations,
    Contents,
    Dataset,
    FileReader,
    Inspected,
    Item,
    all_kinds,
    find_kind,
    open_dataset,
)
from cts_async.errors import InputError, UsageError
from cts_async.records import Instance, Nugget, language_of
from cts_async.safe_files import atomic_writer

# --- Contents of a dataset


def spread(numbers: Sequence[int]) -> dict[str, float]:
    """Return the minimum, mean and maximum; zeros if there are no numbers."""
    if not numbers:
        return {"min": 0, "mean": 0.0, "max": 0}
    return {"min": min(numbers), "mean": sum(numbers) / len(numbers), "max": max(numbers)}


def contents_of(dataset: Dataset, fields: Mapping[str, str] | None = None) -> Contents:
    """Read instances, gold and annotations to their end. Raises InputError for whatever is wrong with them."""
    # Hashes and arrays, to save memory.
    ids, queries, intents = set[int](), set[int](), set[int]()
    languages: Counter[str] = Counter()
    nuggets, query_chars, intent_chars = array("q"), array("q"), array("q")
    alike = 0
    for instance in dataset.instances():
        ids.add(hash(instance.id))
        queries.add(hash(instance.query))
        intents.add(hash(instance.intent))
        languages[language_of(instance.query)] += 1
        query_chars.append(len(instance.query))
        intent_chars.append(len(instance.intent))
        alike += normalise(instance.query) == normalise(instance.intent)
        if instance.nuggets:
            nuggets.append(len(instance.nuggets))
    facts: dict[str, Any] = {
        "instances": len(query_chars),
        "queries": len(queries),
        "intents": len(intents),
    }
    if alike:
        facts["alike"] = alike
    facts["nuggets"] = {"instances": len(nuggets), "total": sum(nuggets)} | spread(nuggets)
    if dataset.gold_path is not None:
        facts["gold"] = _gold_facts(dataset.gold_path, fields, dataset.instances())
    if dataset.annotations is not None:
        facts |= _annotation_facts(dataset.annotations(), ids, queries)
    facts["languages"] = dict(languages)
    facts["query_chars"] = spread(query_chars)
    facts["intent_chars"] = spread(intent_chars)
    return Contents(facts, dataset.notes)


def _gold_facts(
    path: Path, fields: Mapping[str, str] | None, instances: Iterable[Instance]
) -> dict[str, Any]:
    """Count the gold's records, and those that belong to no instance."""
    gold = read_gold(path, fields)
    # A record with an id and a query is there under both: by its line it counts once.
    unused = {record.line for record in gold.records()}
    n_records = len(unused)
    for instance in instances:
        record = gold.by_query.get(normalise(instance.intent)) or gold.by_id.get(instance.id)
        if record is not None:
            unused.discard(record.line)
    return {"path": str(path), "records": n_records, "unused": len(unused)}


def _annotation_facts(annotations: Annotations, ids: set[int], queries: set[int]) -> dict[str, Any]:
    """What people wrote about the instances with these hashes; the annotations may cover more."""
    n_questions: list[int] = []
    levels: Counter[int] = Counter()
    for text, query in annotations.queries.items():
        if hash(text) not in queries:
            continue
        n_questions.append(len(query.questions))
        if query.ambiguity is not None:
            levels[query.ambiguity] += 1
    n_pairs: list[int] = []
    for id, pairs in annotations.pairs.items():
        if hash(id) in ids:
            n_pairs.append(len(pairs))
    facts: dict[str, Any] = {
        "annotated_questions": {"total": sum(n_questions)} | spread(n_questions),
        "human_answers": {"total": sum(n_pairs), "instances": len(n_pairs)} | spread(n_pairs),
    }
    if levels:
        # JSON has no numbers as keys.
        facts["ambiguity"] = {str(level): n for level, n in sorted(levels.items())}
    return facts


# --- Opening, and single items

_MAX_IDS: Final = 10_000
"""Ids that are searched for one similar to a wrong one."""


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
    # All that the dataset is read from: `convert` must not write over one of them.
    paths = (dataset.path,) + dataset.more_paths
    for path in (dataset.gold_path, dataset.corpus):
        if path is not None:
            paths += (path,)
    return Inspected(
        kind.name,
        kind.title,
        paths,
        partial(kind.contents or contents_of, dataset, fields),
        partial(_instance_items, dataset),
        dataset,
    )


def item_of(inspected: Inspected, id: str) -> Item:
    """Return the item with this id; UsageError that names similar ids if there is none."""
    ids: list[str] = []
    for item in inspected.items():
        if item["id"] == id:
            return item
        if len(ids) < _MAX_IDS:
            ids.append(str(item["id"]))
    close = get_close_matches(id, ids, n=3) or ids[:3]
    raise UsageError(f"--id {id}: not in {inspected.paths[0]}; there are {', '.join(map(repr, close))} ...")


def _nugget_rows(nuggets: Iterable[Nugget]) -> list[dict[str, Any]]:
    """Return nuggets as a gold file has them."""
    rows: list[dict[str, Any]] = []
    for nugget in nuggets:
        row: dict[str, Any] = {"id": nugget.id, "text": nugget.text, "weight": nugget.weight}
        if nugget.source_ids:
            row["source_ids"] = list(nugget.source_ids)
        rows.append(row)
    return rows


def _instance_items(dataset: Dataset) -> Iterator[Item]:
    annotations: Annotations | None = None
    if dataset.annotations is not None:
        annotations = dataset.annotations()
    for instance in dataset.instances():
        item: dict[str, Any] = {
            "id": instance.id,
            "blurred_query": instance.query,
            "fused_query": instance.intent,
            "nuggets": _nugget_rows(instance.nuggets),
        }
        if annotations is not None:
            human_answers: list[dict[str, str]] = []
            for question, answer in annotations.pairs.get(instance.id, ()):
                human_answers.append({"question": question, "answer": answer})
            item["human_answers"] = human_answers
            item["ambiguity"] = None
            if instance.query in annotations.queries:
                item["ambiguity"] = annotations.queries[instance.query].ambiguity
        yield item


# --- Validation of other files (`cts data validate --as`)


def _gold_contents(path: str, fields: Mapping[str, str]) -> Contents:
    gold = read_gold(Path(path), fields)
    # A record with an id and a query is there under both: by its line it counts once.
    record_by_line = {record.line: record for record in gold.records()}
    weights: list[float] = []
    for record in record_by_line.values():
        for nugget in record.nuggets:
            weights.append(nugget.weight)
    mean_weight = sum(weights) / len(weights)
    facts = {"records": len(record_by_line), "nuggets": len(weights), "mean_weight": mean_weight}
    return Contents(facts, gold.notes)


def _candidates_contents(path: str, fields: Mapping[str, str]) -> Contents:
    """`path`: a file, a pattern or a directory."""
    files = candidate_files(path)
    n_answers = n_failed = n_empty = 0
    for line in read_candidates(files, fields):
        if isinstance(line, FailedLine):
            n_failed += 1
            continue
        n_answers += 1
        if not line.candidate.answer:
            n_empty += 1
    if n_answers + n_failed == 0:
        raise InputError(path, "contains no candidate answers")
    return Contents({"candidates": n_answers, "files": len(files), "empty": n_empty, "failed": n_failed})


def _qrels_contents(path: str, fields: Mapping[str, str]) -> Contents:
    qrels = read_facet_qrels(Path(path))
    n_judgments = n_relevant = 0
    for grades in qrels.values():
        n_judgments += len(grades)
        # TREC gives spam a grade below 0.
        n_relevant += sum(grade > 0 for grade in grades.values())
    return Contents({"judgments": n_judgments, "relevant": n_relevant, "topics": len(qrels)})


def _run_contents(path: str, fields: Mapping[str, str]) -> Contents:
    depths = list(map(len, read_ranking(Path(path)).values()))
    return Contents({"topics": len(depths), "documents": {"total": sum(depths)} | spread(depths)})


_FILE_READERS: Final[Mapping[str, FileReader]] = {
    "gold": _gold_contents,
    "candidates": _candidates_contents,
    "qrels": _qrels_contents,
    "run": _run_contents,
}


def file_reader(word: str) -> FileReader:
    """The reader of a file by the word after `--as`: of any dataset, or one of a kind's own. LookupError for none."""
    if word in _FILE_READERS:
        return _FILE_READERS[word]
    for kind in all_kinds().values():
        if word in kind.file_readers:
            return kind.file_readers[word]
    raise LookupError(f"no file is read as {word!r}")


# --- Conversion

CSV_COLUMNS: Final = ("id", "fused_query", "blurred_query", "gold")
"""`gold` is a JSON object in a cell, or empty."""


def convert(source: Inspected, to: Path, *, limit: int | None = None, force: bool = False) -> int:
    """Write the first `limit` instances, or other items (JSON Lines only), to `to`; return how many.

    `--data FILE` reads the file back. It appears whole or not at all. UsageError for an unknown suffix, a file that
    exists (unless `force`) or belongs to the dataset, what CSV cannot hold, and text that must not be published.
    """
    if source.dataset is not None and source.dataset.restriction:
        raise UsageError(
            f"{source.dataset.path}: {source.dataset.restriction}: it is not converted; name the file itself with --data"
        )
    as_csv = to.suffix.lower() in CSV_SUFFIXES
    if not as_csv and to.suffix.lower() not in JSONL_SUFFIXES:
        raise UsageError(f"--to {to}: the name must end in {', '.join(JSONL_SUFFIXES + CSV_SUFFIXES)}")
    if as_csv and source.dataset is None:
        raise UsageError(f"--to {to}: panes contain lists, which CSV cannot hold; write them as .jsonl")
    if to.exists():
        for path in source.paths:
            # Even with `force`, and by the file itself: a link has another name.
            if path.exists() and path.samefile(to):
                raise UsageError(f"--to {to}: that is the dataset itself; choose another name")
        if not force:
            raise UsageError(f"--to {to}: exists already; --force replaces it")
    rows: Iterator[Item] = source.items()
    if source.dataset is not None:
        rows = map(instance_row, source.dataset.instances())
    n = 0
    with atomic_writer(to) as file:
        if as_csv:
            file.write(_csv_line(CSV_COLUMNS))
        for row in islice(rows, limit):
            if as_csv:
                file.write(_csv_row(to, row))
            else:
                file.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
            n += 1
    return n


def instance_row(instance: Instance) -> dict[str, Any]:
    """Return an instance as `read_queries` understands it, with its nuggets, if any, in `gold`."""
    row: dict[str, Any] = {
        "id": instance.id,
        "fused_query": instance.intent,
        "blurred_query": instance.query,
    }
    if instance.nuggets:
        row["gold"] = {"nuggets": _nugget_rows(instance.nuggets)}
    return row


def _csv_row(to: Path, row: Mapping[str, Any]) -> bytes:
    gold = ""
    if "gold" in row:
        gold = orjson.dumps(row["gold"]).decode()
    cells = [row["id"], row["fused_query"], row["blurred_query"], gold]
    if "\0" in "".join(cells):
        problem = f"{row['id']} contains a NUL character, which CSV cannot hold; write it as .jsonl"
        raise UsageError(f"--to {to}: {problem}")
    return _csv_line(cells)


def _csv_line(cells: Sequence[str]) -> bytes:
    line = io.StringIO()
    # By default the csv module of Python 3.11 leaves a lone carriage return unquoted, and then refuses to read it.
    quoting: Literal[0, 1] = csv.QUOTE_MINIMAL
    if "\r" in "".join(cells):
        quoting = csv.QUOTE_ALL
    csv.writer(line, lineterminator="\n", quoting=quoting).writerow(cells)
    return line.getvalue().encode()
