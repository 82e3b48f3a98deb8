"""AmbigQA (Min et al., EMNLP 2020): ambiguous questions of NQ-open, and what each may mean, with its answers."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from cts_async.datasets.gold import GoldIndex, read_gold
from cts_async.datasets.io import parse_json, read_bytes
from cts_async.datasets.kinds import RUN_COMMANDS, Dataset, Kind, make_dataset
from cts_async.errors import InputError, UsageError
from cts_async.records import Instance, Nugget


def open_ambigqa(
    target: str, gold: Path | None, fields: Mapping[str, str], skip_bad_gold: bool = False
) -> Dataset:
    if not target:
        raise UsageError("ambigqa needs a path: ambigqa:PATH, a JSON file of the release (dev_light.json)")
    path = Path(target).expanduser()
    index = None if gold is None else read_gold(gold, fields, skip_bad=skip_bad_gold)
    return make_dataset("ambigqa", path, index, partial(read_ambigqa, path, index))


def read_ambigqa(path: Path, gold: GoldIndex | None = None) -> Iterator[Instance]:
    """Yield an instance for each meaning of each question; nuggets of a gold file replace its own answers."""
    for number, meanings in _questions(path):
        for position, (query, intent, aliases) in enumerate(meanings, 1):
            id = f"{number}-{position}"
            nuggets: tuple[Nugget, ...] = ()
            if gold is not None:
                nuggets = gold.lookup(id, intent) or ()
            yield Instance(id, intent, query, nuggets or (Nugget("answer", aliases, 3.0),))


def _questions(path: Path) -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """Yield the id of each question and its meanings: the question, what it means, and its answer's aliases."""
    rows = parse_json(path, read_bytes(path))
    if not isinstance(rows, list):
        raise InputError(path, "expected a list of questions")
    for position, row in enumerate(rows):
        field = f"[{position}]"
        if not isinstance(row, dict):
            raise InputError(path, "expected a question with id, question and annotations", field=field)
        query = _text(path, row, "question", field)
        meanings: dict[str, tuple[str, str, str]] = {}
        annotations = _objects(path, row, "annotations", field)
        for annotation, place in annotations:
            # Several people annotated the questions of the development set: each of their readings counts once.
            if annotation.get("type") == "singleAnswer":
                meanings.setdefault(query, (query, query, _aliases(path, annotation, place)))
                continue
            for pair, pair_place in _objects(path, annotation, "qaPairs", place):
                intent = _text(path, pair, "question", pair_place)
                meanings.setdefault(intent, (query, intent, _aliases(path, pair, pair_place)))
        yield _text(path, row, "id", field), list(meanings.values())


def _text(path: Path, row: Mapping[str, Any], name: str, field: str) -> str:
    text = row.get(name)
    if not isinstance(text, str) or not text.strip():
        raise InputError(path, "expected a text", field=f"{field}.{name}")
    return text.strip()


def _objects(
    path: Path, row: Mapping[str, Any], name: str, field: str
) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Yield the objects of a list, each with its place in the file."""
    place = f"{field}.{name}"
    objects = row.get(name)
    if not isinstance(objects, list):
        raise InputError(path, "expected a list", field=place)
    for position, value in enumerate(objects):
        if not isinstance(value, dict):
            raise InputError(path, "expected an object", field=f"{place}[{position}]")
        yield value, f"{place}[{position}]"


def _aliases(path: Path, row: Mapping[str, Any], field: str) -> str:
    aliases = row.get("answer")
    if not isinstance(aliases, list) or not aliases or not all(isinstance(alias, str) for alias in aliases):
        raise InputError(path, "expected a list of texts", field=f"{field}.answer")
    return " / ".join(aliases)


KIND = Kind(
    name="ambigqa",
    title="AmbigQA",
    what="ambiguous questions, what each may mean, and the short answers as one nugget",
    paper="Min et al., EMNLP 2020: AmbigQA: Answering Ambiguous Open-domain Questions",
    licence="CC BY-SA 3.0",
    source="https://nlp.cs.washington.edu/ambigqa/",
    spec="ambigqa:PATH",
    expects="a JSON file of the release, such as dev_light.json",
    uses=(RUN_COMMANDS,),
    open=open_ambigqa,
    position=60,
)
