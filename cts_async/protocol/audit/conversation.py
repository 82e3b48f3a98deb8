"""What the remembered replies of a conversation said, and every way in which they can have followed each other.

A turn may have been done again (after damage, or because a version before accepted less): then several
conversations can be told from its replies, and a request has to follow from one of them. How a conversation is
written into a request is written down here again, since the code that did it is what is audited.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeVar

import orjson

from cts_async.errors import UnusableOutput
from cts_async.llm.parsing import Expect, OneLine, QuestionList, ShortPhrase
from cts_async.llm.scheme_forms import Choice, Clarification, Clarified
from cts_async.protocol.results import Line

if TYPE_CHECKING:
    from typing import BinaryIO


# --- Journal


_HEAD: Final = re.compile(
    rb'\{"key":"[0-9a-f]{32}","ok":(?:true|false),"instance":"([^"\\]*)","step":"([^"\\]*)"[,}]'
)
"""How a line begins; what begins otherwise is parsed whole."""
_AUDITED: Final = re.compile(r"clarify(?:/\d+)?|(?:answer|select|reformulate)/\d+|rewrite|search/turn/\d+")
_AUDITED_BYTES: Final = re.compile(_AUDITED.pattern.encode())

Record = dict[str, Any]


class StepsByInstance:
    """The records of each instance of what somebody was told before or for the search, failed ones among them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damaged_lines: list[int] = []
        """Numbers of lines that are no records, found while indexing or reading."""
        self._hashes, self._offsets, self._numbers = array("q"), array("q"), array("q")
        if path.exists():
            with path.open("rb", buffering=1 << 20) as file:
                self._index(file)

    def _index(self, file: BinaryIO) -> None:
        offset = 0
        for number, line in enumerate(file, 1):
            place = self._place(line, number)
            if place is not None:
                self._hashes.append(hash(place))
                self._offsets.append(offset)
                self._numbers.append(number)
            offset += len(line)

    def _place(self, line: bytes, number: int) -> str | None:
        """The instance that an audited line belongs to; None for any other line."""
        head = _HEAD.match(line)
        if head is not None and line.endswith(b"}\n"):
            return head[1].decode(errors="replace") if _AUDITED_BYTES.fullmatch(head[2]) else None
        record = _read(line)
        if record is None:
            self.damaged_lines.append(number)
            return None
        return str(record["instance"]) if _AUDITED.fullmatch(str(record["step"])) else None

    def __iter__(self) -> Iterator[tuple[str, list[Record]]]:
        """Each instance with its records in the order of the journal, instances by their first record."""
        import numpy as np

        if not self._hashes:
            return
        hashes = np.frombuffer(self._hashes, np.int64)
        order = np.argsort(hashes, kind="stable")
        starts = np.flatnonzero(np.r_[True, np.diff(hashes[order]) != 0])
        ends = np.r_[starts[1:], len(order)]
        with self.path.open("rb") as file:
            for group in np.argsort(order[starts], kind="stable").tolist():
                yield from self._read_group(file, order[starts[group] : ends[group]].tolist())

    def _read_group(self, file: BinaryIO, rows: list[int]) -> Iterator[tuple[str, list[Record]]]:
        """The records in `rows`, which share a hash: those of one instance, but for a chance in 10^7."""
        found: dict[str, list[Record]] = {}
        for row in rows:
            file.seek(self._offsets[row])
            record = _read(file.readline())
            if record is None:
                self.damaged_lines.append(self._numbers[row])
            else:
                found.setdefault(str(record["instance"]), []).append(record)
        yield from found.items()


def _read(line: bytes) -> Record | None:
    """A whole line as a record; None for a damaged one."""
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    if not line.endswith(b"\n") or not isinstance(record, dict):
        return None
    return record if isinstance(record.get("instance"), str) and isinstance(record.get("step"), str) else None


# --- Replies


T = TypeVar("T")


@dataclass(slots=True)
class Dialogue:
    """Everything that was said about one instance."""

    questions: list[tuple[str, ...]] = field(default_factory=list)
    answers: dict[str, list[str]] = field(default_factory=dict)
    """By question."""
    rewrites: list[str] = field(default_factory=list)
    """What the agent may be asked to search."""
    pairs_of: dict[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    """Of each rewritten query, the pairs that its request held."""

    def texts(self) -> list[str]:
        """All questions and answers."""
        asked = [question for asked in self.questions for question in asked]
        return [*asked, *(answer for answers in self.answers.values() for answer in answers)]


def read_replies(records: Iterable[Record], k: int) -> Dialogue:
    """Read the remembered replies as the protocol does; one that it could not use counts as none."""
    said = Dialogue()
    for record in records:
        step = record["step"]
        if not record.get("ok"):
            continue
        if step == "clarify" and (questions := understood(record, QuestionList(k))):
            said.questions.append(questions)
        elif step == "rewrite" and (line := rewritten(record)):
            said.rewrites.append(line)
        elif step.startswith("answer/"):
            question = fields_of(record.get("request")).get("clarification_question")
            said.answers.setdefault(str(question), []).extend(answered(record))
    return said


def rewritten(record: Record) -> str | None:
    """The rewritten query that a record of the Rewriter remembers; None where it failed."""
    return understood(record, OneLine()) if record.get("ok") else None


def answered(record: Record) -> list[str]:
    """The answer that a record of the user remembers; none where it cannot be used.

    Two for one that nearly says `unknown`: version 0.6 and people's answers take it as it is.
    """
    readings = [understood(record, ShortPhrase(strict=strict)) for strict in (False, True)]
    return list(dict.fromkeys(answer.text for answer in readings if answer))


def fields_of(request: Any) -> dict[str, Any]:
    """A request's fields; none where it has no such thing."""
    fields = request.get("fields") if isinstance(request, dict) else None
    return fields if isinstance(fields, dict) else {}


def understood(record: Record, expect: Expect[T]) -> T | None:
    """A remembered reply as the protocol reads it; None where it cannot be used."""
    try:
        return expect.parse(str(record["response"]["text"]))
    except (UnusableOutput, KeyError, TypeError):
        return None


# --- Talk


OFFERED: Final = 5
"""Queries that a Clarifier offers at a turn of mode "select"."""
MAX_PATHS: Final = 256
"""Conversations that are followed where turns were done again and again."""

_WORDS: Final = (("Query", "Question", "Answer"), ("查询", "问题", "回答"))
_SELECTING: Final = (("Query", "Offered", "Chosen"), ("查询", "候选", "选择"))


@dataclass(frozen=True, slots=True)
class Scheme:
    """How a run's Clarifier was prompted, and how it talked with the user, by their names in the manifest."""

    scheme: str
    mode: Literal["at-once", "respond", "select"]
    k: int

    @property
    def prompt(self) -> str:
        """The role that the Clarifier's prompt has to have."""
        return self.scheme.replace("-", "_") + "_queries" * (self.mode == "select")

    @property
    def asked(self) -> int:
        """How many questions or queries the Clarifier is asked for at a turn."""
        return {"at-once": self.k, "respond": 1, "select": OFFERED}[self.mode]

    @property
    def turns(self) -> int:
        return 1 if self.mode == "at-once" else self.k

    def wanted(self, *, answered: bool) -> list[str]:
        """The steps of a whole conversation; questions that nobody `answered` are all of one asked at once."""
        turns = range(1, self.k + 1)
        if self.mode == "select":
            return [f"{role}/{turn}" for turn in turns for role in ("clarify", "select")]
        if self.mode == "respond":
            said = [f"{role}/{turn}" for turn in turns for role in ("clarify", "answer")]
            return [*said, f"reformulate/{self.k}"]
        return ["clarify/1", *([f"answer/{turn}" for turn in turns] + ["rewrite"] if answered else [])]

    @property
    def form(self) -> Clarification:
        what: Literal["questions", "queries"] = "queries" if self.mode == "select" else "questions"
        thinks = self.scheme in ("cot", "at-cot")
        return Clarification(self.asked, what, reasoning=thinks, types=self.scheme == "at-cot")


class Said(NamedTuple):
    """One turn: what was offered, what the user said to it, and in mode "select" which offer that was."""

    clarified: Clarified
    reply: str
    chosen: int | None = None


Conversation = tuple[Said, ...]


class Talk:
    """The replies of one instance, by turn."""

    def __init__(self, scheme: Scheme, q: str, records: Iterable[Record]) -> None:
        self.scheme, self.q = scheme, q
        self.offers: dict[int, list[Clarified]] = {}
        self.sums: dict[int, list[str]] = {}
        """The reformulator's replies."""
        self._answers: dict[int, dict[str, list[str]]] = {}
        self._choices: dict[int, list[Record]] = {}
        self._rewrites: list[str] = []
        for record in records:
            if record.get("ok"):
                self._read(record)

    def _read(self, record: Record) -> None:
        role, _, number = str(record["step"]).partition("/")
        turn = int(number) if number.isdecimal() else 0
        if role == "clarify" and (offer := understood(record, self.scheme.form)):
            self.offers.setdefault(turn, []).append(offer)
        elif role == "answer":
            question = str(fields_of(record.get("request")).get("clarification_question"))
            self._answers.setdefault(turn, {}).setdefault(question, []).extend(answered(record))
        elif role == "select":
            self._choices.setdefault(turn, []).append(record)
        elif role == "reformulate" and (line := rewritten(record)):
            self.sums.setdefault(turn, []).append(line)
        elif role == "rewrite" and (line := rewritten(record)):
            self._rewrites.append(line)

    @cached_property
    def dialogue(self) -> Dialogue:
        """Everything that was said, as the rules of a run without turns want it."""
        said = Dialogue(questions=[offer.offered for offers in self.offers.values() for offer in offers])
        for by_question in self._answers.values():
            for question, replies in by_question.items():
                said.answers.setdefault(question, []).extend(replies)
        said.rewrites = list(dict.fromkeys(self.searchable()))
        return said

    def searchable(self) -> list[str]:
        """What the agent may have been asked to search."""
        if self.scheme.mode == "respond":
            return self.sums.get(self.scheme.k, [])
        if self.scheme.mode == "select":
            return [path[-1].reply for path in self.paths(self.scheme.k)]
        return self._rewrites

    def summaries(self) -> list[tuple[str, str]]:
        """Every query that somebody made of what was said, with the step; none in mode "select".

        There the query is the Clarifier's, who was told nothing, and the user chose it.
        """
        if self.scheme.mode == "at-once":
            return [("rewrite", line) for line in self._rewrites]
        return [(f"reformulate/{turn}", line) for turn, lines in self.sums.items() for line in lines]

    def texts(self, turns: int) -> list[str]:
        """Whatever the Clarifier and the user said in the first `turns` turns."""
        offered = [
            text
            for turn, offers in self.offers.items()
            if turn <= turns
            for o in offers
            for text in o.offered
        ]
        replies = [
            reply
            for turn, asked in self._answers.items()
            if turn <= turns
            for given in asked.values()
            for reply in given
        ]
        return offered + replies

    def paths(self, turns: int) -> list[Conversation]:
        """The conversations of so many turns that the replies can have been; [()] for none yet."""
        paths: list[Conversation] = [()]
        for turn in range(1, turns + 1):
            if not paths:
                break
            paths = list(islice(((*path, said) for path in paths for said in self._said(turn)), MAX_PATHS))
        return paths

    def _said(self, turn: int) -> Iterator[Said]:
        for offer in self.offers.get(turn, ()):
            if self.scheme.mode == "select":
                for place in dict.fromkeys(self._chosen(turn, offer.offered)):
                    yield Said(offer, offer.offered[place], place)
            else:
                for reply in dict.fromkeys(self._answers.get(turn, {}).get(offer.offered[0], ())):
                    yield Said(offer, reply)

    def _chosen(self, turn: int, offered: tuple[str, ...]) -> Iterator[int]:
        for record in self._choices.get(turn, ()):
            place = understood(record, Choice(offered))
            if place is not None:
                yield place

    def told(self, turns: int) -> dict[str, list[Conversation]]:
        """By how a request may have shown it: the conversations of so many turns."""
        shown: dict[str, list[Conversation]] = {}
        for path in self.paths(turns):
            for words in _SELECTING if self.scheme.mode == "select" else _WORDS:
                shown.setdefault(_shown(self.q, path, words), []).append(path)
        return shown


def _shown(q: str, path: Conversation, words: tuple[str, str, str]) -> str:
    query, offered, replied = words
    lines = [f"{query}: {q}"]
    for turn, said in enumerate(path, 1):
        lines += [
            f"{offered} {turn}: {' | '.join(said.clarified.offered)}",
            f"{replied} {turn}: {said.reply}",
        ]
    return "\n".join(lines)


# --- The result


def follows(talk: Talk, line: Line) -> bool:
    """Whether a result's scheme, mode and turns, and the questions and answers taken from them, are the replies'."""
    scheme, turns = talk.scheme, line.get("turns")
    if (line.get("scheme"), line.get("mode")) != (scheme.scheme, scheme.mode) or not isinstance(turns, list):
        return False
    if not turns or not all(_is_turn(turn) for turn in turns):
        return False
    asked = [turn for turn in turns if turn.get("answers")]
    flat = (
        [q for turn in asked for q in turn.get("offered", [])],
        [a for turn in asked for a in turn["answers"]],
    )
    if (line.get("questions"), line.get("answers")) != flat:
        return False
    if line.get("rewritten_query", turns[-1].get("query")) != turns[-1].get("query"):
        return False
    if scheme.mode == "at-once":
        return len(turns) == 1 and _at_once(talk, turns[0])
    return any(_is(talk, path, turns) for path in talk.paths(scheme.k))


def _is_turn(turn: Any) -> bool:
    """Whether it has the shape of one."""
    return isinstance(turn, dict) and all(
        isinstance(turn.get(name, []), list) for name in ("offered", "answers")
    )


def _at_once(talk: Talk, turn: Mapping[str, Any]) -> bool:
    said, answers = talk.dialogue, turn.get("answers", [])
    if not any(_offers(turn, offer) for offer in talk.offers.get(1, ())):
        return False
    if not answers:
        return "query" not in turn
    pairs = zip(turn["offered"], answers, strict=False)
    given = len(answers) == len(turn["offered"]) and all(a in said.answers.get(q, ()) for q, a in pairs)
    return given and turn.get("query") in said.rewrites


def _is(talk: Talk, path: Conversation, turns: Sequence[Mapping[str, Any]]) -> bool:
    return len(path) == len(turns) and all(
        _offers(turn, said.clarified) and _replied(talk, number, said, turn)
        for number, (turn, said) in enumerate(zip(turns, path, strict=True), 1)
    )


def _offers(turn: Mapping[str, Any], offer: Clarified) -> bool:
    shown = (turn.get("offered"), turn.get("types", []), turn.get("reasoning", ""))
    return shown == (list(offer.offered), list(offer.types), offer.reasoning)


def _replied(talk: Talk, number: int, said: Said, turn: Mapping[str, Any]) -> bool:
    if talk.scheme.mode == "select":
        return (turn.get("chosen"), turn.get("query")) == (said.chosen, said.reply)
    sums = talk.sums.get(number, [])
    needed = number == talk.scheme.k or "query" in turn
    return turn.get("answers") == [said.reply] and (not needed or turn.get("query") in sums)
