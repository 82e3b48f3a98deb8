"""The report as one self-contained HTML file: tables, figures, and single instances, folded."""

from __future__ import annotations

import hashlib
import shlex
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain, zip_longest
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
    OpenedInstance,
    OpenedRun,
    all_runs,
    caveat_lines,
    contradictions,
    named_runs,
    restriction_lines,
)
from cts_async.pages.markup import (
    Markup,
    Node,
    element,
    language_attribute,
    program,
    rendered,
    untrusted,
)
from cts_async.pages.plots import Drawn, Figure, LeftOutFigure, plotly_js, template
from cts_async.pages.plots.figure import LINE_BREAK, hover_texts, unescaped
from cts_async.records import DONT_KNOW, UNKNOWN
from cts_async.runs.files import MANIFEST
from cts_async.runs.index import Json
from cts_async.runs.manifest import name_of_data
from cts_async.safe_files import atomic_writer
from cts_async.tables.comparison import RunsCompared, answer_sentence, headline, leaderboard_of
from cts_async.tables.output import counted
from cts_async.tables.published import published_lines
from cts_async.tables.results import tool_notices
from cts_async.tables.table import (
    Column,
    DataTable,
    Row,
    best_cells,
    bold_legend,
    marked,
    section_ranges,
    written_rows,
)

# --- Single instances, folded: from the blurred query to every nugget

VIEWER: Final = "http://127.0.0.1:8518/#/instance?"
"""The address of an instance in `cts view`, on its default port."""
ANSWER_CHARS: Final = 2_000
_TEXT_CHARS: Final = 1_000
_SIGNS: Final = {"full": "●", "partial": "◐", "none": "○"}


def run_section(run: OpenedRun, number: int) -> Markup:
    """A system's instances, each with the reason why it is shown."""
    title = f"run-{number}"
    instances: list[Node] = []
    for n, instance in enumerate(run.instances, start=1):
        instances.append(_instance(instance, run, f"{title}-{n}"))
    name = run.system
    if run.caveat:
        name += f" ({run.caveat})"
    return element("section", untrusted(name, "h3", id=title), instances, aria_labelledby=title)


def _instance(instance: OpenedInstance, run: OpenedRun, anchor: str) -> Markup:
    page = instance.page
    query = _cut(page["blurred_query"] or page["fused_query"], _TEXT_CHARS)
    summary = element(
        "summary",
        element("span", ", ".join(instance.extreme.why), class_="why"),
        " ",
        element("span", _points(instance.extreme, run), class_="points"),
        " ",
        untrusted(query, "span", class_="query"),
    )
    conversation: Node = None
    if page["turns"]:
        conversation = element("ol", [element("li", _turn(turn)) for turn in page["turns"]])
    # orig and gold search a query as it is, in mode select the last chosen one is searched, and where answers are given
    # to the agent later it is q.
    searched = "Searched query"
    if page["turns"] and page["mode"] != "select" and "injected_turn" not in page:
        searched = "Rewritten query"
    parts = [
        ("Blurred query (q)", _quotation(page["blurred_query"], "p")),
        ("Intent query (q*)", _quotation(page["fused_query"], "p")),
        ("Questions and answers", conversation),
        ("These answers were", _given_at(page)),
        ("Questions during the search", _asks(page)),
        ("More of the replies", _further_fields(page)),
        (searched, _searched_query(page)),
        ("Answer", _quotation(page["answer"], "div", class_="answer")),
        ("Stated confidence", _stated_confidence(page)),
        ("Nuggets", _nuggets(page)),
    ]
    details: list[Node] = []
    for name, part in parts:
        if part:
            details += [element("dt", name), element("dd", part)]
    link = _viewer_link(instance, run)
    return element("details", summary, element("dl", details), link, id=anchor, class_="instance")


def _points(extreme: Extreme, run: OpenedRun) -> Iterator[Node]:
    yield f"{extreme.score:.{run.decimals}f}"
    if extreme.gain is not None:
        yield f", {extreme.gain:+.{run.decimals}f} over ".replace("-", "−")
        yield untrusted(run.baseline)


def _viewer_link(instance: OpenedInstance, run: OpenedRun) -> Markup:
    id = instance.extreme.id
    # An id of unknown origin may hold half of a surrogate pair, which has no UTF-8.
    address = VIEWER + urlencode({"run": _viewer_name(run.directory), "id": id}, errors="replace")
    name = element("span", "Instance ", untrusted(id), ": ")
    return element("p", name, element("a", "open it in the viewer", href=address), class_="link")


def viewer_folder(directory: Path) -> Path:
    """The folder that the viewer must show, so that the run has the name used in links."""
    depth = _viewer_depth(directory)
    path = directory
    # As it was typed, if that names enough folders.
    if len(path.parts) <= depth:
        path = path.resolve()
    return path.parents[depth - 1]


def _viewer_name(directory: Path) -> str:
    """A run's name in the viewer: its folder, after that of its judging if it is one of several candidates."""
    return "/".join(directory.resolve().parts[-_viewer_depth(directory) :])


def _viewer_depth(directory: Path) -> int:
    """The number of folders in the run's name."""
    if (directory.resolve().parent / MANIFEST).is_file():
        return 2
    return 1


def _quotation(text: str | None, tag: str, **attributes: str) -> Node:
    if not text:
        return None
    return untrusted(_cut(text, ANSWER_CHARS), tag, **attributes)


def _turn(turn: Json) -> Iterator[Node]:
    """Questions with their answers, or offered queries; and the query after it."""
    offered, chosen, query = turn["offered"], turn["chosen"], turn["query"]
    if chosen is not None:
        yield element("ul", [_offer(text, chosen=i == chosen) for i, text in enumerate(offered)])
    else:
        # An instance that failed in between has fewer answers than questions.
        answers = turn["answers"][: len(offered)]
        for question, answer in zip_longest(offered, answers, fillvalue=""):
            yield untrusted(_cut(question, _TEXT_CHARS), "p", class_="asked")
            if answer == "unknown":
                yield untrusted(answer, "p", class_="unknown")
            elif answer:
                yield untrusted(_cut(answer, _TEXT_CHARS), "p", class_="answered")
    if query:
        yield element("p", "Query now: ", untrusted(_cut(query, _TEXT_CHARS)), class_="now")


def _given_at(page: Json) -> Node:
    """When the agent was given the answers; None where they were rewritten into its query."""
    if "injected_turn" not in page:
        return None
    if not page["injected_turn"]:
        return element("p", "not given to the agent: its search ended before")
    return element("p", f"given to the agent before its turn {page['injected_turn']}")


def _asks(page: Json) -> Node:
    """The agent's own questions with the replies and their turns; None where it could not ask."""
    if "asks" not in page:
        return None
    if not page["asks"]:
        return element("p", "none")
    return element("ol", [element("li", _ask(ask, page["agent_turns"])) for ask in page["asks"]])


def _ask(ask: Json, n_turns: int) -> Iterator[Node]:
    turn = f"turn {ask['turn']}"
    if n_turns:
        turn += f" of {n_turns}"
    question = untrusted(_cut(ask["question"], _TEXT_CHARS))
    yield element("p", question, " ", element("span", f"({turn})", class_="points"), class_="asked")
    reply_class = "answered"
    if ask["reply"] in (UNKNOWN, DONT_KNOW):
        reply_class = "unknown"
    yield untrusted(_cut(ask["reply"], _TEXT_CHARS), "p", class_=reply_class)


def _offer(text: str, *, chosen: bool) -> Markup:
    query = untrusted(_cut(text, _TEXT_CHARS))
    if chosen:
        return element("li", element("strong", query, " (chosen)"))
    return element("li", query)


def _further_fields(page: Json) -> Node:
    """What replies had beyond their forms, by step and under its own name."""
    fields: list[Node] = []
    for field in page["further"]:
        step, name = untrusted(field["step"], "code"), untrusted(field["name"], "strong")
        text = untrusted(_cut(field["text"], _TEXT_CHARS))
        fields.append(element("p", step, " ", name, ": ", text))
    if not fields:
        return None
    return element("div", fields)


def _searched_query(page: Json) -> Node:
    """The query that was searched, with the words marked that the blurred one does not have."""
    query = page["rewritten_query"]
    if not query:
        return None
    words: list[Node] = []
    for segment in page["rewritten"]:
        if segment["added"]:
            words.append(element("mark", segment["text"]))
        else:
            words.append(segment["text"])
    return element("p", words, dir="auto", lang=language_attribute(query))


def _stated_confidence(page: Json) -> Node:
    """How sure the agent said it was; nothing where it was not asked."""
    if "confidence" not in page or not page["answer"]:
        return None
    if page["confidence"] is None:
        return "not stated"
    return f"{page['confidence']:g} of 100"


def _nuggets(page: Json) -> Node:
    judges: list[str] = []
    scores: list[str] = []
    for score in page["scores"]:
        judge, points = score["judge"], score["score"]
        judges.append(judge)
        if points is None:
            scores.append(f"{judge} -")
        else:
            scores.append(f"{judge} {points:.2f}")
    if not judges:
        return None
    head: list[Node] = []
    for name in ("nugget", "weight", "text"):
        head.append(element("th", name, scope="col"))
    for judge in judges:
        head.append(element("th", untrusted(judge), scope="col"))
    rows: list[Node] = []
    for nugget in page["nuggets"]:
        rows.append(element("tr", _nugget_cells(nugget, judges)))
    caption = element("span", "Coverage by judge; scores: ", untrusted(", ".join(scores)), ".")
    table = element(
        "table",
        element("caption", caption),
        element("thead", element("tr", head)),
        element("tbody", rows),
    )
    label = f"Nuggets of {page['id']}"
    # A box that scrolls is reached with the keyboard only if it has a place in the order of tabs.
    return element("div", table, class_="box nuggets", tabindex=0, role="region", aria_label=label)


def _nugget_cells(nugget: Json, judges: Sequence[str]) -> Iterator[Markup]:
    text: Node = "-"
    if nugget["text"]:
        text = untrusted(_cut(nugget["text"], _TEXT_CHARS))
    yield element("th", untrusted(nugget["id"]), scope="row")
    yield element("td", f"{nugget['weight']:g}", class_="number")
    yield element("td", text)
    for judge in judges:
        # Labels are of unknown origin, and only ours may become part of a class.
        label = nugget["coverage"].get(judge, "-")
        if label in _SIGNS:
            yield element("td", f"{_SIGNS[label]} ", untrusted(label), class_=f"label {label}")
        else:
            yield element("td", " ", untrusted(label))


def _cut(text: str, n_chars: int) -> str:
    if len(text) <= n_chars:
        return text
    return f"{text[:n_chars]} … ({len(text):,} characters)"


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
    "asking": "Asking during the search",
    "questions": "Questions and answers",
    "published": "Compared with the paper",
    "effort": "Cost, time, searches and visits",
    "failures": "Failures",
    "conversations": "Conversations",
}
_FIGURES: Final[dict[Group, tuple[str, ...]]] = {
    "scores": ("leaderboard", "gain", "scores", "better_or_worse", "gain_by_instance"),
    "judges": ("judges", "agreement"),
    "asking": ("question_worth",),
    "effort": ("cost", "time"),
    "conversations": ("turns",),
}
"""Groups of figures by the first words of their names; all others are about questions."""
_OPENING: Final = ("gain", "leaderboard", "turns")
"""The figure that a page opens with: the first of these that there is."""
GROUP_MARK: Final = "_group"
"""Precedes the number of the group in the names of figures of all groups but the first."""
_NUMBER_COLUMNS: Final = ("series", "point", "value", "details")


@dataclass(frozen=True, slots=True)
class ReportContents:
    """Everything that the page shows of one group of comparable runs, with the other groups, if there are any."""

    gathered: Gathered
    tables: Sequence[GroupedTable]
    drawn: Drawn
    opened: Sequence[OpenedRun]
    opened_notes: Sequence[str]
    others: Sequence[ReportContents] = ()
    """The other groups, of the one last worked on only."""

    @property
    def groups(self) -> tuple[ReportContents, ...]:
        """All groups, the one last worked on first."""
        return (self, *self.others)


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a report."""

    command: str
    """The command that makes it again."""
    time: datetime


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page with an entry in the table of contents."""

    anchor: str
    title: Node
    body: Sequence[Node]


# --- The page


def write_report(path: Path, contents: ReportContents, origin: Origin) -> None:
    """Write the page. Raises UsageError or StorageFull, and leaves an existing file unchanged then."""
    with atomic_writer(path) as file:
        file.write(_page(contents, origin).encode())


def _page(contents: ReportContents, origin: Origin) -> str:
    """The whole page. Its policy allows its own scripts by their hashes, and no others."""
    title = _title(contents.gathered)
    figures = [figure for group in contents.groups for figure in group.drawn.figures]
    scripts: list[Markup] = []
    script_elements: list[Node] = []
    no_script: Node = None
    # Without figures the page has no script at all: plotly.js would be 5 MB for nothing.
    if figures:
        script_elements.append(figures_data(figures))
        for text in (plotly_js(), page_text("page.js")):
            script = parsed_script(text)
            scripts.append(script)
            script_elements.append(element("script", script))
        warning = "Figures need JavaScript, which is disabled here; their data is shown below."
        no_script = element("noscript", element("p", warning, class_="warning"))
    links: list[Node] = []
    section_elements: list[Node] = []
    for section in sections(contents):
        if section.body:
            links.append(element("li", element("a", section.title, href=f"#{section.anchor}")))
            section_elements.append(_section_element(section))
    page = Template(page_text("page.html"))
    return page.substitute(
        policy=element("meta", http_equiv="Content-Security-Policy", content=policy(scripts)),
        title=rendered(title),
        style=program(page_text("page.css")),
        header=rendered([untrusted(title, "h1"), _lead(contents, origin)]),
        no_script=rendered(no_script),
        contents=rendered(links),
        sections=rendered(section_elements),
        command=untrusted(origin.command, "code"),
        made=rendered(f"cts_async {__version__}, {origin.time:%Y-%m-%d %H:%M} UTC."),
        scripts=rendered(script_elements),
    )


def policy(scripts: Sequence[str]) -> str:
    """A Content-Security-Policy: nothing is fetched or sent, and only these scripts run. Plotly needs inline styles."""
    hashes: list[str] = []
    for script in scripts:
        digest = hashlib.sha256(script.encode()).digest()
        hashes.append(f"'sha256-{b64encode(digest).decode()}'")
    script_source = " ".join(hashes) or "'none'"
    return (
        f"default-src 'none'; script-src {script_source}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def parsed_script(text: str) -> Markup:
    """A script with the line breaks that an HTML parser makes of it: browsers hash the parsed text."""
    return program(text.replace("\r\n", "\n").replace("\r", "\n"))


def page_text(name: str) -> str:
    """A file beside this one."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _section_element(section: Section) -> Markup:
    title = f"{section.anchor}-title"
    heading = element("h2", section.title, id=title)
    return element("section", heading, section.body, id=section.anchor, aria_labelledby=title)


# --- Tables


def table_section(table: DataTable) -> Markup:
    """A table with title and remarks; folded if it is long, or if commands print it only on request."""
    anchor = f"table-{table.name}"
    title = f"{anchor}-title"
    body: list[Node] = [table_box(table, title)]
    # The legend is of the rows in the page: one that is cut off may hold the best cell.
    rows = written_rows(table)[:MAX_ROWS]
    for line in bold_legend(table, best_cells(table, rows)):
        body.append(_remark(line))
    for remark in table.remarks:
        body.append(_remark(remark))
    # `shown` is how many rows commands print without being asked for all.
    if table.shown == 0 or len(table.rows) > MAX_UNFOLDED:
        body = [element("details", element("summary", counted(len(table.rows), "row")), body)]
    return element("section", untrusted(table.title, "h3", id=title), body, id=anchor, class_="table")


def table_box(table: DataTable, labelled_by: str) -> Markup:
    """A table in a box that scrolls sideways, also with the keyboard."""
    rows = written_rows(table)
    sentences: list[str] = []
    if table.caption:
        sentences.append(table.caption.rstrip("."))
    if len(rows) > MAX_ROWS:
        sentences.append(f"The first {MAX_ROWS} of {len(rows):,} rows")
        rows = rows[:MAX_ROWS]
    caption: Node = None
    if sentences:
        caption = element("caption", untrusted(f"{'. '.join(sentences)}.", "span"))
    best = best_cells(table, rows)
    section_starts: set[int] = set()
    if table.section:
        section_starts = {start for start, _ in section_ranges(table, rows)}
    body: list[Node] = []
    for i, row in enumerate(rows):
        if i in section_starts:
            heading = untrusted(row[table.section])
            cell = element("th", heading, scope="rowgroup", colspan=len(table.columns), class_="section")
            body.append(element("tr", cell))
        cells: list[Node] = []
        for j, column in enumerate(table.columns):
            cells.append(_cell(column, row, j, best=(i, j) in best))
        body.append(element("tr", cells))
    head = element("tr", [_heading(column) for column in table.columns])
    grid = element("table", caption, element("thead", head), element("tbody", body))
    return element("div", grid, class_="box", tabindex=0, role="region", aria_labelledby=labelled_by)


def _heading(column: Column) -> Markup:
    return element("th", untrusted(column.heading), scope="col", class_=_cell_class(column))


def _cell(column: Column, row: Row, place: int, *, best: bool) -> Markup:
    text = column.show(row)
    content: Node = text
    if best:
        content = element("strong", text)
    elif not column.numeric:
        content = untrusted(text)
    # The first column heads its row for screen readers, unless it is a number like the others.
    if place == 0 and not column.numeric:
        return element("th", content, scope="row")
    return element("td", content, class_=_cell_class(column))


def _cell_class(column: Column) -> str | None:
    if column.numeric:
        return "number"
    return None


# --- Figures


def figure_section(figure: Figure, heading: str = "h3") -> Markup:
    """A figure with its caption, its text alternative and its data as a table."""
    anchor = f"figure-{figure.name}"
    title = f"{anchor}-title"
    numbers = numbers_of(figure)
    box: Node = None
    if numbers.rows:
        box = table_box(numbers, title)
    summary = element("summary", "Show data")
    data = element("details", summary, untrusted(figure.alt, "p"), box, class_="numbers")
    # The script draws into it. Its height is reserved, so that nothing moves when it does.
    plot = element(
        "div",
        class_="plot",
        role="group",
        aria_label=figure.alt,
        data_figure=figure.name,
        data_height=figure.spec["layout"].get("height"),
    )
    return element(
        "section",
        untrusted(figure.title, heading, id=title),
        element("figure", plot, element("figcaption", untrusted(figure.caption))),
        data,
        id=anchor,
        class_="figure",
    )


def left_out_note(figure: LeftOutFigure) -> Markup:
    """Why a figure is left out."""
    title, reason = element("em", untrusted(figure.title)), untrusted(figure.reason)
    return element("p", "No figure ", title, ": ", reason, class_="remark")


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
    # Steps and outlines repeat points where they bend.
    points = dict.fromkeys(_points_with_series(figure.spec))
    rows = [dict(zip(_NUMBER_COLUMNS, point, strict=True)) for point in points]
    columns: list[Column] = []
    for key in _NUMBER_COLUMNS:
        if any(row[key] for row in rows):
            columns.append(Column(key, itemgetter(key), numeric=False))
    caption = figure.title
    if len(rows) > MAX_POINTS:
        caption += f": {MAX_POINTS} of {len(rows):,} points, evenly taken"
    return DataTable(f"{figure.name}_numbers", figure.title, caption, columns, rows, shown=MAX_POINTS)


def _points_with_series(spec: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """Yield (series, point, value, details) for each text on hover, whose lines are the latter (see `Dot`)."""
    for trace in spec["data"]:
        series = unescaped(str(trace.get("name") or ""))
        for text in hover_texts(trace):
            lines = [unescaped(line) for line in text.split(LINE_BREAK)]
            value = ""
            if len(lines) > 1:
                value = lines[1]
            yield series, lines[0], value, "; ".join(lines[2:])


# --- Sections


def sections(contents: ReportContents) -> tuple[Section, ...]:
    """All sections; some may be empty. Of several groups each has its findings, then its sections."""
    if not contents.others:
        sections = _sections_of(contents)
    else:
        sections = []
        for number, group in enumerate(contents.groups, start=1):
            heading = group.gathered.heading
            title = heading
            for caveat in group.gathered.caveats:
                title = marked(title, caveat)
            sections.append(Section(f"group-{number}", untrusted(title), list(_findings(group, "h3"))))
            # Systems of earlier groups have the first numbers of the page's opened runs.
            n_earlier = sum(len(earlier.opened) for earlier in contents.groups[: number - 1])
            for section in _sections_of(group, n_earlier):
                section_title: list[Node] = [section.title, " (", untrusted(heading), ")"]
                sections.append(Section(f"{section.anchor}-{number}", section_title, section.body))
    return (*sections, _manifests_section([group.gathered for group in contents.groups]))


def _sections_of(contents: ReportContents, n_earlier: int = 0) -> list[Section]:
    sections = [_group_section(contents, group, title) for group, title in TITLES.items()]
    sections.append(_instances_section(contents, n_earlier))
    return sections


def _group_section(contents: ReportContents, group: Group, title: str) -> Section:
    gathered = contents.gathered
    opening = opening_figure(contents.drawn.figures)
    figures: list[Node] = []
    for figure in contents.drawn.figures:
        if _group_of(figure) == group and figure is not opening:
            figures.append(figure_section(figure))
    tables: list[Node] = []
    for table in contents.tables:
        if table.group == group:
            tables.append(table_section(table.table))
    body = list(figures)
    if group == "published" and gathered.published:
        body += [_remark(line) for line in published_lines(gathered.published)]
    body += tables
    notes: Sequence[str] = ()
    if group == "questions" and gathered.diagnosis:
        notes = gathered.diagnosis.notes
    elif group == "conversations" and gathered.talk_report:
        notes = gathered.talk_report.notes
    for note in notes:
        body.append(_remark(note))
    if group == "failures" and not tables and gathered.summaries:
        body.append(element("p", "Nothing failed."))
    # Alone they would make a section of nothing but reasons why it is empty.
    if figures or tables:
        for left_out in contents.drawn.left_out:
            if _group_of(left_out) == group:
                body.append(left_out_note(left_out))
    return Section(group, title, body)


def opening_figure(figures: Sequence[Figure]) -> Figure | None:
    """The figure that the page opens with: what asking gains, else the scores; it is in no section then."""
    for name in _OPENING:
        for figure in figures:
            if figure.name.partition(GROUP_MARK)[0] == name:
                return figure
    return None


def _group_of(figure: Figure | LeftOutFigure) -> Group:
    for group, names in _FIGURES.items():
        if figure.name.startswith(names):
            return group
    return "questions"


def _instances_section(contents: ReportContents, n_earlier: int) -> Section:
    if not contents.opened:
        return Section("instances", "Instances to look at", ())
    # Dictionaries as ordered sets: most runs have one measure and one folder.
    measures: dict[str, None] = {}
    commands: dict[str, None] = {}
    runs: list[Node] = []
    for number, run in enumerate(contents.opened, start=n_earlier + 1):
        measures[run.measure] = None
        commands[shlex.join(["cts", "view", str(viewer_folder(run.directory))])] = None
        runs.append(run_section(run, number))
    lead = (
        f"The lowest and highest scores, and the greatest losses and gains, by {' and '.join(measures)}. In rewritten "
        "queries, words that the query did not have are marked. Links lead to the viewer; start it with "
        f"{' or '.join(commands)}."
    )
    body: list[Node] = [untrusted(lead, "p")]
    body += [_remark(note) for note in contents.opened_notes]
    return Section("instances", "Instances to look at", body + runs)


def _manifests_section(groups: Sequence[Gathered]) -> Section:
    body: list[Node] = []
    for gathered in groups:
        for name, run in all_runs(gathered):
            if gathered.heading:
                name += f" ({gathered.heading})"
            body.append(_manifest(name, run.manifest.raw))
    return Section("manifests", "Manifests", body)


def _manifest(name: str, manifest: object) -> Markup:
    text = orjson.dumps(manifest, option=orjson.OPT_INDENT_2).decode()
    box = element("pre", untrusted(text, "code"), class_="box", tabindex=0)
    return element("details", element("summary", untrusted(name)), box)


def _remark(text: str) -> Markup:
    return untrusted(text, "p", class_="remark")


def _title(gathered: Gathered) -> str:
    runs = gathered.summaries + gathered.talks
    # Files of verdicts have no run.json that would name the data.
    data = name_of_data(run.manifest for run in runs) or "judged answers"
    if not gathered.summaries and gathered.talks:
        return f"Clarifying conversations over {data}"
    return f"Clarify-Then-Search over {data}"


def _lead(contents: ReportContents, origin: Origin) -> Iterator[Node]:
    """What stands above the table of contents: the answer in a sentence, the best figure, the headline.

    Of several groups these stand in their own sections, and here is their leaderboard.
    """
    listed: list[Node] = []
    n_systems = 0
    for group in contents.groups:
        gathered = group.gathered
        systems: Sequence[str] = [talk.label for talk in gathered.talks]
        if gathered.board:
            systems = gathered.board.systems
        n_systems += len(systems)
        if listed:
            listed.append("; ")
        if gathered.heading:
            listed += [untrusted(gathered.heading), ": "]
        listed.append(untrusted(", ".join(systems)))
    count = f"{n_systems} systems: "
    if contents.others:
        count = f"{n_systems} systems in {len(contents.groups)} groups: "
    elif n_systems == 1:
        count = "One system: "
    written = f". Report of {origin.time:%Y-%m-%d %H:%M} UTC."
    yield element("p", count, listed, written, class_="about")
    if not contents.others:
        yield from _findings(contents, "h2")
    for note in contents.gathered.common_notes:
        yield _remark(note)
    compared: list[RunsCompared] = []
    for group in contents.groups:
        if group.gathered.compared:
            compared.append(group.gathered.compared)
    if len(compared) > 1:
        all_groups = replace(compared[0], others=tuple(compared[1:]))
        yield table_section(replace(leaderboard_of(all_groups), name="groups"))


def _findings(contents: ReportContents, figure_heading: str) -> Iterator[Node]:
    """What a group shows first: warnings, the answer in a sentence, the best figure, the headline, notes."""
    gathered = contents.gathered
    recomputed = contradictions(gathered)
    warnings = chain(
        restriction_lines(gathered),
        caveat_lines(gathered),
        tool_notices(named_runs(gathered)),
        recomputed,
    )
    for warning in warnings:
        yield untrusted(warning, "p", class_="warning", role="note")
    if gathered.compared:
        answer = answer_sentence(gathered.compared)
        if answer:
            yield untrusted(answer, "p", class_="verdict")
    opening = opening_figure(contents.drawn.figures)
    if opening is not None:
        yield figure_section(opening, figure_heading)
    lines: list[str] = []
    # Beside the paper's values a smoke test would look like a result.
    if gathered.published and not gathered.caveats:
        lines += published_lines(gathered.published)
    if gathered.compared:
        lines += headline(gathered.compared)
    if lines:
        yield element("ul", [untrusted(line, "li") for line in lines], class_="headline")
    for note in gathered.notes:
        # Contradictions are among the remarks of the board, too.
        if note not in recomputed:
            yield _remark(note)
