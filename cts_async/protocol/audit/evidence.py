"""The evidence of one instance: its journal records, and what their replies said.

A step may be recorded more than once, because it was repeated after damage. So every reading here returns all
possibilities, and a request has to follow from one of them. How a conversation is rendered into a request is written
down here a second time, because the code that rendered it is what is audited.

Custom roles: which of their steps are audited, and what their models and tools may be asked.

    step                request                        checked against
    clarify             its view: q, k                 as for a model
    answer/i            question i, q* by its digest   as for a model
    rewrite             q, pairs                       as for a model
    clarify/t           q, k, pairs                    what was asked and answered before turn t
    answer/t            question, pairs, q*            the question of clarify/t after those pairs
    reformulate/t       q, pairs                       what was asked and answered until then
    search              its query                      the Rewriter's reply; q for orig, q* for gold
    STEP/llm/n          messages and parameters        no text that occurs only in q*
    STEP/tool/n/...     a query or an address          no text that occurs only in q*

The User Answerer, and the agent of the system gold, may tell their models what they like: they know q*. For the others,
text of q* is no finding if a recorded reply to the same instance has it (a model's, or what a search found), or if the
role's messages have it for other instances too: then it is a part of the role's own prompt. That the code behind a
custom role asks nobody else cannot be proved from the journal.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice, pairwise
from math import inf
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeVar
from urllib.parse import unquote

from cts_async import foreign_json
from cts_async.custom import RoleName
from cts_async.errors import UnusableOutput
from cts_async.llm.parsing import Choice, Clarification, Clarified, Expect, OneLine, QuestionList, ShortPhrase
from cts_async.protocol.audit.text import Secret, unit_texts

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
        record = foreign_json.loads(line)
    except ValueError:
        return None
    if not line.endswith(b"\n") or not isinstance(record, dict):
        return None
    return record if isinstance(record.get("instance"), str) and isinstance(record.get("step"), str) else None


def fields_of(request: Any, part: Literal["fields", "view"] = "fields") -> dict[str, Any]:
    """Return a request's prompt fields, or the view that a custom role was sent; {} if it has none."""
    fields = request.get(part) if isinstance(request, dict) else None
    return fields if isinstance(fields, dict) else {}


def parsed_reply(record: Record, expect: Expect[T]) -> T | None:
    """Parse a recorded reply as the protocol does; None if the protocol could not use it."""
    try:
        return expect.parse(str(record["response"]["text"]))
    except (UnusableOutput, KeyError, TypeError):
        return None


def passed_on_texts(line: Mapping[str, Any] | None) -> frozenset[str]:
    """Return the answers and rewritten queries of a result; the empty set without one."""
    if line is None:
        return frozenset()
    texts = [line.get("rewritten_query")]
    if isinstance(answers := line.get("answers"), list):
        texts += answers
    if isinstance(turns := line.get("turns"), list):
        for turn in turns:
            texts.append(fields_of({"view": turn}, "view").get("query"))
    return frozenset(text for text in texts if isinstance(text, str))


def rewritten_query(record: Record, passed_on: Collection[str] = ()) -> str | None:
    """Return the Rewriter's or reformulator's reply; None for a failed record.

    It has the marks of thoughts that version 0.11 left in it, if so it was `passed_on`.
    """
    if not record.get("ok"):
        return None
    with_marks = parsed_reply(record, OneLine(with_marks=True))
    return with_marks if with_marks in passed_on else parsed_reply(record, OneLine())


def question_of(record: Record) -> str:
    """Return the question that a recorded answer was asked for."""
    request = record.get("request")
    asked = fields_of(request).get("clarification_question")
    return str(asked or fields_of(request, "view").get("question"))


def possible_answers(record: Record, passed_on: Collection[str] = ()) -> list[str]:
    """Return the readings of a recorded answer; [] if it is unusable.

    Nearly `unknown` answers ("未说明") have several: a model's is read as unknown, a person's, and any in a run as
    published, literally. Marks of thoughts, which version 0.11 left in answers, are in a reading only if it was
    `passed_on`: else thoughts would count as said, and what is leaked of them would not be found.
    """
    forms = (ShortPhrase(), ShortPhrase(strict=True), ShortPhrase(exact=True))
    readings = [parsed_reply(record, form) for form in forms]
    with_marks = parsed_reply(record, ShortPhrase(strict=True, with_marks=True))
    if with_marks and with_marks.text in passed_on:
        readings.append(with_marks)
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
        self,
        scheme: RunScheme,
        q: str,
        records: Iterable[Record],
        given: tuple[str, ...] = (),
        passed_on: Collection[str] = (),
    ) -> None:
        """`passed_on` are the answers and rewritten queries of the result (`passed_on_texts`)."""
        self.scheme, self.q, self.passed_on = scheme, q, passed_on
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
            answers = self._answers.setdefault(turn, {}).setdefault(question_of(record), [])
            answers.extend(possible_answers(record, self.passed_on))
        elif role == "select":
            self._choices.setdefault(turn, []).append(record)
        elif role in ("rewrite", "reformulate") and (line := rewritten_query(record, self.passed_on)):
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


# --- Custom roles

ROLES: Final[Mapping[str, RoleName]] = {
    "clarify": "clarifier",
    "answer": "answerer",
    "rewrite": "rewriter",
    "reformulate": "rewriter",
    "search": "agent",
}
"""The role of each step that may be a custom role's, by the first word of its name."""
VIEWS: Final[Mapping[str, frozenset[str]]] = {
    "clarify": frozenset({"blurred_query", "k"}),
    "answer": frozenset({"question"}),
    "rewrite": frozenset({"blurred_query", "pairs"}),
    "reformulate": frozenset({"blurred_query", "pairs"}),
    "search": frozenset({"query"}),
}
"""The fields of its view, but for q*, of which the journal has the digest, and the `pairs` before a turn."""
_INNER: Final = r"/(?:llm/\d+|tool/\d+/(?:query|page)/\d+)"
_IDENTIFIER: Final = re.compile(r"[a-z_]{1,24}")
_IS_INNER: Final = re.compile(rf"(clarify(?:/\d+)?|(?:answer|reformulate)/\d+|rewrite|search){_INNER}")
_OWN_STEP: Final[Mapping[str, str]] = {
    "clarify": r"clarify(?:/\d+)?",
    "answer": r"answer/\d+",
    "rewrite": "rewrite",
    "reformulate": r"reformulate/\d+",
    "search": "search",
}
_SHARED: Final = 0.25
"""Text in the messages for so many of the instances is the role's own prompt."""
_FEW: Final = 4
"""Instances below which a role's own prompt cannot be told apart: then only long pieces of q* are found."""
_LONG: Final = 4
"""Units of a long piece."""


class Unproven(NamedTuple):
    """A player that is code, and the roles that it plays."""

    label: str
    roles: tuple[RoleName, ...]

    def __str__(self) -> str:
        roles = ", ".join(self.roles)
        return f"not proven: {self.label} is code of yours and may call out by itself (plays: {roles})"


def custom_labels(models: Mapping[str, Any]) -> dict[RoleName, str]:
    """Return the labels of the custom roles among the models that a manifest names, by role."""
    found = {role: models.get(role) for role in ROLES.values()}
    return {
        role: str(one.get("name")) for role, one in found.items() if isinstance(one, dict) and "custom" in one
    }


def unproven(labels: Mapping[RoleName, str]) -> tuple[Unproven, ...]:
    """Return each player with its roles."""
    return tuple(
        Unproven(label, tuple(role for role, its in labels.items() if its == label))
        for label in dict.fromkeys(labels.values())
    )


def audited_steps(labels: Mapping[RoleName, str]) -> re.Pattern[str]:
    """Return the pattern of the steps to audit in a run with these custom roles."""
    own = [_OWN_STEP[first] for first, role in ROLES.items() if role in labels]
    return re.compile(rf"{AUDITED.pattern}|(?:{'|'.join(own)})(?:{_INNER})?") if own else AUDITED


def asking_step(step: str) -> str | None:
    """Return the step in which `step` asked a model or a tool; None if it is no such question."""
    found = _IS_INNER.fullmatch(step)
    return found[1] if found else None


def asked_texts(request: Any) -> Iterator[str]:
    """Yield what a question to a model or a tool says; not what a tool replied to the model before."""
    match request:
        case {"messages": list(messages), **others}:
            written = [
                message
                for message in messages
                if not (isinstance(message, dict) and message.get("role") == "tool")
            ]
            yield from texts_in([written, others])
        case _:
            yield from map(unquote, texts_in(request))


def texts_in(value: Any) -> Iterator[str]:
    """Yield every text in a JSON value, and what texts of JSON hold."""
    for _, text in named_texts(value):
        yield text
        if text[:1] in ("{", "["):
            with suppress(ValueError, RecursionError):
                yield from texts_in(foreign_json.loads(text))


def named_texts(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield (field name, text) for each text in a JSON value; a name that is no identifier counts as a text."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            if not _IDENTIFIER.fullmatch(key):
                yield "", key
            yield from named_texts(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from named_texts(inner, name)


@dataclass(slots=True)
class OwnPrompts:
    """Text of the intents that custom roles send for many instances: it stands in their own prompts."""

    n: Counter[str] = field(default_factory=Counter)
    """Instances in which each step asked a model or a tool."""
    singles: Counter[tuple[str, str]] = field(default_factory=Counter)
    pairs: Counter[tuple[str, tuple[str, str]]] = field(default_factory=Counter)

    def read(self, instances: Iterable[Iterable[Record]], intents: Iterable[str]) -> None:
        """Count in how many instances a step's questions have each unit, and each pair, of any intent."""
        units, pairs = set[str](), set[tuple[str, str]]()
        for intent in intents:
            found = unit_texts(intent)
            units.update(found)
            pairs.update(pairwise(found))
        for records in instances:
            singles_here, pairs_here, steps = set(), set(), set()
            for record in records:
                if (own := asking_step(str(record["step"]))) is None:
                    continue
                steps.add(own)
                for text in asked_texts(record.get("request")):
                    found = unit_texts(text)
                    singles_here |= {(own, unit) for unit in found if unit in units}
                    pairs_here |= {(own, pair) for pair in pairwise(found) if pair in pairs}
            self.n.update(steps)
            self.singles.update(singles_here)
            self.pairs.update(pairs_here)

    def without(self, secret: Secret, step: str) -> Secret:
        """Return what of a secret is not in the own prompt of this step."""
        least = max(2, _SHARED * self.n[step])
        return Secret(
            frozenset(unit for unit in secret.singles if self.singles[step, unit] < least),
            frozenset(pair for pair in secret.pairs if self.pairs[step, pair] < least),
        )

    def tells(self, span: str, step: str) -> bool:
        """Return whether a piece of q* says enough to be a finding."""
        return self.n[step] >= _FEW or len(unit_texts(span)) >= _LONG
