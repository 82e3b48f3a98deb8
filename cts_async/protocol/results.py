"""`results.jsonl` and `judgments/*.jsonl`: one line per finished instance, written and read.

A line either has an outcome or an `error {step, kind, message}`; a later line with the same id
supersedes an earlier one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cts_async.engine.journal import read_jsonl
from cts_async.errors import StepError
from cts_async.records import Instance, Judgment, Nugget, Outcome, ToolUse, Trace
from cts_async.scorer import restore_score_100

Line = dict[str, Any]


def outcome_line(system: str, outcome: Outcome) -> Line:
    """An instance that was answered; its score is None where nothing was judged."""
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


MAX_CAUSES = 20
"""Different failures of tools that one line names."""


def search_json(trace: Trace) -> Line:
    """What a search took, in numbers."""
    kinds = [turn.kind for turn in trace.turns]
    return {
        "model_calls": trace.model_calls,
        "searches": kinds.count("search"),
        "visits": kinds.count("visit"),
        "forced": trace.forced,
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
