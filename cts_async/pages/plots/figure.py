"""Figures as data: style, traces with whiskers, axes, captions, and generated text alternatives.

Figures name no colours. Series take theirs from the template's `colorway` in the order of their traces, so a page
switches its theme by putting another template under the same figure. Series colours are those of Okabe and Ito
("Color universal design", 2008), darkened or lightened to a contrast of 4.5 : 1 with their ground, so that numbers on
them in the ground's colour are legible, too (WCAG 2.2, 1.4.3). Markers, dashes and patterns repeat what colours mean.
Themes are data (`style.json`). Only print paints its ground; its 11 px are 8 points, the minimum in papers.

Plotly interprets some markup (`<b>`, `<a href>`, `<br>`) and entities in texts. Labels of unknown origin are escaped,
and stand only in fields that plotly does not treat as templates (`text`, `hovertext`, `ticktext`, `name`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import unescape
from pathlib import Path
from textwrap import wrap
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import orjson
from rich.cells import cell_len

from cts_async.analysis.board import REFERENCES, Array, Board
from cts_async.analysis.diagnose import SystemDiagnosis
from cts_async.analysis.stats import FEWEST, Difference, paired_differences, wilson
from cts_async.tables.output import plain
from cts_async.tables.table import NO_DIFFERENCE, marked, printable, with_interval

# --- Style

Theme: TypeAlias = Literal["light", "dark", "print"]
THEMES: Final[tuple[Theme, ...]] = ("light", "dark", "print")
NAME_WIDTH: Final = 18
"""Columns of a name on an axis: half of a phone's width remains for the figure."""
LEGEND_WIDTH: Final = 26
TITLE_WIDTH: Final = 34
"""Columns of an axis title on a phone."""
_MAX_LINES: Final = 3
_ENTITIES: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


N_COLOURS: Final = 8
SCORE_AXIS: Final = "mean restore score (0–100)"


def template(theme: Theme) -> dict[str, Any]:
    """`layout.template` of a theme: that of `style.json`, with the theme's values in place of their "$names"."""
    style = orjson.loads(Path(__file__).with_name("style.json").read_bytes())
    template = orjson.dumps(style["template"]).decode()
    for name, value in style["themes"][theme].items():
        template = template.replace(f'"${name}"', orjson.dumps(value).decode())
    themed: dict[str, Any] = orjson.loads(template)
    return themed


def escaped(text: str) -> str:
    """Text that plotly shows verbatim on one line; control and direction characters become U+FFFD."""
    return plain(text, "\N{REPLACEMENT CHARACTER}").translate(_ENTITIES)


def folded(text: str, width: int = NAME_WIDTH) -> str:
    """`escaped` on up to three lines of `width` columns, broken after hyphens and spaces if there are any.

    Of a longer name the middle is left out: systems differ at the beginning (the model) and at the end (the budget).
    """
    whole = plain(text, "\N{REPLACEMENT CHARACTER}")
    letters = width
    # `wrap` counts characters, and a Chinese one takes two columns: as if all of them did.
    if cell_len(whole) > len(whole):
        letters = max(1, width // 2)
    lines = wrap(whole, letters)
    n_shown = min(len(whole), _MAX_LINES * letters)
    # How many characters fit depends on where lines break, so one more is dropped until they do.
    while len(lines) > _MAX_LINES:
        n_shown -= 1
        tail = n_shown // 3
        lines = wrap(f"{whole[: n_shown - tail]}…{whole[len(whole) - tail :]}", letters)
    return "<br>".join(map(escaped, lines))


# --- Limits and labels

Spec: TypeAlias = dict[str, Any]
Interval: TypeAlias = tuple[float, float]

SYMBOLS: Final = (
    "circle",
    "square",
    "diamond",
    "triangle-up",
    "cross",
    "triangle-down",
    "star",
    "x",
    "hexagon",
    "bowtie",
    "pentagon",
)
"""With 11 symbols, 8 colours and 5 dashes no two of 88 series look alike."""
DASHES: Final = ("solid", "dash", "dot", "dashdot", "longdash")
PATTERNS: Final = ("", "/", ".", "x", "-", "\\")
LINE_BREAK: Final = "<br>"
"""Plotly's; texts of unknown origin contain none, since their brackets are escaped."""
BESIDE, BESIDE_IN_ROWS = 0.12, 0.22
"""Ticks between neighbouring series at a tick: about 10 px, the width of a marker."""
MAX_ASIDE: Final = 0.5
"""Ticks that all series at a tick take together, so that every point is nearest to its own."""
SERIES_ROW_PX: Final = 46
"""Height of a row that several series share."""
ROW_PX: Final = 34
"""Height of a system's row."""
MAX_IN_ALTERNATIVE: Final = 8
"""Points in a text alternative; the table of data has all."""
_MIN_SHARE: Final = 12
"""A part of a bar shows its number from so many per cent on: a phone has room for it."""
_SAME: Final = 1e-9
"""Scores that differ by no more are equal up to the rounding of sums."""
_PHONE_PX: Final = 340
_SYMBOL_PX: Final = 50
"""Before a name in a legend."""
_LETTER_PX: Final = 8
_LINE_PX: Final = 17


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure. Text of unknown origin in `spec` is escaped, so that plotly does not interpret it as markup."""

    name: str
    """The name of its file when it is exported, and its anchor in a page."""
    title: str
    caption: str
    alt: str
    """The text alternative: some points with their numbers."""
    spec: Mapping[str, Any]
    """`{"data": [...], "layout": {...}}` for plotly; colours come from the template."""


@dataclass(frozen=True, slots=True)
class LeftOutFigure:
    """A figure for which these runs have no data."""

    name: str
    title: str
    reason: str
    """One sentence."""


# --- What figures are made of


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """One system under one judge, with at least one score."""

    label: str
    name: str
    """Its label for readers, marked if the embedded model played."""
    k: int
    reference: bool
    """orig or gold: no questions were asked."""
    directory: Path
    scores: Array
    """By row of the board (or of its common instances), NaN if there is none."""
    mean: Difference
    asks: bool = False
    """The agent may ask during its search."""


def scored_systems(board: Board, judge: str, seed: int, *, common: bool = False) -> tuple[Scored, ...]:
    """The systems with a score, in the order of the board; with `common` over the instances that all of them have.

    Where there is no common instance, each system is over its own.
    """
    scores = board.scores[judge]
    present = ~np.isnan(scores)
    shared = present[:, present.any(axis=0)].all(axis=1)
    if common and shared.any():
        scores = scores[shared]
    # Of scores themselves, not of differences: means with the same bootstrap intervals as gains have.
    means = paired_differences(scores, seed=seed)
    systems: list[Scored] = []
    for entrant, column, mean in zip(board.entrants, scores.T, means, strict=True):
        if mean is None:
            continue
        system = Scored(
            label=entrant.label,
            name=marked(entrant.label, entrant.caveat),
            k=entrant.k,
            reference=entrant.system in REFERENCES,
            directory=entrant.directory,
            scores=column,
            mean=mean,
            asks=entrant.max_asks > 0,
        )
        systems.append(system)
    return tuple(systems)


def whiskers(systems: Sequence[Scored]) -> str:
    """A caption's words for the whiskers of systems of one board."""
    n = [system.mean.n for system in systems]
    words = f"Whiskers are 95 % bootstrap intervals of the mean over n = {count_range(n)} scored instances"
    # With fewer instances no whisker is drawn at all.
    if min(n) < FEWEST:
        words += f", none below {FEWEST}"
    return words


def diagnosed_name(diagnosed: SystemDiagnosis) -> str:
    """A diagnosed system's name beside its numbers."""
    return marked(diagnosed.system.label, diagnosed.system.caveat)


@dataclass(frozen=True, slots=True, eq=False)
class Versus:
    """One system's differences to the baseline over the instances scored in both (one at least), greatest first."""

    label: str
    name: str
    gains: Array
    rows: Array
    """The board's row of each."""

    @property
    def better(self) -> int:
        return int((self.gains > _SAME).sum())

    @property
    def worse(self) -> int:
        return int((self.gains < -_SAME).sum())

    @property
    def same(self) -> int:
        return len(self.gains) - self.better - self.worse


def versus(systems: Sequence[Scored], baseline: str) -> tuple[Versus, ...]:
    """Every other system against the baseline; none if that is "" or has no score."""
    base: Array | None = None
    for system in systems:
        if system.label == baseline:
            base = system.scores
    if base is None:
        return ()
    compared: list[Versus] = []
    for system in systems:
        if system.label == baseline:
            continue
        gains = system.scores - base
        rows = np.flatnonzero(~np.isnan(gains))
        if len(rows):
            # Stable, so that equal gains are in the order of the board in every figure.
            order = np.argsort(-gains[rows], kind="stable")
            compared.append(Versus(system.label, system.name, gains[rows][order], rows[order]))
    return tuple(compared)


def nothing_shared(baseline: str) -> str:
    """Why a figure of differences is left out."""
    if not baseline:
        return "These runs include no run of orig to compare with."
    return f"No other system shares a scored instance with {printable(baseline)}."


# --- Traces


@dataclass(frozen=True, slots=True)
class Dot:
    """A value of a series, at a place of the other axis (a row, a turn, a cost).

    `text` is shown on hover, and becomes the text alternative and the table of data: its name, its value and further
    details on a line each. It may be of unknown origin.
    """

    at: float
    value: float
    text: str
    ends: Interval | None = None
    """Its interval, drawn as a whisker."""


def mean_point(at: float, mean: Difference, label: str, form: str = ".2f") -> Dot:
    """A mean with its interval."""
    return Dot(at, mean.mean, f"{label}\n{mean_text(mean, form)}\nn = {mean.n:,}", mean.ends)


def share_point(at: float, part: int, n: int, label: str) -> Dot:
    """A share in per cent, with Wilson's 95 % interval."""
    low, high = wilson(part, n) or (0.0, 1.0)
    text = f"{label}\n{part / n:.1%}\n{part:,} of {n:,}"
    return Dot(at, 100 * part / n, text, (100 * low, 100 * high))


def row_points(name: str, points: Sequence[Dot], *, series: int = 0, form: str = "", **fields: Any) -> Spec:
    """Points in rows, their values on the x axis; with a `form` also written above them."""
    if form:
        texts = [format(point.value, form) for point in points]
        fields |= {"mode": "markers+text", "text": texts, "textposition": "top center"}
    return _scatter(name, points, "x", series, **fields)


def lines(
    name: str, points: Sequence[Dot], *, series: int = 0, markers: bool = True, shape: str = ""
) -> Spec:
    """Points joined by a line with the dash of its series, their values on the y axis; `shape` is plotly's."""
    line = {"dash": DASHES[series % len(DASHES)], "width": 2}
    if shape:
        line["shape"] = shape
    mode = "lines"
    if markers:
        mode = "lines+markers"
    return _scatter(name, points, "y", series, mode=mode, line=line)


def dots(name: str, points: Sequence[Dot], *, series: int = 0) -> Spec:
    """Points with their values on the y axis."""
    return _scatter(name, points, "y", series)


def _scatter(
    name: str, points: Sequence[Dot], value_axis: Literal["x", "y"], series: int, **fields: Any
) -> Spec:
    place_axis = "x"
    if value_axis == "x":
        place_axis = "y"
    places: list[float] = []
    values: list[float] = []
    texts: list[str] = []
    above: list[float] = []
    below: list[float] = []
    has_intervals = False
    for point in points:
        places.append(point.at)
        values.append(point.value)
        texts.append(point.text)
        low, high = point.ends or (point.value, point.value)
        above.append(high - point.value)
        below.append(point.value - low)
        has_intervals = has_intervals or point.ends is not None
    trace: Spec = {
        "type": "scatter",
        "mode": "markers",
        "name": folded(name, LEGEND_WIDTH),
        place_axis: places,
        value_axis: values,
        "marker": {"symbol": SYMBOLS[series % len(SYMBOLS)]},
    }
    trace |= hover_fields(texts)
    # Plotly's error bars have lengths, not ends: 0 for a point without an interval.
    if has_intervals:
        bars = {"type": "data", "symmetric": False, "array": above, "arrayminus": below}
        trace[f"error_{value_axis}"] = bars
    return trace | fields


def placeholder() -> Spec:
    """An empty trace: it takes the colour of a system without data here, so that the others keep theirs."""
    return {"type": "scatter", "x": [None], "y": [None], "showlegend": False, "hoverinfo": "skip"}


def in_series(by_place: Mapping[int, Spec]) -> list[Spec]:
    """Traces by the place of their series, so that a system has the same colour in every figure."""
    return [by_place.get(place) or placeholder() for place in range(max(by_place) + 1)]


def share_bars(
    kind: str, names: Sequence[str], counts: Sequence[int], totals: Sequence[int], *, place: int
) -> Spec:
    """One part of 100 % bars, a row for each name, with a pattern of its own; empty rows are 0 %."""
    shares: list[float] = []
    numbers: list[str] = []
    texts: list[str] = []
    for name, count, total in zip(names, counts, totals, strict=True):
        share = 0.0
        if total:
            share = 100 * count / total
        number = ""
        if share >= _MIN_SHARE:
            number = f"{share:.0f}"
        shares.append(share)
        numbers.append(number)
        texts.append(f"{name}\n{kind}: {count:,} of {total:,} ({share:.1f} %)")
    shape = PATTERNS[place % len(PATTERNS)]
    # Faint, so that numbers on it stay legible.
    pattern = {"shape": shape, "fillmode": "overlay", "fgopacity": 0.3, "solidity": 0.2}
    bars: Spec = {
        "type": "bar",
        "orientation": "h",
        "name": kind,
        "x": shares,
        "y": list(range(len(names))),
        "marker": {"pattern": pattern},
        "text": numbers,
    }
    return bars | hover_fields(texts)


def hover_fields(texts: Sequence[str]) -> Spec:
    """Fields of a trace that shows texts of unknown origin on hover, line by line."""
    return {"hovertext": [_hover_text(text) for text in texts], "hoverinfo": "text"}


def _hover_text(text: str) -> str:
    return LINE_BREAK.join(map(escaped, text.split("\n")))


def unescaped(label: str) -> str:
    """A label of a spec as plain text."""
    return unescape(label.replace(LINE_BREAK, " "))


def hover_texts(trace: Spec) -> list[str]:
    """All texts on hover of a trace, row by row; line breaks are LINE_BREAK."""
    texts: list[str] = []
    for row in trace.get("hovertext") or []:
        # A heat map has a list of texts for each row, other traces have one text for each point.
        if isinstance(row, str):
            texts.append(row)
        else:
            texts += row
    return [text for text in texts if text]


def side_by_side(series: Sequence[Sequence[Dot]], apart: float = BESIDE) -> list[list[Dot]]:
    """Points of several series, moved around their tick so that whiskers do not overlap; one alone stays on it."""
    series_at_tick: dict[float, list[int]] = defaultdict(list)
    for number, points in enumerate(series):
        for point in points:
            series_at_tick[point.at].append(number)
    moved_series: list[list[Dot]] = []
    for number, points in enumerate(series):
        moved: list[Dot] = []
        for point in points:
            offset = _offset(number, series_at_tick[point.at], apart)
            moved.append(replace(point, at=point.at + offset))
        moved_series.append(moved)
    return moved_series


def _offset(number: int, numbers_at_tick: Sequence[int], apart: float) -> float:
    """How far the point of a series is from its tick, which stays in the middle of all points there."""
    n = len(numbers_at_tick)
    step = min(apart, MAX_ASIDE / max(1, n - 1))
    return step * (numbers_at_tick.index(number) - (n - 1) / 2)


# --- Figures


def figure(
    name: str,
    title: str,
    caption: str,
    traces: Sequence[Spec],
    *,
    alt: str = "",
    legend: bool = True,
    height: int = 340,
    **layout: Any,
) -> Figure:
    """A figure; `height` in px is without the legend below. Its text alternative is by default that of its traces."""
    if legend:
        entries = [trace["name"] for trace in traces if trace.get("showlegend") is not False]
        height += legend_height(entries)
    layout |= {"height": height, "showlegend": legend}
    spec = {"data": list(traces), "layout": layout}
    return Figure(name, title, caption, alt or text_alternative(traces), spec)


def rows_figure(
    name: str,
    title: str,
    caption: str,
    traces: Sequence[Spec],
    rows: Sequence[str],
    *,
    row_px: int = ROW_PX,
    y_range: tuple[float, float] | None = None,
    **layout: Any,
) -> Figure:
    """A figure of named rows, the first on top: row i stands at i. A name on several lines makes all rows higher."""
    labels: list[str] = []
    n_lines = 1
    for row in rows:
        label = folded(row)
        labels.append(label)
        n_lines = max(n_lines, label.count(LINE_BREAK) + 1)
    # Plotly's axes grow upwards: the greater end comes first, so that row 0 is on top.
    bottom, top = y_range or (len(rows) - 0.4, -0.6)
    axis = {
        "tickmode": "array",
        "tickvals": list(range(len(rows))),
        "ticktext": labels,
        "range": [bottom, top],
        "showgrid": False,
        "ticks": "",
    }
    row_height = max(row_px, 8 + _LINE_PX * n_lines)
    height = 90 + row_height * max(len(rows), 2)
    return figure(name, title, caption, traces, height=height, yaxis=axis, **layout)


def text_alternative(traces: Sequence[Spec]) -> str:
    """The first and the last point of every series, as far as there is room."""
    texts: list[str] = []
    for trace in traces:
        points = hover_texts(trace)
        # A series of one point is named once.
        texts += dict.fromkeys(points[:1] + points[-1:])
    sentences = [unescape(text.replace(LINE_BREAK, ", ")) for text in texts[:MAX_IN_ALTERNATIVE]]
    if len(texts) > MAX_IN_ALTERNATIVE:
        sentences.append(f"and {len(texts) - MAX_IN_ALTERNATIVE} more")
    return f"{'; '.join(sentences)}."


def axis(title: str, **fields: Any) -> Spec:
    """An axis; its title names the unit."""
    return {"title": {"text": title}} | fields


def percent_axis(title: str, *, room: float = 0.0) -> Spec:
    """An axis from 0 to 100 %, with `room` for markers beyond both ends."""
    return axis(title, range=[-room, 100 + room], tickvals=[0, 20, 40, 60, 80, 100])


def legend_height(names: Sequence[str]) -> int:
    """Height in px of a legend on a phone: all entries are as wide as the widest."""
    widest = 0
    n_lines: list[int] = []
    for name in names:
        lines = name.split(LINE_BREAK)
        n_lines.append(len(lines))
        for line in lines:
            widest = max(widest, cell_len(unescape(line)))
    in_a_row = max(1, _PHONE_PX // (_SYMBOL_PX + _LETTER_PX * widest))
    height = 0
    for i in range(0, len(names), in_a_row):
        height += 4 + _LINE_PX * max(n_lines[i : i + in_a_row])
    return height


def vertical_line(x: float) -> Spec:
    """A reference line over the whole height."""
    return {"type": "line", "x0": x, "x1": x, "yref": "paper", "y0": 0, "y1": 1, "line": {"dash": "dot"}}


def horizontal_line(y: float) -> Spec:
    """A reference line over the whole width."""
    return {"type": "line", "y0": y, "y1": y, "xref": "paper", "x0": 0, "x1": 1, "line": {"dash": "dot"}}


# --- Words of captions


def mean_text(mean: Difference, form: str = ".1f") -> str:
    """`66.7 [50.0, 83.3]`, with a remark if the interval is not reliable; the mean alone where there is none."""
    # A form with a sign is that of a gain; a mean score of 0 is an ordinary score.
    if mean.nowhere and form.startswith("+"):
        return NO_DIFFERENCE
    if mean.interval is None:
        return f"{mean.mean:{form}}"
    low, high = mean.interval
    text = with_interval(mean.mean, low, high, form)
    if not mean.too_short:
        return text
    n_differ = mean.n
    if mean.n_differ is not None:
        n_differ = mean.n_differ
    return f"{text} (too short, {n_differ} of {mean.n} differ)"


def count_range(counts: Iterable[int]) -> str:
    """`518`, or `500 to 518` if they differ."""
    ascending = sorted(counts)
    low, high = ascending[0], ascending[-1]
    if low == high:
        return f"{low:,}"
    return f"{low:,} to {high:,}"


def joined_names(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`; of more than six the first five. Names may be of unknown origin."""
    clean = [printable(name) for name in names]
    if len(clean) == 1:
        return clean[0]
    ending = clean.pop()
    if len(clean) > 5:
        ending = f"{len(names) - 5} more"
    return f"{', '.join(clean[:5])} and {ending}"
