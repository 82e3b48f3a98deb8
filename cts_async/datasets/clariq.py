"""ClariQ (Aliannejadi et al., EMNLP 2021) as pairs of queries: the request is ambiguous, its facet is the intent.

An instance is a facet, not a row: blurred = `initial_request`, fused = `facet_desc`, id = `facet_id`. The release is
known to have 1,070; 539 have a clarification need of 3 or 4 and suit the benchmark best, 77 have need 1 and are a
negative control: `clariq:PATH,need=3-4` and `clariq:PATH,need=1` keep those. No test checks these counts, since the
data's repository names no licence and users bring it; `cts data clariq figures` does.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

from cts_async.datasets.annotations import AnnotatedQuery, Annotations
from cts_async.datasets.clariq_rows import NEEDS, NO_QUESTION, ClariqRow, read_clariq
from cts_async.datasets.dataset import Dataset, make_dataset
from cts_async.datasets.fields import short
from cts_async.datasets.gold import GoldIndex, read_gold
from cts_async.errors import InputError, UsageError
from cts_async.records import Instance

FILES: Final = ("train.tsv", "dev.tsv", "test_with_labels.tsv")
"""The release's files that have facets."""
COLUMNS: Final = ("topic_id", "initial_request", "facet_id", "facet_desc")
_CHOICE: Final = re.compile(r"(.+),need=(.*)", re.DOTALL)
_RANGE: Final = re.compile(r"([1-4])(?:-([1-4]))?")


@dataclass(slots=True)
class Topic:
    """A request, and what people were asked about it. `need` is None where the file has no labels."""

    id: str
    request: str
    need: int | None
    path: Path
    """The file it stands in."""
    questions: dict[str, str] = field(default_factory=dict)
    """Texts by id in file order, that of no question among them."""


@dataclass(slots=True)
class Facet:
    """An intent behind a topic's request, and what people who had it answered."""

    id: str
    topic_id: str
    description: str
    pairs: list[tuple[str, str]] = field(default_factory=list)
    """(question, answer) in file order; one question may have several answers, and no question is no pair."""


@dataclass(slots=True)
class Clariq:
    """Topics and facets by id, in the order in which the files first mention them."""

    topics: dict[str, Topic] = field(default_factory=dict)
    facets: dict[str, Facet] = field(default_factory=dict)
    n_rows: int = 0
    """Of facet, question and answer: the release calls them single-turn conversations."""
    rewordings: dict[str, ClariqRow] = field(default_factory=dict)
    """By topic id the first row whose request differs from the topic's; the release has one such topic, 260."""

    @property
    def notes(self) -> tuple[str, ...]:
        """One notice that says where a topic has a second request text; none where no topic has."""
        if not self.rewordings:
            return ()
        id, row = next(iter(self.rewordings.items()))
        more = f" ({len(self.rewordings)} topics have several)" if len(self.rewordings) > 1 else ""
        return (
            f"{row.path}:{row.line}: topic {short(id)} has a second request text; the first is used{more}",
        )

    def add(self, row: ClariqRow) -> None:
        """Take a row in, with the topic's first request text. InputError where it contradicts an earlier one."""
        topic = self.topics.setdefault(row.topic_id, Topic(row.topic_id, row.request, row.need, row.path))
        if topic.path != row.path:
            problem = f"topic {short(row.topic_id)} stands in {topic.path} already"
            raise InputError(row.path, problem, line=row.line, field="topic_id")
        if topic.need != row.need:
            problem = f"topic {short(row.topic_id)} stands earlier with another clarification_need"
            raise InputError(row.path, problem, line=row.line, field="clarification_need")
        if topic.request != row.request:
            self.rewordings.setdefault(row.topic_id, row)
        if row.facet_id:
            topic.questions[row.question_id] = row.question
            self._add_pair(row)

    def _add_pair(self, row: ClariqRow) -> None:
        self.n_rows += 1
        facet = self.facets.setdefault(row.facet_id, Facet(row.facet_id, row.topic_id, row.facet_desc))
        if (facet.topic_id, facet.description) != (row.topic_id, row.facet_desc):
            problem = f"facet {short(row.facet_id)} stands earlier with another topic or facet_desc"
            raise InputError(row.path, problem, line=row.line, field="facet_id")
        if row.question_id != NO_QUESTION:
            facet.pairs.append((row.question, row.answer))


def read_collection(paths: Sequence[Path]) -> Clariq:
    """Read files with or without labels. InputError for what contradicts itself, and for a file without rows."""
    found = Clariq()
    for path in paths:
        row = None
        bare: set[str] = set()
        for row in read_clariq(path):
            if not row.facet_id and row.topic_id in bare:
                raise InputError(path, f"{short(row.topic_id)} stands twice", line=row.line, field="topic_id")
            bare.add(row.topic_id)
            found.add(row)
        if row is None:
            raise InputError(path, "holds no topics", field="topic_id")
    return found


def clariq_files(path: Path) -> tuple[Path, ...]:
    """A file as it is; of a directory those of `FILES` that are there, or in its `data/`. InputError if none is."""
    if not path.is_dir():
        return (path,)
    for folder in (path, path / "data"):
        if found := tuple(folder / name for name in FILES if (folder / name).exists()):
            return found
    raise InputError(path, f"holds none of {', '.join(FILES)}")


def open_clariq(
    target: str, gold: Path | None, fields: Mapping[str, str], skip_bad_gold: bool = False
) -> Dataset:
    """`clariq:PATH` or `clariq:PATH,need=3-4`: a TSV with labels, or the folder of the release. It has no gold."""
    text, needs = _chosen(target)
    if not text:
        raise UsageError("clariq needs a path: clariq:PATH, a TSV with labels or the folder with train.tsv")
    paths = clariq_files(Path(text).expanduser())
    index = None if gold is None else read_gold(gold, fields, skip_bad=skip_bad_gold)
    name = "clariq" if needs == NEEDS else f"clariq-need{'-'.join(map(str, sorted({needs[0], needs[-1]})))}"
    found = read_collection(paths)
    made = make_dataset(
        name,
        paths[0],
        index,
        partial(_instances, found, paths[0], index, needs),
        annotations=partial(_annotations, found),
    )
    return replace(made, more_paths=paths[1:], notes=(*found.notes, *made.notes))


def _chosen(target: str) -> tuple[str, tuple[int, ...]]:
    """The path, and the clarification needs to keep. A file that is called so is a file."""
    match = _CHOICE.fullmatch(target)
    if match is None or Path(target).expanduser().exists():
        return target, NEEDS
    found = _RANGE.fullmatch(match[2])
    needs = tuple(need for need in NEEDS if found and int(found[1]) <= need <= int(found[2] or found[1]))
    if not needs:
        raise UsageError(
            f"clariq:...,need={match[2]}: must be a need from 1 to 4, or two of them as in need=3-4"
        )
    return match[1], needs


def _instances(
    found: Clariq, path: Path, gold: GoldIndex | None, needs: Collection[int]
) -> Iterator[Instance]:
    """The facets of topics with one of `needs`, in file order. InputError, about `path`, where there are none."""
    facets = [facet for facet in found.facets.values() if found.topics[facet.topic_id].need in needs]
    if not facets:
        kept = "" if needs == NEEDS else f" of clarification need {', '.join(map(str, needs))}"
        raise InputError(path, f"has no facets{kept}; {', '.join(FILES)} have them", field="facet_id")
    if gold is not None:
        gold.require_join(path, COLUMNS, ((facet.id, facet.description) for facet in facets))
    for facet in facets:
        nuggets = gold.lookup(facet.id, facet.description) if gold is not None else None
        request = found.topics[facet.topic_id].request
        yield Instance(facet.id, facet.description, request, nuggets or ())


def _annotations(found: Clariq) -> Annotations:
    """Requests with their needs and questions; (question, answer) pairs by facet.

    Topics with the same request are one query: its questions are theirs together, its need that of the first.
    """
    questions: dict[str, dict[str, None]] = {}
    first: dict[str, Topic] = {}
    for topic in found.topics.values():
        first.setdefault(topic.request, topic)
        asked = questions.setdefault(topic.request, {})
        asked.update((text, None) for id, text in topic.questions.items() if id != NO_QUESTION)
    queries = {
        request: AnnotatedQuery(topic.id, request, tuple(questions[request]), topic.need)
        for request, topic in first.items()
    }
    return Annotations(queries, {id: tuple(facet.pairs) for id, facet in found.facets.items()})
