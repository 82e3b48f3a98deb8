"""Colours, fonts and labels: three plotly templates (light page, dark page, print), and text that plotly shows as is.

Figures name no colours. Series take theirs from the template's `colorway` in the order of their traces, so a page
switches its theme by putting another template under the same figure. Series colours are those of Okabe and Ito
("Color universal design", 2008), darkened or lightened to a contrast of 4.5 : 1 with their ground, so that numbers on
them in the ground's colour are legible, too (WCAG 2.2, 1.4.3). Markers, dashes and patterns repeat what colours mean.

Plotly interprets some markup (`<b>`, `<a href>`, `<br>`) and entities in texts. Labels of unknown origin are escaped,
and stand only in fields that plotly does not treat as templates (`text`, `hovertext`, `ticktext`, `name`).
"""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import wrap
from typing import Any, Final, Literal, TypeAlias
from unicodedata import east_asian_width

from cts_async.report.output import plain

Theme: TypeAlias = Literal["light", "dark", "print"]
THEMES: Final[tuple[Theme, ...]] = ("light", "dark", "print")
FONTS: Final = (
    'system-ui, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", "Noto Sans CJK SC", "Noto Sans SC", '
    '"PingFang SC", "Hiragino Sans GB", "Microsoft YaHei", "WenQuanYi Micro Hei", sans-serif'
)
FONT_PX: Final[dict[Theme, int]] = {"light": 13, "dark": 13, "print": 11}
"""11 px are 8 points, the minimum in papers."""
NAME_WIDTH: Final = 18
"""Columns of a name on an axis: half of a phone's width remains for the figure."""
LEGEND_WIDTH: Final = 26
TITLE_WIDTH: Final = 34
"""Columns of an axis title on a phone."""
_MAX_LINES: Final = 3
_ENTITIES: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


@dataclass(frozen=True, slots=True)
class Colours:
    """The colours of a theme. Only print paints its ground; in a page figures are transparent."""

    ground: str
    text: str
    grid: str
    line: str
    series: tuple[str, ...]
    scale: tuple[str, str, str]
    """Of heat maps, from 0 to 1; the text colour is legible on all of it."""


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
N_COLOURS: Final = len(_LIGHT.series)


def template(theme: Theme) -> dict[str, Any]:
    """`layout.template` of a theme."""
    colours, size = COLOURS[theme], FONT_PX[theme]
    clear = "rgba(0,0,0,0)"
    ground = colours.ground if theme == "print" else clear
    axis = {
        "automargin": True,
        "gridcolor": colours.grid,
        "linecolor": colours.line,
        "tickcolor": colours.line,
        "zeroline": False,
        "title": {"standoff": 8, "font": {"size": size}},
    }
    below = {"orientation": "h", "x": 0, "xanchor": "left", "y": 0, "yanchor": "bottom"}
    layout = {
        "colorway": list(colours.series),
        "font": {"family": FONTS, "size": size, "color": colours.text},
        "paper_bgcolor": ground,
        "plot_bgcolor": ground,
        "margin": {"l": 8, "r": 16, "t": 12, "b": 8, "pad": 2},
        "xaxis": axis,
        "yaxis": axis,
        "legend": {**below, "xref": "container", "yref": "container", "traceorder": "normal"},
        "hoverlabel": {"bgcolor": colours.ground, "font": {"color": colours.text}, "align": "left"},
        "shapedefaults": {"line": {"color": colours.line, "width": 1}},
        "annotationdefaults": {"font": {"color": colours.text}},
        "modebar": {"bgcolor": clear, "color": colours.line, "activecolor": colours.text},
    }
    whiskers = {"thickness": 1.5, "width": 4}
    scatter = {"cliponaxis": False, "marker": {"size": 9}, "error_x": whiskers, "error_y": whiskers}
    bar = {
        "marker": {"line": {"color": colours.ground, "width": 1}},
        "insidetextfont": {"color": colours.ground},
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "constraintext": "none",
    }
    scale = [[place / 2, colour] for place, colour in enumerate(colours.scale)]
    heatmap = {"colorscale": scale, "textfont": {"color": colours.text}}
    return {"layout": layout, "data": {"scatter": [scatter], "bar": [bar], "heatmap": [heatmap]}}


def shown(text: str) -> str:
    """Text that plotly shows verbatim on one line; control and direction characters become U+FFFD."""
    return plain(text, "\N{REPLACEMENT CHARACTER}").translate(_ENTITIES)


def folded(text: str, width: int = NAME_WIDTH) -> str:
    """`shown` on up to three lines of `width` columns, broken after hyphens and spaces if there are any.

    Of a longer name the middle is left out: systems differ at the beginning (the model) and at the end (the budget).
    """
    whole = plain(text, "\N{REPLACEMENT CHARACTER}")
    letters = max(1, width // 2) if columns(whole) > len(whole) else width
    lines, keep = wrap(whole, letters), min(len(whole), _MAX_LINES * letters)
    while len(lines) > _MAX_LINES:
        keep -= 1
        tail = keep // 3
        lines = wrap(f"{whole[: keep - tail]}…{whole[len(whole) - tail :]}", letters)
    return "<br>".join(map(shown, lines))


def columns(text: str) -> int:
    """The width of a text in columns; a Chinese character has two."""
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in text)
