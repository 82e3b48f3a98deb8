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
                        max_asks, min_asks, replies    those of the run, where the agent may ask
    search/ask/n        one question, q* by its digest a question that the agent asked (`asking`)
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

AUDITED: Final = re.compile(
    r"clarify(?:/\d+)?|(?:answer|select|reformulate)/\d+|rewrite|search/(?:turn|ask)/\d+"
)
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
            self._index(audited)

    def _index(self, audited: re.Pattern[str]) -> None:
        """Note where the records of each instance start: the journal of a large run does not fit into memory."""
        offset = 0
        with self.path.open("rb", buffering=1 << 20) as file:
            for number, line in enumerate(file, 1):
                record = parsed_line(line)
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
                    record = parsed_line(file.readline())
                    if record is not None:
                        records.append(record)
                yield instance, records


def parsed_line(line: bytes) -> Record | None:
    """Return a whole line as a record; None for a damaged one."""
    try:
        record = foreign_json.loads(line)
    except ValueError:
        return None
    # A last line without its end is torn: the engine does not count it as recorded, either.
    if not line.endswith(b"\n") or not isinstance(record, dict):
        return None
    if not isinstance(record.get("instance"), str) or not isinstance(record.get("step"), str):
        return None
    return record


def dict_at(value: Any, key: str) -> dict[str, Any]:
    """Return the object under a key of a JSON value; {} if there is none: journals are untrusted input.

    Of a request, "fields" are those of its prompt, and "view" is what a custom role was sent.
    """
    if not isinstance(value, dict):
        return {}
    inner = value.get(key)
    return inner if isinstance(inner, dict) else {}


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
    answers, turns = line.get("answers"), line.get("turns")
    if isinstance(answers, list):
        texts += answers
    if isinstance(turns, list):
        texts += [turn.get("query") for turn in turns if isinstance(turn, dict)]
    return frozenset(text for text in texts if isinstance(text, str))


def rewritten_query(record: Record, passed_on: Collection[str] = ()) -> str | None:
    """Return the Rewriter's or reformulator's reply; None for a failed record.

    It has the marks of thoughts that version 0.11 left in it, if so it was `passed_on`.
    """
    if not record.get("ok"):
        return None
    with_marks = parsed_reply(record, OneLine(with_marks=True))
    if with_marks in passed_on:
        return with_marks
    return parsed_reply(record, OneLine())


def question_of(record: Record) -> str:
    """Return the question that a recorded answer was asked for."""
    request = record.get("request")
    in_prompt = dict_at(request, "fields").get("clarification_question")
    return str(in_prompt or dict_at(request, "view").get("question"))


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
# A conversation is rendered in the language of its query, which the audit does not guess: both are compared.
_LABELS: Final = (("Query", "Question", "Answer"), ("查询", "问题", "回答"))
_SELECT_LABELS: Final = (("Query", "Offered", "Chosen"), ("查询", "候选", "选择"))


@dataclass(frozen=True, slots=True)
class RunScheme:
    """How a run's Clarifier was prompted and how it talked with the user, as named in the manifest."""

    scheme: str
    """ "cts" is the benchmark's own, and code of the user's; the others are AT-CoT's."""
    mode: Literal["at-once", "respond", "select"]
    k: int
    has_given_questions: bool = False
    """True if a file gave the questions: there is no Clarifier."""
    stop_after: str = ""
    """The last stage of a run without a search: questions, answers or rewrite."""
    converses: bool = False
    """True for a conversation, whose manifest names scheme and mode."""
    rewrites: bool = True
    """False where the agent is given the answers themselves, at some turn."""

    @property
    def prompt(self) -> str:
        """The prompt that the Clarifier must have been given."""
        if not self.converses:
            return "clarify"
        prompt = self.scheme.replace("-", "_")
        # In mode "select" the Clarifier offers queries instead of questions, with a prompt of its own.
        return f"{prompt}_queries" if self.mode == "select" else prompt

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
            # A query is asked for after every turn only if the run says so; the last one is what is searched.
            return [*steps, f"reformulate/{self.k}"]
        steps = []
        if not self.has_given_questions:
            # A conversation numbers its turns even where it has one; the benchmark's own scheme asks once.
            steps.append("clarify/1" if self.converses else "clarify")
        if self.stop_after != "questions":
            steps += [f"answer/{turn}" for turn in turns]
        if self.rewrites and self.stop_after in ("", "rewrite"):
            steps.append("rewrite")
        return steps

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
        offer: Literal["questions", "queries"] = "queries" if self.mode == "select" else "questions"
        reasoning = self.scheme in ("cot", "at-cot")
        types = self.scheme == "at-cot"
        form = Clarification(self.offers_per_turn, offer, reasoning=reasoning, types=types)
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
        query: str,
        records: Iterable[Record],
        given_questions: tuple[str, ...] = (),
        passed_on: Collection[str] = (),
    ) -> None:
        """`passed_on` are the answers and rewritten queries of the result (`passed_on_texts`)."""
        self.scheme, self.query, self.passed_on = scheme, query, passed_on
        self.offers: dict[int, list[Clarified]] = {}
        if scheme.has_given_questions:
            self.offers[1] = [Clarified(given_questions)]
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
        if role == "clarify":
            offer = self.scheme.parse(record)
            if offer:
                self.offers.setdefault(turn, []).append(offer)
        elif role == "answer":
            answers = self._answers.setdefault(turn, {}).setdefault(question_of(record), [])
            answers.extend(possible_answers(record, self.passed_on))
        elif role == "select":
            # Parsed in `_turns`: a choice is a number, and what it means depends on the offer.
            self._choices.setdefault(turn, []).append(record)
        elif role in ("rewrite", "reformulate"):
            query = rewritten_query(record, self.passed_on)
            if query:
                self.rewrites.setdefault(step, []).append(query)

    @property
    def questions(self) -> list[tuple[str, ...]]:
        """What each usable reply of the Clarifier offered."""
        return [offer.offered for offers in self.offers.values() for offer in offers]

    def answers(self, question: str) -> list[str]:
        """Return the recorded answers to a question, at whatever turn."""
        texts = []
        for answers_by_question in self._answers.values():
            texts += answers_by_question.get(question, [])
        return texts

    def pairs(self) -> list[tuple[str, str]]:
        """Return every question with each of its recorded answers."""
        pairs = []
        for answers_by_question in self._answers.values():
            for question, answers in answers_by_question.items():
                pairs += [(question, answer) for answer in answers]
        return pairs

    def search_queries(self) -> list[str]:
        """Return what the agent may have been asked to search."""
        if self.scheme.mode == "select":
            return [conversation[-1].reply for conversation in self.conversations(self.scheme.k)]
        return self.rewrites.get(self.scheme.steps[-1], [])

    def texts(self, turns: int | None = None) -> list[str]:
        """Return what the Clarifier and the user said, in the first `turns` turns or in all."""
        limit = inf if turns is None else turns
        texts: list[str] = []
        for turn, offers in self.offers.items():
            if turn <= limit:
                for offer in offers:
                    texts += offer.offered
        for turn, answers_by_question in self._answers.items():
            if turn <= limit:
                for answers in answers_by_question.values():
                    texts += answers
        return texts

    def conversations(self, turns: int) -> list[Conversation]:
        """Return the conversations of `turns` turns that the replies can have been; [()] for 0 turns."""
        conversations: list[Conversation] = [()]
        for turn in range(1, turns + 1):
            continued = ((*before, reply) for before in conversations for reply in self._turns(turn))
            conversations = list(islice(continued, _MAX_CONVERSATIONS))
            if not conversations:
                break
        return conversations

    def _turns(self, turn: int) -> Iterator[AuditedTurn]:
        """Yield what turn number `turn` can have been."""
        for offer in self.offers.get(turn, ()):
            if self.scheme.mode == "select":
                for choice in self._possible_choices(turn, offer):
                    yield AuditedTurn(offer, offer.offered[choice], choice)
            else:
                answers = self._answers.get(turn, {}).get(offer.offered[0], ())
                for answer in dict.fromkeys(answers):
                    yield AuditedTurn(offer, answer)

    def _possible_choices(self, turn: int, offer: Clarified) -> list[int]:
        """Return the indices into the offer that the recorded choices of a turn can mean, each once."""
        choices: dict[int, None] = {}
        for record in self._choices.get(turn, ()):
            choice = parsed_reply(record, Choice(offer.offered))
            if choice is not None:
                choices[choice] = None
        return list(choices)

    def rendered(self, turns: int) -> dict[str, list[Conversation]]:
        """Return the conversations of `turns` turns by the text that a request may hold for them."""
        labels = _SELECT_LABELS if self.scheme.mode == "select" else _LABELS
        by_text: dict[str, list[Conversation]] = {}
        for conversation in self.conversations(turns):
            for query_label, offer_label, reply_label in labels:
                lines = [f"{query_label}: {self.query}"]
                for number, turn in enumerate(conversation, 1):
                    lines.append(f"{offer_label} {number}: {' | '.join(turn.clarified.offered)}")
                    lines.append(f"{reply_label} {number}: {turn.reply}")
                by_text.setdefault("\n".join(lines), []).append(conversation)
        return by_text


def role_and_turn(step: str) -> tuple[str, int]:
    """Return a step's role and turn: ("answer", 2) for "answer/2", ("clarify", 1) for "clarify".

    Of a question during the search, ("ask", 2) for "search/ask/2".
    """
    role, _, number = step.partition("/")
    if number.startswith("ask/"):
        role, _, number = number.partition("/")
    if not number.isdecimal():
        return role, 1
    return role, int(number)


# --- Custom roles

ROLES: Final[Mapping[str, RoleName]] = {
    "clarify": "clarifier",
    "answer": "answerer",
    "ask": "answerer",
    "rewrite": "rewriter",
    "reformulate": "rewriter",
    "search": "agent",
}
"""The role of each step that may be a custom role's, by the first word of its name."""
VIEWS: Final[Mapping[str, frozenset[str]]] = {
    "clarify": frozenset({"blurred_query", "k"}),
    "answer": frozenset({"question"}),
    "ask": frozenset({"question"}),
    "rewrite": frozenset({"blurred_query", "pairs"}),
    "reformulate": frozenset({"blurred_query", "pairs"}),
    "search": frozenset({"query"}),
}
"""The fields of its view, but for q*, of which the journal has the digest, and the `pairs` before a turn."""
_INNER: Final = r"/(?:llm/\d+|tool/\d+/(?:query|page)/\d+)"
_IDENTIFIER: Final = re.compile(r"[a-z_]{1,24}")
_INNER_STEP: Final = re.compile(
    rf"(clarify(?:/\d+)?|(?:answer|reformulate|search/ask)/\d+|rewrite|search){_INNER}"
)
_CUSTOM_STEPS: Final[Mapping[str, str]] = {
    "clarify": r"clarify(?:/\d+)?",
    "answer": r"answer/\d+",
    "ask": r"search/ask/\d+",
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
    labels: dict[RoleName, str] = {}
    for role in ROLES.values():
        player = dict_at(models, role)
        if "custom" in player:
            labels[role] = str(player.get("name"))
    return labels


def unproven(labels: Mapping[RoleName, str]) -> tuple[Unproven, ...]:
    """Return each player with its roles."""
    roles_by_label: dict[str, list[RoleName]] = {}
    for role, label in labels.items():
        roles_by_label.setdefault(label, []).append(role)
    return tuple(Unproven(label, tuple(roles)) for label, roles in roles_by_label.items())


def audited_steps(labels: Mapping[RoleName, str]) -> re.Pattern[str]:
    """Return the pattern of the steps to audit in a run with these custom roles."""
    patterns = [_CUSTOM_STEPS[step] for step, role in ROLES.items() if role in labels]
    if not patterns:
        return AUDITED
    return re.compile(rf"{AUDITED.pattern}|(?:{'|'.join(patterns)})(?:{_INNER})?")


def asking_step(step: str) -> str | None:
    """Return the step in which `step` asked a model or a tool; None if it is no such question."""
    match = _INNER_STEP.fullmatch(step)
    return match[1] if match else None


def asked_texts(request: Any) -> Iterator[str]:
    """Yield what a question to a model or a tool says; not what a tool replied to the model before."""
    match request:
        case {"messages": list(messages), **parameters}:
            written = []
            for message in messages:
                # What a search found may well contain what q* asks for.
                is_tool_reply = isinstance(message, dict) and message.get("role") == "tool"
                if not is_tool_reply:
                    written.append(message)
            yield from texts_in([written, parameters])
        case _:
            # Addresses hold their query percent-encoded.
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

    n_instances: Counter[str] = field(default_factory=Counter)
    """Instances in which each step asked a model or a tool."""
    singles: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Instances whose questions in a step have a unit, by (step, unit); `pairs` likewise."""
    pairs: Counter[tuple[str, tuple[str, str]]] = field(default_factory=Counter)

    def read(self, instances: Iterable[Iterable[Record]], intents: Iterable[str]) -> None:
        """Count in how many instances a step's questions have each unit, and each pair, of any intent."""
        # Only units of intents are counted: all that a prompt says would fill the memory.
        intent_units, intent_pairs = set[str](), set[tuple[str, str]]()
        for intent in intents:
            units = unit_texts(intent)
            intent_units.update(units)
            intent_pairs.update(pairwise(units))
        for records in instances:
            # Sets: an instance counts once, however often it asks.
            steps: set[str] = set()
            singles: set[tuple[str, str]] = set()
            pairs: set[tuple[str, tuple[str, str]]] = set()
            for record in records:
                step = asking_step(str(record["step"]))
                if step is None:
                    continue
                steps.add(step)
                for text in asked_texts(record.get("request")):
                    units = unit_texts(text)
                    singles.update((step, unit) for unit in units if unit in intent_units)
                    pairs.update((step, pair) for pair in pairwise(units) if pair in intent_pairs)
            self.n_instances.update(steps)
            self.singles.update(singles)
            self.pairs.update(pairs)

    def without(self, secret: Secret, step: str) -> Secret:
        """Return what of a secret is not in the own prompt of this step."""
        # Two at least: what one instance alone was sent is no prompt.
        least = max(2, _SHARED * self.n_instances[step])
        return Secret(
            frozenset(unit for unit in secret.singles if self.singles[step, unit] < least),
            frozenset(pair for pair in secret.pairs if self.pairs[step, pair] < least),
        )

    def tells(self, span: str, step: str) -> bool:
        """Return whether a piece of q* says enough to be a finding."""
        return self.n_instances[step] >= _FEW or len(unit_texts(span)) >= _LONG
