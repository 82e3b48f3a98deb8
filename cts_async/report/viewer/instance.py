"""One instance of a run, whole: what was asked, answered, rewritten, found and judged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cts_async.report.added_words import segments
from cts_async.report.viewer.gold_texts import GoldTexts, Texts
from cts_async.report.viewer.open_run import OpenRun
from cts_async.report.viewer.refusal import NO_INSTANCE, Refused
from cts_async.report.viewer.results_index import Lines, name_of
from cts_async.report.viewer.shapes import Failed, InstancePage, JudgeScore, NuggetRow, Turn
from cts_async.report.viewer.values import as_float, as_list, as_object, as_text, as_texts, can_be_shown

Line = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Counts:
    """How many events of a trace and steps an instance has; None while nobody knows."""

    events: int | None
    steps: int | None


def instance_page(
    run: OpenRun, id: str, gold: GoldTexts, counts: Counts, beside: Sequence[str]
) -> InstancePage:
    """Raises Refused where the run has no such instance."""
    lines = run.results.lines()
    found = run.find(lines, id)
    if found is None:
        raise Refused(404, NO_INSTANCE)
    row, line = found
    turns = _turns(line)
    blurred, rewritten = as_text(line.get("blurred_query")), _rewritten(line, turns)
    fused = as_text(line.get("fused_query")) or as_text(line.get("query")) or ""
    verdicts = dict(_verdicts(run, lines, row, line))
    searched = line.get("search")
    return {
        "run": run.place.name,
        "id": id,
        "fused_query": fused,
        "blurred_query": blurred or "",
        "mode": as_text(line.get("mode")) or run.about.mode or "at-once",
        "scheme": as_text(line.get("scheme")) or run.about.scheme or "cts",
        "turns": turns,
        "rewritten_query": rewritten,
        "rewritten": segments(blurred or "", rewritten) if rewritten else [],
        "answer": as_text(line.get("answer")),
        "answer_from": as_text(line.get("answer_from")),
        "search": searched if isinstance(searched, dict) and can_be_shown(searched) else None,
        "scores": [_score(judge, said, run) for judge, said in verdicts.items()],
        "nuggets": _nuggets(verdicts, gold.of(run.about, id, fused)),
        "error": _error(line),
        "previous": _neighbour(run, lines, row - 1),
        "next": _neighbour(run, lines, row + 1),
        "beside": list(beside),
        "trace_turns": counts.events,
        "steps": counts.steps,
    }


def _verdicts(run: OpenRun, lines: Lines, row: int, line: Line) -> Iterator[tuple[str, Line]]:
    """What each judge said of the answer, the scoring one first; none where one has not judged it, or failed."""
    for judge, index in run.judges().items():
        said = line if index is run.results else run.verdict(index, lines, row)
        if said is not None and said.get("error") is None and as_list(said.get("nuggets")):
            yield judge, said


def _score(judge: str, said: Line, run: OpenRun) -> JudgeScore:
    return {
        "judge": judge,
        "score": as_float(said.get("restore_score_100")),
        "smoke_test": run.about.embedded,
    }


def _nuggets(verdicts: Mapping[str, Line], texts: Texts) -> list[NuggetRow]:
    """The nuggets in the order of the gold, or of the first judge who named them."""
    rows: dict[str, NuggetRow] = {}
    for judge, said in verdicts.items():
        for nugget in map(as_object, as_list(said.get("nuggets"))):
            id, label = as_text(nugget.get("id")), as_text(nugget.get("coverage"))
            if id is None or label is None:
                continue
            known = texts.get(id)
            row = rows.setdefault(
                id,
                {
                    "id": id,
                    "weight": as_float(nugget.get("weight")) or 1.0,
                    "text": known.text if known else as_text(nugget.get("text")),
                    "sources": list(known.sources) if known else [],
                    "coverage": {},
                },
            )
            row["coverage"][judge] = label
    for id, known in texts.items():
        rows.setdefault(id, _unjudged(id, known.text, known.sources, known.weight))
    return list(rows.values())


def _unjudged(id: str, text: str, sources: Sequence[str], weight: float) -> NuggetRow:
    return {"id": id, "weight": weight, "text": text, "sources": list(sources), "coverage": {}}


def _rewritten(line: Line, turns: Sequence[Turn]) -> str | None:
    """The query that was searched, or would be: a conversation alone ends with one."""
    last = turns[-1]["query"] if turns else ""
    return as_text(line.get("rewritten_query")) or last or None


def _turns(line: Line) -> list[Turn]:
    """The conversation: its turns where there were some, else each question with its answer."""
    turns = [as_object(turn) for turn in as_list(line.get("turns"))]
    if turns:
        return [_turn(n, turn) for n, turn in enumerate(turns, 1)]
    questions, answers = as_texts(line.get("questions")), as_texts(line.get("answers"))
    return [
        _turn(n, {"offered": [question], "answers": answers[n - 1 : n]})
        for n, question in enumerate(questions, 1)
    ]


def _turn(n: int, turn: Line) -> Turn:
    chosen = turn.get("chosen")
    return {
        "n": n,
        "offered": as_texts(turn.get("offered")),
        "answers": as_texts(turn.get("answers")),
        "chosen": chosen if isinstance(chosen, int) else None,
        "types": as_texts(turn.get("types")),
        "reasoning": as_text(turn.get("reasoning")) or "",
        "query": as_text(turn.get("query")) or "",
    }


def _error(line: Line) -> Failed | None:
    error = line.get("error")
    if error is None:
        return None
    known = as_object(error)
    step, kind, message = (as_text(known.get(name)) or "" for name in ("step", "kind", "message"))
    return {"step": step, "kind": kind or "failed", "message": message or (as_text(error) or "")}


def _neighbour(run: OpenRun, lines: Lines, row: int) -> str | None:
    if not 0 <= row < len(lines):
        return None
    line = run.line(run.results, int(lines.offsets[row]))
    return name_of(line) if line else None
