"""What a provider's refusals and failures mean, whichever API it speaks: the one seam to our errors.

Which answer is worth a retry follows the providers' documentation: 408, 409, 425, 429 and 5xx are; other 4xx
never; an exhausted quota is no rate limit; an `error` object under HTTP 200 is an error. Redirects are not followed.

How a reply ended, in all the spellings there are: whole, cut off, refused, or broken off by the server.

OpenAI's words, Anthropic's, Gemini's (which its OpenAI-style address passes on in capitals), and those of
DeepSeek, Mistral, Zhipu, vLLM, SGLang and TGI.

What a provider's headers say of its limits: OpenAI's and Qianfan's names, and Anthropic's.

A limit below 1 is a gateway's way of saying nothing, and so is a reset that has passed (without the answer's
`Date`, by a clock that differs from ours). Most replies of servers nearby have no headers at all.

How long a provider asks us to wait, in all the spellings there are.

`retry-after-ms` first, then `retry-after` as (fractional) seconds or as an HTTP date. Zero is valid.
After a 429 without either, the largest of the headers that say when a limit is reset. Points in time are
measured against the answer's own `Date`, as this machine's clock may be wrong.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any, Final

import orjson

from cts_async.engine.ratelimit import Quota, Quotas
from cts_async.errors import (
    ContentRefused,
    CTSError,
    ProviderRefused,
    RateLimited,
    RejectedError,
    TransientError,
)
from cts_async.llm.catalog import ModelSpec

_TRANSIENT = frozenset({408, 409, 425})
_OUT_OF_MONEY = frozenset(
    {
        "insufficient_quota",
        "credit_balance_exhausted",
        "organization_usage_limit_exceeded",
        "exceeded_current_quota_error",
        "account_overdue",
        "arrearage",
        "billing_error",
    }
)
_OUT_OF_MONEY_SAID = re.compile(
    r"credit balance is too low|free allocated quota exceeded|\bTPD\b", re.IGNORECASE
)
"""What some say only in words: Anthropic, DashScope, and Moonshot of its tokens per day."""
_NEVER_FITS = re.compile(r"\brequest too large\b", re.IGNORECASE)
"""What OpenAI says under 429 of a request with more tokens than a minute may have: waiting is of no use."""
_RATE_LIMITED = frozenset(
    {"rate_limit_exceeded", "rate_limit_error", "resource_exhausted", "336501", "336502"}
)
_CONTENT_REFUSED = frozenset(
    {
        "content_filter",
        "content_policy_violation",
        "data_inspection_failed",
        "datainspectionfailed",
        "unsafe_request",
    }
)
_CONTENT_REFUSED_SAID = re.compile(
    r"content filtering policy|flagged as potentially violating|content exists risk", re.IGNORECASE
)
"""What some say only in words: Anthropic, OpenAI of its reasoning models, and DeepSeek."""
_SAMPLING: Final = frozenset(
    {
        *("temperature", "top_p", "top_k", "min_p", "seed", "reasoning_effort", "logprobs", "top_logprobs"),
        *("presence_penalty", "frequency_penalty", "repetition_penalty", "logit_bias"),
    }
)
"""Parameters that a request can do without: the reply is one in the same form, sampled otherwise."""
_UNSUPPORTED: Final = re.compile(
    r"unsupported|(?:not|n't) (?:\w+ )?(?:support|permit|allow|accept)|deprecated|only the default|only \S+ is allowed"
    r"|(?:unrecognized|unknown|unexpected) (?:request )?(?:parameter|argument|name|field|key)",
    re.IGNORECASE,
)
"""OpenAI, Gemini, Anthropic, Moonshot and vLLM of a parameter, or of any value of it but the default. A value out of
range is not meant: without the parameter, sampling would be random and nobody would know."""


def refused_parameter(status: int, data: bytes, sent: Iterable[str]) -> str | None:
    """Which of the parameters that were `sent` an answer refuses, if it does and the request can do without."""
    if status not in (400, 422):
        return None
    error = _error_object(data)
    message = str(error.get("message") or error.get("error_msg") or excerpt(data))
    if not _UNSUPPORTED.search(f"{message} {error.get('code')}".replace("_", " ")):
        return None
    optional = [name for name in sent if name in _SAMPLING]
    if error.get("param") in optional:
        return str(error["param"])
    named = {found.start(): name for name in optional if (found := re.search(rf"\b{name}\b", message))}
    return named[min(named)] if named else None


def failure(spec: ModelSpec, status: int, head: Mapping[str, str], data: bytes, now: float) -> CTSError:
    """The error that an answer stands for. `now` is the wall clock (for dates in headers)."""
    error = _error_object(data)
    words = _words(error)
    message = " ".join(str(error.get("message") or error.get("error_msg") or excerpt(data)).split())[:300]
    said = f"{spec.name}: HTTP {status}: {message}"
    status = _status_within(error, words) if status == 200 else status
    if status == 402 or _out_of_money(spec, error, words, message):
        return ProviderRefused(f"{said} (out of quota or credit: top up, then type the same command again)")
    if words & _CONTENT_REFUSED or _CONTENT_REFUSED_SAID.search(message):
        return ContentRefused(said, status=status)
    if status in (401, 403):
        return ProviderRefused(f"{said} (check {spec.key_env or 'the server'}; the same command resumes)")
    if status == 404:
        return ProviderRefused(
            f"{said} (is {spec.model!r} the right model, {spec.base_url} the right server?)"
        )
    if 300 <= status < 400:
        return ProviderRefused(f"{said} (its address has moved: correct base_url; the same command resumes)")
    wait_s = retry_after_s(head, now)
    if status == 429 and not _NEVER_FITS.search(message):
        for other in (_retry_delay_s(error), reset_s(head, now)):
            wait_s = other if wait_s is None else wait_s
        return RateLimited(said, retry_after_s=wait_s, status=status)
    if status in _TRANSIENT or status >= 500 or status == 200:
        return TransientError(said, retry_after_s=wait_s, status=status)
    return RejectedError(said, status=status)


def broken(spec: ModelSpec, status: int, data: bytes) -> TransientError:
    """The error for an answer that is not what the API promises."""
    return TransientError(f"{spec.name}: the answer is no chat completion: {excerpt(data)}", status=status)


def _error_object(data: bytes) -> dict[str, Any]:
    """The error that a body holds, empty if it holds none; Gemini wraps it in a list."""
    try:
        parsed = orjson.loads(data)
    except ValueError:
        return {}
    if isinstance(parsed, list) and parsed:
        parsed = parsed[0]
    error = parsed.get("error", parsed) if isinstance(parsed, dict) else parsed
    return error if isinstance(error, dict) else {}


def _words(error: Mapping[str, Any]) -> set[str]:
    """The error's machine-readable words, lower-case."""
    names = ("code", "type", "status", "error_code")
    return {str(error[name]).lower() for name in names if error.get(name)}


def _status_within(error: Mapping[str, Any], words: set[str]) -> int:
    """The status that an error under HTTP 200 should have had; 200 if it does not say."""
    code = error.get("code")
    if isinstance(code, int) and 400 <= code < 600:
        return code
    return 429 if words & _RATE_LIMITED else 200


def _out_of_money(spec: ModelSpec, error: Mapping[str, Any], words: set[str], message: str) -> bool:
    """Whether waiting is of no use: the quota is used up for the day or for good, or a bill is due."""
    if _OUT_OF_MONEY_SAID.search(message):
        return True
    words = words.difference(spec.rate_limit_words)
    if words & _OUT_OF_MONEY or any(word.endswith("_spend_limit_exceeded") for word in words):
        return True
    quotas = [
        str(violation.get("quotaId"))
        for detail in _details(error, "QuotaFailure")
        for violation in _objects(detail.get("violations"))
    ]
    return bool(quotas) and all("PerDay" in quota for quota in quotas)


def _retry_delay_s(error: Mapping[str, Any]) -> float | None:
    """Gemini's wait, which stands in the body."""
    delays = [duration_s(str(detail.get("retryDelay"))) for detail in _details(error, "RetryInfo")]
    return delays[0] if delays else None


def _details(error: Mapping[str, Any], kind: str) -> list[dict[str, Any]]:
    return [detail for detail in _objects(error.get("details")) if str(detail.get("@type")).endswith(kind)]


def _objects(values: Any) -> list[dict[str, Any]]:
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []


def excerpt(data: bytes) -> str:
    """How a body begins, on one line."""
    text = " ".join(data[:400].decode(errors="replace").split())
    return text[:200] or "(empty body)"


STOP: Final = "stop"
LENGTH: Final = "length"
REFUSED: Final = "refused"
ABORTED: Final = "aborted"

_SPELLINGS: Final = {
    STOP: ("stop", "end_turn", "stop_sequence", "eos", "eos_token"),
    LENGTH: ("length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded"),
    REFUSED: (
        "content_filter",
        "refusal",
        "safety",
        "recitation",
        "blocklist",
        "prohibited_content",
        "spii",
        "sensitive",
    ),
    ABORTED: ("abort", "aborted", "error", "network_error", "insufficient_system_resource", "pause_turn"),
}
_MEANING: Final = {spelling: meaning for meaning, words in _SPELLINGS.items() for spelling in words}


def ending(reason: object) -> str:
    """STOP, LENGTH, REFUSED or ABORTED; nothing said is STOP, and an unknown word is given back as it is."""
    if reason is None or reason == "":
        return STOP
    word = str(reason)
    # "content_filter: PROHIBITED_CONTENT" says the same as its first half.
    return _MEANING.get(word.partition(":")[0].strip().lower(), word)


def quotas(headers: Mapping[str, str], now: float) -> Quotas | None:
    """The limits that the headers (names in any case) name, at the wall-clock time `now`; None if none."""
    if not headers:
        return None
    if "x-ratelimit-limit-requests" in headers or "x-ratelimit-limit-tokens" in headers:
        return _both(headers, "x-ratelimit-{1}-{0}", server_time(headers, now))
    if any(name in headers for name in _ANTHROPIC):
        return _anthropic(headers, server_time(headers, now))
    return None


_TOKENS: Final = ("tokens", "input-tokens", "output-tokens")
_NAME: Final = "anthropic-ratelimit-{0}-{1}"
_ANTHROPIC: Final = tuple(_NAME.format(what, "limit") for what in ("requests", *_TOKENS))


def _anthropic(headers: Mapping[str, str], now: float) -> Quotas | None:
    """Requests, and one limit of tokens for three that hold at once: of all, of those in, of those out.

    An account counts tokens in and out together. The lower of the limits of all and of those in keeps both,
    and its share that is left is that of the scarcest of the three.
    """
    requests = _quota(headers, _NAME, "requests", now)
    kinds = [quota for what in _TOKENS if (quota := _quota(headers, _NAME, what, now))]
    named = [quota.limit for what in _TOKENS[:2] if (quota := _quota(headers, _NAME, what, now))]
    tokens = _scarcest(min(named), kinds) if named else None
    return Quotas(requests, tokens) if requests or tokens else None


def _scarcest(limit: float, kinds: Sequence[Quota]) -> Quota:
    """A quota of `limit` with the smallest share left that any of `kinds` has."""
    said = [(quota.remaining / quota.limit, quota) for quota in kinds if quota.remaining is not None]
    if not said:
        return Quota(limit)
    share, quota = min(said, key=lambda pair: pair[0])
    return Quota(limit, limit * share, quota.reset_s)


def _both(headers: Mapping[str, str], name: str, now: float) -> Quotas | None:
    requests, tokens = _quota(headers, name, "requests", now), _quota(headers, name, "tokens", now)
    return Quotas(requests, tokens) if requests or tokens else None


def _quota(headers: Mapping[str, str], name: str, what: str, now: float) -> Quota | None:
    limit = _plain_number(headers.get(name.format(what, "limit")))
    if limit is None or limit < 1:
        return None
    left = _plain_number(headers.get(name.format(what, "remaining")))
    reset = headers.get(name.format(what, "reset"))
    reset_s = until_s(reset, now) if reset else None
    return Quota(
        limit,
        left if left is not None and 0 <= left <= limit else None,
        reset_s if reset_s is not None and reset_s >= 0 else None,
    )


def _plain_number(text: str | None) -> float | None:
    try:
        number = float(text) if text is not None else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) else None


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
