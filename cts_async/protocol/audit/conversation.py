"""The evidence of one instance: its journal records, and what their replies said.

A step may be recorded more than once: it was repeated after damage, or because an earlier version accepted less.
So every reading here returns all possibilities, and a request has to follow from one of them. How a conversation
is rendered into a request is written down here a second time, because the code that rendered it is what is audited.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeVar

import orjson

from cts_async.errors import UnusableOutput
from cts_async.llm.parsing import Choice, Clarification, Clarified, Expect, OneLine, QuestionList, ShortPhrase
from cts_async.protocol.results import Line

if TYPE_CHECKING:
    from typing import BinaryIO

T = TypeVar("T")

# --- Records

# The first fields of a journal line stand in a fixed order. Most lines are not audited (tool results, judgements)
# and are recognised by these bytes alone; a line with another beginning is parsed as a whole.
_HEAD: Final = re.compile(
    rb'\{"key":"[0-9a-f]{32}","ok":(?:true|false),"instance":"([^"\\]*)","step":"([^"\\]*)"[,}]'
)
_AUDITED: Final = re.compile(r"clarify(?:/\d+)?|(?:answer|select|reformulate)/\d+|rewrite|search/turn/\d+")
_AUDITED_BYTES: Final = re.compile(_AUDITED.pattern.encode())

Record = dict[str, Any]


class RecordsByInstance:
    """The audited records of a journal, failed ones too, grouped by instance; records stay on disk until read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damaged_lines: list[int] = []
        """Line numbers that hold no record, found while indexing or reading."""
        self._places: dict[str, list[tuple[int, int]]] = {}
        """(line number, byte offset) of an instance's records."""
        if path.exists():
            with path.open("rb", buffering=1 << 20) as file:
                self._index(file)

    def _index(self, file: BinaryIO) -> None:
        offset = 0
        for number, line in enumerate(file, 1):
            instance = self._audited_instance(line, number)
            if instance is not None:
                self._places.setdefault(instance, []).append((number, offset))
            offset += len(line)

    def _audited_instance(self, line: bytes, number: int) -> str | None:
        """Return the instance that an audited line belongs to; None for any other line."""
        head = _HEAD.match(line)
        if head is not None and line.endswith(b"}\n"):
            return head[1].decode(errors="replace") if _AUDITED_BYTES.fullmatch(head[2]) else None
        record = _parsed_line(line)
        if record is None:
            self.damaged_lines.append(number)
            return None
        return str(record["instance"]) if _AUDITED.fullmatch(str(record["step"])) else None

    def __iter__(self) -> Iterator[tuple[str, list[Record]]]:
        """Yield each instance with its records in journal order, instances by their first record."""
        if not self._places:
            return
        with self.path.open("rb") as file:
            for instance, places in self._places.items():
                records = []
                for number, offset in places:
                    file.seek(offset)
                    record = _parsed_line(file.readline())
                    if record is None:
                        self.damaged_lines.append(number)
                    else:
                        records.append(record)
                if records:
                    yield instance, records


def _parsed_line(line: bytes) -> Record | None:
    """Return a whole line as a record; None for a damaged one."""
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    if not line.endswith(b"\n") or not isinstance(record, dict):
        return None
    return record if isinstance(record.get("instance"), str) and isinstance(record.get("step"), str) else None


def fields_of(request: Any) -> dict[str, Any]:
    """Return a request's prompt fields; {} if it has none."""
    fields = request.get("fields") if isinstance(request, dict) else None
    return fields if isinstance(fields, dict) else {}


def parsed_reply(record: Record, expect: Expect[T]) -> T | None:
    """Parse a recorded reply as the protocol does; None if the protocol could not use it."""
    try:
        return expect.parse(str(record["response"]["text"]))
    except (UnusableOutput, KeyError, TypeError):
        return None


def rewritten_query(record: Record) -> str | None:
    """Return the Rewriter's or reformulator's reply; None for a failed record."""
    return parsed_reply(record, OneLine()) if record.get("ok") else None


def possible_answers(record: Record) -> list[str]:
    """Return the readings of a recorded answer; [] if it is unusable.

    Nearly `unknown` answers ("未说明") have two: 0.7 reads them as unknown, 0.6 and people's answers literally.
    """
    readings = [parsed_reply(record, ShortPhrase(strict=strict)) for strict in (False, True)]
    return list(dict.fromkeys(answer.text for answer in readings if answer))


# --- Replies of the benchmark's own scheme


@dataclass(slots=True)
class Replies:
    """Everything that was said about one instance."""

    questions: list[tuple[str, ...]] = field(default_factory=list)
    """One entry for each usable reply of the Clarifier."""
    answers: dict[str, list[str]] = field(default_factory=dict)
    """By question."""
    rewrites: list[str] = field(default_factory=list)
    """Queries that the agent may be asked to search."""
    pairs_of: dict[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    """The (question, answer) pairs of the request that led to a rewritten query."""

    def texts(self) -> list[str]:
        """Return all questions and answers."""
        questions = [question for reply in self.questions for question in reply]
        return [*questions, *(answer for answers in self.answers.values() for answer in answers)]


def read_replies(records: Iterable[Record], k: int) -> Replies:
    """Read the recorded replies as the protocol does; unusable ones are left out."""
    replies = Replies()
    for record in records:
        step = record["step"]
        if not record.get("ok"):
            continue
        if step == "clarify" and (questions := parsed_reply(record, QuestionList(k))):
            replies.questions.append(questions)
        elif step == "rewrite" and (line := rewritten_query(record)):
            replies.rewrites.append(line)
        elif step.startswith("answer/"):
            question = fields_of(record.get("request")).get("clarification_question")
            replies.answers.setdefault(str(question), []).extend(possible_answers(record))
    return replies


# --- Conversations (schemes and modes of AT-CoT)

_SELECT_OFFERS: Final = 5
"""Queries that a Clarifier offers at a turn of mode "select"."""
_MAX_CONVERSATIONS: Final = 256
"""Repeated turns multiply; so many of the possible conversations are followed."""
_LABELS: Final = (("Query", "Question", "Answer"), ("查询", "问题", "回答"))
_SELECT_LABELS: Final = (("Query", "Offered", "Chosen"), ("查询", "候选", "选择"))


@dataclass(frozen=True, slots=True)
class Scheme:
    """How a run's Clarifier was prompted and how it talked with the user, as named in the manifest."""

    scheme: str
    mode: Literal["at-once", "respond", "select"]
    k: int

    @property
    def prompt(self) -> str:
        """The prompt that the Clarifier must have been given."""
        return self.scheme.replace("-", "_") + "_queries" * (self.mode == "select")

    @property
    def offers_per_turn(self) -> int:
        """The number of questions or queries that the Clarifier is asked for at a turn."""
        return {"at-once": self.k, "respond": 1, "select": _SELECT_OFFERS}[self.mode]

    @property
    def turns(self) -> int:
        return 1 if self.mode == "at-once" else self.k

    def expected_steps(self, *, answered: bool) -> list[str]:
        """Return the steps of a whole conversation; `answered` is False if nobody answered (mode "at-once")."""
        turns = range(1, self.k + 1)
        if self.mode == "select":
            return [f"{role}/{turn}" for turn in turns for role in ("clarify", "select")]
        if self.mode == "respond":
            steps = [f"{role}/{turn}" for turn in turns for role in ("clarify", "answer")]
            return [*steps, f"reformulate/{self.k}"]
        return ["clarify/1", *([f"answer/{turn}" for turn in turns] + ["rewrite"] if answered else [])]

    @property
    def reply_form(self) -> Clarification:
        what: Literal["questions", "queries"] = "queries" if self.mode == "select" else "questions"
        reasons = self.scheme in ("cot", "at-cot")
        return Clarification(self.offers_per_turn, what, reasoning=reasons, types=self.scheme == "at-cot")


class Turn(NamedTuple):
    """One turn: what was offered, what the user replied, and in mode "select" the index of the chosen offer."""

    clarified: Clarified
    reply: str
    chosen: int | None = None


Conversation = tuple[Turn, ...]


class TurnReplies:
    """The replies of one instance whose run converses, by turn."""

    def __init__(self, scheme: Scheme, q: str, records: Iterable[Record]) -> None:
        self.scheme, self.q = scheme, q
        self.offers: dict[int, list[Clarified]] = {}
        self.reformulations: dict[int, list[str]] = {}
        self._answers: dict[int, dict[str, list[str]]] = {}
        self._choices: dict[int, list[Record]] = {}
        self._rewrites: list[str] = []
        for record in records:
            if record.get("ok"):
                self._read(record)

    def _read(self, record: Record) -> None:
        role, _, number = str(record["step"]).partition("/")
        turn = int(number) if number.isdecimal() else 0
        if role == "clarify" and (offer := parsed_reply(record, self.scheme.reply_form)):
            self.offers.setdefault(turn, []).append(offer)
        elif role == "answer":
            question = str(fields_of(record.get("request")).get("clarification_question"))
            self._answers.setdefault(turn, {}).setdefault(question, []).extend(possible_answers(record))
        elif role == "select":
            self._choices.setdefault(turn, []).append(record)
        elif role == "reformulate" and (line := rewritten_query(record)):
            self.reformulations.setdefault(turn, []).append(line)
        elif role == "rewrite" and (line := rewritten_query(record)):
            self._rewrites.append(line)

    @cached_property
    def replies(self) -> Replies:
        """All replies without their turns, as the rules of the benchmark's own scheme need them."""
        replies = Replies(questions=[offer.offered for offers in self.offers.values() for offer in offers])
        for by_question in self._answers.values():
            for question, answers in by_question.items():
                replies.answers.setdefault(question, []).extend(answers)
        replies.rewrites = list(dict.fromkeys(self._search_queries()))
        return replies

    def _search_queries(self) -> list[str]:
        """Return what the agent may have been asked to search."""
        if self.scheme.mode == "respond":
            return self.reformulations.get(self.scheme.k, [])
        if self.scheme.mode == "select":
            return [conversation[-1].reply for conversation in self.conversations(self.scheme.k)]
        return self._rewrites

    def rewritten_queries(self) -> list[tuple[str, str]]:
        """Return (step, query) for each query made of what was said.

        None in mode "select": there the Clarifier, who knows no answers, wrote the query, and the user chose it.
        """
        if self.scheme.mode == "at-once":
            return [("rewrite", line) for line in self._rewrites]
        return [
            (f"reformulate/{turn}", line) for turn, lines in self.reformulations.items() for line in lines
        ]

    def texts(self, turns: int) -> list[str]:
        """Return what the Clarifier and the user said in the first `turns` turns."""
        offers = [offer for turn, at_turn in self.offers.items() if turn <= turns for offer in at_turn]
        answers = [by_question for turn, by_question in self._answers.items() if turn <= turns]
        said = [text for offer in offers for text in offer.offered]
        said += [reply for by_question in answers for replies in by_question.values() for reply in replies]
        return said

    def conversations(self, turns: int) -> list[Conversation]:
        """Return the conversations of `turns` turns that the replies can have been; [()] for 0 turns."""
        found: list[Conversation] = [()]
        for turn in range(1, turns + 1):
            if not found:
                break
            longer = ((*before, now) for before in found for now in self._turns(turn))
            found = list(islice(longer, _MAX_CONVERSATIONS))
        return found

    def _turns(self, turn: int) -> Iterator[Turn]:
        for offer in self.offers.get(turn, ()):
            if self.scheme.mode == "select":
                choices = [
                    parsed_reply(record, Choice(offer.offered)) for record in self._choices.get(turn, ())
                ]
                for chosen in dict.fromkeys(choice for choice in choices if choice is not None):
                    yield Turn(offer, offer.offered[chosen], chosen)
            else:
                for reply in dict.fromkeys(self._answers.get(turn, {}).get(offer.offered[0], ())):
                    yield Turn(offer, reply)

    def rendered(self, turns: int) -> dict[str, list[Conversation]]:
        """Return the conversations of `turns` turns by the text that a request may hold for them."""
        labels = _SELECT_LABELS if self.scheme.mode == "select" else _LABELS
        by_text: dict[str, list[Conversation]] = {}
        for conversation in self.conversations(turns):
            for query, offered, replied in labels:
                lines = [f"{query}: {self.q}"]
                for number, turn in enumerate(conversation, 1):
                    lines.append(f"{offered} {number}: {' | '.join(turn.clarified.offered)}")
                    lines.append(f"{replied} {number}: {turn.reply}")
                by_text.setdefault("\n".join(lines), []).append(conversation)
        return by_text


# --- The result of a conversation


def result_follows(said: TurnReplies, line: Line) -> bool:
    """True if a result's scheme, mode, turns, questions and answers are those of the recorded replies."""
    scheme, turns = said.scheme, line.get("turns")
    if (line.get("scheme"), line.get("mode")) != (scheme.scheme, scheme.mode) or not isinstance(turns, list):
        return False
    if not turns or not all(_is_turn(turn) for turn in turns):
        return False
    answered = [turn for turn in turns if turn.get("answers")]
    questions = [question for turn in answered for question in turn.get("offered", [])]
    answers = [answer for turn in answered for answer in turn["answers"]]
    if (line.get("questions"), line.get("answers")) != (questions, answers):
        return False
    if line.get("rewritten_query", turns[-1].get("query")) != turns[-1].get("query"):
        return False
    if scheme.mode == "at-once":
        return len(turns) == 1 and _at_once_follows(said, turns[0])
    return any(_is_conversation(said, conversation, turns) for conversation in said.conversations(scheme.k))


def _is_turn(turn: Any) -> bool:
    """True if it has the shape of a turn; results are untrusted input."""
    return isinstance(turn, dict) and all(
        isinstance(turn.get(name, []), list) for name in ("offered", "answers")
    )


def _at_once_follows(said: TurnReplies, turn: Mapping[str, Any]) -> bool:
    replies, answers = said.replies, turn.get("answers", [])
    if not any(_is_offer(turn, offer) for offer in said.offers.get(1, ())):
        return False
    if not answers:
        return "query" not in turn
    pairs = zip(turn["offered"], answers, strict=False)
    recorded = all(answer in replies.answers.get(question, ()) for question, answer in pairs)
    return len(answers) == len(turn["offered"]) and recorded and turn.get("query") in replies.rewrites


def _is_conversation(
    said: TurnReplies, conversation: Conversation, turns: Sequence[Mapping[str, Any]]
) -> bool:
    return len(conversation) == len(turns) and all(
        _is_offer(line, turn.clarified) and _is_reply(said, number, turn, line)
        for number, (line, turn) in enumerate(zip(turns, conversation, strict=True), 1)
    )


def _is_offer(line: Mapping[str, Any], offer: Clarified) -> bool:
    recorded = (line.get("offered"), line.get("types", []), line.get("reasoning", ""))
    return recorded == (list(offer.offered), list(offer.types), offer.reasoning)


def _is_reply(said: TurnReplies, number: int, turn: Turn, line: Mapping[str, Any]) -> bool:
    if said.scheme.mode == "select":
        return (line.get("chosen"), line.get("query")) == (turn.chosen, turn.reply)
    needs_query = number == said.scheme.k or "query" in line
    reformulations = said.reformulations.get(number, [])
    return line.get("answers") == [turn.reply] and (not needs_query or line.get("query") in reformulations)
