"""Runs compared, as the tables that the paper prints: three decimals for scores, two between judges."""

from __future__ import annotations

from collections.abc import Iterator

from cts_async.analysis.board import LABELS
from cts_async.analysis.judges import Robustness
from cts_async.analysis.leaderboard import Standing
from cts_async.analysis.pairwise import Pair
from cts_async.analysis.power import ALPHA, POWER
from cts_async.analysis.stability import Stability
from cts_async.report.comparison import Judged, RunsCompared
from cts_async.report.sheet import Sheet

MOST_PAIRS = 36
"""Pairs that are shown without being asked for: those of nine systems."""


def sheets(found: RunsCompared, *, main_only: bool, all_pairs: bool) -> Iterator[Sheet]:
    """Every table there is something for. With `main_only` leaderboard and tests of the first judge only."""
    for judged in found.judged[:1] if main_only else found.judged:
        yield leaderboard_sheet(judged, found.baseline)
        if any(standing.delta for standing in judged.standings):
            yield interval_sheet(judged, found.baseline)
        if judged.pairs:
            yield pairs_sheet(judged, found, all_pairs=all_pairs)
    if found.robustness:
        yield judges_sheet(found.robustness)
        yield agreement_sheet(found.robustness)
    if found.stabilities:
        yield stability_sheet(found.stabilities)


def leaderboard_sheet(judged: Judged, baseline: str) -> Sheet:
    """Tables 2 and 6."""
    return Sheet(
        title=f"restore_score_100, judge {judged.judge}; Δ to {baseline}",
        headings=("system", "k", "mean (Δ)", "p50", "p90", "min", "max", "scored", "failed"),
        rows=tuple(_standing(standing) for standing in judged.standings),
    )


def _standing(standing: Standing) -> tuple[str, ...]:
    scores, delta = standing.scores, standing.delta
    return (
        standing.system,
        str(standing.k or "-"),
        points(scores.mean) + (f" ({delta.mean:+.3f})" if delta else ""),
        points(scores.p50),
        points(scores.p90),
        points(scores.min),
        points(scores.max),
        f"{scores.n_scored}/{scores.n_expected}",
        str(scores.n_failed),
    )


def interval_sheet(judged: Judged, baseline: str) -> Sheet:
    """Table 3."""
    with_delta = [(standing, standing.delta) for standing in judged.standings if standing.delta]
    return Sheet(
        title=f"Mean improvement over {baseline}, judge {judged.judge}; paired bootstrap, 95 % CI",
        headings=("system", "pairs", f"mean Δ vs. {baseline}", "95 % CI"),
        rows=tuple(
            (one.system, str(delta.n), f"{delta.mean:+.3f}", f"[{delta.low:.3f}, {delta.high:.3f}]")
            for one, delta in with_delta
        ),
        remarks=tuple(
            f"{one.system}: {delta.n} of its {one.scores.n_scored} scores have a counterpart in {baseline}."
            for one, delta in with_delta
            if one.partly_paired
        ),
    )


def pairs_sheet(judged: Judged, found: RunsCompared, *, all_pairs: bool) -> Sheet:
    """Permutation tests with Holm's correction; the difference that each detects, and the n that this one needs."""
    tests, baseline = len(judged.pairs), found.baseline
    shown, remarks = judged.pairs, [_power(judged.pairs)]
    if found.against_baseline:
        family = f"{tests} systems against {baseline}" if tests > 1 else f"one system against {baseline}"
    else:
        family = f"all {tests} pairs" if tests > 1 else "one pair"
        if tests > MOST_PAIRS and not all_pairs:
            shown = tuple(pair for pair in judged.pairs if baseline in (pair.system, pair.other))
            significant = sum(pair.p_holm <= ALPHA for pair in judged.pairs)
            remarks.insert(
                0,
                f"Shown are the pairs with {baseline}. Of all {tests} pairs {significant} differ at {_decimal(ALPHA)} "
                "after Holm's correction; --pairs shows them all.",
            )
    return Sheet(
        title=f"Paired permutation tests, judge {judged.judge}; Holm over {family}",
        headings=("system", "minus", "n", "Δ", "p", "p Holm", "detects", "n needed"),
        rows=tuple(_pair(pair) for pair in shown),
        remarks=tuple(remarks),
        n_names=2,
    )


def _pair(pair: Pair) -> tuple[str, ...]:
    return (
        pair.system,
        pair.other,
        str(pair.n),
        f"{pair.difference:+.3f}",
        probability(pair.p),
        probability(pair.p_holm),
        points(pair.detectable),
        "-" if pair.n_needed is None else f"{pair.n_needed:,}",
    )


def _power(pairs: tuple[Pair, ...]) -> str:
    """Which differences so many instances can show."""
    strictest = _range([pair.detectable_holm for pair in pairs], "{:.2f}")
    under_holm = f"; of {strictest} at Holm's strictest step (α/{len(pairs)})" if len(pairs) > 1 else ""
    return (
        f"Power: with n = {_range([pair.n for pair in pairs], '{}')} and differences of standard deviation "
        f"{_range([pair.sd for pair in pairs], '{:.2f}')}, a true difference of "
        f"{_range([pair.detectable for pair in pairs], '{:.2f}')} points is found in {POWER:.0%} of cases at "
        f"α = {_decimal(ALPHA)}{under_holm}."
    )


def _range(values: list[int] | list[float], form: str) -> str:
    low, high = form.format(min(values)), form.format(max(values))
    return low if low == high else f"{low} to {high}"


def judges_sheet(found: Robustness) -> Sheet:
    """Table 9: a column for each judge, so that many systems fit."""
    orderings = [f"Ordering by {judge.judge}: {judge.ordering}" for judge in found.judges if judge.ordering]
    verdict = {True: "All judges order the systems alike.", False: "The judges' orderings differ.", None: ""}
    partly = [
        f"{judge.judge} has scored {n} answers of {system}, others up to {most}."
        for judge in found.judges
        for system, n, most in zip(found.systems, judge.n_scored, _most_scored(found), strict=True)
        if 0 < n < most
    ]
    return Sheet(
        title="Mean restore_score_100 by judge",
        headings=("system", *(judge.judge for judge in found.judges)),
        rows=tuple(
            (system, *(number(judge.means[i], 2) for judge in found.judges))
            for i, system in enumerate(found.systems)
        ),
        remarks=tuple(text for text in (*orderings, verdict[found.same_order], *partly) if text),
    )


def _most_scored(found: Robustness) -> tuple[int, ...]:
    return tuple(map(max, zip(*(judge.n_scored for judge in found.judges), strict=True)))


def agreement_sheet(found: Robustness) -> Sheet:
    """Labels compared nugget by nugget."""
    taus = {(order.judge, order.other): order.tau for order in found.orders}
    shares = [
        f"Labels of {judge.judge}: "
        + ", ".join(f"{judge.shares[label]:.1%} {label}" for label in reversed(LABELS))
        for judge in found.judges
        if judge.shares
    ]
    alpha = (
        f"Krippendorff's alpha of all {len(found.judges)} judges: {number(found.alpha_nominal, 3)} nominal, "
        f"{number(found.alpha_ordinal, 3)} ordinal."
    )
    return Sheet(
        title="Agreement of judges, nugget by nugget; r of scores, tau of orderings",
        headings=("judge", "other", "nuggets", "same", "kappa", "quadratic", "r", "tau"),
        rows=tuple(
            (
                pair.judge,
                pair.other,
                f"{pair.n_nuggets:,}",
                number(pair.exact, 3),
                number(pair.kappa, 3),
                number(pair.kappa_quadratic, 3),
                number(pair.score_r, 3),
                number(taus.get((pair.judge, pair.other)), 3),
            )
            for pair in found.agreements
        ),
        remarks=(alpha, *shares),
        n_names=2,
    )


def stability_sheet(rows: tuple[Stability, ...]) -> Sheet:
    """Table 11, with unsupported concretization (section 7.4)."""
    return Sheet(
        title="Other supporting models: User Answerer and Rewriter",
        headings=("pair", "UA agree", "rewrite sim.", "unknown preserv.", "new year", "new region"),
        rows=tuple(
            (
                f"{row.run} vs. {row.other}",
                number(row.ua_agreement, 3),
                number(row.rewrite_similarity, 3),
                number(row.unknown_preservation, 3),
                number(row.unsupported_years, 3),
                number(row.unsupported_regions, 3),
            )
            for row in rows
        ),
        remarks=tuple(
            f"{row.run} vs. {row.other}: UA agree is over the {row.n_aligned} of {row.n_questions} questions that "
            "both asked in the same words."
            for row in rows
            if row.n_aligned < row.n_questions
        ),
    )


def points(value: float | None) -> str:
    """Points of restore_score_100, as tables 2, 3 and 6 print them."""
    return number(value, 3)


def number(value: float | None, decimals: int) -> str:
    """A number with so many decimals; `-` where there is none."""
    return "-" if value is None else f"{value:.{decimals}f}"


def probability(p: float) -> str:
    """Four decimals; smaller ones are said to be."""
    return "<.0001" if p < 0.00005 else _decimal(p, 4)


def _decimal(value: float, decimals: int = 2) -> str:
    """Without the leading 0: .05."""
    return f"{value:.{decimals}f}".removeprefix("0")
