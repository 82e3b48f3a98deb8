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

A custom role gets the same as its view, without a prompt (`evidence`). What the agent asks the user during its search
is `asking`.

A step may be recorded more than once (repeated after damage): each request must follow from *some* recorded
replies. Tool responses are not checked for q*: they are what a search for q-hat found, and may well contain what q*
asks for.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, product
from typing import Any, Final, Literal

from cts_async.custom import RoleName
from cts_async.datasets.kinds import HumanPairs
from cts_async.engine.step import step_key
from cts_async.llm.parsing import Clarified
from cts_async.protocol.audit.asking import AskingFacts, SearchQuestions, injected_pairs, is_known_reply
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
    dict_at,
    named_texts,
    passed_on_texts,
    possible_answers,
    question_of,
    rewritten_query,
    role_and_turn,
    texts_in,
)
from cts_async.protocol.audit.findings import Finding, Level, Queries
from cts_async.protocol.audit.text import Secret, additions, disclosure, joined_ends, mark_of_thoughts
from cts_async.records import UNKNOWN
from cts_async.runs.results import Line, answered, failed

Pairs = tuple[tuple[str, str], ...]
"""Questions with their answers."""

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
    asking: AskingFacts = field(default_factory=AskingFacts)
    """How the agent may ask the user during its search, and when it is given answers of before."""
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
        given_texts: tuple[str, ...] = (),
        line: Line | None = None,
    ) -> None:
        """`given_texts` are the questions, or the one rewritten query, that a file gave; `line` is the result."""
        self._run, self._instance, self._queries, self._records = run, instance, queries, records
        self._scheme, self._given_texts = run.scheme, given_texts
        self._line = line
        # What a custom role asked its models is no reply of the role's.
        role_records = [record for record in records if asking_step(str(record["step"])) is None]
        questions = given_texts[: run.scheme.k]
        passed_on = passed_on_texts(line)
        self._replies = RecordedReplies(run.scheme, queries.query, role_records, questions, passed_on)
        is_custom = "agent" in run.custom
        self._asked = SearchQuestions(run.asking, instance, role_records, is_custom=is_custom)
        self._untold: dict[str, Secret] = {}
        """By the step of a custom role, what of q* it has not been told so far by its models and tools."""
        self._secrets: dict[int | None, Secret] = {}
        self.n_rewrites = self.n_unsupported = 0
        """Rewritten queries, and those with an unsupported constraint; complete when `rewrites` is exhausted."""
        self.n_known = self.n_over_informing = 0
        """Answers that are not `unknown`, and those that over-inform; complete when `given_away` is exhausted."""

    def _hidden(self, turns: int | None = None) -> Secret:
        """What of q* nobody but the user may have after so many turns, or after all."""
        if turns not in self._secrets:
            public_texts = [self._queries.query, *self._replies.texts(turns)]
            self._secrets[turns] = Secret.hidden(self._queries.intent, public_texts, self._run.vocabulary)
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
                yield from self._check_request(step, request, record)

    def _check_request(self, step: str, request: Mapping[str, Any], record: Record) -> Iterator[Finding]:
        asking = asking_step(step)
        role_step = asking or step
        role, turn = role_and_turn(role_step)
        is_before_search = role not in ("search", "ask")
        if self._run.system == "clarify" and is_before_search and not self._scheme.allows(role_step):
            yield self._finding("provenance", step, "this run has no such turn")
        player = self._custom_player(role)
        if asking is not None:
            yield from self._leaks_in_question(step, request, record, asking)
        elif player is not None:
            yield from self._check_custom(step, request, role, player)
            if role == "answer":
                yield from self._check_question(step, dict_at(request, "view").get("question"), turn)
            if role == "ask":
                yield from self._asked.check_question(step, question_of(record), record)
            if "pairs" in self._view_names(role):
                yield from self._check_custom_pairs(step, request, record)
        elif role == "clarify":
            yield from self._check_clarify(step, request, turn)
        elif role == "answer":
            yield from self._check_answer(step, request, record, turn)
        elif role == "ask":
            yield from self._check_ask(step, request, record)
        elif role == "select":
            yield from self._check_select(step, request, turn)
        elif role == "reformulate":
            yield from self._check_reformulate(step, request, turn, self._query_of(record))
        elif role == "rewrite":
            yield from self._check_rewrite(step, request, self._query_of(record))
        else:
            yield from self._check_search_turn(step, request)

    def _custom_player(self, role: str) -> str | None:
        """Return the label of the custom role that plays a role of the protocol; None for a model or for people."""
        if role not in ROLES:
            return None
        if role == "answer" and self._run.people is not None:
            return None  # people's answers take the place of any User Answerer
        return self._run.custom.get(ROLES[role])

    def _check_clarify(self, step: str, request: Mapping[str, Any], turn: int) -> Iterator[Finding]:
        k, fields = str(self._scheme.offers_per_turn), dict_at(request, "fields")
        names = {"blurred_query", "k"}
        if self._scheme.converses:
            names.add("conversation")
        yield from self._check_form(step, request, self._scheme.prompt, names)
        if fields.get("k") != k:
            problem = f"k is {fields.get('k')!r}, but a turn of this run has {k}"
            yield self._finding("provenance", step, problem)
        possible: list[Conversation] = [()]
        if self._scheme.converses:
            possible = yield from self._check_conversation(step, fields, turn)
            # A wrong conversation is one finding; the query is then compared with any that came before.
            possible = possible or self._replies.conversations(turn - 1)
        allowed, source = {self._queries.query}, "that of the data"
        if self._scheme.mode == "select" and turn > 1:
            # The query that the user chose takes the place of the data's.
            allowed = {conversation[-1].reply for conversation in possible}
            source = "the one chosen last"
        if fields.get("blurred_query") not in allowed:
            yield self._finding("provenance", step, f"blurred_query is not {source}")
        yield from self._leaks(step, request, self._hidden(turn - 1), {"k": k})

    def _check_answer(
        self, step: str, request: Mapping[str, Any], record: Record, turn: int
    ) -> Iterator[Finding]:
        fields = dict_at(request, "fields")
        question = fields.get("clarification_question")
        if self._run.people is not None:  # they were asked one question, without a conversation
            yield from self._check_answer_of_people(step, record, self._run.people)
        elif self._scheme.mode == "respond":
            names = {"clarification_question", "conversation"}
            yield from self._check_form(step, request, "respond", names, of_user=True)
            yield from self._check_conversation(step, fields, turn)
        else:
            yield from self._check_form(step, request, "answer", {"clarification_question"}, of_user=True)
        yield from self._check_question(step, question, turn)

    def _check_ask(self, step: str, request: Mapping[str, Any], record: Record) -> Iterator[Finding]:
        """During the search, too, the user sees q* and one question, and nothing of the others."""
        rules, prompt = self._run.asking.rules, "answer"
        if rules is not None and rules.replies == "yes-no":
            prompt = "answer_yes_no"
        yield from self._check_form(step, request, prompt, {"clarification_question"}, of_user=True)
        yield from self._asked.check_question(step, question_of(record), record)

    def _check_question(self, step: str, question: Any, turn: int) -> Iterator[Finding]:
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

    def _check_answer_of_people(self, step: str, record: Record, people: HumanAnswers) -> Iterator[Finding]:
        request, pairs = record.get("request"), people.get(self._instance)
        if set(request or ()) != {"fields"} or set(dict_at(request, "fields")) != {"clarification_question"}:
            problem = "its request contains more than the question"
            yield self._finding("provenance", step, problem, str(request))
        if pairs is None:
            yield self._finding("missing", step, "people's answers cannot be read: name the data with --data")
            return
        reply = dict_at(record, "response")
        text, matched_question = reply.get("text"), reply.get("question")
        # `unknown` is what a question gets that matches none of theirs: nobody gave it.
        if record.get("ok") and text != UNKNOWN and (matched_question, text) not in pairs:
            problem = "this answer was not given to the question it was matched with"
            yield self._finding("provenance", step, problem, str(text))

    def _check_select(self, step: str, request: Mapping[str, Any], turn: int) -> Iterator[Finding]:
        names = {"offered_queries", "conversation"}
        yield from self._check_form(step, request, "select_query", names, of_user=True)
        fields = dict_at(request, "fields")
        yield from self._check_conversation(step, fields, turn)
        rendered_offers = []
        for offer in self._replies.offers.get(turn, ()):
            lines = [f"{number}. {query}" for number, query in enumerate(offer.offered, 1)]
            rendered_offers.append("\n".join(lines))
        if fields.get("offered_queries") not in rendered_offers:
            problem = f"offered_queries is not exactly what the Clarifier offered at turn {turn}"
            yield self._finding("provenance", step, problem)

    def _check_reformulate(
        self, step: str, request: Mapping[str, Any], turn: int, query: str | None
    ) -> Iterator[Finding]:
        yield from self._check_form(step, request, "reformulate", {"conversation"})
        possible = yield from self._check_conversation(step, dict_at(request, "fields"), turn + 1)
        if query is not None and possible:
            self._replies.pairs_of[query] = _question_answer_pairs(possible[0])
        yield from self._leaks(step, request, self._hidden(turn), {})

    def _check_rewrite(self, step: str, request: Mapping[str, Any], query: str | None) -> Iterator[Finding]:
        yield from self._check_form(step, request, "rewrite", {"blurred_query", "qa_pairs"})
        fields = dict_at(request, "fields")
        if fields.get("blurred_query") != self._queries.query:
            yield self._finding("provenance", step, "blurred_query is not that of the data")
        pairs = self._rendered_pairs(str(fields.get("qa_pairs")))
        if pairs is None:
            yield self._finding("provenance", step, "qa_pairs is not exactly what was asked and answered")
        elif query is not None:
            self._replies.pairs_of[query] = pairs
        yield from self._leaks(step, request, self._hidden(), {})

    def _check_search_turn(self, step: str, request: Mapping[str, Any]) -> Iterator[Finding]:
        """The agent's first request has its query and the date; later ones only name steps."""
        if "injected" in request:
            yield from self._check_injected(step, request["injected"])
            request = {name: value for name, value in request.items() if name != "injected"}
        if step != "search/turn/1":
            free_texts = list(_free_texts(request))
            yield from self._free_text_findings(step, free_texts)
            if free_texts:
                yield from self._leaks_to_agent(step, free_texts)
            return
        fields = dict_at(request, "fields")
        yield from self._check_form(step, request, "agent", {"question", "current_date"}, further_keys=True)
        yield from self._check_query(step, fields.get("question"))
        if fields.get("current_date") != self._run.current_date:
            yield self._finding("provenance", step, "current_date is not the run's")
        further = {name: value for name, value in request.items() if name not in ("prompt", "fields")}
        yield from self._free_text_findings(step, _free_texts(further))
        yield from self._leaks_to_agent(step, request)

    def _check_injected(self, step: str, text: Any) -> Iterator[Finding]:
        """Check answers of before the search that the agent was given before a turn."""
        lines = injected_pairs(text)
        pairs = None if lines is None else self._rendered_pairs(lines)
        yield from self._asked.check_injected(step, text, is_rendered=pairs is not None)
        yield from self._leaks_to_agent(step, {"injected": text})

    def _free_text_findings(self, step: str, texts: Iterable[str]) -> Iterator[Finding]:
        for text in texts:
            yield self._finding("provenance", step, "its request contains free text", text)

    def _leaks_to_agent(self, step: str, request: Any) -> Iterator[Finding]:
        if self._run.system != "gold":  # its agent searches q* itself
            dates = {"current_date": self._run.current_date}
            yield from self._leaks(step, request, self._hidden_from_agent(), dates)

    def _check_query(self, step: str, query: Any) -> Iterator[Finding]:
        """Check that the agent got its query."""
        allowed: Collection[str]
        match self._run.system:
            case "clarify" if not self._scheme.rewrites:
                allowed, source = (self._queries.query,), "q"
            case "clarify":
                allowed = self._replies.search_queries()
                source = "the last turn's" if self._scheme.converses else "the Rewriter's reply"
            case "orig":
                allowed, source = (self._queries.query,), "q"
            case "gold":
                allowed, source = (self._queries.intent,), "q*"
            case "rewrites":
                allowed, source = self._given_texts, "the one that was given"
        if query not in allowed:
            yield self._finding("provenance", step, f"the agent's question is not {source}")

    def _hidden_from_agent(self) -> Secret:
        """What of q* the agent may not have; what the rewritten query adds, `rewrites` judges."""
        public_texts = [self._queries.query, *self._replies.texts()]
        searched = [*self._replies.search_queries(), *self._given_texts]
        public_texts += [*searched, *self._asked.texts]
        if self._asked.texts:
            # It may write what it was told behind its query, and one reply behind the other.
            public_texts += joined_ends([self._queries.query, *searched, *self._asked.texts])
        return Secret.hidden(self._queries.intent, public_texts, self._run.vocabulary)

    # --- Requests of custom roles

    def _check_custom(
        self, step: str, request: Mapping[str, Any], role: str, player: str
    ) -> Iterator[Finding]:
        """Check that the player of a role was sent exactly its view."""
        view, names = dict_at(request, "view"), self._view_names(role)
        if request.get("custom") != player:
            problem = f"it was not sent to {player}, which plays this role in this run"
            yield self._finding("provenance", step, problem, str(request.get("custom")))
        if set(view) != names:
            expected = ", ".join(sorted(names))
            problem = f"its view is not exactly {expected}"
            yield self._finding("provenance", step, problem, ", ".join(map(str, view)) or "none")
        intent_name = "fused_query" if role in ("answer", "ask") else ""
        yield from self._check_parts(step, request, {"custom", "view"}, "its view", intent_name)
        if "blurred_query" in names and view.get("blurred_query") != self._queries.query:
            yield self._finding("provenance", step, "blurred_query is not that of the data")
        k = self._scheme.offers_per_turn
        if role == "clarify" and view.get("k") != k:
            problem = f"k is {view.get('k')!r}, but a turn of this run has {k}"
            yield self._finding("provenance", step, problem)
        if role == "search":
            yield from self._check_query(step, view.get("query"))
        coincidental = {"custom": player}
        rules = self._run.asking.rules
        if rules is not None and role in ("search", "ask"):
            coincidental["replies"] = rules.replies  # "open" may stand in q*, too
            limits = {"max_asks": rules.max_asks, "min_asks": rules.min_asks, "replies": rules.replies}
            for name in sorted(names & limits.keys()):
                if view.get(name) != limits[name]:
                    problem = f"{name} is {view.get(name)!r}, but {limits[name]!r} in this run"
                    yield self._finding("provenance", step, problem)
        secret = self._hidden_from(step)
        if secret is not None:
            yield from self._leaks(step, request, secret, coincidental)

    def _view_names(self, role: str) -> frozenset[str]:
        """The fields of a custom role's view that are recorded as they are."""
        # Who speaks at a turn of a conversation sees the pairs before it; who writes a query always sees them.
        clarifies_at_turn = role == "clarify" and self._scheme.converses
        answers_at_turn = role == "answer" and self._scheme.mode == "respond"
        if clarifies_at_turn or answers_at_turn:
            return VIEWS[role] | {"pairs"}
        rules = self._run.asking.rules
        if role == "search" and rules is not None:
            return VIEWS[role] | {"max_asks", "min_asks", "replies"}
        if role == "ask" and rules is not None and rules.replies != "open":
            return VIEWS[role] | {"replies"}
        return VIEWS[role]

    def _check_custom_pairs(self, step: str, request: Mapping[str, Any], record: Record) -> Iterator[Finding]:
        role, _ = role_and_turn(step)
        recorded = dict_at(request, "view").get("pairs")
        for pairs in self._possible_pairs_at(step):
            if recorded == [list(pair) for pair in pairs]:
                query = self._query_of(record)
                if role in ("rewrite", "reformulate") and query is not None:
                    self._replies.pairs_of[query] = pairs
                return
        yield self._finding("provenance", step, "pairs is not exactly what was asked and answered")

    def _possible_pairs_at(self, step: str) -> Iterator[Pairs]:
        """Yield what the view of a custom role may have as its pairs at a step."""
        role, turn = role_and_turn(step)
        if role == "rewrite":
            yield from self._possible_pairs()
            return
        # A reformulation follows the user's reply of its own turn; the others speak before it.
        n_turns = turn if role == "reformulate" else turn - 1
        for conversation in self._replies.conversations(n_turns):
            yield _question_answer_pairs(conversation)

    def _hidden_from(self, step: str) -> Secret | None:
        """What of q* a custom role may not have at the start of its step; None if it knows q*."""
        role, turn = role_and_turn(step)
        if role in ("answer", "ask") or (role == "search" and self._run.system == "gold"):
            return None
        if role == "search":
            return self._hidden_from_agent()
        n_turns = {"clarify": turn - 1, "reformulate": turn}.get(role)
        return self._hidden(n_turns)

    def _leaks_in_question(
        self, step: str, request: Mapping[str, Any], record: Record, role_step: str
    ) -> Iterator[Finding]:
        """Find text that occurs only in q* in what a custom role asked a model or a tool."""
        prompts = self._run.own_prompts
        if role_step not in self._untold:
            secret = self._hidden_from(role_step)
            if secret is None:
                return
            self._untold[role_step] = prompts.without(secret, role_step)
        secret = self._untold[role_step]
        spans: dict[str, None] = {}
        for text in asked_texts(request):
            # Line by line: the end of one line and the start of the next are not neighbours.
            for line in text.split("\n"):
                spans.update(dict.fromkeys(secret.spans(line)))
        for span in spans:
            if prompts.tells(span, role_step):
                yield self._finding("leak", step, "its request contains text that occurs only in q*", span)
        # What a model or a tool has replied, the role may use in its next question.
        self._untold[role_step] = secret.minus(texts_in(record.get("response")))

    def _check_form(
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
        fields = dict_at(request, "fields")
        if set(fields) != names or not all(isinstance(text, str) for text in fields.values()):
            recorded = "none"
            if isinstance(request.get("fields"), dict):
                recorded = ", ".join(sorted(fields))
            expected = ", ".join(sorted(names))
            yield self._finding("provenance", step, f"its fields are not exactly {expected}", recorded)
        if not further_keys:
            intent_name = "clear_query" if of_user else ""
            yield from self._check_parts(
                step, request, {"prompt", "fields"}, "prompt and fields", intent_name
            )

    def _check_parts(
        self, step: str, request: Mapping[str, Any], parts: set[str], description: str, intent_name: str
    ) -> Iterator[Finding]:
        """Check that a request has nothing but these parts; with `intent_name`, also the digest of q* under it."""
        further = set(request) - parts
        if intent_name:
            further.discard("on_record")
        if further:
            problem = f"its request contains more than {description}"
            yield self._finding("provenance", step, problem, ", ".join(sorted(further)))
        # 16 digits of the digest are recorded: the journal itself must not hold q*.
        if intent_name and request.get("on_record") != step_key({intent_name: self._queries.intent})[:16]:
            yield self._finding("provenance", step, "what it saw besides what was asked is not q* alone")

    def _rendered_pairs(self, text: str) -> Pairs | None:
        """Return the pairs that `text` renders, if they are the questions of one reply with recorded answers."""
        for pairs in self._possible_pairs():
            for question_label, answer_label in (("Question", "Answer"), ("问题", "回答")):
                lines = []
                for number, (question, answer) in enumerate(pairs, 1):
                    lines.append(f"{question_label} {number}: {question}")
                    lines.append(f"{answer_label} {number}: {answer}")
                if text == "\n".join(lines):
                    return pairs
        return None

    def _possible_pairs(self) -> Iterator[Pairs]:
        """Yield the questions of each reply with each combination of their recorded answers."""
        for questions in self._replies.questions:
            answers_by_question = [self._replies.answers(question) for question in questions]
            for answers in islice(product(*answers_by_question), _MAX_COMBINATIONS):
                yield tuple(zip(questions, answers, strict=True))

    def _query_of(self, record: Record) -> str | None:
        """Return the rewritten query of a record, as it was passed on."""
        return rewritten_query(record, self._replies.passed_on)

    def _check_conversation(
        self, step: str, fields: Mapping[str, Any], turn: int
    ) -> Generator[Finding, None, list[Conversation]]:
        """Check the field `conversation`, and return what the turns before number `turn` can have been."""
        text = str(fields.get("conversation"))
        possible: list[Conversation] = self._replies.rendered(turn - 1).get(text, [])
        if not possible:
            problem = "its conversation is not exactly what was said before"
            yield self._finding("provenance", step, problem)
        return possible

    def _leaks(
        self, step: str, request: Any, secret: Secret, expected: Mapping[str, str]
    ) -> Iterator[Finding]:
        """Find text that occurs only in q*. `expected`: values of fields that may coincide with text of q*."""
        spans: dict[str, None] = {}
        for name, text in named_texts(request):
            # The prompts are files of the run, and read as such: here is only the name of one.
            if name == "prompt" or expected.get(name) == text:
                continue
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
            context = [question]
            if self._scheme.mode == "respond":
                context += self._replies.texts(turn - 1)
            measured = disclosure(answer, self._queries.query, self._queries.intent, context)
            self.n_known += 1
            self.n_over_informing += measured.over_informs
            if self._run.people is not None:
                continue
            if measured.problem:
                yield self._finding("leak", step, measured.problem, " ".join(measured.disclosed))
            elif measured.marks:
                problem = "the answer begins or ends with a mark of thoughts: they were taken for the answer"
                yield self._finding("provenance", step, problem, measured.marks)

    def _known_answers(self) -> list[tuple[str, str, str]]:
        """Return the (step, question, answer) of each answer but `unknown`, each once.

        The result's answer counts before the recorded reply: what was passed on is what was given away, also where
        today's parser would read another answer in the reply.
        """
        answers_in_result, replies_in_result = self._answers_in_result(), self._asked.replies_in(self._line)
        known_answers: dict[tuple[str, str, str], None] = {}
        for record in self._records:
            step = str(record["step"])
            role, _ = role_and_turn(step)
            if role not in ("answer", "ask") or asking_step(step) is not None or not record.get("ok"):
                continue
            question = question_of(record)
            in_result, recorded = answers_in_result, possible_answers(record)
            if role == "ask":
                in_result, recorded = replies_in_result, self._run.asking.reads(record)
            for answer in in_result.get(question) or recorded[:1]:
                if is_known_reply(answer):
                    known_answers[step, question, answer] = None
        return list(known_answers)

    def _answers_in_result(self) -> dict[str, list[str]]:
        """Return the answers of the result by their question; {} without a result."""
        answers_by_question: dict[str, list[str]] = {}
        if self._line is not None:
            questions, answers = self._line.get("questions"), self._line.get("answers")
            if isinstance(questions, list) and isinstance(answers, list):
                for question, answer in zip(questions, answers, strict=False):
                    answers_by_question.setdefault(str(question), []).append(str(answer))
        return answers_by_question

    # --- Rewritten queries

    def rewrites(self) -> Iterator[Finding]:
        """Yield what each rewritten query adds to what was elicited; `requests` must have been read before.

        In mode "select" there is none: the Clarifier, who knows no answers, wrote the query, and the user chose it.
        """
        for step, rewritten_queries in self._replies.rewrites.items():
            # A step that is recorded twice with one reply is one rewritten query.
            for rewritten in dict.fromkeys(rewritten_queries):
                yield from self._check_rewritten_query(step, rewritten)

    def _check_rewritten_query(self, step: str, rewritten: str) -> Iterator[Finding]:
        intent, query = self._queries
        # Without a request that could be read, any recorded pair may have elicited a constraint.
        pairs = self._replies.pairs_of.get(rewritten, self._replies.pairs())
        constraints = additions(rewritten, query, intent, pairs, self._run.vocabulary)
        self.n_rewrites += 1
        self.n_unsupported += any(constraint.level == "unsupported" for constraint in constraints)
        mark = mark_of_thoughts(rewritten, intent)
        if mark:
            problem = "q-hat has a mark of thoughts: they were taken for the query"
            yield self._finding("provenance", step, problem, mark)
        for constraint in constraints:
            problem = "q-hat contains a constraint that no answer elicited"
            if constraint.level == "leak":
                problem = "q-hat contains what only q* has and nobody elicited: a leak, or a lucky guess"
            yield self._finding(constraint.level, step, problem, constraint.text)

    # --- The result

    def result(self) -> Iterator[Finding]:
        """Whether the result follows from the recorded steps, and none of its steps is missing; nothing without one."""
        line = self._line
        if line is None:
            return
        for name, text in (("fused_query", self._queries.intent), ("blurred_query", self._queries.query)):
            if line.get(name) != text:
                yield self._finding("provenance", "results", f"its result's {name} is not that of the data")
        steps = self._expected_steps(line)
        if failed(line) and not answered(line):  # with an answer only its judge failed
            failed_step = str(dict_at(line, "error").get("step") or "")
            # Nothing is recorded of the step that failed; of a later one than the first, the steps before it are.
            if not self._records and failed_step not in ("", steps[0]):
                problem = f"it failed at {failed_step}, but no earlier step is recorded"
                yield self._finding("missing", "results", problem)
            return
        if self._run.searches:
            yield from self._asked.result(line)
        recorded = {str(record["step"]) for record in self._records if record.get("ok")}
        lacking = [step for step in steps if step not in recorded]
        if lacking:
            problem = f"it has a result, but not these steps: {', '.join(lacking)}"
            yield self._finding("missing", "results", problem)
        elif not self._result_follows(line):
            problem = "its result does not follow from its recorded steps"
            yield self._finding("provenance", "results", problem)

    def _expected_steps(self, line: Line) -> list[str]:
        """Return the steps that a whole instance with this result has."""
        steps = self._scheme.steps if self._run.system == "clarify" else []
        # A Clarifier of a conversation may find that q is clear, and ask nothing: q itself is searched.
        if self._scheme.converses and self._scheme.mode == "at-once" and not line.get("answers"):
            steps = [step for step in steps if not step.startswith(("answer/", "rewrite"))]
        if self._run.searches:
            steps.append(self._run.search_step)
        return steps

    def _result_follows(self, line: Line) -> bool:
        """True if questions, answers and rewritten query are recorded ones."""
        if self._scheme.converses:
            return self._conversation_follows(line)
        questions, answers = line.get("questions") or [], line.get("answers") or []
        if not (isinstance(questions, list) and isinstance(answers, list)):
            return False
        if self._run.system != "clarify":
            searched = {"orig": (self._queries.query,), "gold": (self._queries.intent,)}
            allowed = searched.get(self._run.system, self._given_texts)
            return not questions and not answers and line.get("rewritten_query") in allowed
        if tuple(questions) not in self._replies.questions:
            return False
        if self._scheme.stop_after == "questions":
            return not answers and "rewritten_query" not in line
        if self._scheme.stop_after == "answers":
            return self._answers_follow(questions, answers) and "rewritten_query" not in line
        if not self._scheme.rewrites:
            searches_query = line.get("rewritten_query") == self._queries.query
            return self._answers_follow(questions, answers) and searches_query
        return self._rewrite_follows(questions, answers, line.get("rewritten_query"))

    def _rewrite_follows(self, questions: Sequence[Any], answers: Sequence[Any], query: Any) -> bool:
        return self._answers_follow(questions, answers) and query in self._replies.search_queries()

    def _answers_follow(self, questions: Sequence[Any], answers: Sequence[Any]) -> bool:
        if len(questions) != len(answers):
            return False
        for question, answer in zip(questions, answers, strict=True):
            if answer not in self._replies.answers(question):
                return False
        return True

    def _conversation_follows(self, line: Line) -> bool:
        """True if scheme, mode, turns, questions and answers are those of the recorded replies."""
        scheme, turns = self._scheme, line.get("turns")
        if (line.get("scheme"), line.get("mode")) != (scheme.scheme, scheme.mode):
            return False
        if not isinstance(turns, list) or not turns or not all(_is_turn(turn) for turn in turns):
            return False
        # Questions that nobody answered, and the offers of mode "select", are no questions of the result.
        questions, answers = [], []
        for turn in turns:
            if turn.get("answers"):
                questions += turn.get("offered", [])
                answers += turn["answers"]
        searched = turns[-1].get("query")
        if (line.get("questions"), line.get("answers")) != (questions, answers):
            return False
        if line.get("rewritten_query", searched) != searched:
            return False
        if scheme.mode != "at-once":
            conversations = self._replies.conversations(scheme.k)
            return any(self._is_conversation(turns, conversation) for conversation in conversations)
        if len(turns) != 1 or not any(
            _is_offer(turns[0], offer) for offer in self._replies.offers.get(1, ())
        ):
            return False
        if not answers:
            return "query" not in turns[0]
        return self._rewrite_follows(questions, answers, searched)

    def _is_conversation(self, lines: Sequence[Mapping[str, Any]], conversation: Conversation) -> bool:
        """True if the turns of a result are those of a conversation that the replies can have been."""
        if len(lines) != len(conversation):
            return False
        for number, (line, turn) in enumerate(zip(lines, conversation, strict=True), 1):
            if not _is_offer(line, turn.clarified) or not self._is_reply(number, turn, line):
                return False
        return True

    def _is_reply(self, number: int, turn: AuditedTurn, line: Mapping[str, Any]) -> bool:
        if self._scheme.mode == "select":
            return (line.get("chosen"), line.get("query")) == (turn.chosen, turn.reply)
        if line.get("answers") != [turn.reply]:
            return False
        # A run may reformulate after every turn, and has to after the last one.
        if number < self._scheme.k and "query" not in line:
            return True
        return line.get("query") in self._replies.rewrites.get(f"reformulate/{number}", [])


def _question_answer_pairs(conversation: Conversation) -> Pairs:
    """Return the pairs of a conversation of mode "respond", where a turn has one question."""
    return tuple((turn.clarified.offered[0], turn.reply) for turn in conversation)


def _is_turn(turn: Any) -> bool:
    """True if it has the shape of a turn; results are untrusted input."""
    if not isinstance(turn, dict):
        return False
    return isinstance(turn.get("offered", []), list) and isinstance(turn.get("answers", []), list)


def _is_offer(line: Mapping[str, Any], offer: Clarified) -> bool:
    recorded = (line.get("offered"), line.get("types", []), line.get("reasoning", ""))
    return recorded == (list(offer.offered), list(offer.types), offer.reasoning)


def _free_texts(value: Any) -> Iterator[str]:
    """Yield the texts in a JSON value that are neither names of steps nor the demand for an answer."""
    for _, text in named_texts(value):
        if text not in DEMANDS and not _STEP_NAME.fullmatch(text):
            yield text
