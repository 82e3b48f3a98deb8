"""What a provider's refusals and failures mean, whichever API it speaks: the one seam to our errors.

Which answer is worth a retry follows the providers' documentation: 408, 409, 425, 429 and 5xx are; other 4xx
never; an exhausted quota is no rate limit; an `error` object under HTTP 200 is an error. Redirects are not followed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import orjson

from cts_async.errors import (
    ContentRefused,
    CTSError,
    ProviderRefused,
    RateLimited,
    RejectedError,
    TransientError,
)
from cts_async.llm.catalog import ModelSpec
from cts_async.llm.retry_after import duration_s, reset_s, retry_after_s

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
