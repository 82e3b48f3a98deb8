"""What the collections hold beyond their instances, with every reader that there is for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from cts_async.datasets.clariq import read_collection
from cts_async.datasets.clariq_rows import read_question_bank
from cts_async.datasets.contents import Contents, Fact, Span, contents_of, counted
from cts_async.datasets.dataset import Dataset
from cts_async.datasets.mimics_duo import FILES, read_panes
from cts_async.datasets.qulac_table import read_qulac

CLARIQ_BANK: Final = "question_bank.tsv"
CLARIQ_TEST: Final = "test.tsv"
"""These two are read where they lie beside the file or files with labels."""


def qulac_contents(dataset: Dataset, fields: Mapping[str, str] | None) -> Contents:
    """The instances, and all eleven columns behind them. Raises InputError."""
    found, table = contents_of(dataset, fields), read_qulac(dataset.path)
    ambiguous = sum(topic.kind == "ambiguous" for topic in table.topics)
    topics = len(table.topics)
    text = f"{counted(topics, 'topic')}: {topics - ambiguous:,} faceted, {ambiguous:,} ambiguous"
    fact = Fact("topics", {"total": topics, "ambiguous": ambiguous}, text)
    notes = list(found.notes)
    if table.repeated:
        ids = ", ".join(one.id for one in table.repeated)
        notes.append(f"{counted(len(table.repeated), 'id')} with several answers, all kept: {ids}")
    if table.slips:
        notes.append(f"facet_type 'inv' read as 'inf': {', '.join(table.slips)}")
    return Contents((*found.facts, fact), tuple(notes))


def clariq_contents(dataset: Dataset, fields: Mapping[str, str] | None) -> Contents:
    """The instances, and what the release has beside them. Raises InputError."""
    found = contents_of(dataset, fields)
    return Contents((*found.facts, *_beside_clariq(dataset.path.parent)), found.notes)


def _beside_clariq(folder: Path) -> Iterator[Fact]:
    bank, test = folder / CLARIQ_BANK, folder / CLARIQ_TEST
    if bank.exists():
        n = len(read_question_bank(bank))
        yield Fact("question_bank", n, f"{CLARIQ_BANK}: {counted(n, 'question')}")
    if test.exists():
        n = len(read_collection((test,)).topics)
        yield Fact("test_topics", n, f"{CLARIQ_TEST}: {counted(n, 'topic')}")


def pane_contents(folder: Path) -> Contents:
    """MIMICS-Duo's four files, joined. Raises InputError."""
    panes, options, queries, clicked = 0, Span(), set(), 0
    for pane in read_panes(folder):
        panes += 1
        options.add(len(pane.options))
        queries.add(hash(pane.query))
        clicked += pane.engagement_level > 0
    spread = f"{options.total:,} options, {options} a pane"
    facts = (
        Fact("panes", panes, counted(panes, "pane")),
        Fact("queries", len(queries), counted(len(queries), "distinct query")),
        Fact("options", {"total": options.total, **options.as_json()}, spread),
        Fact("clicked", clicked, f"{counted(clicked, 'pane')} with clicks"),
        Fact("files", len(FILES), "all four files agree"),
    )
    return Contents(facts)
