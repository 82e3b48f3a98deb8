"""What the protocol allows each request to contain, and what a recorded request contains beyond that.

    step              fields of the request              checked against
    clarify           {q, k}                             q as in the data
    answer/i          {question i}, q* by its digest     exactly one question, from the Clarifier's reply;
                                                         people's answers: one that they gave, or unknown
    rewrite           {q, pairs}                         exactly the questions asked and the answers recorded
    search/turn/1     {question, date}                   the Rewriter's reply; q for orig, q* for gold
    search/turn/n     names of earlier steps             nothing else, except the demand for an answer

Runs that converse (AT-CoT's schemes and modes):

    clarify/t         {query, conversation, k}           the current query, and what was offered and said before
    answer/t          {question, conversation},          a question of clarify/t after that conversation
                      q* by its digest
    select/t          {offered, conversation},           exactly the queries of clarify/t
                      q* by its digest
    reformulate/t     {conversation}                     exactly what was asked and answered until then
    search/turn/1     {question, date}                   the last reformulation or choice

Runs with given questions have no `clarify`: each answer/i is to question i of the file; with given rewritten queries
search/turn/1 has that of the file. A run that stops after a stage has no later steps.

A custom role gets the same as its view, without a prompt (`evidence`).

A step may be recorded more than once (repeated after damage): each request must follow from *some* recorded
replies. Tool responses are not checked for q*: they are what a search for q-hat found, and may well contain what q*
asks for.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, product
from typing import Any, Final, Literal, NamedTuple

from cts_async.custom import RoleName
from cts_async.datasets.kinds import HumanPairs
from cts_async.engine.step import step_key
from cts_async.llm.parsing import Clarified
from cts_async.protocol.audit.evidence import (
    ROLES,
    VIEWS,
    AuditedTurn,
    Conversation,
    OwnPrompts,
    Record,
    RecordedReplies,
    RunScheme,
    asked_texts,
    asking_step,
    fields_of,
    named_texts,
    passed_on_texts,
    possible_answers,
    question_of,
    rewritten_query,
    role_and_turn,
    texts_in,
)
from cts_async.protocol.audit.text import Secret, additions, disclosure, mark_of_thoughts
from cts_async.records import UNKNOWN
from cts_async.runs.results import Line, answered, failed

Level = Literal["leak", "provenance", "missing", "unsupported"]

VIOLATIONS: Final[frozenset[Level]] = frozenset({"leak", "provenance", "missing"})
"""Levels that break the closed book, or leave it unproven. An unsupported constraint is the Rewriter's own."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem. `instance` is "" if it concerns the whole run, `step` is "" if it concerns no step.

    leak: text that occurs only in q*, or an answer that gives away what was not asked for. provenance: a request that
    the protocol does not make of the recorded replies, or thoughts in the place of an answer. missing: a step, or a
    query, without which nothing can be proved. unsupported: a constraint in a rewritten query that no answer elicited.
    `text` is the text concerned.
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

    intent: str
    query: str


HumanAnswers = Mapping[str, HumanPairs]
"""The (question, answer) pairs of people, by instance."""

DEMANDS: Final = frozenset(
    {
        "Answer with the facts above, inside <answer></answer>. No tool calls are left.",
        "请根据以上信息作答，写在<answer></answer>中。不能再调用工具。",
    }
)
"""What the agent may be told when its budget is spent: the audit's own copy; a test compares it to the agent's."""

_STEP_NAME: Final = re.compile(r"search(?:/(?:[a-z]{1,12}|\d[\d.]*))*/\d[\d.]*")
_PAIR_LABEL: Final = re.compile(r"^(?:Question|Answer|问题|回答) \d+: ?", re.MULTILINE)
_TURN_LABEL: Final = re.compile(
    r"^(?:(?:Question|Answer|Offered|Chosen|问题|回答|候选|选择) \d+: ?|(?:Query|查询): ?|\d+\. )",
    re.MULTILINE,
)
_MAX_COMBINATIONS: Final = 4096
"""Repeated answers multiply; so many of their combinations are compared."""
_TURN_SEPARATOR: Final = re.compile(r"\n| \| ")


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What is the same for all instances of a run."""

    system: Literal["clarify", "orig", "gold", "rewrites"]
    """"orig" searches q itself, "gold" q*, "rewrites" a query that a file gave."""
    scheme: RunScheme
    current_date: str
    prompts: Collection[str]
    """Names of the prompts whose sha256 is in the manifest."""
    vocabulary: Collection[str]
    """The prompts' words."""
    people: HumanAnswers | None = None
    """People's answers, where they take the User Answerer's place; None: a model answers."""
    searches: bool = True
    """False for a run that ends with the rewritten query."""
    custom: Mapping[RoleName, str] = field(default_factory=dict)
    """Labels of the custom roles."""
    own_prompts: OwnPrompts = field(default_factory=OwnPrompts)

    @property
    def search_step(self) -> str:
        """The step that the agent's query goes into."""
        return "search" if "agent" in self.custom else "search/turn/1"


class Rules:
    """Checks the requests, the rewritten queries and the result of one instance."""

    def __init__(
        self,
        run: RunFacts,
        instance: str,
        queries: Queries,
        records: Sequence[Record],
        given: tuple[str, ...] = (),
        line: Line | None = None,
    ) -> None:
        """`given` are the questions, or the one rewritten query, that a file gave; `line` is the result."""
        self._run, self._instance, self._queries, self._records = run, instance, queries, records
        self._scheme, self._given = run.scheme, given
        own = [record for record in records if asking_step(str(record["step"])) is None]
        self._line = line
        questions = given[: run.scheme.k]
        self._replies = RecordedReplies(run.scheme, queries.query, own, questions, passed_on_texts(line))
        self._unheard: dict[str, Secret] = {}
        """By the step of a custom role, what of q* it has not been told so far by its models and tools."""
        self._secrets: dict[int | None, Secret] = {}
        self.n_rewrites = self.n_unsupported = 0
        """Rewritten queries, and those with an unsupported constraint; complete when `rewrites` is exhausted."""
        self.n_known = self.n_over_informing = 0
        """Answers that are not `unknown`, and those that over-inform; complete when `given_away` is exhausted."""

    def _hidden(self, turns: int | None = None) -> Secret:
        """What of q* nobody but the user may have after so many turns, or after all."""
        if turns not in self._secrets:
            known = [self._queries.query, *self._replies.texts(turns)]
            self._secrets[turns] = Secret.of(self._queries.intent, known, self._run.vocabulary)
        return self._secrets[turns]

    # --- Requests

    def requests(self) -> Iterator[Finding]:
        """Yield all problems of the recorded requests."""
        for record in self._records:
            step = str(record["step"])
            request = record.get("request")
            if not isinstance(request, dict):
                yield self._finding("provenance", step, "its request is not recorded")
            else:
                yield from self._request(step, request, record)

    def _request(self, step: str, request: Mapping[str, Any], record: Record) -> Iterator[Finding]:
        asking = asking_step(step)
        role, turn = role_and_turn(asking or step)
        if self._run.system == "clarify" and role != "search" and not self._scheme.allows(asking or step):
            yield self._finding("provenance", step, "this run has no such turn")
        player = self._run.custom.get(ROLES[role]) if role in ROLES else None
        if asking is not None:
            yield from self._asked(step, request, record, asking)
        elif player is not None and not (role == "answer" and self._run.people is not None):
            yield from self._custom(step, request, role, player)
            if role == "answer":
                yield from self._question(step, fields_of(request, "view").get("question"), turn)
            if "pairs" in self._view_names(role):
                yield from self._custom_pairs(step, request, record)
        elif role == "clarify":
            yield from self._clarify(step, request, turn)
        elif role == "answer":
            yield from self._answer(step, request, record, turn)
        elif role == "select":
            yield from self._select(step, request, turn)
        elif role == "reformulate":
            yield from self._reformulate(step, request, turn, self._query_of(record))
        elif role == "rewrite":
            yield from self._rewrite(step, request, self._query_of(record))
        else:
            yield from self._search_turn(step, request)

    def _clarify(self, step: str, request: Mapping[str, Any], turn: int) -> Iterator[Finding]:
        k, fields = str(self._scheme.offers_per_turn), fields_of(request)
        names = {"blurred_query", "k"} | ({"conversation"} if self._scheme.converses else set())
        yield from self._form(step, request, self._scheme.prompt, names)
        if fields.get("k") != k:
            problem = f"k is {fields.get('k')!r}, but a turn of this run has {k}"
            yield self._finding("provenance", step, problem)
        possible: list[Conversation] = [()]
        if self._scheme.converses:
            possible = yield from self._earlier_turns(step, fields, turn)
            possible = possible or self._replies.conversations(turn - 1)
        selects, current = self._scheme.mode == "select", {self._queries.query}
        if selects:
            current = {before[-1].reply if before else self._queries.query for before in possible}
        if fields.get("blurred_query") not in current:
            source = "the one chosen last" if selects and turn > 1 else "that of the data"
            yield self._finding("provenance", step, f"blurred_query is not {source}")
        yield from self._leaks(step, request, self._hidden(turn - 1), {"k": k})

    def _answer(self, step: str, request: Mapping[str, Any], record: Record, turn: int) -> Iterator[Finding]:
        fields, responds = fields_of(request), self._scheme.mode == "respond"
        question = fields.get("clarification_question")
        if self._run.people is not None:  # they were asked one question, without a conversation
            yield from self._answer_of_people(step, record, self._run.people)
        else:
            names = {"clarification_question"} | ({"conversation"} if responds else set())
            yield from self._form(step, request, "respond" if responds else "answer", names, of_user=True)
            if responds:
                yield from self._earlier_turns(step, fields, turn)
        yield from self._question(step, question, turn)

    def _question(self, step: str, question: Any, turn: int) -> Iterator[Finding]:
        """Check that the user was asked exactly what the Clarifier asked."""
        if self._scheme.mode == "respond":
            expected = any(offer.offered == (question,) for offer in self._replies.offers.get(turn, ()))
            problem = f"it was not asked exactly the question of turn {turn}"
        else:
            offers = self._replies.questions
            expected = any(turn <= len(offered) and offered[turn - 1] == question for offered in offers)
            problem = f"it was not asked exactly question {turn} of the Clarifier's reply"
        if not expected:
            yield self._finding("provenance", step, problem, str(question))

    def _answer_of_people(self, step: str, record: Record, people: HumanAnswers) -> Iterator[Finding]:
        request, pairs = record.get("request"), people.get(self._instance)
        if set(request or ()) != {"fields"} or set(fields_of(request)) != {"clarification_question"}:
            problem = "its request contains more than the question"
            yield self._finding("provenance", step, problem, str(request))
        if pairs is None:
            yield self._finding("missing", step, "people's answers cannot be read: name the data with --data")
            return
        response = record.get("response")
        reply = response if isinstance(response, dict) else {}
        text, matched = reply.get("text"), reply.get("question")
        if record.get("ok") and text != UNKNOWN and (matched, text) not in pairs:
            problem = "this answer was not given to the question it was matched with"
            yield self._finding("provenance", step, problem, str(text))

    def _select(self, step: str, request: Mapping[str, Any], turn: int) -> Iterator[Finding]:
        names = {"offered_queries", "conversation"}
        yield from self._form(step, request, "select_query", names, of_user=True)
        fields = fields_of(request)
        yield from self._earlier_turns(step, fields, turn)
        offers = [
            "\n".join(f"{n}. {query}" for n, query in enumerate(offer.offered, 1))
            for offer in self._replies.offers.get(turn, ())
        ]
        if fields.get("offered_queries") not in offers:
            problem = f"offered_queries is not exactly what the Clarifier offered at turn {turn}"
            yield self._finding("provenance", step, problem)

    def _reformulate(
        self, step: str, request: Mapping[str, Any], turn: int, query: str | None
    ) -> Iterator[Finding]:
        yield from self._form(step, request, "reformulate", {"conversation"})
        possible = yield from self._earlier_turns(step, fields_of(request), turn + 1)
        if query is not None and possible:
            pairs = tuple((turn.clarified.offered[0], turn.reply) for turn in possible[0])
            self._replies.pairs_of[query] = pairs
        yield from self._leaks(step, request, self._hidden(turn), {})

    def _rewrite(self, step: str, request: Mapping[str, Any], q_hat: str | None) -> Iterator[Finding]:
        yield from self._form(step, request, "rewrite", {"blurred_query", "qa_pairs"})
        fields = fields_of(request)
        if fields.get("blurred_query") != self._queries.query:
            yield self._finding("provenance", step, "blurred_query is not that of the data")
        pairs = self._rendered_pairs(str(fields.get("qa_pairs")))
        if pairs is None:
            yield self._finding("provenance", step, "qa_pairs is not exactly what was asked and answered")
        elif q_hat is not None:
            self._replies.pairs_of[q_hat] = pairs
        yield from self._leaks(step, request, self._hidden(), {})

    def _search_turn(self, step: str, request: Mapping[str, Any]) -> Iterator[Finding]:
        """The agent's first request has its query and the date; later ones only name steps."""
        fields, date = fields_of(request), self._run.current_date
        is_first, further = step == "search/turn/1", request
        if is_first:
            yield from self._form(step, request, "agent", {"question", "current_date"}, further_keys=True)
            yield from self._searched(step, fields.get("question"))
            if fields.get("current_date") != date:
                yield self._finding("provenance", step, "current_date is not the run's")
            further = {name: value for name, value in request.items() if name not in ("prompt", "fields")}
        free = list(_free_texts(further))
        for text in free:
            yield self._finding("provenance", step, "its request contains free text", text)
        if self._run.system != "gold" and (is_first or free):
            known = {"current_date": date}
            yield from self._leaks(step, request if is_first else free, self._hidden_from_agent(), known)

    def _searched(self, step: str, query: Any) -> Iterator[Finding]:
        """Check that the agent got its query."""
        allowed, source = {
            "clarify": (
                self._replies.search_queries(),
                "the last turn's" if self._scheme.converses else "the Rewriter's reply",
            ),
            "orig": ([self._queries.query], "q"),
            "gold": ([self._queries.intent], "q*"),
            "rewrites": (list(self._given), "the one that was given"),
        }[self._run.system]
        if query not in allowed:
            yield self._finding("provenance", step, f"the agent's question is not {source}")

    def _hidden_from_agent(self) -> Secret:
        """What of q* the agent may not have; what the rewritten query adds, `rewrites` judges."""
        known = [self._queries.query, *self._replies.texts(), *self._replies.search_queries(), *self._given]
        return Secret.of(self._queries.intent, known, self._run.vocabulary)

    # --- Requests of custom roles

    def _custom(self, step: str, request: Mapping[str, Any], role: str, player: str) -> Iterator[Finding]:
        """Check that the player of a role was sent exactly its view."""
        view, names = fields_of(request, "view"), self._view_names(role)
        if request.get("custom") != player:
            problem = f"it was not sent to {player}, which plays this role in this run"
            yield self._finding("provenance", step, problem, str(request.get("custom")))
        if set(view) != names:
            expected = ", ".join(sorted(names))
            problem = f"its view is not exactly {expected}"
            yield self._finding("provenance", step, problem, ", ".join(map(str, view)) or "none")
        parts = {"custom", "view"}
        yield from self._parts(step, request, parts, "its view", "fused_query" if role == "answer" else "")
        if "blurred_query" in names and view.get("blurred_query") != self._queries.query:
            yield self._finding("provenance", step, "blurred_query is not that of the data")
        if role == "clarify" and view.get("k") != (k := self._scheme.offers_per_turn):
            problem = f"k is {view.get('k')!r}, but a turn of this run has {k}"
            yield self._finding("provenance", step, problem)
        if role == "search":
            yield from self._searched(step, view.get("query"))
        if (secret := self._hidden_from(step)) is not None:
            yield from self._leaks(step, request, secret, {"custom": player})

    def _view_names(self, role: str) -> frozenset[str]:
        """The fields of a custom role's view that are recorded as they are."""
        at_turn = self._scheme.converses if role == "clarify" else self._scheme.mode == "respond"
        return VIEWS[role] | {"pairs"} if role in ("clarify", "answer") and at_turn else VIEWS[role]

    def _custom_pairs(self, step: str, request: Mapping[str, Any], record: Record) -> Iterator[Finding]:
        role, turn = role_and_turn(step)
        if role == "rewrite":
            possible = self._possible_pairs()
        else:
            turns = self._replies.conversations(turn if role == "reformulate" else turn - 1)
            possible = (tuple((turn.clarified.offered[0], turn.reply) for turn in before) for before in turns)
        given = fields_of(request, "view").get("pairs")
        pairs = next((pairs for pairs in possible if given == [list(pair) for pair in pairs]), None)
        if pairs is None:
            yield self._finding("provenance", step, "pairs is not exactly what was asked and answered")
        elif role in ("rewrite", "reformulate") and (query := self._query_of(record)) is not None:
            self._replies.pairs_of[query] = pairs

    def _hidden_from(self, step: str) -> Secret | None:
        """What of q* a custom role may not have at the start of its step; None if it knows q*."""
        role, turn = role_and_turn(step)
        if role == "answer" or (role == "search" and self._run.system == "gold"):
            return None
        if role == "search":
            return self._hidden_from_agent()
        return self._hidden({"clarify": turn - 1, "reformulate": turn}.get(role))

    def _asked(self, step: str, request: Mapping[str, Any], record: Record, own: str) -> Iterator[Finding]:
        """Find text that occurs only in q* in what a custom role asked a model or a tool."""
        if own not in self._unheard:
            secret = self._hidden_from(own)
            if secret is None:
                return
            self._unheard[own] = self._run.own_prompts.without(secret, own)
        secret = self._unheard[own]
        spans = (
            span for text in asked_texts(request) for line in text.split("\n") for span in secret.spans(line)
        )
        for span in dict.fromkeys(spans):
            if self._run.own_prompts.tells(span, own):
                yield self._finding("leak", step, "its request contains text that occurs only in q*", span)
        self._unheard[own] = secret.minus(texts_in(record.get("response")))

    def _form(
        self,
        step: str,
        request: Mapping[str, Any],
        role: str,
        names: set[str],
        *,
        of_user: bool = False,
        further_keys: bool = False,
    ) -> Iterator[Finding]:
        """Check that a request has the role's prompt, exactly the fields `names`, and nothing else.

        `of_user`: it has the digest of q*, too. `further_keys`: other keys may stand beside them; the caller checks
        their values.
        """
        prompt = str(request.get("prompt"))
        if prompt.partition(".")[0] != role or prompt not in self._run.prompts:
            yield self._finding("provenance", step, f"its prompt {prompt!r} is not this role's in this run")
        fields = request.get("fields")
        if (
            not isinstance(fields, dict)
            or set(fields) != names
            or not all(isinstance(value, str) for value in fields.values())
        ):
            given = ", ".join(sorted(fields)) if isinstance(fields, dict) else "none"
            expected = ", ".join(sorted(names))
            yield self._finding("provenance", step, f"its fields are not exactly {expected}", given)
        if not further_keys:
            parts = {"prompt", "fields"}
            yield from self._parts(
                step, request, parts, "prompt and fields", "clear_query" if of_user else ""
            )

    def _parts(
        self, step: str, request: Mapping[str, Any], parts: set[str], named: str, q_star: str
    ) -> Iterator[Finding]:
        """Check that a request has nothing but these parts, and the digest of q* under the name `q_star` unless ""."""
        if further := sorted(set(request) - parts - ({"on_record"} if q_star else set())):
            problem = f"its request contains more than {named}"
            yield self._finding("provenance", step, problem, ", ".join(further))
        if q_star and request.get("on_record") != step_key({q_star: self._queries.intent})[:16]:
            yield self._finding("provenance", step, "what it saw besides what was asked is not q* alone")

    def _rendered_pairs(self, text: str) -> tuple[tuple[str, str], ...] | None:
        """Return the pairs that `text` renders, if they are the questions of one reply with recorded answers."""
        for pairs in self._possible_pairs():
            for ask, reply in (("Question", "Answer"), ("问题", "回答")):
                lines = [f"{ask} {n}: {q}\n{reply} {n}: {a}" for n, (q, a) in enumerate(pairs, 1)]
                if text == "\n".join(lines):
                    return pairs
        return None

    def _possible_pairs(self) -> Iterator[tuple[tuple[str, str], ...]]:
        """Yield the questions of each reply with each combination of their recorded answers."""
        for questions in self._replies.questions:
            given = [self._replies.answers(question) for question in questions]
            for answers in islice(product(*given), _MAX_COMBINATIONS):
                yield tuple(zip(questions, answers, strict=True))

    def _query_of(self, record: Record) -> str | None:
        """Return the rewritten query of a record, as it was passed on."""
        return rewritten_query(record, self._replies.passed_on)

    def _earlier_turns(self, step: str, fields: Mapping[str, Any], turn: int) -> Any:
        """Check the field `conversation`, and return what the turns before number `turn` can have been."""
        text = str(fields.get("conversation"))
        possible: list[Conversation] = self._replies.rendered(turn - 1).get(text, [])
        if not possible:
            problem = "its conversation is not exactly what was said before"
            yield self._finding("provenance", step, problem)
        return possible

    def _leaks(self, step: str, request: Any, secret: Secret, known: Mapping[str, str]) -> Iterator[Finding]:
        """Find text that occurs only in q*. `known`: fields whose expected value may coincide with text of q*."""
        spans: dict[str, None] = {}
        for name, text in named_texts(request):
            if known.get(name) != text and name != "prompt":
                for piece in self._pieces(text):
                    spans.update(dict.fromkeys(secret.spans(piece)))
        for span in spans:
            yield self._finding("leak", step, "its request contains text that occurs only in q*", span)

    def _pieces(self, text: str) -> list[str]:
        """Split into what one side said at one time: the end of a question and its answer are not neighbours."""
        if self._scheme.converses:
            return _TURN_SEPARATOR.split(_TURN_LABEL.sub("", text))
        return _PAIR_LABEL.sub("", text).split("\n")

    def _finding(self, level: Level, step: str, problem: str, text: str = "") -> Finding:
        return Finding(level, self._instance, step, problem, text)

    # --- Answers

    def given_away(self) -> Iterator[Finding]:
        """Yield the answers that give away more of q* than their questions ask for.

        People's answers are counted and not named: they are data, and no model's.
        """
        for step, question, answer in self._known_answers():
            _, turn = role_and_turn(step)
            before = self._replies.texts(turn - 1) if self._scheme.mode == "respond" else []
            told = disclosure(answer, self._queries.query, self._queries.intent, [question, *before])
            self.n_known += 1
            self.n_over_informing += told.over_informs
            if self._run.people is not None:
                continue
            if told.problem:
                yield self._finding("leak", step, told.problem, " ".join(told.told))
            elif told.marks:
                problem = "the answer begins or ends with a mark of thoughts: they were taken for the answer"
                yield self._finding("provenance", step, problem, told.marks)

    def _known_answers(self) -> list[tuple[str, str, str]]:
        """Return the (step, question, answer) of each answer but `unknown`, each once.

        The result's answer counts before the recorded reply: what was passed on is what was given away, also where
        today's parser would read another answer in the reply.
        """
        in_result: dict[str, list[str]] = {}
        if self._line is not None:
            questions, answers = self._line.get("questions"), self._line.get("answers")
            if isinstance(questions, list) and isinstance(answers, list):
                for question, answer in zip(questions, answers, strict=False):
                    in_result.setdefault(str(question), []).append(str(answer))
        known: dict[tuple[str, str, str], None] = {}
        for record in self._records:
            step = str(record["step"])
            if role_and_turn(step)[0] == "answer" and asking_step(step) is None and record.get("ok"):
                question = question_of(record)
                for answer in in_result.get(question) or possible_answers(record)[:1]:
                    if answer != UNKNOWN:
                        known[step, question, answer] = None
        return list(known)

    # --- Rewritten queries

    def rewrites(self) -> Iterator[Finding]:
        """Yield what each rewritten query adds to what was elicited; `requests` must have been read before.

        In mode "select" there is none: the Clarifier, who knows no answers, wrote the query, and the user chose it.
        """
        rewritten = [(step, line) for step, lines in self._replies.rewrites.items() for line in lines]
        for step, q_hat in dict.fromkeys(rewritten):
            pairs = self._replies.pairs_of.get(q_hat, self._replies.pairs())
            added = additions(q_hat, self._queries.query, self._queries.intent, pairs, self._run.vocabulary)
            self.n_rewrites += 1
            self.n_unsupported += any(addition.level == "unsupported" for addition in added)
            if mark := mark_of_thoughts(q_hat, self._queries.intent):
                problem = "q-hat has a mark of thoughts: they were taken for the query"
                yield self._finding("provenance", step, problem, mark)
            for addition in added:
                problem = "q-hat contains a constraint that no answer elicited"
                if addition.level == "leak":
                    problem = "q-hat contains what only q* has and nobody elicited: a leak, or a lucky guess"
                yield self._finding(addition.level, step, problem, addition.text)

    # --- The result

    def result(self) -> Iterator[Finding]:
        """Whether the result follows from the recorded steps, and none of its steps is missing; nothing without one."""
        line = self._line
        if line is None:
            return
        for name, query in (("fused_query", self._queries.intent), ("blurred_query", self._queries.query)):
            if line.get(name) != query:
                yield self._finding("provenance", "results", f"its result's {name} is not that of the data")
        steps = self._scheme.steps if self._run.system == "clarify" else []
        steps += [self._run.search_step] * self._run.searches
        if failed(line) and not answered(line):  # with an answer only its judge failed
            error = line["error"]
            at = str(error.get("step") or "") if isinstance(error, dict) else ""
            if not self._records and at not in ("", steps[0]):
                problem = f"it failed at {at}, but no earlier step is recorded"
                yield self._finding("missing", "results", problem)
            return
        if self._scheme.converses and self._scheme.mode == "at-once" and not line.get("answers"):
            steps = [step for step in steps if not step.startswith(("answer/", "rewrite"))]
        recorded = {str(record["step"]) for record in self._records if record.get("ok")}
        if lacking := [step for step in steps if step not in recorded]:
            problem = f"it has a result, but not these steps: {', '.join(lacking)}"
            yield self._finding("missing", "results", problem)
        elif not self._follows(line):
            problem = "its result does not follow from its recorded steps"
            yield self._finding("provenance", "results", problem)

    def _follows(self, line: Line) -> bool:
        """True if questions, answers and rewritten query are recorded ones."""
        if self._scheme.converses:
            return self._conversation_follows(line)
        questions, answers = line.get("questions") or [], line.get("answers") or []
        if not (isinstance(questions, list) and isinstance(answers, list)):
            return False
        if self._run.system != "clarify":
            searched = {"orig": (self._queries.query,), "gold": (self._queries.intent,)}
            allowed = searched.get(self._run.system, self._given)
            return not questions and not answers and line.get("rewritten_query") in allowed
        if tuple(questions) not in self._replies.questions:
            return False
        if self._scheme.stop_after in ("questions", "answers"):
            asked = questions if self._scheme.stop_after == "answers" else []
            return self._answers_follow(asked, answers) and "rewritten_query" not in line
        return self._rewrite_follows(questions, answers, line.get("rewritten_query"))

    def _rewrite_follows(self, questions: Sequence[Any], answers: Sequence[Any], query: Any) -> bool:
        return self._answers_follow(questions, answers) and query in self._replies.search_queries()

    def _answers_follow(self, questions: Sequence[Any], answers: Sequence[Any]) -> bool:
        return len(questions) == len(answers) and all(
            a in self._replies.answers(q) for q, a in zip(questions, answers, strict=True)
        )

    def _conversation_follows(self, line: Line) -> bool:
        """True if scheme, mode, turns, questions and answers are those of the recorded replies."""
        scheme, turns = self._scheme, line.get("turns")
        if (line.get("scheme"), line.get("mode")) != (scheme.scheme, scheme.mode):
            return False
        if not isinstance(turns, list) or not turns or not all(_is_turn(turn) for turn in turns):
            return False
        answered = [turn for turn in turns if turn.get("answers")]
        questions = [question for turn in answered for question in turn.get("offered", [])]
        answers = [answer for turn in answered for answer in turn["answers"]]
        last = turns[-1].get("query")
        if (line.get("questions"), line.get("answers")) != (questions, answers):
            return False
        if line.get("rewritten_query", last) != last:
            return False
        if scheme.mode == "at-once":
            offered = any(_is_offer(turns[0], offer) for offer in self._replies.offers.get(1, ()))
            follows = self._rewrite_follows(questions, answers, last) if answers else "query" not in turns[0]
            return len(turns) == 1 and offered and follows
        return any(
            len(conversation) == len(turns)
            and all(
                _is_offer(recorded, turn.clarified) and self._is_reply(number, turn, recorded)
                for number, (recorded, turn) in enumerate(zip(turns, conversation, strict=True), 1)
            )
            for conversation in self._replies.conversations(scheme.k)
        )

    def _is_reply(self, number: int, turn: AuditedTurn, line: Mapping[str, Any]) -> bool:
        if self._scheme.mode == "select":
            return (line.get("chosen"), line.get("query")) == (turn.chosen, turn.reply)
        needs_query = number == self._scheme.k or "query" in line
        reformulations = self._replies.rewrites.get(f"reformulate/{number}", [])
        return line.get("answers") == [turn.reply] and (
            not needs_query or line.get("query") in reformulations
        )


def _is_turn(turn: Any) -> bool:
    """True if it has the shape of a turn; results are untrusted input."""
    return isinstance(turn, dict) and all(
        isinstance(turn.get(name, []), list) for name in ("offered", "answers")
    )


def _is_offer(line: Mapping[str, Any], offer: Clarified) -> bool:
    recorded = (line.get("offered"), line.get("types", []), line.get("reasoning", ""))
    return recorded == (list(offer.offered), list(offer.types), offer.reasoning)


def _free_texts(value: Any) -> Iterator[str]:
    """Yield the texts in a JSON value that are neither names of steps nor the demand for an answer."""
    for _, text in named_texts(value):
        if text not in DEMANDS and not _STEP_NAME.fullmatch(text):
            yield text
