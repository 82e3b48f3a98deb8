"""What a provider's HTTP responses mean, whichever API it speaks: errors, finish reasons, limits and waiting times.

This is the one seam where foreign failures become our errors. Which of them is worth a retry follows the providers'
documentation: 408, 409, 425, 429 and 5xx are; other 4xx never; an exhausted quota is not a rate limit; an `error`
object under HTTP 200 is an error. Redirects are not followed.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import orjson

from cts_async.engine.ratelimit import Quota, Quotas
from cts_async.errors import (
    ContentRefused,
    CTSError,
    NoCompletion,
    ProviderRefused,
    RateLimited,
    RejectedError,
    TransientError,
)
from cts_async.foreign_json import NestedTooDeeply
from cts_async.llm.apis import Api, Reply
from cts_async.llm.bodies import BrokenStream, UnreadableStream, read_body, read_json
from cts_async.llm.catalog import ModelSpec

# --- Errors ---------------------------------------------------------------------------------------------

_WORDS: Final = tomllib.loads(Path(__file__).with_name("responses.toml").read_text("utf-8"))
_OPTIONAL_PARAMS: Final = frozenset(_WORDS["optional_params"])
_CODES: Final = {kind: frozenset(codes) for kind, codes in _WORDS["codes"].items()}
_MESSAGES: Final = {
    kind: re.compile("|".join(patterns), re.IGNORECASE) for kind, patterns in _WORDS["messages"].items()
}
_TRANSIENT: Final = frozenset({408, 409, 425})


def refused_parameter(
    status: int, data: bytes, sent: Iterable[str], defaults: Iterable[str] = ()
) -> str | None:
    """The one of the parameters `sent` that the response refuses, if the request can do without it; else None.

    One of `defaults`, which nobody has set, may be refused in any words that name it, such as a range of values.
    """
    if status not in (400, 422):
        return None
    error = _error_object(data)
    message = str(error.get("message") or error.get("error_msg") or excerpt(data))
    for name in defaults:
        if error.get("param") == name or re.search(rf"\b{re.escape(name)}\b", message):
            return name
    if not _MESSAGES["unsupported"].search(f"{message} {error.get('code')}".replace("_", " ")):
        return None
    optional = [name for name in sent if name in _OPTIONAL_PARAMS]
    if error.get("param") in optional:
        return str(error["param"])
    named = {found.start(): name for name in optional if (found := re.search(rf"\b{name}\b", message))}
    return named[min(named)] if named else None


def error_from_response(
    spec: ModelSpec, status: int, head: Mapping[str, str], data: bytes, now: float
) -> CTSError:
    """The error that a response stands for. `now` is the wall clock (for dates in headers)."""
    error = _error_object(data)
    codes = _codes(error)
    message = " ".join(str(error.get("message") or error.get("error_msg") or excerpt(data)).split())[:300]
    text = f"{spec.name}: HTTP {status}: {message}"
    status = _inner_status(error, codes) if status == 200 else status
    if status == 402 or _is_quota_exhausted(spec, error, codes, message):
        return ProviderRefused(f"{text} (out of quota or credit: top up, then run the same command again)")
    if codes & _CODES["content"] or _MESSAGES["content"].search(message):
        return ContentRefused(text, status=status)
    if status in (401, 403):
        return ProviderRefused(f"{text} (check {spec.key_env or 'the server'}; the same command resumes)")
    if status == 404:
        hint = (
            spec.address_hint
            or f"check that {spec.model!r} is the right model and {spec.base_url} the right server"
        )
        return ProviderRefused(f"{text} ({hint})")
    if 300 <= status < 400:
        return ProviderRefused(f"{text} (its address has moved: correct base_url; the same command resumes)")
    wait_s = retry_after_s(head, now)
    if status == 429 and not _MESSAGES["too_large"].search(message):
        # Gemini's waiting time stands in the body.
        delays = [duration_s(str(detail.get("retryDelay"))) for detail in _details(error, "RetryInfo")]
        for other in (*delays[:1], reset_s(head, now)):
            wait_s = other if wait_s is None else wait_s
        return RateLimited(text, retry_after_s=wait_s, status=status)
    if status in _TRANSIENT or status >= 500 or status == 200:
        return TransientError(text, retry_after_s=wait_s, status=status)
    return RejectedError(text, status=status)


def read_reply(
    api: Api, spec: ModelSpec, status: int, head: Mapping[str, str], data: bytes, now: float
) -> Reply:
    """Read a response. Raises the error that it stands for; `now` is the wall clock (for dates in headers)."""
    if status != 200:
        raise error_from_response(spec, status, head, data, now)
    try:
        parsed, strict = read_body(api, data)
    except BrokenStream as broken:
        raise TransientError(f"{spec.name}: the server broke its reply off ({broken})", status=200) from None
    except (NestedTooDeeply, UnreadableStream) as problem:
        raise NoCompletion(f"{spec.name}: the response is not a chat completion: {problem}") from None
    except ValueError:
        problem_text = f"{spec.name}: the response is not a chat completion: {excerpt(data)}"
        raise TransientError(problem_text, status=status) from None
    if not strict:
        data = orjson.dumps(parsed)
    if isinstance(parsed, dict) and (
        parsed.get("error") or parsed.get("error_code") or parsed.get("type") == "error"
    ):
        raise error_from_response(spec, status, head, data, now)
    try:
        reply = api.reply(parsed, quotas_in(head, now))
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError):
        error = _error_object(data)
        if _inner_status(error, _codes(error)) != status:  # an error without the field `error`, as Zhipu's
            raise error_from_response(spec, status, head, data, now) from None
        raise NoCompletion(
            f"{spec.name}: the response is not a chat completion (api = {spec.api!r}): {excerpt(data)}"
        ) from None
    if reply.finish_reason == ABORTED:
        raise TransientError(f"{spec.name}: the server broke its reply off", status=status)
    return reply


def _error_object(data: bytes) -> dict[str, Any]:
    """The error object in a body, empty if it has none; Gemini wraps it in a list."""
    try:
        parsed = read_json(data)
    except ValueError:
        return {}
    if isinstance(parsed, list) and parsed:
        parsed = parsed[0]
    error = parsed.get("error", parsed) if isinstance(parsed, dict) else parsed
    return error if isinstance(error, dict) else {}


def _codes(error: Mapping[str, Any]) -> set[str]:
    """The error's machine-readable codes, lower-case."""
    names = ("code", "type", "status", "error_code")
    return {str(error[name]).lower() for name in names if error.get(name)}


def _inner_status(error: Mapping[str, Any], codes: set[str]) -> int:
    """The status that an error under HTTP 200 should have had; 200 if it does not say."""
    code = error.get("code")
    if isinstance(code, int) and 400 <= code < 600:
        return code
    return 429 if codes & _CODES["rate_limit"] else 200


def _is_quota_exhausted(spec: ModelSpec, error: Mapping[str, Any], codes: set[str], message: str) -> bool:
    """True if waiting is of no use: the quota is used up for the day or for good, or a bill is due."""
    if _MESSAGES["quota"].search(message):
        return True
    codes = codes.difference(spec.rate_limit_words)
    if codes & _CODES["quota"] or any(code.endswith("_spend_limit_exceeded") for code in codes):
        return True
    quotas = [
        str(violation.get("quotaId"))
        for detail in _details(error, "QuotaFailure")
        for violation in _objects(detail.get("violations"))
    ]
    return bool(quotas) and all("PerDay" in quota for quota in quotas)


def _details(error: Mapping[str, Any], kind: str) -> list[dict[str, Any]]:
    return [detail for detail in _objects(error.get("details")) if str(detail.get("@type")).endswith(kind)]


def _objects(values: Any) -> list[dict[str, Any]]:
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []


def excerpt(data: bytes) -> str:
    """The beginning of a body, on one line."""
    text = " ".join(data[:400].decode(errors="replace").split())
    return text[:200] or "(empty body)"


# --- Finish reasons -------------------------------------------------------------------------------------

STOP, LENGTH, REFUSED, ABORTED = "stop", "length", "refused", "aborted"

MAX_REASON_CHARS: Final = 100
_FINISH_REASONS: Final[dict[str, str]] = {
    word: ended for ended, words in _WORDS["finish_reasons"].items() for word in words
}


def finish_reason(reason: object) -> str:
    """STOP, LENGTH, REFUSED or ABORTED; STOP for none, and an unknown word is returned as it is."""
    if reason is None or reason == "":
        return STOP
    word = str(reason)[:MAX_REASON_CHARS]
    # "content_filter: PROHIBITED_CONTENT" means the same as its first half.
    return _FINISH_REASONS.get(word.partition(":")[0].strip().lower(), word)


# --- Limits in headers ----------------------------------------------------------------------------------

_Names = tuple[str, str, str]
"""The headers of one limit, of what remains of it, and of when all of it is available again."""


def _names(pattern: str) -> _Names:
    return pattern.format("limit"), pattern.format("remaining"), pattern.format("reset")


# OpenAI's names, which Qianfan uses too, and Anthropic's.
_REQUESTS: Final = _names("x-ratelimit-{}-requests")
_TOKENS: Final = _names("x-ratelimit-{}-tokens")
_ANTHROPIC_REQUESTS: Final = _names("anthropic-ratelimit-requests-{}")
_ANTHROPIC_TOKENS: Final = tuple(
    _names(f"anthropic-ratelimit-{what}-{{}}") for what in ("tokens", "input-tokens", "output-tokens")
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
        return Quotas(requests, tokens) if requests or tokens else None
    if any(names[0] in headers for names in (_ANTHROPIC_REQUESTS, *_ANTHROPIC_TOKENS)):
        return _anthropic_quotas(headers, server_time(headers, now))
    return None


def _anthropic_quotas(headers: Mapping[str, str], now: float) -> Quotas | None:
    """Requests, and one limit of tokens for three that hold at once: of all, of input, of output.

    Our accounts count input and output together. The lower of the limits of all and of input keeps both, and its
    remaining share is that of the scarcest of the three.
    """
    requests = _quota(headers, _ANTHROPIC_REQUESTS, now)
    kinds = [_quota(headers, names, now) for names in _ANTHROPIC_TOKENS]
    tokens = None
    if limits := [quota.limit for quota in kinds[:2] if quota]:
        limit = min(limits)
        tokens = Quota(limit)
        shares = [(q.remaining / q.limit, q.reset_s) for q in kinds if q and q.remaining is not None]
        if shares:
            share, until_reset_s = min(shares, key=lambda pair: pair[0])
            tokens = Quota(limit, limit * share, until_reset_s)
    return Quotas(requests, tokens) if requests or tokens else None


def _quota(headers: Mapping[str, str], names: _Names, now: float) -> Quota | None:
    limit = _finite(headers.get(names[0]))
    if limit is None or limit < 1:
        return None
    remaining = _finite(headers.get(names[1]))
    if remaining is not None and not 0 <= remaining <= limit:
        remaining = None
    reset = headers.get(names[2])
    reset_s = seconds_until(reset, now) if reset else None
    return Quota(limit, remaining, reset_s if reset_s is not None and reset_s >= 0 else None)


# --- Waiting times --------------------------------------------------------------------------------------

_NUMBER = r"(\d+(?:\.\d+)?)"
_DURATION = re.compile(rf"(?:{_NUMBER}h)?(?:{_NUMBER}m(?!s))?(?:{_NUMBER}s)?(?:{_NUMBER}ms)?")
_EPOCH_S, _EPOCH_MS = 1e9, 1e11
"""A number above the first is a Unix time, not a duration; above the second in milliseconds, as OpenRouter has it."""


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds to wait by `retry-after-ms`, else `retry-after` (seconds or an HTTP date); None if neither is readable.

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
    until = _http_date(value)
    return None if until is None else max(0.0, until - server_time(headers, now))


def reset_s(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds until the last of the limits in `*ratelimit*reset*` headers is reset; None if none is.

    Durations (`12ms`, `6m0s`), seconds, Unix times and RFC 3339 dates; 0 and less say nothing.
    """
    now = server_time(headers, now)
    values = [text for name, text in headers.items() if re.search("ratelimit.*reset", name, re.IGNORECASE)]
    waits = [wait for wait in (seconds_until(text, now) for text in values) if wait is not None and wait > 0]
    return max(waits, default=None)


def server_time(headers: Mapping[str, str], now: float) -> float:
    """The Unix time at which the server sent a response, by its own clock; `now` if it does not say."""
    date = headers.get("date")
    sent = _http_date(date) if date else None
    return now if sent is None else sent


@lru_cache(maxsize=64)
def _http_date(text: str) -> float | None:
    """A date's Unix time, None if unreadable. Cached, as responses of the same second have the same date."""
    try:
        return _unix_time(parsedate_to_datetime(text))
    except (ValueError, TypeError, OverflowError):
        return None


@lru_cache(maxsize=1024)
def duration_s(text: str) -> float | None:
    """`33s`, `12ms`, `6m0s`, `1h2m3.5s` in seconds; None if it is not a duration."""
    found = _DURATION.fullmatch(text) if text else None
    if found is None:
        return None
    hours, minutes, seconds, millis = map(float, found.groups("0"))
    return 3600.0 * hours + 60.0 * minutes + seconds + millis / 1000.0


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
        return number - now if number > _EPOCH_S else number
    try:
        return _unix_time(datetime.fromisoformat(text.upper())) - now
    except (ValueError, OverflowError):
        return None


def _unix_time(date: datetime) -> float:
    """A date's Unix time; one without a zone is in UTC, wherever we are."""
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()


def _finite(text: str | None) -> float | None:
    try:
        number = float(text) if text is not None else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _not_negative(text: str | None) -> float | None:
    number = _finite(text)
    return number if number is not None and number >= 0 else None
