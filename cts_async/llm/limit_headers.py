"""A provider's limits and the times to wait that its responses name, in headers or in words."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Final

from cts_async.engine.ratelimit import Quota, Quotas

# --- Limits in headers ----------------------------------------------------------------------------------

_Names = tuple[str, str, str]
"""The headers of one limit, of what remains of it, and of when all of it is available again."""


def _names(pattern: str) -> _Names:
    return pattern.format("limit"), pattern.format("remaining"), pattern.format("reset")


# OpenAI's names, which Qianfan uses too, and Anthropic's.
_REQUESTS: Final = _names("x-ratelimit-{}-requests")
_TOKENS: Final = _names("x-ratelimit-{}-tokens")
_ANTHROPIC_REQUESTS: Final = _names("anthropic-ratelimit-requests-{}")
_ANTHROPIC_TOKENS: Final = (
    _names("anthropic-ratelimit-tokens-{}"),
    _names("anthropic-ratelimit-input-tokens-{}"),
    _names("anthropic-ratelimit-output-tokens-{}"),
)


def quotas_in(headers: Mapping[str, str], now: float) -> Quotas | None:
    """The limits that the headers name, at the wall-clock time `now`; None if they name none.

    A limit below 1 is a gateway's way of giving none, and a reset that has passed says nothing.
    """
    if not headers:  # most responses of servers on the same machine
        return None
    if _REQUESTS[0] in headers or _TOKENS[0] in headers:
        now = server_time(headers, now)
        requests, tokens = _quota(headers, _REQUESTS, now), _quota(headers, _TOKENS, now)
        if requests or tokens:
            return Quotas(requests, tokens)
        return None
    for names in (_ANTHROPIC_REQUESTS, *_ANTHROPIC_TOKENS):
        if names[0] in headers:
            return _anthropic_quotas(headers, server_time(headers, now))
    return None


def _anthropic_quotas(headers: Mapping[str, str], now: float) -> Quotas | None:
    """Requests, and one limit of tokens for three that hold at once: of all, of input, of output.

    Our accounts count input and output together. The lower of the limits of all and of input keeps both, and its
    remaining share is that of the scarcest of the three.
    """
    requests = _quota(headers, _ANTHROPIC_REQUESTS, now)
    of_all, of_input, of_output = (_quota(headers, names, now) for names in _ANTHROPIC_TOKENS)
    tokens = None
    limits = [quota.limit for quota in (of_all, of_input) if quota]
    if limits:
        tokens = Quota(min(limits))
        lowest_share = math.inf
        for quota in (of_all, of_input, of_output):
            if quota is None or quota.remaining is None:
                continue
            share = quota.remaining / quota.limit
            if share < lowest_share:
                lowest_share = share
                tokens = Quota(tokens.limit, tokens.limit * share, quota.reset_s)
    if requests or tokens:
        return Quotas(requests, tokens)
    return None


def _quota(headers: Mapping[str, str], names: _Names, now: float) -> Quota | None:
    limit_text, remaining_text, reset = map(headers.get, names)
    limit = _number(limit_text)
    # Python reads "inf" and "nan" as numbers: no comparison is true of the second.
    if limit is None or not 1 <= limit < math.inf:
        return None
    remaining = _number(remaining_text)
    if remaining is not None and not 0 <= remaining <= limit:
        # No remainder of this limit, which is believed all the same.
        remaining = None
    reset_s = None
    if reset:
        reset_s = seconds_until(reset, now)
    if reset_s is not None and reset_s < 0:
        reset_s = None
    return Quota(limit, remaining, reset_s)


# --- Waiting times --------------------------------------------------------------------------------------

_NUMBER = r"(\d+(?:\.\d+)?)"
_DURATION = re.compile(rf"(?:{_NUMBER}d)?(?:{_NUMBER}h)?(?:{_NUMBER}m(?!s))?(?:{_NUMBER}s)?(?:{_NUMBER}ms)?")
_SPOKEN = re.compile(rf"{_NUMBER} ?([\u4e00-\u9fff]+|[a-z]*)", re.IGNORECASE)
_SECONDS_OF: Final = {
    0.001: ("ms", "millisecond", "milliseconds"),
    1.0: ("", "s", "sec", "secs", "second", "seconds", "秒", "秒钟"),
    60.0: ("m", "min", "mins", "minute", "minutes", "分", "分钟"),
    3600.0: ("h", "hr", "hrs", "hour", "hours", "小时", "个小时"),
    86400.0: ("d", "day", "days", "天"),
}
_UNITS_S: Final = {unit: seconds for seconds, units in _SECONDS_OF.items() for unit in units}
_EPOCH_S, _EPOCH_MS = 1e9, 1e11
"""A number above the first is a Unix time, not a duration; above the second in milliseconds, as OpenRouter has it."""


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds to wait by `retry-after-ms`, else `retry-after` (seconds, a duration or an HTTP date); None if unreadable.

    Never negative; zero is valid. A date is measured against the response's own `Date`, since this machine's clock
    (`now`) may be wrong.
    """
    millis = _not_negative(headers.get("retry-after-ms"))
    if millis is not None:
        return millis / 1000.0
    value = headers.get("retry-after")
    seconds = _not_negative(value)
    if seconds is not None or value is None:
        return seconds
    duration = duration_s(value.strip())
    if duration is not None:  # 1d2h: no standard, but sent
        return duration
    until = _http_date(value)
    if until is None:
        return None
    return max(0.0, until - server_time(headers, now))


def reset_s(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds until the last of the limits in `*ratelimit*reset*` headers is reset; None if none is.

    Durations (`12ms`, `6m0s`, `1d2h`), seconds, Unix times and RFC 3339 dates; 0 and less say nothing.
    """
    now = server_time(headers, now)
    longest_s = 0.0
    for name, text in headers.items():
        if re.search("ratelimit.*reset", name, re.IGNORECASE):
            longest_s = max(longest_s, seconds_until(text, now) or 0.0)
    if longest_s == 0.0:
        return None
    return longest_s


def server_time(headers: Mapping[str, str], now: float) -> float:
    """The Unix time at which the server sent a response, by its own clock; `now` if it does not say."""
    date = headers.get("date")
    sent_at = None
    if date:
        sent_at = _http_date(date)
    if sent_at is None:
        return now
    return sent_at


@lru_cache(maxsize=64)
def _http_date(text: str) -> float | None:
    """A date's Unix time, None if unreadable. Cached, as responses of the same second have the same date."""
    try:
        return _unix_time(parsedate_to_datetime(text))
    except (ValueError, TypeError, OverflowError):
        return None


@lru_cache(maxsize=1024)
def duration_s(text: str) -> float | None:
    """`33s`, `12ms`, `6m0s`, `1h2m3.5s`, `1d2h` in seconds; None if it is not a duration."""
    duration = _DURATION.fullmatch(text)
    if duration is None or not text:  # every part of the pattern is optional
        return None
    days, hours, minutes, seconds, millis = map(float, duration.groups("0"))
    return 86400.0 * days + 3600.0 * hours + 60.0 * minutes + seconds + millis / 1000.0


def spoken_duration_s(text: str) -> float | None:
    """`3600`, `30 seconds`, `1 day, 2 hours`, `7h12m0s`, `2小时` in seconds; None if a unit is unknown."""
    total = 0.0
    for number, unit in _SPOKEN.findall(text):
        seconds = _UNITS_S.get(unit.lower())
        if seconds is None:
            return None
        total += float(number) * seconds
    return total


def seconds_until(text: str, now: float) -> float | None:
    """Seconds from `now` to the time that a reset header names, in any of its spellings; None if unreadable."""
    text = text.strip()
    duration = duration_s(text)
    if duration is not None:
        return duration
    number = _not_negative(text)
    if number is not None:
        if number > _EPOCH_MS:
            number /= 1000.0
        if number > _EPOCH_S:
            return number - now
        return number
    try:
        return _unix_time(datetime.fromisoformat(text.upper())) - now
    except (ValueError, OverflowError):
        return None


def _unix_time(date: datetime) -> float:
    """A date's Unix time; one without a zone is in UTC, wherever we are."""
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return date.timestamp()


def _number(text: str | None) -> float | None:
    """The number in a header, also `inf` and `nan`; None for no header and no number."""
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        return None


def _not_negative(text: str | None) -> float | None:
    number = _number(text)
    if number is None or not 0 <= number < math.inf:
        return None
    return number
