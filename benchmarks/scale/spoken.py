"""Numbers as a document has them: three digits, and a unit that a person can picture."""

from __future__ import annotations

_BYTES = ((1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
_TIMES = ((365 * 86400.0, "years"), (86400.0, "days"), (3600.0, "h"), (60.0, "min"))


def number(value: float) -> str:
    """Three digits that count: 8,280 of 8,281.4, and 0.35 of 0.3512."""
    if value == 0:
        return "0"
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 100 else f"{rounded:g}"


def size(value: float) -> str:
    """Bytes."""
    return _in_units(value, _BYTES, "B")


def duration(seconds: float) -> str:
    """A time; from two of a unit on in that unit."""
    return _in_units(seconds, _TIMES, "s", at_least=2)


def large(value: float) -> str:
    """A count of anything: 1.04 billion."""
    return _in_units(value, ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")), "")


def parsed(text: str) -> float:
    """The number that a cell begins with."""
    return float(text.split()[0].lstrip("$").replace(",", "").rstrip("%"))


def _in_units(value: float, units: tuple[tuple[float, str], ...], smallest: str, at_least: float = 1) -> str:
    for unit, name in units:
        if value >= unit * at_least * 0.9995:  # else it would round to 1,000 of the smaller unit
            return f"{number(value / unit)} {name}"
    return f"{number(value)} {smallest}".rstrip()
