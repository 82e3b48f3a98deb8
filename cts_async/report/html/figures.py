"""Figures in the page: a place that the page's script draws in, what it draws as data, and the numbers as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import unescape
from typing import Any, Final

import orjson

from cts_async.report.data_table import Column, DataTable, text
from cts_async.report.html.element import Element, Program, element, said
from cts_async.report.html.tables import table_box
from cts_async.report.plots import Figure, LeftOut, template

DATA_ID: Final = "figures"
_MOST_DIGITS: Final = 6


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
    """The points of all traces, with their intervals: rows {series, x, y, value, low, high}, as far as there are any.

    What an axis calls its places by name stands there by name.
    """
    layout = figure.spec.get("layout") or {}
    rows = [row for trace in figure.spec["data"] for row in _points(trace, layout)]
    there = [key for key in ("series", "x", "y", "value", "low", "high") if any(row[key] for row in rows)]
    columns = [
        Column(_title(layout, key), text(key), numeric=key not in ("series", "x", "y")) for key in there
    ]
    return DataTable(f"{figure.name}_numbers", figure.title, "", columns, rows)


def _points(trace: Mapping[str, Any], layout: Mapping[str, Any]) -> Iterator[dict[str, str | None]]:
    if trace.get("hoverinfo") == "skip" and not trace.get("name"):
        return  # a guide for the eye
    x, y = (_named(trace, axis, layout) for axis in "xy")
    series = _plain(str(trace.get("name") or ""))
    if trace.get("z") is not None:
        for yi, line in zip(y, trace["z"], strict=False):
            for xi, z in zip(x, line, strict=False):
                yield _row(series, xi, yi, value=z)
        return
    for i in range(max(len(x), len(y))):
        low, high = _interval(trace, i)
        yield _row(series, *(of[i] if i < len(of) else None for of in (x, y)), low=low, high=high)


def _row(
    series: str, x: Any, y: Any, *, value: Any = None, low: Any = None, high: Any = None
) -> dict[str, str | None]:
    cells = {"x": x, "y": y, "value": value, "low": low, "high": high}
    return {"series": series, **{key: _written(one) for key, one in cells.items()}}


def _named(trace: Mapping[str, Any], axis: str, layout: Mapping[str, Any]) -> list[Any]:
    """A trace's places on an axis, by the names that it has for them."""
    own = str(trace.get(f"{axis}axis") or axis).replace(axis, f"{axis}axis", 1)
    about = layout.get(own) or {}
    names = dict(zip(about.get("tickvals") or (), about.get("ticktext") or (), strict=False))
    values = trace.get(axis)
    return [names.get(value, value) for value in ([] if values is None else values)]


def _interval(trace: Mapping[str, Any], i: int) -> tuple[float | None, float | None]:
    """The ends of a point's interval, on the axis that has one."""
    for axis in "xy":
        bars = trace.get(f"error_{axis}") or {}
        up, down = bars.get("array"), bars.get("arrayminus")
        if up is not None and i < len(up) and up[i] is not None:
            at = float(trace[axis][i])
            return at - float(up[i] if down is None else down[i]), at + float(up[i])
    return None, None


def _written(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, str):
        return _plain(value)
    return f"{float(value):.{_MOST_DIGITS}g}"


def _plain(label: str) -> str:
    """A label as it is shown: plotly's line breaks are spaces, its entities characters."""
    return unescape(label.replace("<br>", " "))


def _title(layout: Mapping[str, Any], key: str) -> str:
    title = (layout.get(f"{key}axis") or {}).get("title")
    named = title.get("text") if isinstance(title, Mapping) else title
    return _plain(str(named)) if named else key
