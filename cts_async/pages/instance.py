"""The page of one instance: its line of the results, the verdicts on it, the nuggets' texts from the gold, where points
were lost, and what was done before a failure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, Literal, TypeAlias, TypeVar

from cts_async.analysis.losses import NuggetLoss, QueryForms
from cts_async.analysis.run_losses import instance_losses, query_forms
from cts_async.analysis.stability import Segment, segments
from cts_async.errors import CTSError
from cts_async.foreign_json import as_count, as_list, as_object, as_text
from cts_async.llm.further import further_of, further_texts
from cts_async.llm.parsing import Choice, Clarified, OneLine, QuestionList, ShortPhrase, YesNo
from cts_async.protocol.conversation import QUERIES_OFFERED, form_of
from cts_async.protocol.judge import terms_of
from cts_async.records import SCHEMES, Scheme, language_of
from cts_async.runs.gold_texts import GoldNuggets, GoldTexts
from cts_async.runs.index import (
    NO_INSTANCE,
    Json,
    Refused,
    display_name,
    is_serializable,
)
from cts_async.runs.journal import Spent
from cts_async.runs.open_run import OpenRun
from cts_async.runs.results import (
    Contradiction,
    ResultLines,
    about_same,
    asks_of,
    contradiction_note,
    contradicts,
    failed,
    instance_name,
    judged_fingerprint,
    nuggets_of,
    score_of,
    stated_confidence,
    turns_of,
)
from cts_async.runs.trace import (
    instance_records,
    n_steps,
    search_events,
)
from cts_async.search.agent import TURN_STEP
from cts_async.search.asking import ASK_STEP
from cts_async.search.toolbox import every_tool
from cts_async.search.toolbox.ask import AskCall

Line: TypeAlias = Mapping[str, Any]
T = TypeVar("T")


def prepare(run: OpenRun, gold: GoldTexts) -> None:
    """Read the run's gold, and load the Chinese dictionary if its queries need it; both take a while."""
    gold.records(run.manifest)
    line = run.first_line()
    if line and language_of(as_text(line.get("rewritten_query")) or "") == "zh":
        segments("词", "词")
    run.prepared = True


def instance_page(run: OpenRun, id: str, gold: GoldTexts, other_runs: Sequence[str]) -> Json:
    """An instance's page; `other_runs` are the names of those over the same data. Raises Refused."""
    lines = run.results.lines()
    line_with_row = run.find(lines, id)
    if line_with_row is None:
        raise Refused(404, NO_INSTANCE)
    row, line = line_with_row
    if line.get("error") is not None:
        line = done_before(run, id) | dict(line)
    turns = turns_of(line)
    query = as_text(line.get("blurred_query")) or ""
    # Lines of other programs may have one query only.
    intent = as_text(line.get("fused_query")) or as_text(line.get("query")) or ""
    searched = as_text(line.get("rewritten_query"))
    # A conversation without an agent ends with a query that would be searched.
    if not searched and turns:
        searched = turns[-1]["query"]
    rewritten: list[Segment] = []
    if searched:
        rewritten = segments(query, searched)
    verdicts = dict(_verdicts(run, lines, row, line))
    texts = gold.nuggets(run.manifest, id, intent)
    # None while the journal is being indexed.
    n_events: int | None = None
    if run.journal_ready:
        n_events = len(search_events(run, id))
    page: Json = {
        "run": run.place.name,
        "id": id,
        "fused_query": intent,
        "blurred_query": query,
        "mode": as_text(line.get("mode")) or run.manifest.identity.mode or "at-once",
        "scheme": as_text(line.get("scheme")) or run.manifest.identity.scheme or "cts",
        "turns": turns,
        "further": _further(line),
        "rewritten_query": searched or None,
        "rewritten": rewritten,
        "answer": as_text(line.get("answer")),
        "answer_from": as_text(line.get("answer_from")),
        "search": _search_counts(line),
        "scores": [{"judge": judge, "score": score_of(verdict)} for judge, verdict in verdicts.items()],
        "contradictions": list(_contradictions(verdicts)),
        "nuggets": _nuggets(verdicts, texts, _losses(run, line, verdicts, texts)),
        "unasked": _unasked(query_forms(line)),
        "error": _error(line),
        "judge_errors": list(_judge_errors(run, lines, row)),
        "previous": _neighbour(run, lines, row - 1),
        "next": _neighbour(run, lines, row + 1),
        "beside": list(other_runs),
        "caveat": run.manifest.caveat,
        "trace_turns": n_events,
        "steps": n_steps(run, id),
        "spending": _spending(run, id),
        "tools": {kind: label._asdict() for kind, label in every_tool().labels().items()},
    }
    asks = _asks(run, id, line)
    if asks is not None:
        page["asks"] = asks
        page["agent_turns"] = as_count(as_object(line.get("search")).get("turns"))
    if "injected_turn" in line:
        page["injected_turn"] = as_count(line["injected_turn"])
    if "confidence" in line:
        page["confidence"] = stated_confidence(line)
    if run.manifest.restriction:
        page["restriction"] = run.manifest.restriction
    return page


def _asks(run: OpenRun, id: str, line: Line) -> list[Json] | None:
    """What the agent asked in its search {question, reply, turn, event}; None where it could not ask.

    `event` is the number of the question's event in the search; None while the journal is being indexed.
    """
    asks = asks_of(line)
    if asks is None:
        return None
    numbers: list[int | None] = [None] * len(asks)
    events: list[int] = []
    if run.journal_ready:
        for number, event in enumerate(search_events(run, id), 1):
            if event.kind == AskCall.tool:
                events.append(number)
    # Of an edited journal it is not known which of them is which.
    if len(events) == len(asks):
        numbers = [*events]
    for ask, event_number in zip(asks, numbers, strict=True):
        ask["event"] = event_number
    return asks


def _spending(run: OpenRun, id: str) -> Json | None:
    """What the instance's model calls took; None while the journal is being indexed, or where it is malformed.

    {"seconds", "cost", "reused": {"steps", "seconds", "cost", "runs"}}: dollars, None if a price is unknown; `reused`
    has the steps that the named runs executed, and what they took there, None without any.
    """
    if not run.journal_ready:
        return None
    spent = Spent()
    origins: dict[str, None] = {}
    try:
        for record in instance_records(run, id):
            # A step may be a local computation, or a damaged line.
            spent.add(record)
            origin = as_text(record.get("reused"))
            if origin:
                origins[display_name(origin)] = None
    except (OSError, AttributeError, TypeError, ValueError):
        return None
    prices = run.manifest.prices
    spending: Json = {"seconds": spent.latency_s, "cost": spent.cost_usd(prices), "reused": None}
    if spent.reused is not None:
        spending["reused"] = {
            "steps": spent.reused.steps,
            "seconds": spent.reused.latency_s,
            "cost": spent.reused.cost_usd(prices),
            "runs": list(origins),
        }
    return spending


def _further(line: Line) -> list[Json]:
    """What replies had beyond their forms."""
    fields: list[Json] = []
    for step, name, text in further_texts(further_of(line)):
        fields.append({"step": step, "name": name, "text": text})
    return fields


def _search_counts(line: Line) -> Json | None:
    """The counts of the search as they stand in the line; None if they cannot be sent on as JSON."""
    search = line.get("search")
    if isinstance(search, dict) and is_serializable(search):
        return search
    return None


def _verdicts(run: OpenRun, lines: ResultLines, row: int, line: Line) -> Iterator[tuple[str, Line]]:
    """Each judge's verdict on the answer, the scoring judge's first; failed, missing and other ones are left out."""
    answer = judged_fingerprint(line)
    for judge, index in run.judges().items():
        # The scoring judge's verdict stands in the line itself.
        verdict: Line | None = line
        if index is not run.results:
            verdict = run.verdict(index, lines, row)
        if verdict is None or failed(verdict) or not as_list(verdict.get("nuggets")):
            continue
        # A further judge may have judged an answer that another one has replaced since.
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
        if index is run.results:
            continue
        verdict = run.verdict(index, lines, row)
        if verdict is None:
            continue
        error = _error(verdict)
        if error:
            yield {"judge": judge} | error


def _losses(
    run: OpenRun, line: Line, verdicts: Mapping[str, Line], texts: GoldNuggets
) -> dict[str, NuggetLoss]:
    """What each nugget lost by the first judge, and where; {} while the journal is being indexed."""
    if not verdicts or not run.journal_ready:
        return {}
    scoring_verdict = next(iter(verdicts.values()))
    losses = instance_losses(run, line, scoring_verdict, texts)
    return {loss.id: loss for loss in losses}


def _nuggets(
    verdicts: Mapping[str, Line], texts: GoldNuggets, losses: Mapping[str, NuggetLoss]
) -> list[Json]:
    """The nuggets with texts and sources of the gold; those that only the gold has come last."""
    nuggets: dict[str, Json] = {}
    for judged in nuggets_of(verdicts):
        id = judged["id"]
        nuggets[id] = {"sources": []} | judged
        nuggets[id]["loss"] = _loss_json(losses.get(id))
    for id, gold_nugget in texts.items():
        if id not in nuggets:
            nuggets[id] = {"id": id, "weight": gold_nugget.weight, "coverage": {}, "loss": None}
        nuggets[id]["text"] = gold_nugget.text
        nuggets[id]["sources"] = list(gold_nugget.sources)
    return list(nuggets.values())


def _loss_json(loss: NuggetLoss | None) -> Json | None:
    if loss is None:
        return None
    document: Json | None = None
    if loss.document is not None:
        document = {
            "url": loss.document.url,
            "title": loss.document.title,
            "kind": loss.document.kind,
            "event": loss.document.event,
            "rank": loss.document.rank,
        }
    return {"points": loss.points, "stage": loss.stage, "document": document}


def _error(line: Line) -> Json | None:
    error = line.get("error")
    if error is None:
        return None
    # An object in our own results; in files of others also a text alone.
    fields = as_object(error)
    return {
        "step": as_text(fields.get("step")) or "",
        "kind": as_text(fields.get("kind")) or "failed",
        "message": as_text(fields.get("message")) or as_text(error) or "",
    }


def _neighbour(run: OpenRun, lines: ResultLines, row: int) -> str | None:
    if not 0 <= row < len(lines):
        return None
    line = run.line(run.results, int(lines.offsets[row]))
    if not line:
        return None
    return instance_name(line)


def _unasked(queries: QueryForms) -> list[str]:
    """The passages of q* whose words neither q nor the searched query has, in the words of q*; [] without a search."""
    if not queries.searched or not queries.unasked:
        return []
    unasked: list[str] = []
    for passage in segments(f"{queries.query}\n{queries.searched}", queries.intent):
        # Other wording alone is no loss: only passages with a word of content count.
        if passage["added"] and queries.unasked & terms_of(passage["text"]).content:
            unasked.append(passage["text"].strip())
    return unasked


# --- What was done before a failure


def done_before(run: OpenRun, id: str) -> dict[str, Any]:
    """The fields that a line of results would have, as far as successful steps of the journal give them."""
    replies = _Replies(instance_records(run, id))
    # A manifest that somebody edited may name any scheme and mode.
    scheme: Scheme = "cts"
    for candidate in SCHEMES:
        if candidate == run.manifest.identity.scheme:
            scheme = candidate
    if run.manifest.identity.mode == "respond":
        turns = list(_conversation(replies, scheme, "respond"))
    elif run.manifest.identity.mode == "select":
        turns = list(_conversation(replies, scheme, "select"))
    else:
        turns = list(_questions_at_once(replies, scheme, run.manifest.k or 0))
    fields: dict[str, Any] = {}
    if turns:
        fields["turns"] = turns
    rewritten = replies.parsed("rewrite", OneLine().parse)
    if rewritten:
        fields["rewritten_query"] = rewritten
    if run.manifest.identity.max_asks:
        form: ShortPhrase | YesNo = ShortPhrase()
        if run.manifest.identity.asks.get("replies") == "yes-no":
            form = YesNo()
        fields["asks"] = list(_asked_before_failure(instance_records(run, id), form))
    # The answer is there if what failed was a judge.
    events = search_events(run, id)
    if events and events[-1].kind == "answer" and events[-1].text:
        fields["answer"] = events[-1].text
    return fields


def _asked_before_failure(
    records: Iterable[Mapping[str, Any]], form: ShortPhrase | YesNo
) -> Iterator[dict[str, Any]]:
    """The questions of a search that failed, as the turns after them noted them, with the user's replies."""
    replies: dict[str, str] = {}
    noted: dict[int, list[tuple[str, str]]] = {}
    for record in records:
        if record.get("ok") is not True:
            continue
        step = as_text(record.get("step")) or ""
        if step.startswith(ASK_STEP):
            text = as_text(as_object(record.get("response")).get("text")) or ""
            with suppress(CTSError, ValueError):
                replies[step] = form.parse(text).text
        number = step.removeprefix(TURN_STEP)
        if number == step or not number.isdecimal():
            continue
        questions: list[tuple[str, str]] = []
        for call in map(as_object, as_list(as_object(record.get("notes")).get("calls"))):
            if call.get("kind") == AskCall.tool:
                questions.append((as_text(call.get("request")) or "", as_text(call.get("record")) or ""))
        noted[int(number) - 1] = questions
    for turn, questions in sorted(noted.items()):
        for question, step in questions:
            yield {"question": question, "reply": replies.get(step, ""), "turn": turn}


class _Replies:
    """The replies of successful steps by name, the latest of each."""

    def __init__(self, records: Iterator[Mapping[str, Any]]) -> None:
        self._texts: dict[str, str] = {}
        for record in records:
            if record.get("ok") is True:
                step = as_text(record.get("step")) or ""
                self._texts[step] = as_text(as_object(record.get("response")).get("text")) or ""

    def parsed(self, step: str, parse: Callable[[str], T]) -> T | None:
        """A reply read by its form; None if there is none, or none of that form."""
        if step not in self._texts:
            return None
        with suppress(CTSError, ValueError):
            return parse(self._texts[step])
        return None

    def answers(self, turn: int) -> list[str]:
        """The user's answer at a turn, or to a question, from 1; [] without one."""
        answer = self.parsed(f"answer/{turn}", ShortPhrase().parse)
        if answer is None:
            return []
        return [answer.text]


def _questions_at_once(replies: _Replies, scheme: Scheme, k: int) -> Iterator[dict[str, Any]]:
    """Each question with its answer. The step is called `clarify` with the paper's scheme, `clarify/1` with others."""
    questions = replies.parsed("clarify", QuestionList(k).parse) or ()
    offer = replies.parsed("clarify/1", form_of(scheme, "at-once", k).parse)
    if offer is not None:
        questions = offer.offered
    for n, question in enumerate(questions, 1):
        yield {"offered": [question], "answers": replies.answers(n)}


def _conversation(
    replies: _Replies, scheme: Scheme, mode: Literal["respond", "select"]
) -> Iterator[dict[str, Any]]:
    """The turns of a conversation, up to the first without an offer."""
    n_offered = 1
    if mode == "select":
        n_offered = QUERIES_OFFERED
    form = form_of(scheme, mode, n_offered)
    for turn in count(1):
        offer: Clarified | None = replies.parsed(f"clarify/{turn}", form.parse)
        if offer is None:
            return
        query = replies.parsed(f"reformulate/{turn}", OneLine().parse)
        chosen: int | None = None
        # In this mode the chosen query is the next one, and nothing is reformulated.
        if mode == "select":
            chosen = replies.parsed(f"select/{turn}", Choice(offer.offered).parse)
        if chosen is not None:
            query = offer.offered[chosen]
        yield {
            "offered": list(offer.offered),
            "types": list(offer.types),
            "reasoning": offer.reasoning,
            "answers": replies.answers(turn),
            "chosen": chosen,
            "query": query,
        }
