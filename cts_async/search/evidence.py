"""What a page says about a goal: as a model extracts it, or as the words of the page tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final, Protocol

from cts_async.engine.runner import Context
from cts_async.errors import UnusableOutput
from cts_async.llm.json_text import find_json
from cts_async.llm.parsing import object_schema
from cts_async.search.backends import Page
from cts_async.search.terms import best_window, extract_for_goal, query_terms

_SUMMARY_CHARS: Final = 300
"""Characters of a summary that is made without a model; a model's may be as long at least."""
_EXPECTED: Final = "expected a JSON object with evidence and summary"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a page says about a goal, and a summary of it."""

    evidence: str
    summary: str

    def within(self, max_chars: int) -> Evidence:
        """Cut the evidence to `max_chars`, and the summary to half of it."""
        return Evidence(self.evidence[:max_chars], self.summary[: max(_SUMMARY_CHARS, max_chars // 2)])


class Extractor(Protocol):
    """A model that reads pages for a goal."""

    async def extract(self, ctx: Context, step: str, page: Page, goal: str) -> Evidence:
        """Read `page` as a durable step called `step`. Raises StepError if that fails."""


def read_lexically(page: Page, goal: str, max_chars: int) -> Evidence:
    """Find evidence without a model: deterministic and free.

    The sentences that share most with the goal, at most `max_chars`; as the summary, the title and the passage
    nearest to the goal.
    """
    summary = best_window(page.text, dict.fromkeys(query_terms(goal), 1.0), _SUMMARY_CHARS)
    title = " ".join(page.title.split())
    if title:
        summary = f"{title}: {summary}"
    return Evidence(extract_for_goal(page.text, goal, max_chars), summary)


@dataclass(frozen=True, slots=True)
class EvidenceForm:
    """The form of a model's reply, `{"rational", "evidence", "summary"}`: an Evidence with at least one text."""

    name: ClassVar[str] = "evidence"
    json_schema: ClassVar[dict[str, Any] | None] = object_schema(
        # WebDancer asks its reader for these three; the agent sees no `rational`, in the demo neither.
        {part: {"type": "string"} for part in ("rational", "evidence", "summary")}
    )
    grammar: ClassVar[str | None] = None

    def parse(self, text: str) -> Evidence:
        reply = find_json(text)
        if reply.cut_off:
            raise UnusableOutput(f"{_EXPECTED}, but it is cut off", text=text)
        if not isinstance(reply.value, dict):
            raise UnusableOutput(f"{_EXPECTED}, but it is a list", text=text)
        evidence, summary = (
            _joined_text(reply.value.get("evidence")),
            _joined_text(reply.value.get("summary")),
        )
        if evidence is None:
            raise UnusableOutput("expected a string under 'evidence'", text=text)
        if summary is None:
            raise UnusableOutput("expected a string under 'summary'", text=text)
        if not (evidence or summary):
            raise UnusableOutput(
                "evidence and summary are both empty: say at least what is missing", text=text
            )
        return Evidence(evidence, summary)


def _joined_text(value: object) -> str | None:
    """The text, or a list of passages joined; None for anything else."""
    # Models that were told of several passages often list them.
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        value = "\n".join(value)
    if not isinstance(value, str):
        return None
    return value.strip()
