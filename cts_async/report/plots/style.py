"""Colours, fonts and margins: three plotly templates, for a light page, a dark page and print.

Figures name no colour of their own. Series take theirs from the template's `colorway` in the order of their traces,
so a page switches its theme by laying another template under the same figure. Series colours are Okabe and Ito's
("Color universal design", 2008), darkened or lightened until they stand out from their ground by 4.5 : 1, so that
numbers on them in the ground's colour are legible too (WCAG 2.2, 1.4.3). What they mean is said by marker, dash or
pattern as well.

Anybody's text on its way into a figure.

Plotly takes some of what stands in angle brackets for markup (`<b>`, `<a href>`, `<br>`), and decodes entities: here
brackets and ampersands become entities, which it shows as the characters they were. Texts stand in fields that plotly
fills no `%{...}` into (`text`, `hovertext`, `ticktext`, `name`), never in templates.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias
from unicodedata import east_asian_width

from cts_async.report.text import plain

Theme: TypeAlias = Literal["light", "dark", "print"]
THEMES: Final[tuple[Theme, ...]] = ("light", "dark", "print")
FONTS: Final = (
    'system-ui, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", "Noto Sans CJK SC", "Noto Sans SC", '
    '"PingFang SC", "Hiragino Sans GB", "Microsoft YaHei", "WenQuanYi Micro Hei", sans-serif'
)


@dataclass(frozen=True, slots=True)
class Colours:
    """What a theme is made of. `ground` is what the figure lies on, which it paints itself only in print."""

    ground: str
    text: str
    grid: str
    line: str
    series: tuple[str, ...]
    scale: tuple[str, str, str]
    """Of heat maps, from nothing to all; the text colour is legible on all of it."""


_LIGHT: Final = Colours(
    ground="#ffffff",
    text="#1f2328",
    grid="#dfe3e8",
    line="#6e7781",
    series=("#0072b2", "#c25400", "#007f59", "#a94f85", "#8a6900", "#2b2b2b", "#4a7696", "#8f3b1b"),
    scale=("#f3f7fb", "#bcd9ee", "#7db8e0"),
)
_DARK: Final = Colours(
    ground="#14171c",
    text="#e6e9ee",
    grid="#343a43",
    line="#9aa4b1",
    series=("#56b4e9", "#f08a3c", "#2fc796", "#e08fbd", "#e6c229", "#e8e8e8", "#8ac9f2", "#ffb37a"),
    scale=("#1b2530", "#254766", "#2f6396"),
)
COLOURS: Final[dict[Theme, Colours]] = {"light": _LIGHT, "dark": _DARK, "print": _LIGHT}
FONT_PX: Final[dict[Theme, int]] = {"light": 13, "dark": 13, "print": 11}
"""11 px are 8 points, the least that papers ask for."""
_LEGEND: Final = {
    "orientation": "h",
    "x": 0,
    "xref": "container",
    "xanchor": "left",
    "y": 0,
    "yref": "container",
    "yanchor": "bottom",
    "traceorder": "normal",
}
"""Below everything, as wide as the figure."""
N_COLOURS: Final = len(_LIGHT.series)
"""Series have other colours up to here."""


def template(theme: Theme) -> dict[str, Any]:
    """`layout.template` of a theme. In print the ground is white and letters are those of a paper's figure."""
    colours, size = COLOURS[theme], FONT_PX[theme]
    clear = "rgba(0,0,0,0)"
    ground = colours.ground if theme == "print" else clear
    layout = {
        "colorway": list(colours.series),
        "font": {"family": FONTS, "size": size, "color": colours.text},
        "paper_bgcolor": ground,
        "plot_bgcolor": ground,
        "margin": {"l": 8, "r": 16, "t": 12, "b": 8, "pad": 2},
        "xaxis": _axis(colours, size),
        "yaxis": _axis(colours, size),
        "legend": _LEGEND,
        "hoverlabel": {"bgcolor": colours.ground, "font": {"color": colours.text}, "align": "left"},
        "shapedefaults": {"line": {"color": colours.line, "width": 1}},
        "annotationdefaults": {"font": {"color": colours.text}},
        "modebar": {"bgcolor": clear, "color": colours.line, "activecolor": colours.text},
    }
    bar = {
        "marker": {"line": {"color": colours.ground, "width": 1}},
        "insidetextfont": {"color": colours.ground},
    }
    heatmap = {"colorscale": _scale(colours), "textfont": {"color": colours.text}}
    return {"layout": layout, "data": {"bar": [bar], "heatmap": [heatmap]}}


def _axis(colours: Colours, size: int) -> dict[str, Any]:
    return {
        "automargin": True,
        "gridcolor": colours.grid,
        "linecolor": colours.line,
        "tickcolor": colours.line,
        "zeroline": False,
        "title": {"standoff": 8, "font": {"size": size}},
    }


def _scale(colours: Colours) -> list[list[float | str]]:
    return [[place / 2, colour] for place, colour in enumerate(colours.scale)]


NAME_WIDTH: Final = 18
"""Columns of a name on an axis: what leaves half of a phone's width to the figure."""
LEGEND_WIDTH: Final = 26
TITLE_WIDTH: Final = 34
"""Columns of an axis' title on a phone."""
_LINES: Final = 3
_ENTITIES: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def shown(text: str) -> str:
    """Text that plotly shows as it is, on one line; controls and marks of direction become U+FFFD."""
    return "".join(
        _ENTITIES.get(character, character) for character in plain(text, "\N{REPLACEMENT CHARACTER}")
    )


def folded(text: str, width: int = NAME_WIDTH) -> str:
    """`shown` on up to three lines of `width` columns, broken after hyphens and spaces where there are any.

    A Chinese character has two columns. Of a name that does not fit the middle is left out: systems differ in how
    they begin (the model) and in how they end (the budget).
    """
    whole = plain(text, "\N{REPLACEMENT CHARACTER}")
    lines, keep = list(_lines(whole, width)), min(len(whole), _LINES * width)
    while len(lines) > _LINES:
        keep -= 1
        tail = keep // 3
        lines = list(_lines(f"{whole[: keep - tail]}…{whole[len(whole) - tail :]}", width))
    return "<br>".join(shown(line.strip()) for line in lines)


def _lines(text: str, width: int) -> Iterator[str]:
    line = ""
    for piece in _pieces(text, width):
        if line and columns(line + piece.rstrip()) > width:
            yield line
            line = ""
        line += piece
    yield line


def _pieces(text: str, width: int) -> Iterator[str]:
    """Parts that a line may end after; none is wider than a line."""
    for part in re.findall(r"[^-_/+ ]*[-_/+ ]+|[^-_/+ ]+", text):
        piece = ""
        for character in part:
            if columns(piece + character) > width:
                yield piece
                piece = ""
            piece += character
        yield piece


def columns(text: str) -> int:
    """How wide text is, in letters."""
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in text)
