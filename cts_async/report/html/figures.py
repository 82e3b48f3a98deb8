"""Figures in the page: a place that the page's script draws in, what it draws as data, and the numbers as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import unescape
from typing import Any, Final

import orjson

from cts_async.report.html.element import Element, Program, element, said
from cts_async.report.html.tables import table_box
from cts_async.report.plots import Figure, LeftOut, template
from cts_async.report.tables import Column, DataTable, Show

DATA_ID: Final = "figures"
MOST_POINTS: Final = 200
LINE_BREAK: Final = "<br>"
"""Plotly's, in a text that it shows; nobody's text has one, since there its bracket is an entity."""
_KEYS: Final = ("series", "point", "value", "details")


def figure_section(figure: Figure) -> Element:
    """The figure with its caption; those who do not see it have its text alternative, and everybody the numbers."""
    anchor = f"figure-{figure.name}"
    numbers = numbers_of(figure)
    folded = element(
        "details",
        element("summary", "Its numbers"),
        said(figure.alt, "p"),
        table_box(numbers, f"{anchor}-title") if numbers.rows else None,
        class_="numbers",
    )
    height = int(figure.spec["layout"].get("height") or 0) or None
    drawn = element(
        "div", class_="plot", role="img", aria_label=figure.alt, data_figure=figure.name, data_height=height
    )
    return element(
        "section",
        said(figure.title, "h3", id=f"{anchor}-title"),
        element("figure", drawn, element("figcaption", said(figure.caption))),
        folded,
        id=anchor,
        class_="figure",
    )


def left_out_note(one: LeftOut) -> Element:
    """Why a figure is not there."""
    return element("p", "No figure ", element("em", said(one.title)), ": ", said(one.reason), class_="remark")


def figures_data(figures: Sequence[Figure]) -> Element:
    """What the script draws: specs by name, and the themes' templates."""
    value = {
        "figures": {figure.name: figure.spec for figure in figures},
        "themes": {theme: template(theme) for theme in ("light", "dark")},
    }
    return element("script", Program(script_json(value)), type="application/json", id=DATA_ID)


def script_json(value: Any) -> str:
    """JSON that a script element can hold: nothing in it ends the element, or a line of a script."""
    data = orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY).decode()
    for character in "<>&\u2028\u2029":
        data = data.replace(character, f"\\u{ord(character):04x}")
    return data


def numbers_of(figure: Figure) -> DataTable:
    """What is told of each point when it is pointed at: rows {series, point, value, details}, every point once.

    Of very many points so many are taken, evenly, as a table holds; the caption says so.
    """
    rows = list({tuple(row.values()): row for row in _rows(figure.spec)}.values())
    there = [key for key in _KEYS if any(row[key] for row in rows)]
    columns = [Column(key, _cell(key), numeric=False) for key in there]
    taken = f": {MOST_POINTS} of {len(rows):,} points, evenly taken" if len(rows) > MOST_POINTS else ""
    name = f"{figure.name}_numbers"
    return DataTable(name, figure.title, figure.title + taken, columns, rows, shown=MOST_POINTS)


def _rows(spec: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    for trace in spec["data"]:
        told = trace.get("hovertext")
        series = _plain(str(trace.get("name") or ""))
        if told is not None:
            yield from (_told(series, text) for text in _flat(told))
        elif trace.get("hoverinfo") != "skip":  # else a guide for the eye
            yield from _placed(series, trace, spec.get("layout") or {})


def _told(series: str, text: str) -> dict[str, str]:
    """A point by what is told of it, line by line: whose it is, its value, and the rest."""
    first, *more = (_plain(line) for line in text.split(LINE_BREAK))
    return {"series": series, "point": first, "value": "".join(more[:1]), "details": "; ".join(more[1:])}


def _placed(series: str, trace: Mapping[str, Any], layout: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Points of a trace that tells of none: in the row that they stand in, at their x."""
    axis = layout.get("yaxis") or {}
    names = dict(zip(axis.get("tickvals") or (), axis.get("ticktext") or (), strict=False))
    for x, y in zip(trace.get("x") or (), trace.get("y") or (), strict=False):
        if x is not None and y is not None:
            point = _plain(str(names.get(round(y), f"{y:.6g}")))
            yield {"series": series, "point": point, "value": f"{x:.6g}", "details": ""}


def _flat(told: Any) -> Iterator[str]:
    """All texts of a list, of lists too; one text may be that of all points."""
    if isinstance(told, str):
        yield told
    else:
        for one in told:
            if one:
                yield from _flat(one)


def _cell(key: str) -> Show:
    return lambda row: str(row[key])


def _plain(label: str) -> str:
    """A label as it is shown: plotly's line breaks are spaces, its entities characters."""
    return unescape(label.replace(LINE_BREAK, " "))
