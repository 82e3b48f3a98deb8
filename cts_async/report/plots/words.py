"""Numbers in captions and alternative texts, in words that read as sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cts_async.analysis.resampling import Difference
from cts_async.report.tables import printable, with_interval


def interval(found: Difference, spec: str = ".1f") -> str:
    """`66.7 [50.0, 83.3]`, with what is wrong with the interval."""
    text = with_interval(found.mean, found.low, found.high, spec)
    return f"{text} (too short, n = {found.n})" if found.too_short else text


def counts(values: Iterable[int]) -> str:
    """`518`, or `500 to 518` where they differ."""
    found = sorted(values)
    low, high = found[0], found[-1]
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def number_of(n: int, noun: str) -> str:
    """`1 system`, `3 systems`"""
    return f"{n:,} {noun}{'s' * (n != 1)}"


def listed(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`; of more than six the first five and how many more. Names are anybody's."""
    clean = [printable(name) for name in names]
    if len(clean) > 6:
        clean = [*clean[:5], f"{len(clean) - 5} more"]
    return clean[0] if len(clean) == 1 else f"{', '.join(clean[:-1])} and {clean[-1]}"
