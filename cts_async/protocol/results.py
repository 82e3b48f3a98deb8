"""`results.jsonl` and `judgments/*.jsonl`: one line per finished instance, written and read.

A line either has an outcome or an `error {step, kind, message}`; a later line with the same id
supersedes an earlier one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cts_async.engine.journal import read_jsonl
from cts_async.engine.step import step_key
from cts_async.errors import StepError
from cts_async.records import ConversationTurn, Instance, Judgment, Nugget, Outcome, ToolUse, Trace
from cts_async.scorer import restore_score_100

if TYPE_CHECKING:  # or whoever reads results would load the catalogue of models
    from cts_async.protocol.systems import System

Line = dict[str, Any]


def outcome_line(system: str, outcome: Outcome) -> Line:
    """An instance that was answered; its score is None where nothing was judged.

    What was asked and answered stands in `questions` and `answers`; in mode "select" nothing was.
    """
    instance, trace = outcome.instance, outcome.trace
    return {
        "id": instance.id,
        "system": system,
        "fused_query": instance.fused_query,
        "blurred_query": instance.blurred_query,
        "k": outcome.k,
        "questions": outcome.questions,
        "answers": [answer.text for answer in outcome.answers],
        "rewritten_query": outcome.rewritten_query,
        "answer": trace.answer,
        "answer_from": trace.answer_from,
        "search": search_json(trace),
        **judged(instance.nuggets, outcome.judgments[0] if outcome.judgments else None),
    }


def talk_json(system: System, turns: tuple[ConversationTurn, ...]) -> Line:
    """The further fields of a system that converses: `scheme`, `mode` and `turns`; none of any other."""
    if not system.converses:
        return {}
    return {"scheme": system.scheme, "mode": system.mode, "turns": [_turn(turn) for turn in turns]}


def _turn(turn: ConversationTurn) -> Line:
    """`{offered, types, reasoning, answers, chosen, query}`, without what the scheme or mode does not have."""
    line: Line = {
        "offered": list(turn.offered),
        "types": list(turn.types),
        "reasoning": turn.reasoning,
        "answers": [answer.text for answer in turn.answers],
        "chosen": turn.chosen,
        "query": turn.query,
    }
    return {name: value for name, value in line.items() if value not in ("", [], None)}


MAX_CAUSES = 20
"""Different failures of tools that one line names."""


def search_json(trace: Trace) -> Line:
    """What a search took, in numbers."""
    kinds = [turn.kind for turn in trace.turns]
    made_up = kinds.count("made_up")
    return {
        "model_calls": trace.model_calls,
        "searches": kinds.count("search"),
        "visits": kinds.count("visit"),
        "forced": trace.forced,
        **({"made_up": made_up} if made_up else {}),
        "tools": _tools(trace.tools),
    }


def _tools(use: ToolUse) -> Line:
    """Queries and pages asked for, and what failed of them as rows {tool, host, reason, n}."""
    causes = Counter(
        (failure.tool, failure.host[:100], failure.reason[:60]) for failure in use.failures
    ).most_common()
    failed = [
        {"tool": tool, "host": host, "reason": reason, "n": n}
        for (tool, host, reason), n in causes[:MAX_CAUSES]
    ]
    rest = Counter({"search": 0, "visit": 0})
    for (tool, _, _), n in causes[MAX_CAUSES:]:
        rest[tool] += n
    failed += [{"tool": tool, "host": "", "reason": "other", "n": n} for tool, n in rest.items() if n]
    return {"searches": use.searches, "visits": use.visits, "failed": failed, "lexical": use.lexical}


def judgment_line(id: str, nuggets: tuple[Nugget, ...], judgment: Judgment) -> Line:
    """One judge's verdict on one answer."""
    return {"id": id, **judged(nuggets, judgment)}


def judged(nuggets: tuple[Nugget, ...], judgment: Judgment | None) -> Line:
    """The fields that the scorer reads."""
    if judgment is None:
        return {"judge": None, "nuggets": None, "restore_score_100": None}
    labels = dict(judgment.coverage)
    return {
        "judge": judgment.judge,
        "nuggets": [
            {"id": nugget.id, "weight": nugget.weight, "coverage": labels[nugget.id]} for nugget in nuggets
        ],
        "restore_score_100": restore_score_100([(nugget.weight, labels[nugget.id]) for nugget in nuggets]),
    }


def answer_digest(query: str, answer: str) -> str:
    """16 hex digits over an answer and the query it was judged by: what a verdict in a file of its own is about."""
    return step_key(query, answer)[:16]


def judged_mark(line: Mapping[str, Any]) -> int:
    """Which answer a line is a verdict on, as `mark_of` its digest: its own, or of the answer in it; 0: unknown."""
    digest, answer = line.get("answer_digest"), line.get("answer")
    if not isinstance(digest, str) and isinstance(answer, str):
        digest = answer_digest(str(line.get("fused_query") or ""), answer)
    return mark_of(digest) if isinstance(digest, str) else 0


def mark_of(digest: str) -> int:
    """A digest in a signed 64-bit number other than 0; 0 for what is no digest."""
    try:
        return int.from_bytes(bytes.fromhex(digest[:16]), signed=True) or 1
    except ValueError:
        return 0


def failure_line(system: str, instance: Instance, error: StepError) -> Line:
    """An instance that failed for good, with its reason. It has no score."""
    return {
        "id": instance.id,
        "system": system,
        "fused_query": instance.fused_query,
        "blurred_query": instance.blurred_query,
        "error": {"step": error.step, "kind": error.kind, "message": str(error)},
    }


def read_results(path: Path) -> Iterator[Line]:
    """All intact lines in file order, superseded ones among them."""
    for line in read_jsonl(path):
        if isinstance(line.get("id"), str):
            yield line


def latest_results(path: Path) -> dict[str, Line]:
    """The lines that count, by id, in order of first appearance."""
    latest: dict[str, Line] = {}
    for line in read_results(path):
        latest[line["id"]] = line
    return latest


def failed(line: Mapping[str, Any]) -> bool:
    """Whether a line is a failure."""
    return line.get("error") is not None
