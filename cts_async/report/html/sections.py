"""What the report says, section by section: figures first, then the tables behind them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import orjson

from cts_async.report.all_tables import Group, Grouped, named_runs
from cts_async.report.gathered import Gathered, OpenedRun
from cts_async.report.html.document import Section
from cts_async.report.html.element import Element, Node, element, said
from cts_async.report.html.figures import figure_section, left_out_note
from cts_async.report.html.instances import run_section, viewer_folder
from cts_async.report.html.tables import table_section
from cts_async.report.plots import Drawn, Figure, LeftOut

TITLES: Final[dict[Group, str]] = {
    "runs": "What was run",
    "scores": "Scores",
    "judges": "Judges",
    "questions": "Questions and answers",
    "effort": "Cost, time, searches and visits",
    "failures": "Failures",
    "conversations": "Conversations",
}
_FIGURES: Final[dict[Group, tuple[str, ...]]] = {
    "scores": ("leaderboard", "gain", "scores", "better_or_worse", "gain_by_instance"),
    "judges": ("judges", "agreement"),
    "effort": ("cost", "time"),
    "conversations": ("turns",),
}
"""Which figures belong where, by the beginning of their names; all others are about questions."""


@dataclass(frozen=True, slots=True)
class Contents:
    """All that the page is made of."""

    gathered: Gathered
    tables: Sequence[Grouped]
    drawn: Drawn
    opened: Sequence[OpenedRun]
    opened_notes: Sequence[str]


def sections(contents: Contents) -> tuple[Section, ...]:
    """Every section there is something for."""
    found = [_of_group(contents, group, title) for group, title in TITLES.items()]
    found += [_instances(contents), _manifests(contents.gathered)]
    return tuple(one for one in found if one.body)


def _of_group(contents: Contents, group: Group, title: str) -> Section:
    figures = [one for one in contents.drawn.figures if _group_of(one) == group]
    left_out = [one for one in contents.drawn.left_out if _group_of(one) == group]
    tables = [one.told for one in contents.tables if one.group == group]
    body: list[Node] = [figure_section(figure) for figure in figures]
    body += [table_section(told) for told in tables]
    if group == "questions" and contents.gathered.diagnosis:
        body += [_note(note) for note in contents.gathered.diagnosis.notes]
    if group == "conversations" and contents.gathered.talked:
        body += [_note(note) for note in contents.gathered.talked.notes]
    if group == "failures" and not tables and contents.gathered.summaries:
        body.append(element("p", "Nothing failed."))
    if figures or tables:  # else the section has nothing, and why its figures are missing is no news
        body += [left_out_note(one) for one in left_out]
    return Section(group, title, tuple(body))


def _group_of(figure: Figure | LeftOut) -> Group:
    for group, names in _FIGURES.items():
        if figure.name.startswith(names):
            return group
    return "questions"


def _instances(contents: Contents) -> Section:
    runs = [run_section(run, number) for number, run in enumerate(contents.opened, start=1)]
    body: list[Node] = []
    if runs:
        measures = " and ".join(dict.fromkeys(run.measure for run in contents.opened))
        lead = (
            "Where scores are lowest and highest, and where most was lost and gained, by "
            f"{measures}. In a rewritten query words are marked that the query did not have. Links "
            f"lead into the viewer; start it with {_viewer_commands(contents.opened)}."
        )
        body = [said(lead, "p"), *(_note(note) for note in contents.opened_notes), *runs]
    return Section("instances", "Instances worth a look", tuple(body))


def _viewer_commands(opened: Sequence[OpenedRun]) -> str:
    """What shows these runs under the names that links give them; one of it, where they lie apart."""
    folders = dict.fromkeys(viewer_folder(run.directory) for run in opened)
    return " or, for runs that lie there, ".join(
        shlex.join(["cts", "view", str(folder)]) for folder in folders
    )


def _manifests(gathered: Gathered) -> Section:
    talks = [(talk.label, talk) for talk in gathered.talks]
    return Section(
        "manifests",
        "Manifests",
        tuple(_manifest(name, run.manifest) for name, run in (*named_runs(gathered), *talks)),
    )


def _manifest(name: str, manifest: object) -> Element:
    text = orjson.dumps(manifest, option=orjson.OPT_INDENT_2).decode()
    box = element("pre", said(text, "code"), class_="box", tabindex=0)
    return element("details", element("summary", said(name)), box)


def _note(text: str) -> Element:
    return said(text, "p", class_="remark")


def notes(gathered: Gathered) -> Iterator[Element]:
    """What a reader has to know before believing the numbers."""
    yield from (_note(note) for note in gathered.notes)
