"""The evidence of one instance: its journal records, and what their replies said.

A step may be recorded more than once, because it was repeated after damage. So every reading here returns all
possibilities, and a request has to follow from one of them. How a conversation is rendered into a request is written
down here a second time, because the code that rendered it is what is audited.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from math import inf
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeVar

import orjson

from cts_async.errors import UnusableOutput
from cts_async.llm.parsing import Choice, Clarification, Clarified, Expect, OneLine, QuestionList, ShortPhrase

T = TypeVar("T")

# --- Records

AUDITED: Final = re.compile(r"clarify(?:/\d+)?|(?:answer|select|reformulate)/\d+|rewrite|search/turn/\d+")
"""The steps that the audit reads."""

Record = dict[str, Any]


class RecordsByInstance:
    """The audited records of a journal, failed ones too, grouped by instance; records stay on disk until read."""

    def __init__(self, path: Path, audited: re.Pattern[str] = AUDITED) -> None:
        self.path = path
        self.damaged_lines: list[int] = []
        """Line numbers that hold no record."""
        self._offsets: dict[str, list[int]] = {}
        if path.exists():
            offset = 0
            with path.open("rb", buffering=1 << 20) as file:
                for number, line in enumerate(file, 1):
                    record = _parsed_line(line)
                    if record is None:
                        self.damaged_lines.append(number)
                    elif audited.fullmatch(record["step"]):
                        self._offsets.setdefault(record["instance"], []).append(offset)
                    offset += len(line)

    def __iter__(self) -> Iterator[tuple[str, list[Record]]]:
        """Yield each instance with its records in journal order, instances by their first record."""
        if not self._offsets:
            return
        with self.path.open("rb") as file:
            for instance, offsets in self._offsets.items():
                records = []
                for offset in offsets:
                    file.seek(offset)
                    record = _parsed_line(file.readline())
                    if record is not None:
                        records.append(record)
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


def view_of(request: Any) -> dict[str, Any]:
    """Return the view that a custom role was sent; {} if it was sent none."""
    view = request.get("view") if isinstance(request, dict) else None
    return view if isinstance(view, dict) else {}


def parsed_reply(record: Record, expect: Expect[T]) -> T | None:
    """Parse a recorded reply as the protocol does; None if the protocol could not use it."""
    try:
        return expect.parse(str(record["response"]["text"]))
    except (UnusableOutput, KeyError, TypeError):
        return None


def rewritten_query(record: Record) -> str | None:
    """Return the Rewriter's or reformulator's reply; None for a failed record."""
    return parsed_reply(record, OneLine()) if record.get("ok") else None


def _possible_answers(record: Record) -> list[str]:
    """Return the readings of a recorded answer; [] if it is unusable.

    Nearly `unknown` answers ("未说明") have two: a model's is read as unknown, a person's literally.
    """
    readings = [parsed_reply(record, ShortPhrase(strict=strict)) for strict in (False, True)]
    return list(dict.fromkeys(answer.text for answer in readings if answer))


# --- Replies

_SELECT_OFFERS: Final = 5
"""Queries that a Clarifier offers at a turn of mode "select"."""
_MAX_CONVERSATIONS: Final = 256
"""Repeated turns multiply; so many of the possible conversations are followed."""
_LABELS: Final = (("Query", "Question", "Answer"), ("查询", "问题", "回答"))
_SELECT_LABELS: Final = (("Query", "Offered", "Chosen"), ("查询", "候选", "选择"))


@dataclass(frozen=True, slots=True)
class RunScheme:
    """How a run's Clarifier was prompted and how it talked with the user, as named in the manifest."""

    scheme: str
    """ "cts" is the benchmark's own, and code of the user's; the others are AT-CoT's."""
    mode: Literal["at-once", "respond", "select"]
    k: int
    given: bool = False
    """True if a file gave the questions: there is no Clarifier."""
    stop_after: str = ""
    """The last stage of a run without a search: questions, answers or rewrite."""
    converses: bool = False
    """True for a conversation, whose manifest names scheme and mode."""

    @property
    def prompt(self) -> str:
        """The prompt that the Clarifier must have been given."""
        if not self.converses:
            return "clarify"
        return self.scheme.replace("-", "_") + "_queries" * (self.mode == "select")

    @property
    def offers_per_turn(self) -> int:
        """The number of questions or queries that the Clarifier is asked for at a turn."""
        return {"at-once": self.k, "respond": 1, "select": _SELECT_OFFERS}[self.mode]

    @property
    def steps(self) -> list[str]:
        """The steps of a whole conversation, until the query to search."""
        turns = range(1, self.k + 1)
        if self.mode == "select":
            return [f"{role}/{turn}" for turn in turns for role in ("clarify", "select")]
        if self.mode == "respond":
            steps = [f"{role}/{turn}" for turn in turns for role in ("clarify", "answer")]
            return [*steps, f"reformulate/{self.k}"]
        clarify = [] if self.given else ["clarify/1" if self.converses else "clarify"]
        answers = [f"answer/{turn}" for turn in turns if self.stop_after != "questions"]
        rewrite = ["rewrite"] if self.stop_after in ("", "rewrite") else []
        return [*clarify, *answers, *rewrite]

    def allows(self, step: str) -> bool:
        """True if a run may have this step; in mode "respond" it may reformulate after every turn."""
        role, turn = role_and_turn(step)
        reformulates = self.mode == "respond" and role == "reformulate" and 1 <= turn <= self.k
        return reformulates or step in self.steps

    def parse(self, record: Record) -> Clarified | None:
        """Parse a Clarifier's reply."""
        if not self.converses:
            questions = parsed_reply(record, QuestionList(self.k))
            return Clarified(questions) if questions else None
        what: Literal["questions", "queries"] = "queries" if self.mode == "select" else "questions"
        reasons = self.scheme in ("cot", "at-cot")
        form = Clarification(self.offers_per_turn, what, reasoning=reasons, types=self.scheme == "at-cot")
        return parsed_reply(record, form)


class AuditedTurn(NamedTuple):
    """One turn: what was offered, what the user replied, and in mode "select" the index of the chosen offer."""

    clarified: Clarified
    reply: str
    chosen: int | None = None


Conversation = tuple[AuditedTurn, ...]


class RecordedReplies:
    """The usable replies of one instance, by turn; given questions stand in the place of the Clarifier's."""

    def __init__(
        self, scheme: RunScheme, q: str, records: Iterable[Record], given: tuple[str, ...] = ()
    ) -> None:
        self.scheme, self.q = scheme, q
        self.offers: dict[int, list[Clarified]] = {1: [Clarified(given)]} if scheme.given else {}
        self.rewrites: dict[str, list[str]] = {}
        """Rewritten queries by step: "rewrite", "reformulate/2"."""
        self.pairs_of: dict[str, tuple[tuple[str, str], ...]] = {}
        """The (question, answer) pairs of the request that led to a rewritten query; the rules enter them."""
        self._answers: dict[int, dict[str, list[str]]] = {}
        self._choices: dict[int, list[Record]] = {}
        for record in records:
            if record.get("ok"):
                self._read(record)

    def _read(self, record: Record) -> None:
        step = str(record["step"])
        role, turn = role_and_turn(step)
        if role == "clarify" and (offer := self.scheme.parse(record)):
            self.offers.setdefault(turn, []).append(offer)
        elif role == "answer":
            request = record.get("request")
            question = str(
                fields_of(request).get("clarification_question") or view_of(request).get("question")
            )
            self._answers.setdefault(turn, {}).setdefault(question, []).extend(_possible_answers(record))
        elif role == "select":
            self._choices.setdefault(turn, []).append(record)
        elif role in ("rewrite", "reformulate") and (line := rewritten_query(record)):
            self.rewrites.setdefault(step, []).append(line)

    @property
    def questions(self) -> list[tuple[str, ...]]:
        """What each usable reply of the Clarifier offered."""
        return [offer.offered for offers in self.offers.values() for offer in offers]

    def answers(self, question: str) -> list[str]:
        """Return the recorded answers to a question, at whatever turn."""
        return [answer for given in self._answers.values() for answer in given.get(question, ())]

    def pairs(self) -> list[tuple[str, str]]:
        """Return every question with each of its recorded answers."""
        asked = [pair for given in self._answers.values() for pair in given.items()]
        return [(question, answer) for question, answers in asked for answer in answers]

    def search_queries(self) -> list[str]:
        """Return what the agent may have been asked to search."""
        if self.scheme.mode == "select":
            return [conversation[-1].reply for conversation in self.conversations(self.scheme.k)]
        return self.rewrites.get(self.scheme.steps[-1], [])

    def texts(self, turns: int | None = None) -> list[str]:
        """Return what the Clarifier and the user said, in the first `turns` turns or in all."""
        last = inf if turns is None else turns
        offers = [offer for turn, at_turn in self.offers.items() if turn <= last for offer in at_turn]
        answers = [given for turn, given in self._answers.items() if turn <= last]
        texts = [text for offer in offers for text in offer.offered]
        return texts + [reply for given in answers for replies in given.values() for reply in replies]

    def conversations(self, turns: int) -> list[Conversation]:
        """Return the conversations of `turns` turns that the replies can have been; [()] for 0 turns."""
        found: list[Conversation] = [()]
        for turn in range(1, turns + 1):
            if not found:
                break
            longer = ((*before, now) for before in found for now in self._turns(turn))
            found = list(islice(longer, _MAX_CONVERSATIONS))
        return found

    def _turns(self, turn: int) -> Iterator[AuditedTurn]:
        for offer in self.offers.get(turn, ()):
            if self.scheme.mode == "select":
                choices = [
                    parsed_reply(record, Choice(offer.offered)) for record in self._choices.get(turn, ())
                ]
                for chosen in dict.fromkeys(choice for choice in choices if choice is not None):
                    yield AuditedTurn(offer, offer.offered[chosen], chosen)
            else:
                for reply in dict.fromkeys(self._answers.get(turn, {}).get(offer.offered[0], ())):
                    yield AuditedTurn(offer, reply)

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


def role_and_turn(step: str) -> tuple[str, int]:
    """Return a step's role and turn: ("answer", 2) for "answer/2", ("clarify", 1) for "clarify"."""
    role, _, number = step.partition("/")
    return role, int(number) if number.isdecimal() else 1
