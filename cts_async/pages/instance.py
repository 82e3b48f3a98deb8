"""The page of one instance: its line of the results, the verdicts on it, the nuggets' texts from the gold, where points
were lost, and what was done before a failure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, TypeAlias, TypeVar

from cts_async.analysis.losses import NuggetLoss, QueryForms
from cts_async.analysis.run_losses import instance_losses, query_forms
from cts_async.analysis.stability import segments
from cts_async.errors import CTSError
from cts_async.llm.parsing import Choice, Clarified, OneLine, QuestionList, ShortPhrase
from cts_async.protocol.conversation import QUERIES_OFFERED, form_of
from cts_async.protocol.judge import terms_of
from cts_async.records import MODES, SCHEMES, Mode, Scheme, language_of
from cts_async.runs.gold_texts import GoldNuggets, GoldTexts
from cts_async.runs.index import (
    NO_INSTANCE,
    Json,
    Refused,
    is_serializable,
)
from cts_async.runs.open_run import OpenRun
from cts_async.runs.results import (
    Contradiction,
    ResultLines,
    about_same,
    contradiction_note,
    contradicts,
    failed,
    instance_name,
    judged_fingerprint,
    score_of,
)
from cts_async.runs.trace import (
    instance_records,
    n_steps,
    search_events,
)
from cts_async.runs.untrusted import (
    as_list,
    as_object,
    as_text,
    further_of,
    further_texts,
    nuggets_of,
    turns_of,
)
from cts_async.search.toolbox import every_tool

Line: TypeAlias = Mapping[str, Any]
T = TypeVar("T")


def prepare(run: OpenRun, gold: GoldTexts) -> None:
    """Read the run's gold, and load the Chinese dictionary if its queries need it; both take a while."""
    gold.records(run.manifest)
    first = run.first()
    if first and language_of(as_text(first.get("rewritten_query")) or "") == "zh":
        segments("词", "词")
    run.prepared = True


def instance_page(run: OpenRun, id: str, gold: GoldTexts, beside: Sequence[str]) -> Json:
    """An instance's page; `beside` are the names of other runs over the same data. Raises Refused."""
    lines = run.results.lines()
    found = run.find(lines, id)
    if found is None:
        raise Refused(404, NO_INSTANCE)
    row, line = found
    if line.get("error") is not None:
        line = {**done_before(run, id), **line}
    turns = turns_of(line)
    blurred = as_text(line.get("blurred_query")) or ""
    # A conversation without an agent ends with a query that would be searched.
    rewritten = as_text(line.get("rewritten_query")) or (turns[-1]["query"] if turns else "") or None
    fused = as_text(line.get("fused_query")) or as_text(line.get("query")) or ""
    verdicts = dict(_verdicts(run, lines, row, line))
    texts = gold.of(run.manifest, id, fused)
    search = line.get("search")
    return {
        "run": run.place.name,
        "id": id,
        "fused_query": fused,
        "blurred_query": blurred,
        "mode": as_text(line.get("mode")) or run.manifest.identity.mode or "at-once",
        "scheme": as_text(line.get("scheme")) or run.manifest.identity.scheme or "cts",
        "turns": turns,
        "further": [
            {"step": step, "name": name, "text": text} for step, name, text in further_texts(further_of(line))
        ],
        "rewritten_query": rewritten,
        "rewritten": segments(blurred, rewritten) if rewritten else [],
        "answer": as_text(line.get("answer")),
        "answer_from": as_text(line.get("answer_from")),
        "search": search if isinstance(search, dict) and is_serializable(search) else None,
        "scores": [{"judge": judge, "score": score_of(verdict)} for judge, verdict in verdicts.items()],
        "contradictions": list(_contradictions(verdicts)),
        "nuggets": _nuggets(verdicts, texts, _losses(run, line, verdicts, texts)),
        "unasked": _unasked(query_forms(line)),
        "error": _error(line),
        "judge_errors": list(_judge_errors(run, lines, row)),
        "previous": _neighbour(run, lines, row - 1),
        "next": _neighbour(run, lines, row + 1),
        "beside": list(beside),
        "caveat": run.manifest.caveat,
        # None while the journal is being indexed.
        "trace_turns": len(search_events(run, id)) if run.journal_ready else None,
        "steps": n_steps(run, id),
        "tools": {kind: label._asdict() for kind, label in every_tool().labels().items()},
    }


def _verdicts(run: OpenRun, lines: ResultLines, row: int, line: Line) -> Iterator[tuple[str, Line]]:
    """Each judge's verdict on the answer, the scoring judge's first; failed, missing and other ones are left out."""
    answer = judged_fingerprint(line)
    for judge, index in run.judges().items():
        verdict = line if index is run.results else run.verdict(index, lines, row)
        if verdict is None or failed(verdict) or not as_list(verdict.get("nuggets")):
            continue
        if about_same(judged_fingerprint(verdict), answer):
            yield judge, verdict


def _contradictions(verdicts: Mapping[str, Line]) -> Iterator[str]:
    """Say of each judge whose stored score is not that of its labels."""
    for judge, verdict in verdicts.items():
        score = score_of(verdict)
        if score is not None and contradicts(verdict, score):
            contradiction = Contradiction(instance_name(verdict) or "", verdict["restore_score_100"], score)
            yield contradiction_note(judge, 1, [contradiction])


def _judge_errors(run: OpenRun, lines: ResultLines, row: int) -> Iterator[Json]:
    """Why further judges failed to label the answer; a failure of the scoring judge is the page's `error`."""
    for judge, index in run.judges().items():
        verdict = None if index is run.results else run.verdict(index, lines, row)
        if verdict is not None and (error := _error(verdict)):
            yield {"judge": judge, **error}


def _losses(
    run: OpenRun, line: Line, verdicts: Mapping[str, Line], texts: GoldNuggets
) -> dict[str, NuggetLoss]:
    """What each nugget lost by the first judge, and where; {} while the journal is being indexed."""
    verdict = next(iter(verdicts.values()), None)
    if verdict is None or not run.journal_ready:
        return {}
    return {one.id: one for one in instance_losses(run, line, verdict, texts)}


def _nuggets(
    verdicts: Mapping[str, Line], texts: GoldNuggets, losses: Mapping[str, NuggetLoss]
) -> list[Json]:
    """The nuggets with texts and sources of the gold; those that only the gold has come last."""
    rows = {row["id"]: {**row, "loss": _loss(losses.get(row["id"]))} for row in nuggets_of(verdicts)}
    for id, known in texts.items():
        row = rows.setdefault(id, {"id": id, "weight": known.weight, "coverage": {}, "loss": None})
        row |= {"text": known.text, "sources": list(known.sources)}
    return [{"sources": [], **row} for row in rows.values()]


def _loss(loss: NuggetLoss | None) -> Json | None:
    if loss is None:
        return None
    at = loss.document
    shown = at and {"url": at.url, "title": at.title, "kind": at.kind, "event": at.event, "rank": at.rank}
    return {"points": loss.points, "stage": loss.stage, "document": shown}


def _error(line: Line) -> Json | None:
    error = line.get("error")
    if error is None:
        return None
    known = as_object(error)
    step, kind, message = (as_text(known.get(name)) or "" for name in ("step", "kind", "message"))
    return {"step": step, "kind": kind or "failed", "message": message or (as_text(error) or "")}


def _neighbour(run: OpenRun, lines: ResultLines, row: int) -> str | None:
    if not 0 <= row < len(lines):
        return None
    line = run.line(run.results, int(lines.offsets[row]))
    return instance_name(line) if line else None


def _unasked(queries: QueryForms) -> list[str]:
    """The passages of q* whose words neither q nor the searched query has, in the words of q*; [] without a search."""
    if not queries.searched or not queries.unasked:
        return []
    passages = segments(f"{queries.query}\n{queries.searched}", queries.intent)
    return [
        passage["text"].strip()
        for passage in passages
        if passage["added"] and queries.unasked & terms_of(passage["text"]).content
    ]


# --- What was done before a failure


def done_before(run: OpenRun, id: str) -> dict[str, Any]:
    """The fields that a line of results would have, as far as successful steps of the journal give them."""
    found = _Replies(instance_records(run, id))
    scheme: Scheme = next((one for one in SCHEMES if one == run.manifest.identity.scheme), "cts")
    mode: Mode = next((one for one in MODES if one == run.manifest.identity.mode), "at-once")
    events = search_events(run, id)
    line = {
        "turns": list(
            _at_once(found, scheme, run.manifest.k or 0) if mode == "at-once" else _turns(found, scheme, mode)
        ),
        "rewritten_query": found.parsed("rewrite", OneLine().parse),
        "answer": events[-1].text if events and events[-1].kind == "answer" else None,
    }
    return {name: value for name, value in line.items() if value}


class _Replies:
    """The replies of successful steps by name, the latest of each."""

    def __init__(self, records: Iterator[Mapping[str, Any]]) -> None:
        self._texts = {
            as_text(one.get("step")) or "": as_text(as_object(one.get("response")).get("text")) or ""
            for one in records
            if one.get("ok") is True
        }

    def parsed(self, step: str, parse: Callable[[str], T]) -> T | None:
        """A reply read by its form; None if there is none, or none of that form."""
        with suppress(CTSError, ValueError):
            return parse(self._texts[step]) if step in self._texts else None
        return None

    def answers(self, turn: int) -> list[str]:
        """The user's answer at a turn, or to a question, from 1; [] without one."""
        answer = self.parsed(f"answer/{turn}", ShortPhrase().parse)
        return [answer.text] if answer else []


def _at_once(found: _Replies, scheme: Scheme, k: int) -> Iterator[dict[str, Any]]:
    """Each question with its answer."""
    questions = found.parsed("clarify", QuestionList(k).parse) or ()
    offer = found.parsed("clarify/1", form_of(scheme, "at-once", k).parse)
    for n, question in enumerate(offer.offered if offer else questions, 1):
        yield {"offered": [question], "answers": found.answers(n)}


def _turns(found: _Replies, scheme: Scheme, mode: Mode) -> Iterator[dict[str, Any]]:
    """The turns of a conversation, up to the first without an offer."""
    form = form_of(scheme, mode, QUERIES_OFFERED if mode == "select" else 1)
    for turn in count(1):
        offer: Clarified | None = found.parsed(f"clarify/{turn}", form.parse)
        if offer is None:
            return
        chosen = found.parsed(f"select/{turn}", Choice(offer.offered).parse) if mode == "select" else None
        query = found.parsed(f"reformulate/{turn}", OneLine().parse)
        yield {
            "offered": list(offer.offered),
            "types": list(offer.types),
            "reasoning": offer.reasoning,
            "answers": found.answers(turn),
            "chosen": chosen,
            "query": query if chosen is None else offer.offered[chosen],
        }
