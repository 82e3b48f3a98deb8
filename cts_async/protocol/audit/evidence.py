"""One instance's evidence: its requests, its rewritten queries, and whether its result follows from them."""

from __future__ import annotations

from collections.abc import Iterator

from cts_async.protocol.audit.findings import Finding, Level
from cts_async.protocol.audit.journal import Record
from cts_async.protocol.audit.prompts import Prompts
from cts_async.protocol.audit.replies import Dialogue, read_replies
from cts_async.protocol.audit.rewrites import additions
from cts_async.protocol.audit.rules import Book, Rules
from cts_async.protocol.audit.sources import Queries, Sources
from cts_async.protocol.audit.talk import Talk, follows
from cts_async.protocol.audit.talk_rules import TalkRules
from cts_async.protocol.results import Line, failed


class Evidence:
    """The records and the result of one instance. The counts are those of a walk through `findings`."""

    def __init__(
        self, id: str, records: list[Record], book: Book, sources: Sources, prompts: Prompts
    ) -> None:
        self._id, self._records, self._book, self._prompts = id, records, book, prompts
        self._line = sources.result(id)
        self._queries = sources.queries(id, self._line)
        self.n_rewrites = self.n_unsupported = 0

    def findings(self) -> Iterator[Finding]:
        if self._queries is None:
            yield Finding("missing", self._id, "", "its q and q* are nowhere: name the data with --data")
            return
        talk, rules, said = self._read(self._queries)
        for record in self._records:
            yield from rules.check(record)
        yield from self._prompts.leaks(self._id, self._queries)
        yield from self._rewrites(talk, said, self._queries)
        yield from self._result(talk, said, self._queries)

    def _read(self, queries: Queries) -> tuple[Talk | None, Rules, Dialogue]:
        """What was said, and the rules it is held against."""
        if self._book.scheme is None:
            said = read_replies(self._records, self._book.k)
            return None, Rules(self._book, self._id, queries, said), said
        talk = Talk(self._book.scheme, queries.blurred, self._records)
        return talk, TalkRules(self._book, self._id, queries, talk), talk.dialogue

    def _rewrites(self, talk: Talk | None, said: Dialogue, queries: Queries) -> Iterator[Finding]:
        """What the rewritten queries add to what was elicited."""
        everything = tuple((asked, answer) for asked, given in said.answers.items() for answer in given)
        made = talk.summaries() if talk else [("rewrite", line) for line in said.rewrites]
        for step, q_hat in dict.fromkeys(made):
            pairs = said.pairs_of.get(q_hat, everything)
            found = additions(q_hat, queries.blurred, queries.fused, pairs, self._book.vocabulary)
            self.n_rewrites += 1
            self.n_unsupported += any(addition.level == "unsupported" for addition in found)
            for addition in found:
                problem = (
                    "q-hat holds what only q* has and nobody elicited: a leak, or a lucky guess"
                    if addition.level == "leak"
                    else "q-hat holds a constraint that no answer elicited"
                )
                yield Finding(addition.level, self._id, step, problem, addition.text)

    def _result(self, talk: Talk | None, said: Dialogue, queries: Queries) -> Iterator[Finding]:
        """Whether the result is that of the steps, and none of its steps is missing."""
        line = self._line
        if line is None:
            return
        for name, query in (("fused_query", queries.fused), ("blurred_query", queries.blurred)):
            if line.get(name) != query:
                yield self._finding("provenance", f"its result's {name} is not that of the data")
        if failed(line):
            if not self._records and (step := self._failed_later(line)):
                yield self._finding("missing", f"it failed at {step}, but no step before that is on record")
            return
        steps = {str(record["step"]) for record in self._records if record.get("ok")}
        if lacking := [step for step in self._wanted(line) if step not in steps]:
            yield self._finding("missing", f"it has a result, but not these steps: {', '.join(lacking)}")
        elif not (follows(talk, line) if talk else self._follows(line, said, queries)):
            yield self._finding("provenance", "its result is not what its steps remember")

    def _failed_later(self, line: Line) -> str:
        """The step that it failed at, where others must have come before; "" where that was the first, or is unknown."""
        error = line["error"]
        step = str(error.get("step") or "") if isinstance(error, dict) else ""
        first = ("clarify", "clarify/1") if self._book.kind == "clarify" else ("search/turn/1",)
        return "" if step in first else step

    def _wanted(self, line: Line) -> list[str]:
        searched = ["search/turn/1"] * self._book.searches
        if self._book.kind != "clarify":
            return searched
        if self._book.scheme is not None:
            return [*self._book.scheme.wanted(answered=bool(line.get("answers"))), *searched]
        answers = [f"answer/{turn}" for turn in range(1, self._book.k + 1)]
        return ["clarify", *answers, "rewrite", *searched]

    def _follows(self, line: Line, said: Dialogue, queries: Queries) -> bool:
        """Whether questions, answers and rewritten query are remembered ones."""
        questions, answers = line.get("questions") or [], line.get("answers") or []
        if not (isinstance(questions, list) and isinstance(answers, list)):
            return False
        if self._book.kind != "clarify":
            searched = queries.blurred if self._book.kind == "orig" else queries.fused
            return not questions and not answers and line.get("rewritten_query") == searched
        return (
            tuple(questions) in said.questions
            and len(answers) == len(questions)
            and all(a in said.answers.get(q, ()) for q, a in zip(questions, answers, strict=True))
            and line.get("rewritten_query") in said.rewrites
        )

    def _finding(self, level: Level, problem: str) -> Finding:
        return Finding(level, self._id, "results", problem)
