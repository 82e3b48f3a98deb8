"""Everything that conversations are evaluated by, as tables: how they went, the questions that were asked,
and what is retrieved turn by turn (AT-CoT, SIGIR 2025, tables 5 to 8)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

from cts_async.analysis.asked_first import asked_first, retrieved_first, source_of
from cts_async.analysis.conversations import Talk, read_talk
from cts_async.analysis.retrieval import count_hopeless, hopeless_note, measure
from cts_async.analysis.similarity import Scorer
from cts_async.analysis.talk_groups import TalkGroup, talk_groups
from cts_async.analysis.turn_retrieval import TurnRetrieval, queries_of, rankings, retrieve_turns
from cts_async.report.data_table import Column, DataTable, number, text
from cts_async.report.generation_tables import generation_tables
from cts_async.report.summary import RunSummary
from cts_async.report.talk_judgments import Judgments, Talked
from cts_async.report.turn_tables import PUBLISHED_MEASURE, turn_tables

Told: TypeAlias = Callable[[str, int, int], Any]
"""Called with what is done, how much of it is, and of how much."""
ALIGNMENT: Final = "generation_and_retrieval"
"""The name of the table of section 7."""
NO_QUERIES: Final = (
    "No conversation made a query, so there is nothing to retrieve: --mode respond or select does."
)
WEB_TRACK: Final = "qulac"
"""The dataset whose topics are those of the TREC Web Track 2009-2012, which the paper evaluates on."""


@dataclass(frozen=True, slots=True)
class TalkReport:
    """Tables to print and to give as JSON, and remarks that a reader needs before believing them."""

    tables: tuple[DataTable, ...]
    notes: tuple[str, ...]
    retrieved: tuple[TurnRetrieval, ...] = ()
    """Turn by turn, of each Clarifier; none without documents."""
    judgments: str = ""
    """What was searched and who judged; "" without documents."""


def talks_of(directories: Iterable[Path]) -> list[Talk]:
    """The conversations of those run directories that have begun."""
    return [read_talk(directory) for directory in directories if (directory / "run.json").exists()]


def evaluate_talks(
    plan: Talked, judgments: Judgments | None, scorer: Scorer, measures: Sequence[str], told: Told
) -> TalkReport:
    """Every table there is something for, group of talks by group (`talk_groups`), over the plan's instances."""
    over = _Over.of(plan)
    groups = talk_groups(talks_of(plan.directories()))
    searched = judgments.caption if judgments else ""
    tables: list[DataTable] = []
    notes: dict[str, None] = {}
    retrieved: list[TurnRetrieval] = []
    for group in groups:
        found = None
        of_it: list[DataTable] = []
        if judgments:
            found = _retrieved(over, group, judgments, measures, told)
            retrieved.append(found)
            of_it += turn_tables(found, searched, published=_published(plan, judgments))
            notes |= dict.fromkeys(_notes(found, over, judgments, published=_published(plan, judgments)))
        generation = _generation(plan, over, group.talks, scorer, found, searched, told)
        notes |= dict.fromkeys(_sources(generation, group.talks, found))
        of_it = [*generation, *of_it]
        tables += _by_name(of_it, group.name) if len(groups) > 1 else of_it
    if retrieved and not any(found.cells for found in retrieved):
        notes[NO_QUERIES] = None
    if not judgments:
        notes["Nothing was retrieved: name documents with --corpus FILE.jsonl."] = None
    return TalkReport(tuple(tables), tuple(notes), tuple(retrieved), searched)


def _by_name(tables: Iterable[DataTable], group: str) -> Iterator[DataTable]:
    word = re.sub(r"[/:]|, ", "_", group).replace(" ", "-")
    for table in tables:
        yield replace(table, name=f"{table.name}_{word}", title=f"{table.title}: {group}")


def _published(plan: Talked, judgments: Judgments) -> bool:
    """Whether the paper's values may stand beside: people judged, and the topics are the paper's."""
    return judgments.given is not None and plan.dataset.name == WEB_TRACK


def conversations_table(summaries: Sequence[RunSummary]) -> DataTable:
    """How the conversations of whole runs went and what they cost."""
    rows = [
        {
            "run": str(one.directory),
            "system": one.label,
            "done": one.n_done,
            "failed": len(one.failures),
            "expected": one.n_expected,
            "unknown_rate": one.unknown_rate,
            "calls": one.spent.calls,
            "tokens": sum(sum(used.values()) for used in one.spent.tokens.values()),
            "cost_usd": one.spent.cost_usd(one.manifest.get("prices", {})),
        }
        for one in summaries
    ]
    columns = (
        Column("system", text("system"), numeric=False),
        Column("done", lambda row: f"{row['done']}/{row['expected']}"),
        Column("failed", text("failed")),
        Column("unknown", number("unknown_rate", ".1%")),
        Column("calls", number("calls", ",")),
        Column("tokens", number("tokens", ",")),
        Column("USD", number("cost_usd", ".2f")),
    )
    caption = "unknown: answers of the user that the intent does not give"
    return DataTable("conversations", "Conversations", caption, columns, rows)


@dataclass(frozen=True, slots=True)
class _Over:
    """The instances that everything is evaluated over: q and q* by id, in the data's order."""

    blurred: Mapping[str, str]
    intents: Mapping[str, str]

    @classmethod
    def of(cls, plan: Talked) -> _Over:
        blurred, intents = {}, {}
        for instance in plan.instances():
            blurred[instance.id], intents[instance.id] = instance.blurred_query, instance.fused_query
        return cls(blurred, intents)


def _generation(
    plan: Talked,
    over: _Over,
    talks: Sequence[Talk],
    scorer: Scorer,
    found: TurnRetrieval | None,
    judged_by: str,
    told: Told,
) -> list[DataTable]:
    """Tables 5 to 7 and the correlation; none where nobody annotated the queries, or nobody asked a question."""
    if plan.dataset.annotations is None or source_of(talks) is None:
        return []
    tables = generation_tables(
        asked_first(talks, over.blurred),
        plan.dataset.annotations(),
        scorer,
        retrieved_first(found, found.measures[0], over.blurred) if found else None,
        dataset=plan.dataset.name,
        told=partial(told, "comparing questions"),
    )
    return [_judged_by(table, judged_by) if table.name == ALIGNMENT else table for table in tables]


def _judged_by(table: DataTable, caption: str) -> DataTable:
    """The table with who judged what was retrieved, in its rows as well, which may be read without it."""
    rows = [{**row, "judgments": caption} for row in table.rows]
    return replace(table, caption=f"{table.caption} Retrieval: {caption}.", rows=rows)


def _sources(
    generation: Sequence[DataTable], talks: Sequence[Talk], found: TurnRetrieval | None
) -> Iterator[str]:
    """What tables 5 to 7 and the correlation are made of."""
    if not generation:
        return
    if source_of(talks) == "at-once":
        k = max(talk.k for talk in talks if talk.mode == "at-once")
        yield f"Tables 5 to 7 are of {k} questions asked at once about each query, as the paper generates several."
    else:
        yield (
            "Tables 5 to 7 are of the first question of respond; --mode at-once generates several for each query, "
            "as the paper does."
        )
    if any(table.name == ALIGNMENT for table in generation) and found:
        yield f"Retrieval in the table of section 7 is {found.measures[0]}."


def _retrieved(
    over: _Over, group: TalkGroup, judgments: Judgments, measures: Sequence[str], told: Told
) -> TurnRetrieval:
    queries = _counted(queries_of(group.talks, over.blurred), "retrieving", told)
    ranked = dict(rankings(judgments.ranker, queries, measures))
    qrels = judgments.qrels(over.intents)
    return retrieve_turns(
        group.talks, over.blurred, ranked, qrels, measures, name=group.name, level=judgments.level
    )


def _counted(queries: Sequence[str], what: str, told: Told) -> Iterator[str]:
    for done, query in enumerate(queries, start=1):
        yield query
        told(what, done, len(queries))


def _notes(found: TurnRetrieval, over: _Over, judgments: Judgments, *, published: bool) -> Iterator[str]:
    if not found.cells:
        return
    n_judged, n = len(found.without[found.measures[0]]), len(over.blurred)
    if n_judged < n:
        yield f"{n - n_judged} of {n} instances have no judgments and are left out."
    given = judgments.given or {}
    if hopeless := count_hopeless({id: given.get(id, {}) for id in over.blurred}, level=judgments.level):
        yield f"{hopeless_note(hopeless, f'{n} instances', judgments.level)}."
    if any(cell.n(found.measures[0]) < n_judged for cell in found.cells):
        yield (
            "Conversations that failed or are not held yet count nowhere: where n differs, means are over different "
            "instances; tests and marks pair those that both have."
        )
    everything = (found.without, *(cell.scores for cell in found.cells))
    if not any(value for scores in everything for by_id in scores.values() for value in by_id.values()):
        yield "No query found a single relevant document: are these judgments of this corpus?"
    if judgments.given is None:
        yield from _standin_notes(found, judgments.standin_depth)
    if published:
        yield (
            f"paper: {PUBLISHED_MEASURE} of AT-CoT's table 8 (TREC Web Track 2009-2012), with Llama-3-8B over "
            "ClueWeb09-B, BM25 re-ranked by MonoT5, 198 topics with 717 intents."
        )


def _standin_notes(found: TurnRetrieval, depth: int) -> Iterator[str]:
    """What stand-ins make of a table: they favour the intent's own words, and some measures hardly tell them apart."""
    yield (
        "Stand-in judgments show how close queries come to their intent's own words in the same ranker, so a user "
        "who repeats the intent wins: they compare schemes on one corpus, and are no result to report."
    )
    rr = [name for name in found.measures if measure(name).startswith("RR")]
    if rr and depth > 1:
        yield (
            f"{', '.join(rr)} is 1 wherever any of an intent's {depth} stand-ins comes first; --qrels intent:1 asks "
            "for the best of them."
        )
