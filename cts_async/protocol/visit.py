"""The page reader: a model extracts from a page what concerns the agent's goal (WebDancer's visit)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final

from cts_async.engine.runner import Context
from cts_async.errors import UnusableOutput
from cts_async.llm.catalog import ModelSpec
from cts_async.llm.json_text import find_json
from cts_async.llm.model import FIRST_PER_BYTE, output_limit
from cts_async.llm.parsing import json_string, literal
from cts_async.protocol.roles import Role
from cts_async.protocol.views import VisitView
from cts_async.records import language_of
from cts_async.search.backends import Page
from cts_async.search.terms import extract_for_goal, sentence_spans
from cts_async.search.tools import Evidence

PAGE_TOKENS: Final = 20_000
"""Maximum of estimated tokens of a page; the rest is left out, with a note to the model."""
AROUND_TOKENS: Final = 700
"""Tokens of the prompt without the page."""
MOST_QUOTES: Final = 12
QUOTE_CHARS: Final = 160
_CUT: Final = "\n(The page goes on; the rest is left out here.)"


@dataclass(frozen=True, slots=True)
class EvidenceForm:
    """`{"rational", "evidence", "summary"}`; parses to an Evidence with at least one non-empty text.

    The grammar is for a model too small to quote: it chooses one or two of `quotes`, sentences of the page, and the
    summary is the page's `title`.
    """

    quotes: tuple[str, ...] = ()
    title: str = ""
    json_schema: ClassVar[dict[str, Any] | None] = {
        "type": "object",
        "properties": {part: {"type": "string"} for part in ("rational", "evidence", "summary")},
        "required": ["rational", "evidence", "summary"],
        "additionalProperties": False,
    }

    @property
    def grammar(self) -> str | None:
        """None without quotes to choose from."""
        if not self.quotes:
            return None
        first, second = (" | ".join(map(json_string, self.quotes[i::2])) for i in (0, 1))
        closing = (
            literal('],"summary":') + " " + json_string(self.title or self.quotes[0]) + " " + literal("}")
        )
        opening = literal('{"rational":"","evidence":[')
        more = ' ("," second)?' if second else ""
        root = f"root ::= {opening} first{more} {closing}"
        return "\n".join([root, f"first ::= {first}", *([f"second ::= {second}"] if second else [])])

    def parse(self, text: str) -> Evidence:
        found = find_json(text)
        if not isinstance(found.value, dict) or found.cut_off:
            problem = "it is cut off" if found.cut_off else "it is a list"
            raise UnusableOutput(
                f"expected a JSON object with evidence and summary, but {problem}", text=text
            )
        evidence, summary = _text(found.value.get("evidence")), _text(found.value.get("summary"))
        if evidence is None or summary is None:
            missing = "evidence" if evidence is None else "summary"
            raise UnusableOutput(f"expected a string under {missing!r}", text=text)
        if not (evidence or summary):
            raise UnusableOutput(
                "evidence and summary are both empty: say at least what is missing", text=text
            )
        return Evidence(evidence, summary)


def _text(value: object) -> str | None:
    """The text, or a list of passages joined; None for anything else."""
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        value = "\n".join(value)
    return value.strip() if isinstance(value, str) else None


@dataclass(frozen=True, slots=True)
class PageVisitor:
    """Reads pages with a model."""

    role: Role

    async def extract(self, ctx: Context, step: str, page: Page, goal: str) -> Evidence:
        """Read a page, or the first `page_tokens` of a long one, as a durable step."""
        text = f"{page.title}\n\n{page.text}" if page.title else page.text
        spec = self.role.model.spec
        view = VisitView(goal, cut(text, page_tokens(spec)))
        form = (
            EvidenceForm(quotes(page.text, goal), page.title)
            if spec.structured == "llama"
            else EvidenceForm()
        )
        # The journal (the agent's turn, the page's step) or the documents have goal and page already.
        return await self.role.ask(
            ctx,
            step,
            "visit",
            language_of(goal),
            form,
            on_record=("goal", "page"),
            goal=view.goal,
            page=view.page,
        )


def quotes(text: str, goal: str) -> tuple[str, ...]:
    """The sentences of a page that a small model may choose from: the ones closest to the goal, in order."""
    near = extract_for_goal(text, goal, MOST_QUOTES * QUOTE_CHARS)
    sentences = (" ".join(near[start:end].split()) for start, end in sentence_spans(near, QUOTE_CHARS))
    return tuple(dict.fromkeys(sentence for sentence in sentences if sentence))[:MOST_QUOTES]


def page_tokens(spec: ModelSpec) -> int:
    """Estimated tokens of a page that fit into the model's context, at most PAGE_TOKENS."""
    if spec.context_tokens is None:
        return PAGE_TOKENS
    reply = output_limit(spec.params) or AROUND_TOKENS
    return max(AROUND_TOKENS, min(PAGE_TOKENS, spec.context_tokens - reply - AROUND_TOKENS))


def cut(text: str, tokens: int) -> str:
    """The first so many estimated tokens of `text`, with a note if it is longer."""
    most = int(tokens / FIRST_PER_BYTE)
    data = text.encode(errors="replace")
    return text if len(data) <= most else data[:most].decode(errors="ignore") + _CUT
