"""Compared runs as the paper's tables, and in a few sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from cts_async.analysis.agreement import Robustness
from cts_async.analysis.board import LABELS
from cts_async.analysis.compare import Pair, Standing
from cts_async.analysis.resampling import EXACT, MANY, flips_for
from cts_async.analysis.stability import Stability
from cts_async.analysis.stats import ALPHA, POWER
from cts_async.report.comparison import Judged, RunsCompared
from cts_async.report.tables import (
    SHORT_MARK,
    SHORT_NOTE,
    Column,
    DataTable,
    Rank,
    Row,
    Show,
    number,
    text,
    with_interval,
)

MOST_PAIRS = 36
"""Pairs that are shown without --pairs: those of nine systems."""


REFERENCES = ("orig", "gold")
"""Reference points, which are not ranked among the systems."""


def tables(found: RunsCompared, *, main_only: bool, all_pairs: bool) -> Iterator[DataTable]:
    """Yield every table that has content. With `main_only` leaderboard and tests of the first judge only."""
    for judged in found.judged[:1] if main_only else found.judged:
        yield from judged_tables(judged, found, all_pairs=all_pairs)
    yield from judges_tables(found)


def judged_tables(judged: Judged, found: RunsCompared, *, all_pairs: bool) -> Iterator[DataTable]:
    """Yield leaderboard, intervals and tests under one judge."""
    yield leaderboard_table(judged, found.baseline)
    if any(standing.delta for standing in judged.standings):
        yield interval_table(judged, found.baseline)
    if judged.pairs:
        yield pairs_table(judged, found, all_pairs=all_pairs)


def judges_tables(found: RunsCompared) -> Iterator[DataTable]:
    """Yield tables of the robustness to the judge and to the supporting model."""
    if found.robustness:
        yield judges_table(found.robustness)
        yield agreement_table(found.robustness)
    if found.stabilities:
        yield stability_table(found.stabilities)


def leaderboard_table(judged: Judged, baseline: str) -> DataTable:
    """The leaderboard (paper, tables 2 and 6)."""
    columns = (
        Column("system", text("system"), numeric=False),
        Column("k", lambda row: str(row["k"] or "-")),
        Column("mean (Δ)" if baseline else "mean", _mean, rank=_competing("mean")),
        *_beside_the_mean(judged.standings),
        *(Column(name, number(name, ".3f"), rank=_competing(name)) for name in ("p50", "p90")),
        *(Column(name, number(name, ".3f")) for name in ("min", "max")),
        Column("scored", lambda row: f"{row['n_scored']}/{row['n_expected']}"),
        Column("failed", text("n_failed")),
    )
    rows = [_standing(standing) for standing in judged.standings]
    caption = f"judge {judged.judge}" + (
        f"; Δ is the mean paired difference to {baseline}" if baseline else ""
    )
    remarks = tuple(_explained([column.heading for column in columns]))
    return DataTable("leaderboard", "restore_score_100", caption, columns, rows, remarks=remarks)


def _beside_the_mean(standings: Sequence[Standing]) -> Iterator[Column]:
    """Yield columns for means over common instances, and with failures as 0, if these differ from the mean."""
    n_common = standings[0].n_common if standings else 0
    if any(n_common < standing.scores.n_scored for standing in standings):
        show = number("common_mean", ".3f")
        yield Column(f"common (n={n_common})", show, rank=_competing("common_mean"))
    if any(standing.scores.n_failed for standing in standings):
        show = number("mean_failed_as_0", ".3f")
        yield Column("failed=0", show, rank=_competing("mean_failed_as_0"))


def _explained(headings: Sequence[str]) -> Iterator[str]:
    """Explain the further means, if there are any."""
    if any(heading.startswith("common") for heading in headings):
        yield "common: the mean over the instances that all systems have a score for."
    if "failed=0" in headings:
        yield "failed=0: the mean with each failed instance counted as 0."


def _competing(name: str) -> Rank:
    """Rank systems by a column, but not reference points."""
    return lambda row: None if str(row["system"]).partition("+")[0] in REFERENCES else row[name]


def _standing(standing: Standing) -> Row:
    delta = standing.delta.mean if standing.delta else None
    common = {"n_common": standing.n_common, "common_mean": standing.common_mean}
    return {"system": standing.system, "k": standing.k, "delta": delta, **asdict(standing.scores), **common}


def _mean(row: Row) -> str:
    return f"{row['mean']:.3f}" + ("" if row["delta"] is None else f" ({row['delta']:+.3f})")


def interval_table(judged: Judged, baseline: str) -> DataTable:
    """Intervals of the differences (paper, table 3)."""
    with_delta = [(standing, standing.delta) for standing in judged.standings if standing.delta]
    columns = (
        Column("system", text("system"), numeric=False),
        Column("pairs", text("n")),
        Column("mean Δ", number("mean", "+.3f")),
        Column("95 % CI", _interval),
    )
    rows = [
        {"system": one.system, **asdict(delta), "too_short": delta.too_short} for one, delta in with_delta
    ]
    remarks = tuple(
        f"{one.system}: {delta.n} of its {one.scores.n_scored} scores have a counterpart in {baseline}."
        for one, delta in with_delta
        if one.partly_paired
    )
    if any(delta.too_short for _, delta in with_delta):
        remarks = (*remarks, SHORT_NOTE)
    caption = f"judge {judged.judge}; paired bootstrap, 95 % CI"
    title = f"Mean improvement over {baseline}"
    return DataTable("intervals", title, caption, columns, rows, remarks=remarks)


def _interval(row: Row) -> str:
    if row["low"] is None:
        return "-"
    return f"[{row['low']:.3f}, {row['high']:.3f}]{SHORT_MARK if row['too_short'] else ''}"


def pairs_table(judged: Judged, found: RunsCompared, *, all_pairs: bool) -> DataTable:
    """Permutation tests with Holm's correction, the difference that each can detect, and the n that it needs."""
    tests, baseline = len(judged.pairs), found.baseline
    shown, remarks = judged.pairs, [*_floor(judged.pairs), *_power(judged.pairs)]
    if found.against_baseline:
        family = f"{tests} systems against {baseline}" if tests > 1 else f"one system against {baseline}"
    else:
        family = f"all {tests} pairs" if tests > 1 else "one pair"
        if tests > MOST_PAIRS and not all_pairs:
            shown = tuple(pair for pair in judged.pairs if baseline in (pair.system, pair.other))
            which = f"pairs with {baseline}" if shown else f"{MOST_PAIRS} pairs of the smallest p"
            shown = shown or judged.pairs[:MOST_PAIRS]
            significant = sum(pair.p_holm <= ALPHA for pair in judged.pairs)
            remarks.insert(
                0,
                f"Shown are the {which}. Of all {tests} pairs {significant} differ at "
                f"{_decimal(ALPHA)} after Holm's correction; --pairs shows them all.",
            )
    rows = [asdict(pair) for pair in shown]
    caption = f"judge {judged.judge}; Holm over {family}"
    title = "Paired permutation tests"
    return DataTable("pairs", title, caption, _PAIR_COLUMNS, rows, remarks=tuple(remarks))


def _floor(pairs: tuple[Pair, ...]) -> Iterator[str]:
    """Explain how p was computed, the smallest possible p, and how many tests cannot become significant."""
    tests, floors = len(pairs), [pair.p_floor for pair in pairs]
    ways = {
        f"exact (at most {EXACT} instances differ)": any(pair.exact for pair in pairs),
        f"from {flips_for(tests):,} random choices": any(not pair.exact and pair.p_floor for pair in pairs),
        f"by the normal distribution (at least {MANY:,} instances differ)": not all(floors),
    }
    after = f", after Holm's correction {_range([min(1.0, tests * p) for p in floors], '{:.2g}')}"
    yield (
        f"p by sign flips: {', '.join(way for way, used in ways.items() if used)}. The smallest possible p is "
        f"{_range(floors, '{:.2g}')}{after if tests > 1 else ''}."
    )
    if n := sum(tests * p > ALPHA for p in floors):
        yield (
            f"Too few instances differ in {n} of {tests} tests for any p to reach {_decimal(ALPHA)}"
            f"{' after correction' if tests > 1 else ''}."
        )


def _power(pairs: tuple[Pair, ...]) -> Iterator[str]:
    """Say which differences so many instances can show; nothing if no pair has enough of them."""
    powered = [pair for pair in pairs if pair.sd is not None and pair.detectable is not None]
    if not powered:
        return
    strict = [pair.detectable_holm for pair in powered if pair.detectable_holm is not None]
    under_holm = f"; of {_range(strict, '{:.2f}')} at Holm's strictest step (α/{len(pairs)})"
    yield (
        f"Power: with n = {_range([pair.n for pair in powered], '{}')} and differences of standard deviation "
        f"{_range([pair.sd for pair in powered], '{:.2f}')}, a true difference of "
        f"{_range([pair.detectable for pair in powered], '{:.2f}')} points is found in {POWER:.0%} of cases at "
        f"α = {_decimal(ALPHA)}{under_holm if strict and len(pairs) > 1 else ''}."
    )


def _range(values: Sequence[float | None], form: str) -> str:
    known = [value for value in values if value is not None]
    low, high = form.format(min(known)), form.format(max(known))
    return low if low == high else f"{low} to {high}"


def judges_table(found: Robustness) -> DataTable:
    """Robustness to the judge (paper, table 9), with a column for each judge so that many systems fit."""
    shared = [i for i, mean in enumerate(found.judges[0].common_means) if mean is not None]
    differ = any(judge.n_scored[i] != found.n_common for judge in found.judges for i in shared)
    orderings = [f"Ordering by {judge.judge}: {judge.ordering}" for judge in found.judges if len(shared) > 1]
    verdict = {True: "All judges order the systems alike.", False: "The judges' orderings differ.", None: ""}
    of = f"Orderings are of the {len(shared)} of {len(found.systems)} systems that every judge has scored"
    orderings += [f"{of}; --judge NAME asks for fewer judges."] * (len(shared) < len(found.systems))
    if differ:
        orderings.append(
            f"Orderings and tau go by the means over the {found.n_common} instances that all these systems have from "
            "all judges."
        )
    partly = [
        f"{judge.judge} has scored {n} answers of {system}, others up to {most}."
        for judge in found.judges
        for system, n, most in zip(found.systems, judge.n_scored, _most_scored(found), strict=True)
        if 0 < n < most
    ]
    judges = {one.judge: one.means for one in found.judges}
    if differ:
        judges |= {f"{one.judge} (n={found.n_common})": one.common_means for one in found.judges}
    rows = [
        {"system": system, **{name: means[i] for name, means in judges.items()}}
        for i, system in enumerate(found.systems)
    ]
    scores = (Column(name, number(name, ".2f"), rank=_competing(name)) for name in judges)
    columns = (Column("system", text("system"), numeric=False), *scores)
    remarks = tuple(remark for remark in (*orderings, verdict[found.same_order], *partly) if remark)
    caption = "mean restore_score_100 by judge"
    return DataTable("judges", "Robustness to the judge", caption, columns, rows, remarks=remarks)


def _most_scored(found: Robustness) -> tuple[int, ...]:
    return tuple(map(max, zip(*(judge.n_scored for judge in found.judges), strict=True)))


def agreement_table(found: Robustness) -> DataTable:
    """Agreement of the judges' labels, nugget by nugget."""
    taus = {(order.judge, order.other): order.tau for order in found.orders}
    alpha = (
        f"Krippendorff's alpha of all {len(found.judges)} judges: {_rate(found.alpha_nominal)} nominal, "
        f"{_rate(found.alpha_ordinal)} ordinal."
    )
    shares = [
        f"Labels of {judge.judge}: "
        + ", ".join(f"{judge.shares[label]:.1%} {label}" for label in reversed(LABELS))
        for judge in found.judges
        if judge.shares
    ]
    rows = [{**asdict(pair), "tau": taus.get((pair.judge, pair.other))} for pair in found.agreements]
    caption = "labels nugget by nugget: Cohen's kappa; r of scores, tau of orderings"
    title, remarks = "Agreement of judges", (alpha, *shares)
    return DataTable("agreement", title, caption, _AGREEMENT_COLUMNS, rows, remarks=remarks)


def stability_table(rows: tuple[Stability, ...]) -> DataTable:
    """Stability under other supporting models (paper, table 11), with unsupported rewrites (section 7.4)."""
    remarks = tuple(
        f"{row.run} vs. {row.other}: UA agree is over the {row.n_aligned} of {row.n_questions} questions that "
        "both asked in the same words."
        for row in rows
        if row.n_aligned < row.n_questions
    )
    caption = "User Answerer and Rewriter: do they answer and rewrite alike?"
    values = [asdict(row) for row in rows]
    title = "Other supporting models"
    return DataTable("support", title, caption, _STABILITY_COLUMNS, values, remarks=remarks)


def probability(p: float) -> str:
    """Format p with four decimals, or as `<.0001`."""
    return "<.0001" if p < 0.00005 else _decimal(p, 4)


def _probability(key: str) -> Show:
    return lambda row: probability(row[key])


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _decimal(value: float, decimals: int = 2) -> str:
    """Format a number without its leading 0: .05."""
    return f"{value:.{decimals}f}".removeprefix("0")


_PAIR_COLUMNS = (
    Column("system", text("system"), numeric=False),
    Column("minus", text("other"), numeric=False),
    Column("n", text("n")),
    Column("Δ", number("difference", "+.3f")),
    Column("p", _probability("p")),
    Column("p Holm", _probability("p_holm")),
    Column("detects", number("detectable", ".3f")),
    Column("n needed", number("n_needed", ",")),
)
_AGREEMENT_COLUMNS = (
    Column("judge", text("judge"), numeric=False),
    Column("other", text("other"), numeric=False),
    Column("nuggets", number("n_nuggets", ",")),
    Column("same", number("exact", ".3f")),
    Column("kappa", number("kappa", ".3f")),
    Column("quadratic", number("kappa_quadratic", ".3f")),
    Column("r", number("score_r", ".3f")),
    Column("tau", number("tau", ".3f")),
)
_STABILITY_COLUMNS = (
    Column("pair", lambda row: f"{row['run']} vs. {row['other']}", numeric=False),
    Column("UA agree", number("ua_agreement", ".3f")),
    Column("rewrite sim.", number("rewrite_similarity", ".3f")),
    Column("unknown preserv.", number("unknown_preservation", ".3f")),
    Column("new year", number("unsupported_years", ".3f")),
    Column("new region", number("unsupported_regions", ".3f")),
)


# The headline of a report


def headline(found: RunsCompared) -> Iterator[str]:
    """Summarise a comparison in sentences: the best system, differences to the baseline, agreement of judges, failures.

    Nothing for runs of the embedded model, whose scores mean nothing.
    """
    if found.embedded:
        return
    judged = found.judged[0]
    rivals = [one for one in judged.standings if _competes(found, one.system)]
    if rivals:
        yield _best(rivals, judged, found.baseline)
    yield from _differing(judged, found)
    robust = found.robustness
    if robust and robust.same_order is not None:
        alike = "order the systems alike" if robust.same_order else "order the systems differently"
        yield f"The {len(robust.judges)} judges {alike}."
    n_failed = sum(one.scores.n_failed for one in judged.standings)
    if n_failed:
        of = sum(one.scores.n_expected for one in judged.standings)
        yield f"{n_failed:,} of {of:,} instances failed: they have no score, and are in no mean."


def _competes(found: RunsCompared, label: str) -> bool:
    """True if a system is neither the baseline nor a reference point."""
    system = found.board.entrants[found.board.place(label)].system
    return label != found.baseline and system not in REFERENCES


def _best(rivals: Sequence[Standing], judged: Judged, baseline: str) -> str:
    """Name the best system, or all whose printed means are equal to its mean."""
    common = rivals[0].n_common
    differ = common > 0 and any(one.scores.n_scored > common for one in rivals)
    means = {one.system: (one.common_mean if differ else one.scores.mean) or 0.0 for one in rivals}
    best = max(rivals, key=lambda one: means[one.system])
    mean, of = f"{means[best.system]:.2f}", best.delta
    equal = [one for one, own in means.items() if f"{own:.2f}" == mean]
    mean += f" over the {common:,} instances that all systems have" if differ else ""
    if len(equal) > 1:
        return f"The best by judge {judged.judge} are {', '.join(equal)}, each with a mean of {mean}."
    delta = f", {with_interval(of.mean, of.low, of.high, '+.2f')} over {baseline}" if of else ""
    if of and of.too_short:
        delta += f" (too short an interval: n = {of.n})"
    first = (
        f"The best by judge {judged.judge} is {best.system} with"
        if len(rivals) > 1
        else f"By judge {judged.judge} {best.system} has"
    )
    return f"{first} a mean of {mean}{delta}."


def _differing(judged: Judged, found: RunsCompared) -> Iterator[str]:
    """Count the systems that are significantly better or worse than the baseline."""
    baseline, better, worse, n = found.baseline, 0, 0, 0
    for pair in judged.pairs:
        if baseline not in (pair.system, pair.other):
            continue
        label = pair.other if pair.system == baseline else pair.system
        if not _competes(found, label):
            continue
        n += 1
        gain = pair.difference if pair.system == label else -pair.difference
        better += pair.p_holm <= ALPHA and gain > 0
        worse += pair.p_holm <= ALPHA and gain < 0
    if n:
        tests = f"Holm's correction of {len(judged.pairs)} tests" if len(judged.pairs) > 1 else "one test"
        yield (
            f"Better than {baseline} at p ≤ {f'{ALPHA:.2f}'.removeprefix('0')} after {tests}: "
            f"{better} of {n}; worse: {worse}."
        )
