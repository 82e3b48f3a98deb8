"""Figures of several judges: mean scores by judge (paper, table 9), and their agreement nugget by nugget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from cts_async.analysis.compare import Agreement, Robustness
from cts_async.report.plots.figure import (
    Figure,
    LeftOut,
    Spec,
    axis,
    beside,
    counts,
    hovering,
    listed,
    number_of,
    points,
    rows_axis,
    rows_height,
    spec,
)
from cts_async.report.plots.style import folded
from cts_async.report.tables import printable

ONE_JUDGE: Final = "There is only one judge: cts judge RUN --judge NAME adds another."


def judges(found: Robustness | None, names: Mapping[str, str]) -> Figure | LeftOut:
    """A row for each system with its mean by every judge. `names` are the systems' for readers, by label."""
    name, title = "judges", "Scores by judge"
    if found is None:
        return LeftOut(name, title, ONE_JUDGE)
    order = sorted(range(len(found.systems)), key=lambda i: -(found.judges[0].means[i] or 0.0))
    rows = [names.get(found.systems[i], found.systems[i]) for i in order]
    traces = []
    for place, one in enumerate(found.judges):
        means = [(row, i, mean) for row, i in enumerate(order) if (mean := one.means[i]) is not None]
        trace = points(
            one.judge,
            [mean for _, _, mean in means],
            [row + beside(place, len(found.judges)) / 2 for row, _, _ in means],
            series=place,
            hover=[
                f"{rows[row]}\n{one.judge}: {mean:.2f}\nn = {one.n_scored[i]:,}" for row, i, mean in means
            ],
        )
        traces.append(trace)
    drawn = spec(
        traces,
        height=rows_height(rows),
        legend=True,
        xaxis=axis("mean score (points of 100)"),
        yaxis=rows_axis(rows),
    )
    verdict = {
        True: "All judges order the systems alike.",
        False: "The judges' orderings differ.",
        None: "No two systems were scored by all judges.",
    }[found.same_order]
    scored = counts([n for one in found.judges for n in one.n_scored if n] or [0])
    caption = (
        f"Mean restore_score_100 by judge, systems in the order of {printable(found.judges[0].judge)}; n = {scored} "
        "scored instances."
    )
    alt = (
        f"{len(found.judges)} judges ({listed([one.judge for one in found.judges])}) of "
        f"{number_of(len(rows), 'system')}. {verdict}"
    )
    return Figure(name, title, caption, alt, drawn)


def agreement(found: Robustness | None) -> Figure | LeftOut:
    """A heat map of Cohen's kappa, pair by pair, its values written in the cells."""
    name, title = "agreement", "Agreement of judges"
    if found is None:
        return LeftOut(name, title, ONE_JUDGE)
    known = [(pair, pair.kappa) for pair in found.agreements if pair.kappa is not None]
    if not known:
        return LeftOut(name, title, "No two judges have labelled the same nuggets in ways that differ.")
    names = [one.judge for one in found.judges]
    columns = {"tickvals": list(range(len(names))), "ticktext": [folded(one, 12) for one in names]}
    drawn = spec(
        [_heatmap(found, names)],
        height=rows_height(names, row_px=48),
        legend=False,
        xaxis={**columns, "showgrid": False},
        yaxis=rows_axis(names) | {"range": [len(names) - 0.5, -0.5]},
    )
    nuggets = counts(pair.n_nuggets for pair, _ in known)
    caption = (
        "Cohen's kappa of the labels full, partial and none, nugget by nugget: 1 is full agreement, 0 is chance. "
        f"Krippendorff's alpha of all judges is {_alpha(found.alpha_nominal)} nominal, {_alpha(found.alpha_ordinal)} "
        f"ordinal; n = {nuggets} nuggets of a pair."
    )
    (worst, least), (best, most) = (choose(known, key=lambda pair: pair[1]) for choose in (min, max))
    alt = f"{_pair(best)} agree with a kappa of {most:.2f}"
    if len(known) > 1:
        alt += f" most, {_pair(worst)} least with {least:.2f}."
    else:
        alt += f" on {best.n_nuggets:,} nuggets."
    return Figure(name, title, caption, alt, drawn)


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
        "hovertext": [hovering([_hover(cell) for cell in row])["hovertext"] for row in cells],
        "hoverinfo": "text",
        "xgap": 2,
        "ygap": 2,
        "showscale": False,
    }


def _hover(pair: Agreement | None) -> str:
    if pair is None:
        return "the same judge"
    numbers = {"kappa": pair.kappa, "with quadratic weights": pair.kappa_quadratic, "same labels": pair.exact}
    values = [f"{what} {value:.3f}" for what, value in numbers.items() if value is not None]
    return "\n".join([_pair(pair), *values, f"n = {pair.n_nuggets:,} nuggets"])


def _pair(pair: Agreement) -> str:
    return f"{printable(pair.judge)} and {printable(pair.other)}"


def _alpha(value: float | None) -> str:
    return "not defined" if value is None else f"{value:.3f}"
