"""The report as one self-contained HTML file: tables, figures, and single instances, folded."""

from __future__ import annotations

import hashlib
import shlex
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import zip_longest
from operator import itemgetter
from pathlib import Path
from string import Template
from typing import Any, Final
from urllib.parse import urlencode

import orjson

from cts_async import __version__
from cts_async.analysis.compare import Extreme
from cts_async.pages.contents import (
    Gathered,
    Group,
    GroupedTable,
    Opened,
    OpenedRun,
    all_runs,
    caveat_lines,
    contradictions,
    named_runs,
)
from cts_async.pages.markup import Markup, Node, element, program, rendered, untrusted
from cts_async.pages.plots import Drawn, Figure, LeftOutFigure, plotly_js, template
from cts_async.pages.plots.figure import LINE_BREAK, hover_texts, unescaped
from cts_async.records import language_of
from cts_async.runs.files import MANIFEST
from cts_async.runs.index import Json
from cts_async.runs.manifest import name_of_data
from cts_async.safe_files import atomic_writer
from cts_async.tables.comparison import answer_sentence, headline
from cts_async.tables.output import counted
from cts_async.tables.published import published_lines
from cts_async.tables.results import tool_notices
from cts_async.tables.table import Column, DataTable, Row, best_cells, bold_legend, written_rows

# --- Single instances, folded: from the blurred query to every nugget

VIEWER: Final = "http://127.0.0.1:8518/#/instance?"
"""The address of an instance in `cts view`, on its default port."""
ANSWER_CHARS: Final = 2_000
_TEXT_CHARS: Final = 1_000
_SIGNS: Final = {"full": "●", "partial": "◐", "none": "○"}


def run_section(run: OpenedRun, number: int) -> Markup:
    """A system's instances, each with the reason why it is shown."""
    title = f"run-{number}"
    instances = (_instance(one, run, f"{title}-{n}") for n, one in enumerate(run.instances, start=1))
    name = f"{run.system} ({run.caveat})" if run.caveat else run.system
    return element("section", untrusted(name, "h3", id=title), instances, aria_labelledby=title)


def _instance(one: Opened, run: OpenedRun, anchor: str) -> Markup:
    page, turns = one.page, one.page["turns"]
    conversation = element("ol", (element("li", _turn(turn)) for turn in turns)) if turns else None
    rewritten = turns and page["mode"] != "select"
    summary = element(
        "summary",
        element("span", ", ".join(one.extreme.why), class_="why"),
        " ",
        element("span", _points(one.extreme, run), class_="points"),
        " ",
        untrusted(_cut(page["blurred_query"] or page["fused_query"], _TEXT_CHARS), "span", class_="query"),
    )
    parts = [
        ("Blurred query (q)", _quoted(page["blurred_query"])),
        ("Intent query (q*)", _quoted(page["fused_query"])),
        ("Questions and answers", conversation),
        ("More of the replies", _further(page)),
        ("Rewritten query" if rewritten else "Searched query", _rewritten(page)),
        ("Answer", _quoted(page["answer"], "div", class_="answer")),
        ("Nuggets", _nuggets(page)),
    ]
    details = element("dl", ([element("dt", name), element("dd", part)] for name, part in parts if part))
    return element("details", summary, details, _link(one, run), id=anchor, class_="instance")


def _points(extreme: Extreme, run: OpenedRun) -> Iterator[Node]:
    yield f"{extreme.score:.{run.decimals}f}"
    if extreme.gain is not None:
        yield from (f", {extreme.gain:+.{run.decimals}f} over ".replace("-", "−"), untrusted(run.baseline))


def _link(one: Opened, run: OpenedRun) -> Markup:
    where = urlencode({"run": _viewer_name(run.directory), "id": one.extreme.id}, errors="replace")
    name = element("span", "Instance ", untrusted(one.extreme.id), ": ")
    return element("p", name, element("a", "open it in the viewer", href=VIEWER + where), class_="link")


def viewer_folder(directory: Path) -> Path:
    """The folder that the viewer must show, so that the run has the name used in links."""
    place = directory if len(directory.parts) > _viewer_depth(directory) else directory.resolve()
    return place.parents[_viewer_depth(directory) - 1]


def _viewer_name(directory: Path) -> str:
    """A run's name in the viewer: its folder, after that of its judging if it is one of several candidates."""
    return "/".join(directory.resolve().parts[-_viewer_depth(directory) :])


def _viewer_depth(directory: Path) -> int:
    return 2 if (directory.resolve().parent / MANIFEST).is_file() else 1


def _quoted(text: str | None, tag: str = "p", **attributes: str) -> Node:
    return untrusted(_cut(text, ANSWER_CHARS), tag, **attributes) if text else None


def _turn(turn: Json) -> Iterator[Node]:
    """Questions with their answers, or offered queries; and the query after it."""
    offered, answers, chosen = turn["offered"], turn["answers"], turn["chosen"]
    if chosen is not None:
        yield element("ul", (_offer(text, chosen=i == chosen) for i, text in enumerate(offered)))
    else:
        for question, answer in zip_longest(offered, answers[: len(offered)], fillvalue=""):
            yield untrusted(_cut(question, _TEXT_CHARS), "p", class_="asked")
            if answer:
                kind = "unknown" if answer == "unknown" else "answered"
                yield untrusted(_cut(answer, _TEXT_CHARS), "p", class_=kind)
    if query := turn["query"]:
        yield element("p", "Query now: ", untrusted(_cut(query, _TEXT_CHARS)), class_="now")


def _offer(text: str, *, chosen: bool) -> Markup:
    cut = untrusted(_cut(text, _TEXT_CHARS))
    return element("li", element("strong", cut, " (chosen)") if chosen else cut)


def _further(page: Json) -> Node:
    """What replies had beyond their forms, by step and under its own name."""
    rows: list[Node] = []
    for field in page["further"]:
        text = untrusted(_cut(field["text"], _TEXT_CHARS))
        rows.append(
            element(
                "p", untrusted(field["step"], "code"), " ", untrusted(field["name"], "strong"), ": ", text
            )
        )
    return element("div", rows) if rows else None


def _rewritten(page: Json) -> Node:
    if not (text := page["rewritten_query"]):
        return None
    words = [element("mark", one["text"]) if one["added"] else one["text"] for one in page["rewritten"]]
    return element("p", words, dir="auto", lang="zh" if language_of(text) == "zh" else None)


def _nuggets(page: Json) -> Node:
    scores = {one["judge"]: one["score"] for one in page["scores"]}
    if not scores:
        return None
    head = [element("th", name, scope="col") for name in ("nugget", "weight", "text")]
    head += [element("th", untrusted(judge), scope="col") for judge in scores]
    listed = ", ".join(f"{judge} -" if of is None else f"{judge} {of:.2f}" for judge, of in scores.items())
    table = element(
        "table",
        element("caption", element("span", "Coverage by judge; scores: ", untrusted(listed), ".")),
        element("thead", element("tr", head)),
        element("tbody", (element("tr", _nugget(row, scores)) for row in page["nuggets"])),
    )
    label = f"Nuggets of {page['id']}"
    return element("div", table, class_="box nuggets", tabindex=0, role="region", aria_label=label)


def _nugget(row: Json, judges: Iterable[str]) -> Iterator[Markup]:
    yield element("th", untrusted(row["id"]), scope="row")
    yield element("td", f"{row['weight']:g}", class_="number")
    yield element("td", untrusted(_cut(row["text"], _TEXT_CHARS)) if row["text"] else "-")
    for judge in judges:
        label = row["coverage"].get(judge, "-")
        kind = f"label {label}" if label in _SIGNS else None
        yield element("td", f"{_SIGNS.get(label, '')} ", untrusted(label), class_=kind)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]} … ({len(text):,} characters)"


# --- Contents

MAX_ROWS: Final = 500
"""Rows of a table in the page; --tables writes all of them."""
MAX_UNFOLDED: Final = 40
"""Longer tables are folded."""
DATA_ID: Final = "figures"
MAX_POINTS: Final = 200
TITLES: Final[dict[Group, str]] = {
    "runs": "Runs",
    "scores": "Scores",
    "judges": "Judges",
    "losses": "Where points are lost",
    "questions": "Questions and answers",
    "published": "Compared with the paper",
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
"""Groups of figures by the first words of their names; all others are about questions."""
_OPENING: Final = ("gain", "leaderboard", "turns")
_KEYS: Final = ("series", "point", "value", "details")


@dataclass(frozen=True, slots=True)
class ReportContents:
    """Everything that the page shows."""

    gathered: Gathered
    tables: Sequence[GroupedTable]
    drawn: Drawn
    opened: Sequence[OpenedRun]
    opened_notes: Sequence[str]


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a report."""

    command: str
    """The command that makes it again."""
    made: datetime


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page with an entry in the table of contents."""

    anchor: str
    title: str
    body: Sequence[Node]


# --- The page


def write_report(path: Path, contents: ReportContents, origin: Origin) -> None:
    """Write the page. Raises UsageError or StorageFull, and leaves an existing file unchanged then."""
    with atomic_writer(path) as file:
        file.write(_page(contents, origin).encode())


def _page(contents: ReportContents, origin: Origin) -> str:
    """The whole page. Its policy allows its own scripts by their hashes, and no others."""
    title, figures = _title(contents.gathered), contents.drawn.figures
    scripts = [parsed_script(text) for text in (plotly_js(), page_text("page.js"))] if figures else []
    parts = [one for one in sections(contents) if one.body]
    no_script = "Figures need JavaScript, which is disabled here; their data is shown below."
    values: dict[str, Node] = {
        "policy": element("meta", http_equiv="Content-Security-Policy", content=policy(scripts)),
        "title": title,
        "style": program(page_text("page.css")),
        "header": [untrusted(title, "h1"), *_lead(contents, origin)],
        "no_script": element("noscript", element("p", no_script, class_="warning")) if figures else None,
        "contents": (element("li", element("a", one.title, href=f"#{one.anchor}")) for one in parts),
        "sections": map(_section, parts),
        "command": untrusted(origin.command, "code"),
        "made": f"cts_async {__version__}, {origin.made:%Y-%m-%d %H:%M} UTC.",
        "scripts": [figures_data(figures) if figures else None, *(element("script", one) for one in scripts)],
    }
    page = Template(page_text("page.html"))
    return page.substitute({name: rendered(value) for name, value in values.items()})


def policy(scripts: Sequence[str]) -> str:
    """A Content-Security-Policy: nothing is fetched or sent, and only these scripts run. Plotly needs inline styles."""
    digests = [b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def parsed_script(text: str) -> Markup:
    """A script with the line breaks that an HTML parser makes of it: browsers hash the parsed text."""
    return program(text.replace("\r\n", "\n").replace("\r", "\n"))


def page_text(name: str) -> str:
    """A file beside this one."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _section(one: Section) -> Markup:
    title = f"{one.anchor}-title"
    return element(
        "section", element("h2", one.title, id=title), one.body, id=one.anchor, aria_labelledby=title
    )


# --- Tables


def table_section(table: DataTable) -> Markup:
    """A table with title and remarks; folded if it is long, or if commands print it only on request."""
    anchor = f"table-{table.name}"
    rows = written_rows(table)[:MAX_ROWS]
    legend = bold_legend(table, best_cells(rows, table.columns))
    remarks = [_note(remark) for remark in (*legend, *table.remarks)]
    whole = table.shown == 0 or len(table.rows) > MAX_UNFOLDED
    body: list[Node] = [table_box(table, f"{anchor}-title"), *remarks]
    if whole:
        body = [element("details", element("summary", counted(len(table.rows), "row")), body)]
    return element(
        "section", untrusted(table.title, "h3", id=f"{anchor}-title"), body, id=anchor, class_="table"
    )


def table_box(table: DataTable, labelled_by: str) -> Markup:
    """A table in a box that scrolls sideways, also with the keyboard."""
    rows = written_rows(table)
    more = len(rows) - MAX_ROWS
    rows, best = rows[:MAX_ROWS], best_cells(rows[:MAX_ROWS], table.columns)
    caption = [table.caption] + ([f"The first {MAX_ROWS} of {len(rows) + more:,} rows."] if more > 0 else [])
    text = ". ".join(part.rstrip(".") for part in caption if part)
    head = element("tr", (_heading(column) for column in table.columns))
    body = [
        element("tr", (_cell(column, row, j, best=(i, j) in best) for j, column in enumerate(table.columns)))
        for i, row in enumerate(rows)
    ]
    drawn = element(
        "table",
        element("caption", untrusted(f"{text}.", "span")) if text else None,
        element("thead", head),
        element("tbody", body),
    )
    return element("div", drawn, class_="box", tabindex=0, role="region", aria_labelledby=labelled_by)


def _heading(column: Column) -> Markup:
    return element("th", untrusted(column.heading), scope="col", class_="number" if column.numeric else None)


def _cell(column: Column, row: Row, place: int, *, best: bool) -> Markup:
    text = column.show(row)
    shown: Node = element("strong", text) if best else text if column.numeric else untrusted(text)
    if place == 0 and not column.numeric:
        return element("th", shown, scope="row")
    return element("td", shown, class_="number" if column.numeric else None)


# --- Figures


def figure_section(figure: Figure, heading: str = "h3") -> Markup:
    """A figure with its caption, its text alternative and its data as a table."""
    anchor = f"figure-{figure.name}"
    numbers = numbers_of(figure)
    folded = element(
        "details",
        element("summary", "Show data"),
        untrusted(figure.alt, "p"),
        table_box(numbers, f"{anchor}-title") if numbers.rows else None,
        class_="numbers",
    )
    height = int(figure.spec["layout"].get("height") or 0) or None
    drawn = element(
        "div", class_="plot", role="group", aria_label=figure.alt, data_figure=figure.name, data_height=height
    )
    return element(
        "section",
        untrusted(figure.title, heading, id=f"{anchor}-title"),
        element("figure", drawn, element("figcaption", untrusted(figure.caption))),
        folded,
        id=anchor,
        class_="figure",
    )


def left_out_note(one: LeftOutFigure) -> Markup:
    """Why a figure is left out."""
    return element(
        "p", "No figure ", element("em", untrusted(one.title)), ": ", untrusted(one.reason), class_="remark"
    )


def figures_data(figures: Sequence[Figure]) -> Markup:
    """The data that the script draws: specs by name, and templates by theme."""
    value = {
        "figures": {figure.name: figure.spec for figure in figures},
        "themes": {theme: template(theme) for theme in ("light", "dark")},
    }
    return element("script", program(script_json(value)), type="application/json", id=DATA_ID)


def script_json(value: Any) -> str:
    """JSON that is safe inside a script element: nothing in it ends the element or a line."""
    data = orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY).decode()
    for character in "<>&\u2028\u2029":
        data = data.replace(character, f"\\u{ord(character):04x}")
    return data


def numbers_of(figure: Figure) -> DataTable:
    """A figure's points as rows {series, point, value, details}, taken from their texts on hover; duplicates removed.

    A table longer than MAX_POINTS shows evenly spaced rows, as its caption says.
    """
    rows = list({tuple(row.values()): row for row in _rows(figure.spec)}.values())
    there = [key for key in _KEYS if any(row[key] for row in rows)]
    columns = [Column(key, itemgetter(key), numeric=False) for key in there]
    taken = f": {MAX_POINTS} of {len(rows):,} points, evenly taken" if len(rows) > MAX_POINTS else ""
    name = f"{figure.name}_numbers"
    return DataTable(name, figure.title, figure.title + taken, columns, rows, shown=MAX_POINTS)


def _rows(spec: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    for trace in spec["data"]:
        for text in hover_texts(trace):
            point, *more = map(unescaped, text.split(LINE_BREAK))
            series = unescaped(str(trace.get("name") or ""))
            value, details = "".join(more[:1]), "; ".join(more[1:])
            yield {"series": series, "point": point, "value": value, "details": details}


# --- Sections


def sections(contents: ReportContents) -> tuple[Section, ...]:
    """All sections; some may be empty."""
    groups = (_of_group(contents, group, title) for group, title in TITLES.items())
    return (*groups, _instances(contents), _manifests(contents.gathered))


def _of_group(contents: ReportContents, group: Group, title: str) -> Section:
    opening = opening_figure(contents.drawn.figures)
    figures = [one for one in contents.drawn.figures if _group_of(one) == group and one is not opening]
    left_out = [one for one in contents.drawn.left_out if _group_of(one) == group]
    tables = [one.table for one in contents.tables if one.group == group]
    body: list[Node] = [figure_section(figure) for figure in figures]
    if group == "published" and contents.gathered.published:
        body += [_note(line) for line in published_lines(contents.gathered.published)]
    body += [table_section(table) for table in tables]
    if group == "questions" and contents.gathered.diagnosis:
        body += [_note(note) for note in contents.gathered.diagnosis.notes]
    if group == "conversations" and contents.gathered.talked:
        body += [_note(note) for note in contents.gathered.talked.notes]
    if group == "failures" and not tables and contents.gathered.summaries:
        body.append(element("p", "Nothing failed."))
    if figures or tables:  # an otherwise empty section is left out as a whole
        body += [left_out_note(one) for one in left_out]
    return Section(group, title, body)


def opening_figure(figures: Sequence[Figure]) -> Figure | None:
    """The figure that the page opens with: what asking gains, else the scores; it is in no section then."""
    by_name = {figure.name: figure for figure in figures}
    for name in _OPENING:
        if name in by_name:
            return by_name[name]
    return None


def _group_of(figure: Figure | LeftOutFigure) -> Group:
    for group, names in _FIGURES.items():
        if figure.name.startswith(names):
            return group
    return "questions"


def _instances(contents: ReportContents) -> Section:
    if not contents.opened:
        return Section("instances", "Instances to look at", ())
    measures = " and ".join(dict.fromkeys(run.measure for run in contents.opened))
    folders = dict.fromkeys(str(viewer_folder(run.directory)) for run in contents.opened)
    viewers = " or ".join(shlex.join(["cts", "view", folder]) for folder in folders)
    lead = (
        f"The lowest and highest scores, and the greatest losses and gains, by {measures}. In rewritten queries, "
        f"words that the query did not have are marked. Links lead to the viewer; start it with {viewers}."
    )
    runs = (run_section(run, number) for number, run in enumerate(contents.opened, start=1))
    notes = (_note(note) for note in contents.opened_notes)
    return Section("instances", "Instances to look at", [untrusted(lead, "p"), *notes, *runs])


def _manifests(gathered: Gathered) -> Section:
    runs = all_runs(gathered)
    return Section("manifests", "Manifests", [_manifest(name, run.manifest.raw) for name, run in runs])


def _manifest(name: str, manifest: object) -> Markup:
    text = orjson.dumps(manifest, option=orjson.OPT_INDENT_2).decode()
    box = element("pre", untrusted(text, "code"), class_="box", tabindex=0)
    return element("details", element("summary", untrusted(name)), box)


def _note(text: str) -> Markup:
    return untrusted(text, "p", class_="remark")


def _title(gathered: Gathered) -> str:
    if not gathered.summaries and gathered.talks:
        return f"Clarifying conversations over {_data(gathered)}"
    return f"Clarify-Then-Search over {_data(gathered)}"


def _data(gathered: Gathered) -> str:
    """The name of the data."""
    runs = (*gathered.summaries, *gathered.talks)
    return name_of_data(run.manifest for run in runs) or "judged answers"


def _lead(contents: ReportContents, origin: Origin) -> Iterator[Node]:
    """What stands above the table of contents: the answer in a sentence, the best figure, the headline."""
    gathered = contents.gathered
    systems = gathered.board.systems if gathered.board else [talk.label for talk in gathered.talks]
    made = f". Report of {origin.made:%Y-%m-%d %H:%M} UTC."
    count = "One system: " if len(systems) == 1 else f"{len(systems)} systems: "
    yield element("p", count, untrusted(", ".join(systems)), made, class_="about")
    for line in caveat_lines(gathered):
        yield untrusted(line, "p", class_="warning", role="note")
    for notice in tool_notices(named_runs(gathered)):
        yield untrusted(notice, "p", class_="warning", role="note")
    for contradiction in contradictions(gathered):
        yield untrusted(contradiction, "p", class_="warning", role="note")
    if gathered.compared and (answer := answer_sentence(gathered.compared)):
        yield untrusted(answer, "p", class_="verdict")
    if figure := opening_figure(contents.drawn.figures):
        yield figure_section(figure, "h2")
    lines = list(headline(gathered.compared)) if gathered.compared else []
    if gathered.published and not gathered.caveats:
        lines = [*published_lines(gathered.published), *lines]
    if lines:
        yield element("ul", (untrusted(line, "li") for line in lines), class_="headline")
    warned = set(contradictions(gathered))
    yield from (_note(note) for note in gathered.notes if note not in warned)
