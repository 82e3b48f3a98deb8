"""What the protocol allows each request to hold, and what a request holds beyond that.

    clarify         {q, k}                          q as the data has it
    answer/i        {question i}, q* by its digest  a question that the Clarifier's reply has, and only one; the
                                                    answers of people: see `people`
    rewrite         {q, pairs}                      exactly the questions asked and the answers remembered
    search/turn/1   {question, date}                exactly the Rewriter's reply; q for orig, q* for gold
    search/turn/n   names of earlier steps          nothing else, but for the sentence that demands an answer

A step may have been done again (after damage, or because a version before accepted less): each request must
follow from *some* remembered replies. Tool responses are no text of ours: they are evidence that a search
for q-hat found, and may well hold what q* asks for.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from cts_async.datasets.annotations import HumanPairs
from cts_async.engine.step import step_key
from cts_async.protocol.audit.conversation import (
    Conversation,
    Dialogue,
    Record,
    Scheme,
    Talk,
    fields_of,
    rewritten,
)
from cts_async.protocol.audit.text import Secret
from cts_async.records import UNKNOWN

# --- Findings


Level = Literal["leak", "provenance", "missing", "unsupported"]

VIOLATIONS: Final[frozenset[Level]] = frozenset({"leak", "provenance", "missing"})
"""What breaks the closed book, or leaves it unproven. An unsupported constraint is the Rewriter's own."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that should not be. `instance` is "" where it concerns the whole run, `step` where no step.

    leak: text that occurs only in q*. provenance: a request that is not what the protocol makes of the
    remembered replies. missing: a step, or a query, without which nothing can be proved. unsupported: a
    constraint in a rewritten query that no answer elicited. `text` is the piece of text concerned.
    """

    level: Level
    instance: str
    step: str
    problem: str
    text: str = ""

    @property
    def violates(self) -> bool:
        return self.level in VIOLATIONS


class Queries(NamedTuple):
    """An instance's intent q* and its underspecified query q."""

    fused: str
    blurred: str


# --- People


People = Mapping[str, HumanPairs]
"""What people answered, by instance."""


class Wrong(NamedTuple):
    """What is wrong with an answer, and the text concerned."""

    level: Level
    problem: str
    text: str = ""


def wrong_with(record: Record, pairs: HumanPairs | None) -> Iterator[Wrong]:
    """All that is wrong with the record of an answer. `pairs` are the instance's, None where nothing knows them."""
    request = record.get("request")
    if set(request or ()) != {"fields"} or set(fields_of(request)) != {"clarification_question"}:
        yield Wrong("provenance", "its request holds more than the question", str(request))
    if pairs is None:
        yield Wrong("missing", "what people answered about it is nowhere: name the data with --data")
        return
    reply: Any = record.get("response")
    said = reply if isinstance(reply, dict) else {}
    text, matched = said.get("text"), said.get("question")
    if record.get("ok") and text != UNKNOWN and (matched, text) not in pairs:
        problem = "nobody gave this answer to the question that it was matched with"
        yield Wrong("provenance", problem, str(text))


# --- Rules


Kind = Literal["clarify", "orig", "gold"]

DEMANDS: Final = frozenset(
    {
        "Answer with the facts above, inside <answer></answer>. No tool calls are left.",
        "请根据以上信息作答，写在<answer></answer>中。不能再调用工具。",
    }
)
"""What an agent whose budget is spent may be told; an auditor has its own copy, and a test compares them."""

_STEP_NAME: Final = re.compile(r"search(?:/(?:[a-z]{1,12}|\d[\d.]*))*/\d[\d.]*")
_IDENTIFIER: Final = re.compile(r"[a-z_]{1,24}")
_LABEL: Final = re.compile(r"^(?:Question|Answer|问题|回答) \d+: ?", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Book:
    """What is the same for all instances of a run."""

    kind: Kind
    k: int
    current_date: str
    prompts: Collection[str]
    """Names of the prompts that the manifest vouches for."""
    vocabulary: Collection[str]
    """The prompts' words."""
    people: People | None = None
    """Whose answers take the User Answerer's place in this run; None: a model's."""
    scheme: Scheme | None = None
    """Of a run that converses; None for the benchmark's own."""
    searches: bool = True
    """Whether its queries were searched."""


class Rules:
    """Checks the requests of one instance."""

    def __init__(self, book: Book, instance: str, queries: Queries, dialogue: Dialogue) -> None:
        self._book, self._instance, self._queries, self._said = book, instance, queries, dialogue
        q_star = queries.fused
        self._before = Secret.of(q_star, [queries.blurred], book.vocabulary)
        """What of q* the Clarifier must not have."""
        elicited = [queries.blurred, *dialogue.texts()]
        self._after = Secret.of(q_star, elicited, book.vocabulary)
        """What of q* the Rewriter must not have."""
        # What the rewritten query adds is the Rewriter's doing, and judged as such.
        self._agent = Secret.of(q_star, [*elicited, *dialogue.rewrites], book.vocabulary)

    def check(self, record: Record) -> Iterator[Finding]:
        """All that is wrong with a record's request."""
        step = str(record["step"])
        request = record.get("request")
        if not isinstance(request, dict):
            yield self._finding("provenance", step, "its request is not on record")
        else:
            yield from self._of_step(step, request, record)

    def _of_step(self, step: str, request: Mapping[str, Any], record: Record) -> Iterator[Finding]:
        if step == "clarify":
            yield from self._clarify(step, request)
        elif step.startswith("answer/"):
            yield from self._answer(step, request, record)
        elif step == "rewrite":
            yield from self._rewrite(step, request, rewritten(record))
        elif step == "search/turn/1":
            yield from self._opening(step, request)
        else:
            yield from self._turn(step, request)

    def _clarify(self, step: str, request: Mapping[str, Any]) -> Iterator[Finding]:
        q, k = self._queries.blurred, str(self._book.k)
        yield from self._form(step, request, "clarify", {"blurred_query", "k"})
        fields = fields_of(request)
        if fields.get("blurred_query") != q:
            yield self._finding("provenance", step, "blurred_query is not that of the data")
        if fields.get("k") != k:
            yield self._finding("provenance", step, f"k is {fields.get('k')!r}, the run's is {k}")
        yield from self._leaks(step, request, self._before, {"k": k})

    def _answer(self, step: str, request: Mapping[str, Any], record: Record) -> Iterator[Finding]:
        if self._book.people is None:
            yield from self._answer_of_model(step, request)
        else:
            yield from self._answer_of_people(step, record, self._book.people)
        question, turn = fields_of(request).get("clarification_question"), int(step.removeprefix("answer/"))
        if not any(turn <= len(asked) and asked[turn - 1] == question for asked in self._said.questions):
            problem = f"it was not asked exactly question {turn} of the Clarifier's reply"
            yield self._finding("provenance", step, problem, str(question))

    def _answer_of_people(self, step: str, record: Record, people: People) -> Iterator[Finding]:
        for wrong in wrong_with(record, people.get(self._instance)):
            yield self._finding(wrong.level, step, wrong.problem, wrong.text)

    def _answer_of_model(self, step: str, request: Mapping[str, Any]) -> Iterator[Finding]:
        q_star, names = self._queries.fused, {"clarification_question"}
        if "on_record" in request:
            sees_intent = request["on_record"] == step_key({"clear_query": q_star})[:16]
        else:  # as journals were written before they took digests
            names.add("clear_query")
            sees_intent = fields_of(request).get("clear_query") == q_star
        yield from self._form(step, request, "answer", names, on_record=True)
        if not sees_intent:
            yield self._finding("provenance", step, "what it saw beside the question is not q* alone")

    def _rewrite(self, step: str, request: Mapping[str, Any], q_hat: str | None) -> Iterator[Finding]:
        yield from self._form(step, request, "rewrite", {"blurred_query", "qa_pairs"})
        fields = fields_of(request)
        if fields.get("blurred_query") != self._queries.blurred:
            yield self._finding("provenance", step, "blurred_query is not that of the data")
        pairs = self._pairs(str(fields.get("qa_pairs")))
        if pairs is None:
            yield self._finding("provenance", step, "qa_pairs is not exactly what was asked and answered")
        elif q_hat is not None:
            self._said.pairs_of[q_hat] = pairs
        yield from self._leaks(step, request, self._after, {})

    def _opening(self, step: str, request: Mapping[str, Any]) -> Iterator[Finding]:
        allowed = {
            "clarify": self._said.rewrites,
            "orig": [self._queries.blurred],
            "gold": [self._queries.fused],
        }[self._book.kind]
        fields = fields_of(request)
        yield from self._form(step, request, "agent", {"question", "current_date"}, more=True)
        if fields.get("question") not in allowed:
            whose = {
                "clarify": "the Rewriter's reply" if self._book.scheme is None else "the last turn's",
                "orig": "q",
                "gold": "q*",
            }[self._book.kind]
            yield self._finding("provenance", step, f"the agent's question is not {whose}")
        if fields.get("current_date") != self._book.current_date:
            yield self._finding("provenance", step, "current_date is not the run's")
        if self._book.kind != "gold":
            yield from self._leaks(step, request, self._agent, {"current_date": self._book.current_date})
        beyond = {name: value for name, value in request.items() if name not in ("prompt", "fields")}
        yield from self._foreign(step, _free_texts(beyond))

    def _turn(self, step: str, request: Mapping[str, Any]) -> Iterator[Finding]:
        free = list(_free_texts(request))
        yield from self._foreign(step, free)
        if free and self._book.kind != "gold":
            yield from self._leaks(step, free, self._agent, {})

    def _form(
        self,
        step: str,
        request: Mapping[str, Any],
        role: str,
        names: set[str],
        *,
        on_record: bool = False,
        more: bool = False,
    ) -> Iterator[Finding]:
        """The role's prompt, exactly its fields, and nothing under a digest but where one is due.

        With `more`, further keys are allowed: what stands there is checked as a later turn's.
        """
        prompt, fields = str(request.get("prompt")), request.get("fields")
        if prompt not in self._book.prompts or prompt.split(".")[0] != role:
            yield self._finding(
                "provenance", step, f"its prompt {prompt!r} is no prompt of this role and run"
            )
        if (
            not isinstance(fields, dict)
            or set(fields) != names
            or not all(isinstance(value, str) for value in fields.values())
        ):
            given = ", ".join(sorted(fields)) if isinstance(fields, dict) else "none"
            wanted = ", ".join(sorted(names))
            yield self._finding("provenance", step, f"its fields are not exactly {wanted}", given)
        beyond = sorted(set(request) - {"prompt", "fields"} - ({"on_record"} if on_record else set()))
        if beyond and not more:
            yield self._finding(
                "provenance", step, "its request holds more than prompt and fields", ", ".join(beyond)
            )

    def _pairs(self, text: str) -> tuple[tuple[str, str], ...] | None:
        """The pairs that `text` renders, if they are questions of one reply with answers given to each."""
        for questions in self._said.questions:
            for asked, answered in (("Question", "Answer"), ("问题", "回答")):
                answers = self._match(text, questions, asked, answered, 1)
                if answers is not None:
                    return tuple(zip(questions, answers, strict=True))
        return None

    def _match(
        self, text: str, questions: Sequence[str], asked: str, answered: str, turn: int
    ) -> tuple[str, ...] | None:
        """The answers to `questions` from number `turn` on, as `text` gives them; None where it does not."""
        if turn > len(questions):
            return () if not text else None
        question = questions[turn - 1]
        for answer in self._said.answers.get(question, ()):
            rendered = f"{asked} {turn}: {question}\n{answered} {turn}: {answer}"
            rest = text.removeprefix(rendered)
            if text.startswith(rendered) and rest.startswith("\n") == (turn < len(questions)):
                later = self._match(rest[1:], questions, asked, answered, turn + 1)
                if later is not None:
                    return (answer, *later)
        return None

    def _foreign(self, step: str, texts: Iterable[str]) -> Iterator[Finding]:
        for text in texts:
            yield self._finding("provenance", step, "its request holds free text", text)

    def _leaks(self, step: str, request: Any, secret: Secret, known: Mapping[str, str]) -> Iterator[Finding]:
        """Text that occurs only in q*. `known` are fields whose value is the run's, whatever q* says."""
        spans: dict[str, None] = {}
        for name, text in _strings(request):
            if known.get(name) != text and name != "prompt":
                for piece in self._pieces(text):
                    spans.update(dict.fromkeys(secret.spans(piece)))
        for span in spans:
            yield self._finding("leak", step, "its request holds text that occurs only in q*", span)

    def _pieces(self, text: str) -> list[str]:
        """Line by line: the end of a question and the beginning of its answer are no neighbours."""
        return _LABEL.sub("", text).split("\n")

    def _finding(self, level: Level, step: str, problem: str, text: str = "") -> Finding:
        return Finding(level, self._instance, step, problem, text)


def _free_texts(value: Any) -> Iterator[str]:
    """What stands in a JSON value beside numbers, names of steps and the demand to answer."""
    for _, text in _strings(value):
        if text not in DEMANDS and not _STEP_NAME.fullmatch(text):
            yield text


def _strings(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """All texts in a JSON value, each with the name of its field; a name that is no identifier is a text too."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            if not _IDENTIFIER.fullmatch(key):
                yield "", key
            yield from _strings(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner, name)


# --- Talk rules


_TURN_LABEL: Final = re.compile(
    r"^(?:(?:Question|Answer|Offered|Chosen|问题|回答|候选|选择) \d+: ?|(?:Query|查询): ?|\d+\. )",
    re.MULTILINE,
)
_NEIGHBOURS: Final = re.compile(r"\n| \| ")
_NOT_SAID: Final = "its conversation is not exactly what was said before"


class TalkRules(Rules):
    """Checks the requests of one instance of a run that converses."""

    def __init__(self, book: Book, instance: str, queries: Queries, talk: Talk) -> None:
        super().__init__(book, instance, queries, talk.dialogue)
        self._talk, self._scheme = talk, talk.scheme
        self._secrets: dict[int, Secret] = {}

    def _of_step(self, step: str, request: Mapping[str, Any], record: Record) -> Iterator[Finding]:
        role, _, number = step.partition("/")
        turn = int(number) if number.isdecimal() else 0
        turns = self._scheme.turns if role != "answer" else self._scheme.k
        if role in ("clarify", "answer", "select", "reformulate") and not 1 <= turn <= turns:
            yield self._finding("provenance", step, "there is no such turn in this run")
        if role == "clarify":
            yield from self._clarify_turn(step, request, turn)
        elif role == "answer" and self._scheme.mode == "respond":
            yield from self._respond(step, request, record, turn)
        elif role == "select":
            yield from self._select(step, request, turn)
        elif role == "reformulate":
            yield from self._reformulate(step, request, turn, rewritten(record))
        else:
            yield from super()._of_step(step, request, record)

    def _clarify_turn(self, step: str, request: Mapping[str, Any], turn: int) -> Iterator[Finding]:
        k, fields = str(self._scheme.asked), fields_of(request)
        yield from self._form(step, request, self._scheme.prompt, {"blurred_query", "conversation", "k"})
        if fields.get("k") != k:
            yield self._finding("provenance", step, f"k is {fields.get('k')!r}, a turn of this run has {k}")
        paths = yield from self._said_before(step, fields, turn)
        if fields.get("blurred_query") not in self._standing(paths or self._talk.paths(turn - 1)):
            whose = (
                "the one chosen last" if self._scheme.mode == "select" and turn > 1 else "that of the data"
            )
            yield self._finding("provenance", step, f"blurred_query is not {whose}")
        yield from self._leaks(step, request, self._until(turn - 1), {"k": k})

    def _standing(self, paths: list[Conversation]) -> set[str]:
        """The query as it stands after these conversations."""
        if self._scheme.mode != "select":
            return {self._queries.blurred}
        return {path[-1].reply if path else self._queries.blurred for path in paths}

    def _respond(self, step: str, request: Mapping[str, Any], record: Record, turn: int) -> Iterator[Finding]:
        fields = fields_of(request)
        if self._book.people is not None:  # they were asked one question, whatever came before
            yield from self._answer_of_people(step, record, self._book.people)
        else:
            yield from self._user(step, request, "respond", "clarification_question")
            yield from self._said_before(step, fields, turn)
        question = fields.get("clarification_question")
        if not any(offer.offered == (question,) for offer in self._talk.offers.get(turn, ())):
            problem = f"it was not asked exactly the question of turn {turn}"
            yield self._finding("provenance", step, problem, str(question))

    def _select(self, step: str, request: Mapping[str, Any], turn: int) -> Iterator[Finding]:
        yield from self._user(step, request, "select_query", "offered_queries")
        fields = fields_of(request)
        yield from self._said_before(step, fields, turn)
        offers = [
            "\n".join(f"{n}. {query}" for n, query in enumerate(offer.offered, 1))
            for offer in self._talk.offers.get(turn, ())
        ]
        if fields.get("offered_queries") not in offers:
            problem = f"offered_queries is not exactly what the Clarifier offered at turn {turn}"
            yield self._finding("provenance", step, problem)

    def _reformulate(
        self, step: str, request: Mapping[str, Any], turn: int, query: str | None
    ) -> Iterator[Finding]:
        yield from self._form(step, request, "reformulate", {"conversation"})
        paths = yield from self._said_before(step, fields_of(request), turn + 1)
        if query is not None and paths:
            self._said.pairs_of[query] = tuple((said.clarified.offered[0], said.reply) for said in paths[0])
        yield from self._leaks(step, request, self._until(turn), {})

    def _user(self, step: str, request: Mapping[str, Any], role: str, shown: str) -> Iterator[Finding]:
        """A request to the user: q* by its digest, the conversation and what is put to them now."""
        yield from self._form(step, request, role, {shown, "conversation"}, on_record=True)
        if request.get("on_record") != step_key({"clear_query": self._queries.fused})[:16]:
            yield self._finding("provenance", step, "what it saw beside the conversation is not q* alone")

    def _said_before(self, step: str, fields: Mapping[str, Any], turn: int) -> Any:
        """Finds a conversation that is not the one before turn `turn`; gives those that it may be."""
        paths: list[Conversation] = self._talk.told(turn - 1).get(str(fields.get("conversation")), [])
        if not paths:
            yield self._finding("provenance", step, _NOT_SAID)
        return paths

    def _until(self, turns: int) -> Secret:
        """What of q* nobody but the user may have after so many turns."""
        if turns not in self._secrets:
            told = [self._queries.blurred, *self._talk.texts(turns)]
            self._secrets[turns] = Secret.of(self._queries.fused, told, self._book.vocabulary)
        return self._secrets[turns]

    def _pieces(self, text: str) -> list[str]:
        """What one side said at one time: the end of an offer and the beginning of the next are no neighbours."""
        return _NEIGHBOURS.split(_TURN_LABEL.sub("", text))
