"""The figure "what a question is worth": gains over `orig` by when the user's answers reach the agent.

It is made for papers, whose language may be Chinese: its words stand in `asking.json`, by language.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from string import Template
from typing import Final

import orjson
from rich.cells import cell_len

from cts_async.analysis.asking import Asking, AskingSystem, GivenLater
from cts_async.analysis.stats import FEWEST, Difference
from cts_async.pages.plots import figure as draw
from cts_async.pages.plots.figure import Dot, Figure, LeftOutFigure, Spec
from cts_async.records import Language
from cts_async.tables.table import marked, printable

_NAME: Final = "question_worth"
_X_RANGE: Final = (-4, 112)
_ENDS_AT: Final = (103, 106, 109)
"""Where the lines end, each with its whisker: beyond the last turn, and beside each other."""
_LEGEND: Final = ("told", "before", "later", "asks", "never")
"""The order of the legend, which is that of the figure from top to bottom where asking is worth anything."""
_NEVER_DASH, _BEFORE_DASH, _TOLD_DASH = "dot", "dash", "longdash"


def question_worth(
    asking: Asking, series: Mapping[str, int], *, language: Language = "en"
) -> Figure | LeftOutFigure:
    """Draw gains against the share of the agent's turns; systems have the colours of their places in `series`.

    Injected answers are joined, and filled; the agent's own questions are open markers; systems that ask at no turn are
    lines over the whole width.
    """
    words = _words(language)
    name = _NAME
    if language != "en":
        name += f"_{language}"
    caveats = {system.label: system.caveat for system in asking.systems}
    names = {label: marked(label, caveat) for label, caveat in caveats.items()}
    by_turn = _given_later(asking, series, names, words) | _own_questions(asking, series, names, words)
    if not by_turn:
        return LeftOutFigure(name, words["title"], words["no_gain"])
    lines = _reference_lines(asking, series, names, words)
    traces = draw.in_series(_in_layers(by_turn, lines))
    counts: list[int] = []
    for system in asking.systems:
        if system.worth is not None and system.way != "never":
            counts.append(system.worth.gain.n)
        if system.timing is not None:
            counts += [share_bin.n for share_bin in system.timing.bins]
    caption = _filled(
        words["caption"],
        orig=printable(asking.orig),
        judge=printable(asking.judge),
        n_range=draw.count_range(counts),
        fewest=FEWEST,
    )
    y_title = _filled(words["y"], orig=names[asking.orig])
    y_title = _in_one_line(y_title, draw.TITLE_WIDTH) or draw.folded(y_title, draw.TITLE_WIDTH)
    return draw.figure(
        name,
        words["title"],
        caption,
        traces,
        height=380,
        xaxis=draw.axis(words["x"], range=list(_X_RANGE), tickvals=[0, 25, 50, 75, 100]),
        yaxis=draw.axis(y_title),
    )


def _in_layers(by_turn: Mapping[int, Spec], lines: Mapping[int, Spec]) -> dict[int, Spec]:
    """Traces by place in three layers: what happens at some turn, the lines, and the whiskers of both.

    A trace takes its colour by its place, modulo the number of colours: so each layer has the colours of the first.
    Whiskers are traces of their own, since plotly draws one of length 0 where there is none, and it would be seen.
    """
    layer = draw.N_COLOURS * -(-(max([*by_turn, *lines]) + 1) // draw.N_COLOURS)
    layers = dict(by_turn)
    for place, line in lines.items():
        layers[layer + place] = line
    n_traces = 2 * layer
    for traces in (by_turn, lines):
        for place, trace in traces.items():
            layers[n_traces + place] = _whiskers(trace)
        n_traces += layer
    return layers


def _whiskers(trace: Spec) -> Spec:
    """Take the whiskers off a trace, and return them as one of its own without markers."""
    bars = trace.pop("error_y", {"array": (), "arrayminus": ()})
    xs: list[float] = []
    ys: list[float] = []
    above: list[float] = []
    below: list[float] = []
    # Without any interval a trace has no bars at all.
    for x, y, up, down in zip(trace["x"], trace["y"], bars["array"], bars["arrayminus"], strict=False):
        if up or down:
            xs.append(x)
            ys.append(y)
            above.append(up)
            below.append(down)
    if not xs:
        return draw.placeholder()
    return {
        "type": "scatter",
        "mode": "markers",
        "x": xs,
        "y": ys,
        "marker": {"opacity": 0},
        "error_y": {"type": "data", "symmetric": False, "array": above, "arrayminus": below},
        "legendgroup": trace["legendgroup"],
        "showlegend": False,
        "hoverinfo": "skip",
    }


def _words(language: Language) -> dict[str, str]:
    words: dict[str, dict[str, str]] = orjson.loads(Path(__file__).with_name("asking.json").read_bytes())
    return words[language]


def _filled(template: str, **values: object) -> str:
    return Template(template).substitute(values)


def _given_later(
    asking: Asking, series: Mapping[str, int], names: Mapping[str, str], words: Mapping[str, str]
) -> dict[int, Spec]:
    """A line through the systems of each Clarifier that are given its answers at some share, by place of its series."""
    by_asker: dict[str, list[GivenLater]] = {}
    place_by_asker: dict[str, int] = {}
    for system in asking.given_later:
        # The system with rewriting comes first, if there is one: it gives the others its colour.
        place_by_asker.setdefault(system.asked_before, series[system.label])
        if system.share is not None and system.gain is not None:
            by_asker.setdefault(system.asked_before, []).append(system)
    traces: dict[int, Spec] = {}
    for asker, systems in by_asker.items():
        name = _filled(words["later"], system=asker)
        dots: list[Dot] = []
        for system in systems:
            if system.share is None or system.gain is None:
                continue
            share = f"{100 * system.share:g} %"
            label = _filled(words["at_share"], name=names[system.label], share=share)
            details = [_gain_text(system.gain), _filled(words["n"], n=f"{system.gain.n:,}")]
            if system.n_not_delivered:
                details.append(_filled(words["not_given"], n=system.n_not_delivered, whole=system.n_answered))
            text = "\n".join([label, *details])
            dots.append(Dot(100 * system.share, system.gain.mean, text, system.gain.ends))
        place = place_by_asker[asker]
        trace = draw.lines(name, dots, series=place)
        trace["line"]["dash"] = "solid"
        traces[place] = _finished(trace, name, "later")
    return traces


def _own_questions(
    asking: Asking, series: Mapping[str, int], names: Mapping[str, str], words: Mapping[str, str]
) -> dict[int, Spec]:
    """Open markers of each agent that asks, one for each quarter of its turns, by place of its series."""
    traces: dict[int, Spec] = {}
    for system in asking.systems:
        if system.timing is None or not system.timing.bins:
            continue
        name = _filled(words["asks"], system=names[system.label])
        dots: list[Dot] = []
        for share_bin in system.timing.bins:
            label = _filled(
                words["in_quarter"],
                name=names[system.label],
                low=f"{100 * share_bin.low:.0f} %",
                high=f"{100 * share_bin.high:.0f} %",
                share=f"{100 * share_bin.mean_share:.0f} %",
            )
            text = "\n".join([label, _gain_text(share_bin.gain), _filled(words["n"], n=f"{share_bin.n:,}")])
            dots.append(Dot(100 * share_bin.mean_share, share_bin.gain.mean, text, share_bin.gain.ends))
        place = series[system.label]
        trace = draw.dots(name, dots, series=place)
        trace["marker"] = {"symbol": f"{trace['marker']['symbol']}-open", "line": {"width": 2}}
        traces[place] = _finished(trace, name, "asks")
    return traces


def _reference_lines(
    asking: Asking, series: Mapping[str, int], names: Mapping[str, str], words: Mapping[str, str]
) -> dict[int, Spec]:
    """Lines of the systems that ask at no turn of the agent, by place of their series: told, before and never."""
    lines: dict[int, Spec] = {}
    number = 0
    for system in asking.systems:
        dash = _dash(system, asking)
        gain = _gain_of(system)
        if not dash or gain is None:
            continue
        name = _filled(words[system.way], system=names[system.label])
        text = "\n".join([name, _gain_text(gain), _filled(words["n"], n=f"{gain.n:,}")])
        end = _ENDS_AT[number % len(_ENDS_AT)]
        dots = [Dot(0, gain.mean, text), Dot(end, gain.mean, text, gain.ends)]
        if system.way == "never":
            dots = [replace(dot, ends=None) for dot in dots]
        else:
            number += 1
        place = series[system.label]
        line = draw.lines(name, dots, series=place, markers=False)
        line["line"]["dash"] = dash
        lines[place] = _finished(line, name, system.way)
    return lines


def _finished(trace: Spec, name: str, way: str) -> Spec:
    """A trace with its name in one line of the legend if there is room, and with its rank there."""
    trace["name"] = _in_one_line(name, draw.LEGEND_WIDTH) or trace["name"]
    trace["legendrank"] = _LEGEND.index(way)
    # Whiskers are shown and hidden with what they belong to.
    trace["legendgroup"] = draw.escaped(f"{way} {name}")
    return trace


def _in_one_line(text: str, width: int) -> str:
    """A text of a figure if it is not wider; else "".

    `draw.folded` counts every character of a Chinese text as two columns, and would break names of systems.
    """
    if cell_len(text) > width:
        return ""
    return draw.escaped(text)


def _dash(system: AskingSystem, asking: Asking) -> str:
    """How the line of a system is dashed; "" for none. Of several runs of a reference the newest has one."""
    if system.way == "before":
        return _BEFORE_DASH
    if system.label == asking.orig:
        return _NEVER_DASH
    if system.label == asking.gold:
        return _TOLD_DASH
    return ""


def _gain_of(system: AskingSystem) -> Difference | None:
    if system.worth is None:
        return None
    return system.worth.gain


def _gain_text(gain: Difference) -> str:
    return draw.mean_text(gain, "+.2f")


def in_chinese(asking: Asking, series: Mapping[str, int]) -> Iterator[Figure]:
    """The figure with Chinese words, if there is anything to draw."""
    figure = question_worth(asking, series, language="zh")
    if isinstance(figure, Figure):
        yield figure
