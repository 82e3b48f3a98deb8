"""The form in which a model that reads a page for the agent replies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from cts_async.errors import UnusableOutput
from cts_async.llm.json_text import find_json
from cts_async.llm.parsing import object_schema
from cts_async.search.tools import Evidence


@dataclass(frozen=True, slots=True)
class EvidenceForm:
    """`{"rational", "evidence", "summary"}`; parses to an Evidence with at least one non-empty text."""

    name: ClassVar[str] = "evidence"
    json_schema: ClassVar[dict[str, Any] | None] = object_schema(
        {part: {"type": "string"} for part in ("rational", "evidence", "summary")}
    )
    grammar: ClassVar[str | None] = None

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
