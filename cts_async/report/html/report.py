"""From what was gathered to the file: the report as one page, written whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from cts_async import __version__
from cts_async.report.all_tables import smoke_test
from cts_async.report.comparison_tables import headline
from cts_async.report.gathered import Gathered
from cts_async.report.html.document import Page, document
from cts_async.report.html.element import Node, element, said
from cts_async.report.html.figures import figures_data
from cts_async.report.html.sections import Contents, notes, sections
from cts_async.report.plots import plotly_js
from cts_async.safe_files import written_whole

MOST_NAMED: Final = 12
"""Systems that are named below the title."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a report comes from."""

    command: str
    """What makes it again."""
    made: datetime


def write_report(path: Path, contents: Contents, origin: Origin) -> None:
    """Write the page. Raises UsageError or StorageFull; what was there before stays then."""
    page = _page(contents, origin)
    with written_whole(path) as file:
        for piece in document(page):
            file.write(piece.encode())


def _page(contents: Contents, origin: Origin) -> Page:
    drawn = contents.drawn.figures
    return Page(
        title=_title(contents.gathered),
        lead=tuple(_lead(contents.gathered, origin)),
        sections=sections(contents),
        foot=(
            element("p", "Made again by: ", said(origin.command, "code"), class_="command"),
            element("p", f"cts_async {__version__}, {origin.made:%Y-%m-%d %H:%M} UTC."),
        ),
        plotly=plotly_js() if drawn else "",
        data=figures_data(drawn) if drawn else None,
    )


def _title(gathered: Gathered) -> str:
    if not gathered.summaries and gathered.talks:
        return f"Clarifying conversations over {_data(gathered)}"
    return f"Clarify-Then-Search over {_data(gathered)}"


def _data(gathered: Gathered) -> str:
    """What the runs were over, by name."""
    runs = (*gathered.summaries, *gathered.talks)
    datas = ((run.manifest.get("identity") or {}).get("data") or {} for run in runs)
    return next((str(data["name"]) for data in datas if data.get("name")), "judged answers")


def _lead(gathered: Gathered, origin: Origin) -> Iterator[Node]:
    systems = gathered.board.systems if gathered.board else [talk.label for talk in gathered.talks]
    made = f". Report of {origin.made:%Y-%m-%d %H:%M} UTC."
    yield element("p", _counted(systems), made, class_="about")
    if gathered.embedded:
        yield said(smoke_test(gathered), "p", class_="warning", role="note")
    if gathered.compared and (lines := list(headline(gathered.compared))):
        yield element("ul", (said(line, "li") for line in lines), class_="headline")
    yield from notes(gathered)


def _counted(systems: Sequence[str]) -> Iterator[Node]:
    yield "One system: " if len(systems) == 1 else f"{len(systems)} systems: "
    for i, system in enumerate(systems[:MOST_NAMED]):
        yield from (", " if i else None, said(system))
    if len(systems) > MOST_NAMED:
        yield f" and {len(systems) - MOST_NAMED} more"
