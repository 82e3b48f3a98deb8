"""What a comparison comes to, in a few sentences, for those who read no further."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cts_async.analysis.leaderboard import Standing
from cts_async.analysis.power import ALPHA
from cts_async.report.comparison import Judged, RunsCompared
from cts_async.report.comparison_tables import REFERENCES
from cts_async.report.data_table import with_interval


def headline(found: RunsCompared) -> Iterator[str]:
    """The best system, how many differ from the baseline, whether judges agree, what failed.

    Nothing where the embedded model played: what its scores come to is nothing.
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
    """Whether a system is neither the baseline nor a reference point."""
    system = found.board.entrants[found.board.place(label)].system
    return label != found.baseline and system not in REFERENCES


def _best(rivals: Sequence[Standing], judged: Judged, baseline: str) -> str:
    """The first of several, all of them where several have the same mean as it is printed."""
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
    """How many systems are better or worse than the baseline by the tests."""
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
