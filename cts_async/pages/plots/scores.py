"""Figures of scores: by system, by instance, by judge, and against what they cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import ceil, floor, log10
from pathlib import Path
from typing import Any, Final

import numpy as np

from cts_async.analysis.board import Array
from cts_async.analysis.compare import Agreement, Robustness, Standing
from cts_async.analysis.retrieval import NOBODY_ASKED, TurnRetrieval
from cts_async.analysis.stats import Difference, paired_differences
from cts_async.analysis.summary import RunSummary
from cts_async.pages.plots import figure as draw
from cts_async.pages.plots.figure import Dot, Figure, LeftOutFigure, Scored, Spec, Versus
from cts_async.records import SCHEMES, Caveat, Mode
from cts_async.tables.table import marked, printable

BIN: Final = 5
_ROOM: Final = 0.8
"""Share of a row's height for its histogram."""
_MEDIAN: Final = {"symbol": "line-ns-open", "size": 16, "line": {"width": 3}}
MAX_STEPS: Final = 1_000
"""The gain by instance shows up to so many instances one by one, of more the percentiles in steps of 0.5."""
_NEUTRAL: Final = 5
"""The place of the most neutral colour."""
_LOG_FROM: Final = 10.0
"""An axis of costs is logarithmic if the most expensive system takes so many times as much as the cheapest."""
_ALIKE: Final = 1.5
"""An axis of costs does not begin at 0 if the most expensive system takes less than so many times as much."""
_FINE_TICKS: Final = 1.5
"""A logarithmic axis over fewer powers of ten has ticks between them, too."""
ONE_JUDGE: Final = "There is only one judge: cts judge RUN --judge NAME adds another."


def leaderboard_figure(systems: Sequence[Scored], judge: str) -> Figure:
    """Mean scores (paper, table 2): a row for each system; references and each budget k have their own marker."""
    ranked = sorted(systems, key=lambda one: -one.mean.mean)
    in_all = all(one.mean.n == len(one.scores) for one in ranked)
    over = "instances that all systems have" if in_all else "instances that did not fail"
    kinds = sorted({_kind(one) for one in ranked})
    traces = []
    for series, kind in enumerate(kinds):
        points = [
            draw.mean_point(row, one.mean, one.name) for row, one in enumerate(ranked) if _kind(one) == kind
        ]
        traces.append(draw.row_points(kind[1], points, series=series, form=".1f"))
    return draw.rows_figure(
        "leaderboard",
        "Leaderboard",
        f"Mean restore_score_100 by judge {printable(judge)} over the {over}, best on top. {draw.whiskers(ranked)}.",
        traces,
        [one.name for one in ranked],
        legend=len(kinds) > 1,
        xaxis=draw.axis(draw.SCORE_AXIS),
    )


def _kind(one: Scored) -> tuple[int, str]:
    """Its place in the legend and its name there."""
    return (-1, "reference") if one.reference else (one.k, f"k = {one.k}" if one.k else "k unknown")


def gain(
    standings: Sequence[Standing], names: Mapping[str, str], baseline: str, judge: str
) -> Figure | LeftOutFigure:
    """Mean paired differences to the baseline (paper, table 3), a row for each system, greatest on top."""
    paired = [(names[one.system], one.gain) for one in standings if one.gain]
    if not paired:
        return LeftOutFigure("gain", "Gain over the baseline", draw.nothing_shared(baseline))
    paired.sort(key=lambda pair: -pair[1].mean)
    points = [draw.mean_point(row, gain, name, "+.2f") for row, (name, gain) in enumerate(paired)]
    return draw.rows_figure(
        "gain",
        f"Gain over {printable(baseline)}",
        f"Mean paired difference of restore_score_100 to {printable(baseline)} by judge {printable(judge)}; whiskers "
        f"are 95 % paired bootstrap intervals over n = {draw.counts(gain.n for _, gain in paired)} instances.",
        [draw.row_points("gain", points, form="+.1f")],
        [name for name, _ in paired],
        legend=False,
        xaxis=draw.axis(
            draw.folded(f"mean gain in restore score over {baseline} (points)", draw.TITLE_WIDTH)
        ),
        shapes=[draw.vertical_line(0)],
    )


def distribution(systems: Sequence[Scored]) -> Figure:
    """The spread of scores: a row for each system, best mean on top, with its mean and its median.

    Histograms are counted here, so that the figure is as small for 100,000 instances as for a hundred. All rows have
    one scale: equal heights are equal shares.
    """
    ranked = sorted(systems, key=lambda one: -one.mean.mean)
    values = [np.sort(one.scores[~np.isnan(one.scores)]) for one in ranked]
    names = [one.name for one in ranked]
    medians = [float(np.median(of)) for of in values]
    mean = draw.row_points(
        "mean",
        [Dot(row, one.mean.mean, f"{one.name}\nmean {one.mean.mean:.2f}") for row, one in enumerate(ranked)],
        series=1,
    )
    median = draw.row_points(
        "median",
        [Dot(row, of, f"{names[row]}\nmedian {of:.2f}") for row, of in enumerate(medians)],
        marker=_MEDIAN,
    )
    return draw.rows_figure(
        "scores",
        "Distribution of scores",
        f"restore_score_100 of the n = {draw.counts(map(len, values))} scored instances of each system, in bins of "
        f"{BIN} points; equal heights are equal shares. Failed instances have no score.",
        [_histograms(names, values), mean, median],
        names,
        alt=draw.alternative([mean, median]),
        row_px=52,
        xaxis=draw.axis("restore score (0–100)", range=[-3, 103], tickvals=[0, 20, 40, 60, 80, 100]),
        yaxis={"range": [len(names) - 0.6, -1]},
    )


def _histograms(names: Sequence[str], values: Sequence[Array]) -> Spec:
    """Filled outlines, one behind the other in a single trace."""
    shares = [binned(of) / len(of) for of in values]
    tallest = max(float(share.max()) for share in shares)
    xs: list[float | None] = []
    ys: list[float | None] = []
    hover = []
    for row, (name, share, of) in enumerate(zip(names, shares, values, strict=True)):
        before: float = row
        for place, part in enumerate([*share.tolist(), 0.0]):
            top, left = row - _ROOM * part / tallest, BIN * place
            xs += [left, left]
            ys += [before, top]
            before = top
            text = f"{name}\n{left} to {left + BIN}: {part:.1%} of {len(of):,}" if left < 100 else name
            hover += [text, text]
        xs += [0, None]
        ys += [row, None]
        hover += [name, ""]
    trace: Spec = {"type": "scatter", "mode": "lines", "name": "share of instances", "x": xs, "y": ys}
    return {**trace, "fill": "toself", "hoveron": "points", "line": {"width": 1.5}, **draw.hovering(hover)}


def binned(values: Array) -> Array:
    """The number of values in [0, 5), [5, 10), ... [95, 100]."""
    return np.histogram(values, bins=np.arange(0, 100 + BIN, BIN))[0]


def better_or_worse(found: Sequence[Versus], baseline: str) -> Figure | LeftOutFigure:
    """Shares of instances better than with the baseline, the same, and worse; most often better on top."""
    name = "better_or_worse"
    if not found:
        return LeftOutFigure(name, "Better, same or worse", draw.nothing_shared(baseline))
    ranked = sorted(found, key=lambda one: -one.better / len(one.gains))
    names = [one.name for one in ranked]
    n = [len(one.gains) for one in ranked]
    better, same, worse = (
        draw.share_bars(kind, names, [getattr(one, kind) for one in ranked], n, place=place)
        | {"legendrank": place}
        for place, kind in enumerate(("better", "same", "worse"))
    )
    same["base"] = better["x"]
    worse["base"] = [100 - share for share in worse["x"]]
    return draw.rows_figure(
        name,
        f"Better, same or worse than {printable(baseline)}",
        f"Instances whose restore_score_100 is above that of {printable(baseline)}, equal to it and below it; "
        f"n = {draw.counts(n)} instances scored in both.",
        draw.in_series({0: better, 1: worse, _NEUTRAL: same}),
        names,
        barmode="overlay",
        bargap=0.3,
        xaxis=draw.percent_axis("share of instances (%)"),
    )


def gain_by_instance(
    found: Sequence[Versus], ids: Sequence[str], series: Mapping[str, int], baseline: str
) -> Figure | LeftOutFigure:
    """Every instance's gain, sorted: a line from the greatest gain to the greatest loss. `ids` by row of the board."""
    name = "gain_by_instance"
    if not found:
        return LeftOutFigure(name, "Gain by instance", draw.nothing_shared(baseline))
    traces = draw.in_series({series[one.label]: _gain_line(one, ids, series[one.label]) for one in found})
    if len(found) == 1:
        traces[-1]["fill"] = "tozeroy"
    return draw.figure(
        name,
        f"Gain over {printable(baseline)} by instance",
        f"Differences of restore_score_100 to {printable(baseline)}, sorted for each system by itself, "
        f"n = {draw.counts(len(one.gains) for one in found)} instances scored in both.",
        traces,
        xaxis=draw.percent_axis("share of instances (%)"),
        yaxis=draw.axis(draw.folded(f"gain in restore score over {baseline} (points)", draw.TITLE_WIDTH)),
        shapes=[draw.horizontal_line(0)],
    )


def _gain_line(one: Versus, ids: Sequence[str], series: int) -> Spec:
    n, name = len(one.gains), one.name
    if n <= MAX_STEPS:  # steps of equal width; the last one is repeated where it ends
        rows, gains = [*one.rows.tolist(), int(one.rows[-1])], [*one.gains.tolist(), float(one.gains[-1])]
        points = [
            Dot(round(100 * place / n, 3), round(gain, 6), f"{ids[row]}\n{name}: {gain:+.1f}")
            for place, (row, gain) in enumerate(zip(rows, gains, strict=True))
        ]
        return draw.lines(name, points, series=series, markers=False, line={"shape": "hv"})
    shares = np.linspace(0, 100, 201)
    points = [
        Dot(share, round(gain, 6), f"{name}\n{share:.1f} % gain at least {gain:+.1f}")
        for share, gain in zip(shares.tolist(), np.percentile(one.gains, 100 - shares).tolist(), strict=True)
    ]
    return draw.lines(name, points, series=series, markers=False)


# --- Judges


def judges(found: Robustness | None, names: Mapping[str, str]) -> Figure | LeftOutFigure:
    """A row for each system with its mean by every judge. `names` are the systems' for readers, by label."""
    name, title = "judges", "Scores by judge"
    if found is None:
        return LeftOutFigure(name, title, ONE_JUDGE)
    order = sorted(range(len(found.systems)), key=lambda i: -(found.judges[0].means[i] or 0.0))
    rows = [names.get(found.systems[i], found.systems[i]) for i in order]
    traces = []
    for place, one in enumerate(found.judges):
        points = [
            Dot(row, mean, f"{rows[row]}\n{one.judge}: {mean:.2f}\nn = {one.n_scored[i]:,}")
            for row, i in enumerate(order)
            if (mean := one.means[i]) is not None
        ]
        trace = draw.row_points(one.judge, points, series=place)
        if place:  # an outline: equal means stay visible
            trace["marker"] = {"symbol": f"{trace['marker']['symbol']}-open", "line": {"width": 2}}
        traces.append(trace)
    counted = f"The judges {draw.joined_names(found.counted)}" if found.references else "All judges"
    if found.same_order is not None:
        verdict = f"{counted} order the systems {'alike' if found.same_order else 'differently'}."
    elif len(found.counted) > 1:
        verdict = "No two systems were scored by all judges."
    else:
        verdict = f"{draw.joined_names(found.references)} is a reference."
    scored = draw.counts([n for one in found.judges for n in one.n_scored if n] or [0])
    return draw.rows_figure(
        name,
        title,
        f"Mean restore_score_100 by judge, systems in the order of {printable(found.judges[0].judge)}. {verdict} "
        f"n = {scored} scored instances.",
        traces,
        rows,
        xaxis=draw.axis(draw.SCORE_AXIS),
    )


def agreement(found: Robustness | None) -> Figure | LeftOutFigure:
    """A heat map of Cohen's kappa, pair by pair, its values written in the cells; a sentence for two judges."""
    name, title = "agreement", "Agreement of judges"
    if found is None:
        return LeftOutFigure(name, title, ONE_JUDGE)
    known = [pair for pair in found.agreements if pair.kappa is not None]
    if not known:
        return LeftOutFigure(name, title, "No two judges have labelled the same nuggets in ways that differ.")
    names = [one.judge for one in found.judges]
    if len(names) == 2:  # one number is no figure
        pair = known[0]
        sentence = (
            f"Cohen's kappa of {draw.joined_names(names)} is {pair.kappa:.3f} over {pair.n_nuggets:,} nuggets, "
            f"{pair.n_distinct:,} of them of distinct answers."
        )
        return LeftOutFigure(name, title, sentence)
    columns = {"tickvals": list(range(len(names))), "ticktext": [draw.folded(one, 12) for one in names]}
    alphas = {"nominal": found.alpha_nominal, "ordinal": found.alpha_ordinal}
    written = [f"{'not defined' if of is None else f'{of:.3f}'} {kind}" for kind, of in alphas.items()]
    judges = draw.joined_names(found.counted) if found.references else "all judges"
    return draw.rows_figure(
        name,
        title,
        "Cohen's kappa of the labels full, partial and none, nugget by nugget: 1 is full agreement, 0 is chance. "
        f"Krippendorff's alpha of {judges} is {', '.join(written)}; "
        f"n = {draw.counts(pair.n_nuggets for pair in known)} nuggets of a pair, "
        f"{draw.counts(pair.n_distinct for pair in known)} of distinct answers.",
        [_heatmap(found, names)],
        names,
        row_px=48,
        legend=False,
        xaxis={**columns, "showgrid": False},
        yaxis={"range": [len(names) - 0.5, -0.5]},
    )


def _heatmap(found: Robustness, names: Sequence[str]) -> Spec:
    pairs: dict[tuple[str, str], Agreement] = {}
    for pair in found.agreements:
        pairs[pair.judge, pair.other] = pairs[pair.other, pair.judge] = pair
    cells = [[pairs.get((row, column)) for column in names] for row in names]
    kappas = [[cell.kappa if cell else None for cell in row] for row in cells]
    return {
        "type": "heatmap",
        "z": kappas,
        "zmin": min(0.0, *(kappa for row in kappas for kappa in row if kappa is not None)),
        "zmax": 1,
        "text": [["–" if kappa is None else f"{kappa:.2f}" for kappa in row] for row in kappas],
        "texttemplate": "%{text}",
        "hovertext": [draw.hovering([_hover(cell) for cell in row])["hovertext"] for row in cells],
        "hoverinfo": "text",
        "xgap": 2,
        "ygap": 2,
        "showscale": False,
    }


def _hover(pair: Agreement | None) -> str:
    if pair is None:  # a judge with itself
        return ""
    numbers = {"kappa": pair.kappa, "with quadratic weights": pair.kappa_quadratic, "same labels": pair.exact}
    values = [f"{what} {value:.3f}" for what, value in numbers.items() if value is not None]
    return "\n".join(
        [
            f"{pair.judge} and {pair.other}",
            *values,
            f"n = {pair.n_nuggets:,} nuggets ({pair.n_distinct:,} distinct)",
        ]
    )


# --- Costs


def cost(
    systems: Sequence[Scored], summaries: Sequence[RunSummary], series: Mapping[str, int]
) -> Figure | LeftOutFigure:
    """Mean score against dollars; systems that called a model without a price are left out, and named."""
    dollars: dict[Path, float | None] = {}
    for one in summaries:
        instances, prices = one.n_done + len(one.failures), one.manifest.prices
        # Unknown if a price is, or if nothing was called that could cost anything.
        cost = one.spent.cost_usd(prices) if one.spent.calls else None
        dollars[one.directory] = cost / instances if instances and cost is not None else None
    name, title = "cost", "Score and cost"
    if not any(dollars.values()):
        free = 0.0 in dollars.values()
        unknown = "No system has prices for all models that it called (cts.toml can set prices)."
        return LeftOutFigure(name, title, "All calls were free." if free else unknown)
    caption = (
        "Mean restore_score_100 against the dollars of all calls in the journal, failed attempts and judging included, "
        "per instance."
    )
    return _against(name, title, caption, systems, dollars, series, "US dollars per instance")


def time(
    systems: Sequence[Scored], summaries: Sequence[RunSummary], series: Mapping[str, int]
) -> Figure | LeftOutFigure:
    """Mean score against the median latency of an instance's calls."""
    seconds = {one.directory: one.spent.latency_per_instance_s() for one in summaries}
    name, title = "time", "Score and time"
    if not any(seconds.values()):
        return LeftOutFigure(name, title, "None of these runs records how long its calls took.")
    caption = (
        "Mean restore_score_100 against the latency of an instance's model calls, failed attempts and judging "
        "included: their sum, whatever ran at the same time; the median over the instances."
    )
    return _against(name, title, caption, systems, seconds, series, "latency per instance (median), seconds")


def _against(
    name: str,
    title: str,
    caption: str,
    systems: Sequence[Scored],
    amounts: Mapping[Any, float | None],
    series: Mapping[str, int],
    unit: str,
) -> Figure | LeftOutFigure:
    """A point for each system: its mean score against an amount, by its directory."""
    known = [(one, amount) for one in systems if (amount := amounts.get(one.directory)) is not None]
    if not known:
        return LeftOutFigure(name, title, "No system with a score has this amount.")
    unknown = [one.name for one in systems if amounts.get(one.directory) is None]
    traces = {}
    for one, amount in known:
        place = series[one.label]
        text = f"{one.name}\n{draw.interval(one.mean, '.2f')} at {amount:.4g} {unit}\nn = {one.mean.n:,}"
        traces[place] = draw.dots(one.name, [Dot(amount, one.mean.mean, text, one.mean.ends)], series=place)
    left_out = f" Left out, since their amount is unknown: {draw.joined_names(unknown)}." if unknown else ""
    return draw.figure(
        name,
        title,
        f"{caption} {draw.whiskers([one for one, _ in known])}.{left_out}",
        draw.in_series(traces),
        xaxis=draw.axis(unit, **_scale([amount for _, amount in known])),
        yaxis=draw.axis(draw.SCORE_AXIS),
    )


def _scale(amounts: Sequence[float]) -> Spec:
    """Logarithmic if the amounts differ much; from 0, unless they differ so little that points would coincide."""
    if min(amounts) < max(amounts) < _ALIKE * min(amounts):
        return {}
    if min(amounts) <= 0 or max(amounts) < _LOG_FROM * min(amounts):
        return {"rangemode": "tozero"}
    low, high = log10(min(amounts)), log10(max(amounts))
    digits = (1, 2, 5) if high - low < _FINE_TICKS else (1,)
    ticks = [digit * 10.0**power for power in range(floor(low), ceil(high) + 1) for digit in digits]
    return {"type": "log", "tickvals": ticks, "ticktext": [f"{tick:g}" for tick in ticks]}


# --- Retrieval turn by turn (AT-CoT, SIGIR 2025, table 8): a panel for each mode, a line for each scheme

_PANEL_PX: Final = 230
_GAP: Final = 0.2
"""Between two panels, as a share of the height of one."""


def turns(
    found: TurnRetrieval, measure: str, seed: int, *, caveat: Caveat = "", judgments: str = ""
) -> Figure:
    """One measure of one Clarifier's conversations. `judgments` names the documents searched, and who judged them.

    The figure is marked with the caveat "smoke test".
    """
    modes = tuple(dict.fromkeys(cell.mode for cell in found.cells))
    without = _mean(found.without[measure], seed)
    n = draw.counts([len(found.without[measure]), *(cell.n(measure) for cell in found.cells)])
    title = marked(measure, caveat)
    dotted = f", {without.mean:.3f}" if without else ""
    sources = f" Retrieval: {printable(judgments).rstrip('.')}." if judgments else ""
    return draw.figure(
        f"turns_{_file_word(measure)}",
        marked(f"{measure} by turn", caveat),
        f"Mean {measure} of the query as it stands after each turn, by mode and scheme; whiskers are 95 % bootstrap "
        f"intervals over n = {n} instances. The dotted line is the query without clarification{dotted}.{sources}",
        [trace for panel, mode in enumerate(modes) for trace in _panel(found, measure, mode, panel, seed)],
        alt=_alt(found, title, without, measure),
        height=60 + _PANEL_PX * len(modes),
        **_panels(modes, max(cell.turn for cell in found.cells), title, without),
    )


def for_clarifier(figure: Figure, name: str, place: int) -> Figure:
    """The figure under a name and title of its own, for one of several Clarifiers."""
    title = f"{figure.title}: {printable(name)}"
    return replace(figure, name=f"{figure.name}_{place}-{_file_word(name)}", title=title)


def _panel(found: TurnRetrieval, measure: str, mode: Mode, panel: int, seed: int) -> Iterator[Spec]:
    """A trace for each scheme, then placeholders up to N_COLOURS: a scheme has the same colour in all panels."""
    number = str(panel + 1) if panel else ""
    axes = {"xaxis": f"x{number}", "yaxis": f"y{number}"}
    schemes = [scheme for scheme in SCHEMES if found.has(scheme)]
    cells = [[cell for cell in found.cells if cell.scheme == scheme] for scheme in schemes]
    estimates = [
        [
            draw.mean_point(cell.turn, mean, f"{scheme}, {mode}, turn {cell.turn}", ".3f")
            for cell in of
            if cell.mode == mode and (mean := _mean(cell.scores[measure], seed))
        ]
        for scheme, of in zip(schemes, cells, strict=True)
    ]
    for scheme, of, points in zip(schemes, cells, draw.side_by_side(estimates), strict=True):
        legend = {"legendgroup": scheme, "showlegend": of[0].mode == mode}
        line = draw.lines(scheme, points, series=SCHEMES.index(scheme)) | legend
        yield (line if points else draw.placeholder()) | axes
    yield from (draw.placeholder() | axes for _ in range(draw.N_COLOURS - len(schemes)))


def _panels(modes: Sequence[Mode], last: int, measure: str, without: Difference | None) -> Spec:
    """The layout of panels one below the other, for turns 1 to `last`."""
    heading = {"xref": "paper", "x": 0, "xanchor": "left", "y": 1, "yanchor": "bottom", "showarrow": False}
    layout: Spec = {
        "grid": {"rows": len(modes), "columns": 1, "pattern": "independent", "ygap": _GAP},
        "margin": {"t": 28},
        "shapes": [],
        "annotations": [],
    }
    for panel, mode in enumerate(modes):
        number = str(panel + 1) if panel else ""
        ticks = {"tickvals": list(range(1, last + 1)), "range": [0.5, last + 0.5]}
        layout[f"xaxis{number}"] = draw.axis("turn" if panel == len(modes) - 1 else "", **ticks)
        layout[f"yaxis{number}"] = draw.axis(measure)
        layout["annotations"].append({**heading, "yref": f"y{number} domain", "text": f"mode {mode}"})
        if without:
            within = {"xref": f"x{number} domain", "yref": f"y{number}"}
            layout["shapes"].append(draw.horizontal_line(without.mean) | within)
    return layout


def _mean(scores: Mapping[str, float], seed: int) -> Difference | None:
    values = np.array([scores[id] for id in sorted(scores)], float)
    return paired_differences(values[:, None], seed=seed)[0]


def _alt(found: TurnRetrieval, name: str, without: Difference | None, measure: str) -> str:
    means = [(cell, mean) for cell in found.cells if (mean := cell.mean(measure)) is not None]
    start = f" {NOBODY_ASKED} is {without.mean:.3f}." if without else ""
    if not means:
        return f"No conversation has a score.{start}"
    best, most = max(means, key=lambda pair: pair[1])
    return f"The highest {name} is {most:.3f}, of {best.scheme} in mode {best.mode} after turn {best.turn};{start}"


def _file_word(text: str) -> str:
    """Text as part of a file name and of an anchor."""
    return "".join(character if character.isalnum() or character in "-" else "-" for character in text)
