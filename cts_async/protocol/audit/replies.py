"""What an instance's remembered replies said: questions, answers, rewritten queries.

A reply may have been given more than once: after damage, or where a version before accepted less.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from cts_async.errors import UnusableOutput
from cts_async.llm.parsing import Expect, OneLine, QuestionList, ShortPhrase
from cts_async.protocol.audit.journal import Record

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
