"""Figures of scores: by system, by instance, by judge, and against what they cost."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import ceil, floor, log10
from pathlib import Path
from typing import Final

import numpy as np

from cts_async.analysis.board import Array
from cts_async.analysis.compare import Agreement, Robustness, Standing
from cts_async.analysis.retrieval import NOBODY_ASKED, Cell, TurnRetrieval
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
    ranked = _by_mean(systems)
    points_by_legend: dict[tuple[int, str], list[Dot]] = defaultdict(list)
    over = "instances that all systems have"
    for row, system in enumerate(ranked):
        points_by_legend[_legend_entry(system)].append(draw.mean_point(row, system.mean, system.name))
        # Without an instance that all have, each mean is over its own (see `scored_systems`).
        if system.mean.n < len(system.scores):
            over = "instances that did not fail"
    traces: list[Spec] = []
    for series, ((_, name), points) in enumerate(sorted(points_by_legend.items())):
        traces.append(draw.row_points(name, points, series=series, form=".1f"))
    return draw.rows_figure(
        "leaderboard",
        "Leaderboard",
        f"Mean restore_score_100 by judge {printable(judge)} over the {over}, best on top. {draw.whiskers(ranked)}.",
        traces,
        [system.name for system in ranked],
        legend=len(traces) > 1,
        xaxis=draw.axis(draw.SCORE_AXIS),
    )


def _by_mean(systems: Sequence[Scored]) -> list[Scored]:
    return sorted(systems, key=lambda system: -system.mean.mean)


def _legend_entry(system: Scored) -> tuple[int, str]:
    """A system's place in the legend, and the name there."""
    if system.reference:
        return -1, "reference"
    if not system.k and system.asks:
        return 0, "the agent asks"
    if not system.k:
        return 0, "k unknown"
    return system.k, f"k = {system.k}"


def gain(
    standings: Sequence[Standing], names: Mapping[str, str], baseline: str, judge: str
) -> Figure | LeftOutFigure:
    """Mean paired differences to the baseline (paper, table 3), a row for each system, greatest on top."""
    paired = [(standing.gain, names[standing.system]) for standing in standings if standing.gain]
    if not paired:
        return LeftOutFigure("gain", "Gain over the baseline", draw.nothing_shared(baseline))
    paired.sort(key=lambda pair: -pair[0].mean)
    points: list[Dot] = []
    rows: list[str] = []
    n_pairs: set[int] = set()
    for row, (gain, name) in enumerate(paired):
        points.append(draw.mean_point(row, gain, name, "+.2f"))
        rows.append(name)
        n_pairs.add(gain.n)
    return draw.rows_figure(
        "gain",
        f"Gain over {printable(baseline)}",
        f"Mean paired difference of restore_score_100 to {printable(baseline)} by judge {printable(judge)}; whiskers "
        f"are 95 % paired bootstrap intervals over n = {draw.count_range(n_pairs)} instances.",
        [draw.row_points("gain", points, form="+.1f")],
        rows,
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
    ranked = _by_mean(systems)
    names: list[str] = []
    scores: list[Array] = []
    means: list[Dot] = []
    medians: list[Dot] = []
    for row, system in enumerate(ranked):
        present = np.sort(system.scores[~np.isnan(system.scores)])
        mean, median = system.mean.mean, float(np.median(present))
        names.append(system.name)
        scores.append(present)
        means.append(Dot(row, mean, f"{system.name}\nmean {mean:.2f}"))
        medians.append(Dot(row, median, f"{system.name}\nmedian {median:.2f}"))
    mean_trace = draw.row_points("mean", means, series=1)
    median_trace = draw.row_points("median", medians, marker=_MEDIAN)
    return draw.rows_figure(
        "scores",
        "Distribution of scores",
        f"restore_score_100 of the n = {draw.count_range(map(len, scores))} scored instances of each system, in bins of "
        f"{BIN} points; equal heights are equal shares. Failed instances have no score.",
        [_histograms(names, scores), mean_trace, median_trace],
        names,
        # Of histograms only the first and the last bin would be told.
        alt=draw.text_alternative([mean_trace, median_trace]),
        row_px=52,
        xaxis=draw.axis("restore score (0–100)", range=[-3, 103], tickvals=[0, 20, 40, 60, 80, 100]),
        # Histograms stand above their rows, so there is more room above the first than below the last.
        y_range=(len(names) - 0.6, -1),
    )


def _histograms(names: Sequence[str], scores: Sequence[Array]) -> Spec:
    """Filled outlines, one behind the other in a single trace."""
    shares_by_row: list[Array] = []
    tallest = 0.0
    for system_scores in scores:
        shares = binned(system_scores) / len(system_scores)
        shares_by_row.append(shares)
        tallest = max(tallest, float(shares.max()))
    xs: list[float | None] = []
    ys: list[float | None] = []
    texts: list[str] = []
    for row, (name, shares) in enumerate(zip(names, shares_by_row, strict=True)):
        n = len(scores[row])
        height: float = row
        for place, share in enumerate(shares.tolist()):
            start = BIN * place
            top = row - _ROOM * share / tallest
            xs += [start, start]
            ys += [height, top]
            height = top
            text = f"{name}\n{start} to {start + BIN}: {share:.1%} of {n:,}"
            texts += [text, text]
        # Down to the row at 100, and back along it; None ends the outline.
        xs += [100, 100, 0, None]
        ys += [height, row, row, None]
        texts += [name, name, name, ""]
    trace: Spec = {
        "type": "scatter",
        "mode": "lines",
        "name": "share of instances",
        "x": xs,
        "y": ys,
        "fill": "toself",
        "hoveron": "points",
        "line": {"width": 1.5},
    }
    return trace | draw.hover_fields(texts)


def binned(values: Array) -> Array:
    """The number of values in [0, 5), [5, 10), ... [95, 100]."""
    return np.histogram(values, bins=np.arange(0, 100 + BIN, BIN))[0]


def better_or_worse(compared: Sequence[Versus], baseline: str) -> Figure | LeftOutFigure:
    """Shares of instances better than with the baseline, the same, and worse; most often better on top."""
    name = "better_or_worse"
    if not compared:
        return LeftOutFigure(name, "Better, same or worse", draw.nothing_shared(baseline))
    ranked = sorted(compared, key=lambda system: -system.better / len(system.gains))
    names: list[str] = []
    n: list[int] = []
    n_better: list[int] = []
    n_same: list[int] = []
    n_worse: list[int] = []
    for system in ranked:
        names.append(system.name)
        n.append(len(system.gains))
        n_better.append(system.better)
        n_same.append(system.same)
        n_worse.append(system.worse)
    better = draw.share_bars("better", names, n_better, n, place=0)
    same = draw.share_bars("same", names, n_same, n, place=1)
    worse = draw.share_bars("worse", names, n_worse, n, place=2)
    # Traces stand in the order of their colours, the legend and the bars in that of their meaning.
    better["legendrank"], same["legendrank"], worse["legendrank"] = 0, 1, 2
    same["base"] = better["x"]
    worse["base"] = [100 - share for share in worse["x"]]
    return draw.rows_figure(
        name,
        f"Better, same or worse than {printable(baseline)}",
        f"Instances whose restore_score_100 is above that of {printable(baseline)}, equal to it and below it; "
        f"n = {draw.count_range(n)} instances scored in both.",
        draw.in_series({0: better, 1: worse, _NEUTRAL: same}),
        names,
        barmode="overlay",
        bargap=0.3,
        xaxis=draw.percent_axis("share of instances (%)"),
    )


def gain_by_instance(
    compared: Sequence[Versus], ids: Sequence[str], series: Mapping[str, int], baseline: str
) -> Figure | LeftOutFigure:
    """Every instance's gain, sorted: a line from the greatest gain to the greatest loss. `ids` by row of the board."""
    name = "gain_by_instance"
    if not compared:
        return LeftOutFigure(name, "Gain by instance", draw.nothing_shared(baseline))
    lines: dict[int, Spec] = {}
    n_shared: set[int] = set()
    for system in compared:
        number = series[system.label]
        lines[number] = _gain_line(system, ids, number)
        n_shared.add(len(system.gains))
    traces = draw.in_series(lines)
    # Areas of several systems would hide one another.
    if len(compared) == 1:
        traces[-1]["fill"] = "tozeroy"
    return draw.figure(
        name,
        f"Gain over {printable(baseline)} by instance",
        f"Differences of restore_score_100 to {printable(baseline)}, sorted for each system by itself, "
        f"n = {draw.count_range(n_shared)} instances scored in both.",
        traces,
        xaxis=draw.percent_axis("share of instances (%)"),
        yaxis=draw.axis(draw.folded(f"gain in restore score over {baseline} (points)", draw.TITLE_WIDTH)),
        shapes=[draw.horizontal_line(0)],
    )


def _gain_line(system: Versus, ids: Sequence[str], number: int) -> Spec:
    """A step for each instance; of many instances the percentiles."""
    if len(system.gains) > MAX_STEPS:
        return _percentile_line(system, number)
    n, name = len(system.gains), system.name
    rows, gains = system.rows.tolist(), system.gains.tolist()
    # Steps of equal width; the last one is repeated where it ends.
    rows.append(rows[-1])
    gains.append(gains[-1])
    points: list[Dot] = []
    for place, (row, gain) in enumerate(zip(rows, gains, strict=True)):
        share = round(100 * place / n, 3)
        points.append(Dot(share, round(gain, 6), f"{ids[row]}\n{name}: {gain:+.1f}"))
    return draw.lines(name, points, series=number, markers=False, shape="hv")


def _percentile_line(system: Versus, number: int) -> Spec:
    """The same of so many instances that steps of half a per cent say as much."""
    shares = np.linspace(0, 100, 201)
    gains = np.percentile(system.gains, 100 - shares)
    points: list[Dot] = []
    for share, gain in zip(shares.tolist(), gains.tolist(), strict=True):
        text = f"{system.name}\n{share:.1f} % gain at least {gain:+.1f}"
        points.append(Dot(share, round(gain, 6), text))
    return draw.lines(system.name, points, series=number, markers=False)


# --- Judges


def judges(robustness: Robustness | None, names: Mapping[str, str]) -> Figure | LeftOutFigure:
    """A row for each system with its mean by every judge. `names` are the systems' for readers, by label."""
    name, title = "judges", "Scores by judge"
    if robustness is None:
        return LeftOutFigure(name, title, ONE_JUDGE)
    scoring_judge = robustness.judges[0]
    columns = range(len(robustness.systems))
    order = sorted(columns, key=lambda column: -(scoring_judge.means[column] or 0.0))
    rows: list[str] = []
    for column in order:
        label = robustness.systems[column]
        rows.append(names.get(label, label))
    traces: list[Spec] = []
    n_scored: set[int] = set()
    for place, judge in enumerate(robustness.judges):
        points: list[Dot] = []
        for row, column in enumerate(order):
            mean, n = judge.means[column], judge.n_scored[column]
            if mean is not None:
                points.append(Dot(row, mean, f"{rows[row]}\n{judge.judge}: {mean:.2f}\nn = {n:,}"))
            if n:
                n_scored.add(n)
        trace = draw.row_points(judge.judge, points, series=place)
        # Further judges are outlines, so that equal means stay visible.
        if place > 0:
            trace["marker"] = {"symbol": f"{trace['marker']['symbol']}-open", "line": {"width": 2}}
        traces.append(trace)
    return draw.rows_figure(
        name,
        title,
        f"Mean restore_score_100 by judge, systems in the order of {printable(scoring_judge.judge)}. "
        f"{_order_sentence(robustness)} n = {draw.count_range(n_scored or [0])} scored instances.",
        traces,
        rows,
        xaxis=draw.axis(draw.SCORE_AXIS),
    )


def _order_sentence(robustness: Robustness) -> str:
    """Whether the judges agree about the order of the systems. References (`lexical`) have no say in it."""
    if robustness.same_order is None:
        if len(robustness.counted) > 1:
            return "No two systems were scored by all judges."
        return f"{draw.joined_names(robustness.references)} is a reference."
    subject = "All judges"
    if robustness.references:
        subject = f"The judges {draw.joined_names(robustness.counted)}"
    if robustness.same_order:
        return f"{subject} order the systems alike."
    return f"{subject} order the systems differently."


def agreement(robustness: Robustness | None) -> Figure | LeftOutFigure:
    """A heat map of Cohen's kappa, pair by pair, its values written in the cells; a sentence for two judges."""
    name, title = "agreement", "Agreement of judges"
    if robustness is None:
        return LeftOutFigure(name, title, ONE_JUDGE)
    pairs = [pair for pair in robustness.agreements if pair.kappa is not None]
    if not pairs:
        return LeftOutFigure(name, title, "No two judges have labelled the same nuggets in ways that differ.")
    names = [judge.judge for judge in robustness.judges]
    # One number is no figure.
    if len(names) == 2:
        pair = pairs[0]
        sentence = (
            f"Cohen's kappa of {draw.joined_names(names)} is {pair.kappa:.3f} over {pair.n_nuggets:,} nuggets, "
            f"{pair.n_distinct:,} of them of distinct answers."
        )
        return LeftOutFigure(name, title, sentence)
    columns = {
        "tickvals": list(range(len(names))),
        "ticktext": [draw.folded(judge, 12) for judge in names],
        "showgrid": False,
    }
    judges = "all judges"
    if robustness.references:
        judges = draw.joined_names(robustness.counted)
    nominal, ordinal = _alpha_text(robustness.alpha_nominal), _alpha_text(robustness.alpha_ordinal)
    return draw.rows_figure(
        name,
        title,
        "Cohen's kappa of the labels full, partial and none, nugget by nugget: 1 is full agreement, 0 is chance. "
        f"Krippendorff's alpha of {judges} is {nominal} nominal, {ordinal} ordinal; "
        f"n = {draw.count_range(pair.n_nuggets for pair in pairs)} nuggets of a pair, "
        f"{draw.count_range(pair.n_distinct for pair in pairs)} of distinct answers.",
        [_heatmap(robustness, names)],
        names,
        row_px=48,
        legend=False,
        xaxis=columns,
        y_range=(len(names) - 0.5, -0.5),
    )


def _alpha_text(alpha: float | None) -> str:
    if alpha is None:
        return "not defined"
    return f"{alpha:.3f}"


def _heatmap(robustness: Robustness, names: Sequence[str]) -> Spec:
    pairs: dict[tuple[str, str], Agreement] = {}
    for pair in robustness.agreements:
        pairs[pair.judge, pair.other] = pair
        pairs[pair.other, pair.judge] = pair
    kappas: list[list[float | None]] = []
    numbers: list[list[str]] = []
    hover: list[list[str]] = []
    # Colours reach from chance to full agreement, and further down only where judges disagree more than by chance.
    lowest = 0.0
    for judge in names:
        kappas.append([])
        numbers.append([])
        texts: list[str] = []
        for other_judge in names:
            compared = pairs.get((judge, other_judge))
            kappa = None
            number = "–"
            text = ""
            # None on the diagonal: no judge is compared with itself.
            if compared is not None:
                kappa = compared.kappa
                text = _pair_text(compared)
            if kappa is not None:
                number = f"{kappa:.2f}"
                lowest = min(lowest, kappa)
            kappas[-1].append(kappa)
            numbers[-1].append(number)
            texts.append(text)
        hover.append(draw.hover_fields(texts)["hovertext"])
    return {
        "type": "heatmap",
        "z": kappas,
        "zmin": lowest,
        "zmax": 1,
        "text": numbers,
        "texttemplate": "%{text}",
        "hovertext": hover,
        "hoverinfo": "text",
        "xgap": 2,
        "ygap": 2,
        "showscale": False,
    }


def _pair_text(pair: Agreement) -> str:
    lines = [f"{pair.judge} and {pair.other}"]
    if pair.kappa is not None:
        lines.append(f"kappa {pair.kappa:.3f}")
    if pair.kappa_quadratic is not None:
        lines.append(f"with quadratic weights {pair.kappa_quadratic:.3f}")
    if pair.exact is not None:
        lines.append(f"same labels {pair.exact:.3f}")
    lines.append(f"n = {pair.n_nuggets:,} nuggets ({pair.n_distinct:,} distinct)")
    return "\n".join(lines)


# --- Costs


def cost(
    systems: Sequence[Scored], summaries: Sequence[RunSummary], series: Mapping[str, int]
) -> Figure | LeftOutFigure:
    """Mean score against dollars; systems that called a model without a price are left out, and named."""
    dollars = {summary.directory: _dollars_per_instance(summary) for summary in summaries}
    name, title = "cost", "Score and cost"
    if not any(dollars.values()):
        reason = "No system has prices for all models that it called (cts.toml can set prices)."
        if 0.0 in dollars.values():
            reason = "All calls were free."
        return LeftOutFigure(name, title, reason)
    caption = (
        "Mean restore_score_100 against the dollars of all calls in the journal, failed attempts and judging included, "
        "per instance."
    )
    return _against(name, title, caption, systems, dollars, series, "US dollars per instance")


def _dollars_per_instance(summary: RunSummary) -> float | None:
    """Failed instances cost as well. None if a price is unknown, or if nothing was called that could cost anything."""
    n_instances = summary.n_done + len(summary.failures)
    if not n_instances or not summary.spent.calls:
        return None
    cost = summary.spent.cost_usd(summary.manifest.prices)
    if cost is None:
        return None
    return cost / n_instances


def time(
    systems: Sequence[Scored], summaries: Sequence[RunSummary], series: Mapping[str, int]
) -> Figure | LeftOutFigure:
    """Mean score against the median latency of an instance's calls."""
    seconds = {summary.directory: summary.spent.latency_per_instance_s() for summary in summaries}
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
    amounts: Mapping[Path, float | None],
    series: Mapping[str, int],
    unit: str,
) -> Figure | LeftOutFigure:
    """A point for each system: its mean score against an amount, by its directory."""
    traces: dict[int, Spec] = {}
    drawn: list[Scored] = []
    drawn_amounts: list[float] = []
    names_left_out: list[str] = []
    for system in systems:
        amount = amounts.get(system.directory)
        if amount is None:
            names_left_out.append(system.name)
            continue
        drawn.append(system)
        drawn_amounts.append(amount)
        mean = system.mean
        text = f"{system.name}\n{draw.mean_text(mean, '.2f')} at {amount:.4g} {unit}\nn = {mean.n:,}"
        number = series[system.label]
        traces[number] = draw.dots(system.name, [Dot(amount, mean.mean, text, mean.ends)], series=number)
    if not traces:
        return LeftOutFigure(name, title, "No system with a score has this amount.")
    caption += f" {draw.whiskers(drawn)}."
    if names_left_out:
        caption += f" Left out, since their amount is unknown: {draw.joined_names(names_left_out)}."
    return draw.figure(
        name,
        title,
        caption,
        draw.in_series(traces),
        xaxis=draw.axis(unit, **_scale(drawn_amounts)),
        yaxis=draw.axis(draw.SCORE_AXIS),
    )


def _scale(amounts: Sequence[float]) -> Spec:
    """Logarithmic if the amounts differ much; from 0, unless they differ so little that points would coincide."""
    lowest, highest = min(amounts), max(amounts)
    if lowest < highest < _ALIKE * lowest:
        return {}
    # 0 has no place on a logarithmic axis.
    if lowest <= 0 or highest < _LOG_FROM * lowest:
        return {"rangemode": "tozero"}
    low, high = log10(lowest), log10(highest)
    digits: tuple[int, ...] = (1,)
    if high - low < _FINE_TICKS:
        digits = (1, 2, 5)
    ticks: list[float] = []
    labels: list[str] = []
    for power in range(floor(low), ceil(high) + 1):
        for digit in digits:
            tick = digit * 10.0**power
            ticks.append(tick)
            labels.append(f"{tick:g}")
    return {"type": "log", "tickvals": ticks, "ticktext": labels}


# --- Retrieval turn by turn (AT-CoT, SIGIR 2025, table 8): a panel for each mode, a line for each scheme

_PANEL_PX: Final = 230
_GAP: Final = 0.2
"""Between two panels, as a share of the height of one."""


def turns(
    retrieval: TurnRetrieval, measure: str, seed: int, *, caveat: Caveat = "", judgments: str = ""
) -> Figure:
    """One measure of one Clarifier's conversations. `judgments` names the documents searched, and who judged them.

    The figure is marked with the caveat "smoke test".
    """
    modes: dict[Mode, None] = {}
    n = [len(retrieval.without[measure])]
    n_turns = 0
    for cell in retrieval.cells:
        modes[cell.mode] = None
        n.append(cell.n(measure))
        n_turns = max(n_turns, cell.turn)
    traces: list[Spec] = []
    for panel, mode in enumerate(modes):
        traces += _panel(retrieval, measure, mode, panel, seed)
    without = _mean(retrieval.without[measure], seed)
    caption = (
        f"Mean {measure} of the query as it stands after each turn, by mode and scheme; whiskers are 95 % bootstrap "
        f"intervals over n = {draw.count_range(n)} instances. The dotted line is the query without clarification"
    )
    if without is not None:
        caption += f", {without.mean:.3f}"
    caption += "."
    if judgments:
        caption += f" Retrieval: {printable(judgments).rstrip('.')}."
    title = marked(measure, caveat)
    return draw.figure(
        f"turns_{_file_word(measure)}",
        marked(f"{measure} by turn", caveat),
        caption,
        traces,
        alt=_text_alternative(retrieval, title, without, measure),
        height=60 + _PANEL_PX * len(modes),
        **_panel_layout(tuple(modes), n_turns, title, without),
    )


def for_clarifier(figure: Figure, name: str, place: int) -> Figure:
    """The figure under a name and title of its own, for one of several Clarifiers."""
    title = f"{figure.title}: {printable(name)}"
    return replace(figure, name=f"{figure.name}_{place}-{_file_word(name)}", title=title)


def _axis_number(panel: int) -> str:
    """The end of the names of a panel's axes: plotly counts "x", "x2", "x3"."""
    if panel == 0:
        return ""
    return str(panel + 1)


def _panel(retrieval: TurnRetrieval, measure: str, mode: Mode, panel: int, seed: int) -> Iterator[Spec]:
    """Yield a trace for each scheme, then placeholders up to N_COLOURS: a scheme has one colour in all panels."""
    number = _axis_number(panel)
    axes = {"xaxis": f"x{number}", "yaxis": f"y{number}"}
    schemes = [scheme for scheme in SCHEMES if retrieval.has(scheme)]
    series: list[list[Dot]] = []
    first_modes: list[Mode] = []
    for scheme in schemes:
        cells = [cell for cell in retrieval.cells if cell.scheme == scheme]
        first_modes.append(cells[0].mode)
        points: list[Dot] = []
        for cell in cells:
            if cell.mode != mode:
                continue
            mean = _mean(cell.scores[measure], seed)
            if mean is not None:
                points.append(draw.mean_point(cell.turn, mean, f"{scheme}, {mode}, turn {cell.turn}", ".3f"))
        series.append(points)
    for scheme, first_mode, points in zip(schemes, first_modes, draw.side_by_side(series), strict=True):
        trace = draw.placeholder()
        if points:
            trace = draw.lines(scheme, points, series=SCHEMES.index(scheme))
            # The legend names a scheme once, whose lines in all panels are shown and hidden together.
            trace |= {"legendgroup": scheme, "showlegend": first_mode == mode}
        yield trace | axes
    for _ in range(draw.N_COLOURS - len(schemes)):
        yield draw.placeholder() | axes


def _panel_layout(modes: Sequence[Mode], n_turns: int, measure: str, without: Difference | None) -> Spec:
    """The layout of panels one below the other, for turns 1 to `n_turns`."""
    layout: Spec = {
        "grid": {"rows": len(modes), "columns": 1, "pattern": "independent", "ygap": _GAP},
        "margin": {"t": 28},
        "shapes": [],
        "annotations": [],
    }
    for panel, mode in enumerate(modes):
        number = _axis_number(panel)
        x_title = ""
        # All panels have the same turns, so that only the lowest says what they are.
        if panel == len(modes) - 1:
            x_title = "turn"
        ticks = list(range(1, n_turns + 1))
        layout[f"xaxis{number}"] = draw.axis(x_title, tickvals=ticks, range=[0.5, n_turns + 0.5])
        layout[f"yaxis{number}"] = draw.axis(measure)
        heading = {
            "xref": "paper",
            "x": 0,
            "xanchor": "left",
            "yref": f"y{number} domain",
            "y": 1,
            "yanchor": "bottom",
            "text": f"mode {mode}",
            "showarrow": False,
        }
        layout["annotations"].append(heading)
        if without is not None:
            line = draw.horizontal_line(without.mean)
            line |= {"xref": f"x{number} domain", "yref": f"y{number}"}
            layout["shapes"].append(line)
    return layout


def _mean(scores: Mapping[str, float], seed: int) -> Difference | None:
    values = np.array([scores[id] for id in sorted(scores)], float)
    return paired_differences(values[:, None], seed=seed)[0]


def _text_alternative(retrieval: TurnRetrieval, name: str, without: Difference | None, measure: str) -> str:
    best: Cell | None = None
    highest = 0.0
    for cell in retrieval.cells:
        mean = cell.mean(measure)
        if mean is not None and (best is None or mean > highest):
            best, highest = cell, mean
    sentence = "No conversation has a score."
    if best is not None:
        place = f"{best.scheme} in mode {best.mode} after turn {best.turn}"
        sentence = f"The highest {name} is {highest:.3f}, of {place};"
    if without is not None:
        sentence += f" {NOBODY_ASKED} is {without.mean:.3f}."
    return sentence


def _file_word(text: str) -> str:
    """Text as part of a file name and of an anchor, in any script."""
    return re.sub(r"[\W_]", "-", text)
