"""What a conversation's requests may hold (AT-CoT's schemes and modes), and what a request holds beyond that.

    clarify/t       {query, conversation, k}     the query as it stands, and exactly what was offered and said before
    answer/t        {question, conversation}, q* by its digest     a question of clarify/t, after that conversation
    select/t        {offered, conversation}, q* by its digest      exactly the queries of clarify/t
    reformulate/t   {conversation}               exactly what was asked and answered until then
    search/turn/1   the last reformulation or choice

At once, an answer's and the Rewriter's requests are those of the benchmark (`rules`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from cts_async.engine.step import step_key
from cts_async.protocol.audit.findings import Finding
from cts_async.protocol.audit.journal import Record
from cts_async.protocol.audit.replies import fields_of, rewritten
from cts_async.protocol.audit.rules import Book, Rules
from cts_async.protocol.audit.sources import Queries
from cts_async.protocol.audit.talk import Path, Talk
from cts_async.protocol.audit.text import Secret

_LABEL: Final = re.compile(
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
            yield from self._respond(step, request, turn)
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

    def _standing(self, paths: list[Path]) -> set[str]:
        """The query as it stands after these conversations."""
        if self._scheme.mode != "select":
            return {self._queries.blurred}
        return {path[-1].reply if path else self._queries.blurred for path in paths}

    def _respond(self, step: str, request: Mapping[str, Any], turn: int) -> Iterator[Finding]:
        yield from self._user(step, request, "respond", "clarification_question")
        fields = fields_of(request)
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
        paths: list[Path] = self._talk.told(turn - 1).get(str(fields.get("conversation")), [])
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
        return _NEIGHBOURS.split(_LABEL.sub("", text))
