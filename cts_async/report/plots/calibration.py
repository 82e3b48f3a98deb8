"""Predicted against observed answerability: how far the predictions behind asking less can be trusted."""

from __future__ import annotations

from cts_async.analysis.ask_or_not import Calibration
from cts_async.analysis.stats import wilson
from cts_async.report.plots.figure import Figure, LeftOut
from cts_async.report.plots.marks import Spec, percent_axis, points, spec
from cts_async.report.plots.words import number_of

NAME = "calibration"
TITLE = "Calibration of predicted answerability"


def calibration(found: Calibration | None) -> Figure | LeftOut:
    """A point for each bin of predictions, the diagonal being perfect."""
    if found is None:
        return LeftOut(NAME, TITLE, "No question was asked in these runs.")
    skill = "" if found.skill is None else f", skill {found.skill:+.3f}"
    far = max(found.bins, key=lambda one: abs(one.observed - one.predicted))
    drawn = spec(
        [_points(found)],
        height=360,
        legend=False,
        xaxis=percent_axis("predicted to be answered (%)", room=2),
        yaxis=percent_axis("answered (%)", room=2),
        shapes=[{"type": "line", "x0": 0, "y0": 0, "x1": 100, "y1": 100, "line": {"dash": "dot"}}],
    )
    return Figure(
        NAME,
        TITLE,
        f"Out-of-fold predictions of n = {found.n:,} questions in tenths, with Wilson's 95 % intervals; on the dotted "
        f"line they would be exact. Brier score {found.brier:.3f}{skill}.",
        f"Of {number_of(len(found.bins), 'bin')} the one farthest from the diagonal was predicted "
        f"{far.predicted:.0%} and observed {far.observed:.0%} (n = {far.n:,}).",
        drawn,
    )


def _points(found: Calibration) -> Spec:
    intervals = [wilson(one.known, one.n) or (0.0, 1.0) for one in found.bins]
    return points(
        "questions",
        [100 * one.predicted for one in found.bins],
        [100 * one.observed for one in found.bins],
        y_interval=[(100 * low, 100 * high) for low, high in intervals],
        hover=[
            f"predicted {one.predicted:.1%}\nanswered {one.known:,} of {one.n:,} ({one.observed:.1%})"
            for one in found.bins
        ],
    )
