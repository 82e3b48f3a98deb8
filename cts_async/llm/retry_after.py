"""How long a provider asks us to wait, in all the spellings there are.

`retry-after-ms` first, then `retry-after` as (fractional) seconds or as an HTTP date. Zero is valid.
After a 429 without either, the largest of the headers that say when a limit is reset. Points in time are
measured against the answer's own `Date`, as this machine's clock may be wrong.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smh])")
_EPOCH, _EPOCH_MS = 1e9, 1e11
"""A number above this is a point in time, not a duration; above the second in milliseconds, as OpenRouter says it."""


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds to wait, never negative; None if the headers say nothing readable. `now` is this machine's wall clock."""
    millis = _number(headers.get("retry-after-ms"))
    if millis is not None:
        return millis / 1000.0
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is not None or value is None:
        return seconds
    until = _http_date(value)
    return None if until is None else max(0.0, until - server_time(headers, now))


def reset_s(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds until the last of the limits named in `*ratelimit*reset*` headers is reset; None if none is.

    Durations (`12ms`, `6m0s`), seconds, Unix times and RFC 3339 dates; 0 and less say nothing.
    """
    now = server_time(headers, now)
    values = [text for name, text in headers.items() if re.search("ratelimit.*reset", name, re.IGNORECASE)]
    waits = [wait for wait in (until_s(text, now) for text in values) if wait is not None and wait > 0]
    return max(waits, default=None)


def server_time(headers: Mapping[str, str], now: float) -> float:
    """The Unix time at which the server sent an answer, by its own clock; `now` if it does not say."""
    date = headers.get("date")
    sent = _http_date(date) if date else None
    return now if sent is None else sent


@lru_cache(maxsize=64)
def _http_date(text: str) -> float | None:
    """A date's Unix time, None if unreadable. Cached, as answers of the same second have the same."""
    try:
        return _utc(parsedate_to_datetime(text))
    except (ValueError, TypeError, OverflowError):
        return None


def duration_s(text: str) -> float | None:
    """`33s`, `12ms`, `6m0s`, `1h2m3.5s` in seconds; None if it is no duration."""
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    return math.fsum(float(number) * _UNITS[unit] for number, unit in parts)


def until_s(text: str, now: float) -> float | None:
    """Seconds from `now` to the time that a reset header names, in any of its spellings; None if unreadable."""
    number = _number(text)
    if number is not None:
        if number > _EPOCH_MS:
            number /= 1000.0
        return number - now if number > _EPOCH else number
    duration = duration_s(text.strip())
    if duration is not None:
        return duration
    try:
        return _utc(datetime.fromisoformat(text.strip())) - now
    except (ValueError, OverflowError):
        return None


def _utc(date: datetime) -> float:
    """A date's Unix time; one without a zone is in UTC, wherever we are."""
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()


def _number(text: str | None) -> float | None:
    try:
        number = float(text) if text is not None else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None
