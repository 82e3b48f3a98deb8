"""Which error a provider's response stands for: whose fault it is, whether it is worth a retry, and what to do.

This is the one seam where foreign failures become our errors. The words and codes of providers, and the statuses of
gateways, stand in refusals.toml, each with its source. The order of the decisions matters: an unpaid bill and a
content filter are told by many hosts under statuses that mean something else.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from cts_async.errors import (
    ContentRefused,
    CTSError,
    NoCapacity,
    PromptTooLong,
    ProviderRefused,
    RateLimited,
    RejectedError,
    RequestForbidden,
    TransientError,
)
from cts_async.foreign_json import as_list, as_object, loads
from cts_async.llm.bodies import loads_leniently
from cts_async.llm.catalog import ModelSpec, Tier
from cts_async.llm.limit_headers import (
    duration_s,
    reset_s,
    retry_after_s,
    seconds_until,
    server_time,
    spoken_duration_s,
)

_TABLES: Final = tomllib.loads(Path(__file__).with_name("refusals.toml").read_text("utf-8"))
_OPTIONAL_PARAMS: Final = frozenset(_TABLES["optional_params"])
_TRANSIENT: Final = frozenset(map(int, _TABLES["transient_statuses"]))
_LOGIN: Final = frozenset(map(int, _TABLES["login_statuses"]))

SEARCHED_CHARS: Final = 1000
"""How much of a message is searched for words; gateways put their own in front of the provider's."""
SHOWN_CHARS: Final = 300


def _pattern(words: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(words), re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Meaning:
    """How one kind of error is recognised: by a machine-readable code, or by words in its message."""

    codes: frozenset[str]
    words: re.Pattern[str]

    def is_said(self, error: _Error) -> bool:
        return bool(self.codes & error.codes) or self.words.search(error.message) is not None


@dataclass(frozen=True, slots=True)
class _Error:
    """An error as it stands in a response's body."""

    fields: Mapping[str, Any]
    codes: frozenset[str]
    """Its machine-readable codes, lower-case."""
    message: str
    """On one line, at most SEARCHED_CHARS."""
    is_page: bool
    """True for a web page in the place of an API's error."""


def _meaning(name: str) -> _Meaning:
    table = _TABLES[name]
    # No words match nothing; an empty pattern would match everything.
    words = table["words"] or [r"(?!)"]
    return _Meaning(frozenset(table["codes"]), _pattern(words))


_UNPAID, _DAY_QUOTA, _RATE_LIMIT = map(_meaning, ("unpaid", "day_quota", "rate_limit"))
_CONTENT, _FIREWALL = map(_meaning, ("content", "firewall"))
_ACCOUNT, _WRONG_KEY = map(_meaning, ("account", "wrong_key"))
_TOO_LONG, _TOO_LARGE, _UNSUPPORTED = map(_meaning, ("too_long", "too_large", "unsupported"))
_CAPACITY: Final = _meaning("capacity")
_NO_CAPACITY: Final = frozenset(map(int, _TABLES["capacity_statuses"]))
_EXPLANATIONS: Final = (_UNPAID, _DAY_QUOTA, _RATE_LIMIT, _CONTENT, _WRONG_KEY, _TOO_LONG)

# --- Errors ---------------------------------------------------------------------------------------------


def error_from_response(
    spec: ModelSpec, status: int, head: Mapping[str, str], data: bytes, now: float
) -> CTSError:
    """The error that a response stands for. `now` is the wall clock (for dates in headers)."""
    error = _read_error(data)
    text = f"{spec.name}: HTTP {status}: {error.message[:SHOWN_CHARS]}"
    if status == 200:
        status = _inner_status(error)
    if status == 402 or _is_unpaid(spec, error, status):
        return ProviderRefused(f"{text} (out of quota or credit: top up, then run the same command again)")
    if _CONTENT.is_said(error):
        return ContentRefused(text, status=status)
    if spec.asked_tier is not None and _lacks_capacity(error, status):
        patience_s = spec.asked_tier.patience_s
        wait_s = _wait_s(error, status, head, now)
        return NoCapacity(
            f"{text} (tier {spec.tier})", patience_s=patience_s, retry_after_s=wait_s, status=status
        )
    access = f"{text} (check {spec.key_env or 'the server'}; the same command resumes)"
    names_the_key = 400 <= status < 500 and _WRONG_KEY.is_said(error)
    if status == 401 or status in _LOGIN or names_the_key:
        return ProviderRefused(access)
    if status == 404:
        hint = spec.address_hint
        if not hint:
            hint = f"check that {spec.model!r} is the right model and {spec.base_url} the right server"
        return ProviderRefused(f"{text} ({hint})")
    if 300 <= status < 400:
        return ProviderRefused(f"{text} (its address has moved: correct base_url; the same command resumes)")
    if status in (400, 403) and _RATE_LIMIT.is_said(error):
        status = 429
    if status == 403:
        # The words of a firewall's page are about an address, and say nothing about the key.
        if not error.is_page and _ACCOUNT.is_said(error):
            return ProviderRefused(access)
        return RequestForbidden(text, status=status)
    wait_s = _wait_s(error, status, head, now)
    if status == 429 and not _TOO_LARGE.is_said(error):
        if wait_s is None and _DAY_QUOTA.is_said(error):
            return ProviderRefused(
                f"{text} (out of quota for now: top up or wait, then run the same command again)"
            )
        return RateLimited(text, retry_after_s=wait_s, status=status)
    if _is_too_long(error, status):
        return PromptTooLong(text, status=status)
    if status in _TRANSIENT or status >= 500 or status == 200:
        return TransientError(text, retry_after_s=wait_s, status=status)
    if error.is_page and status in (400, 406) and _FIREWALL.is_said(error):
        return RequestForbidden(text, status=status)
    return RejectedError(text, status=status)


def is_error(parsed: Any) -> bool:
    """True for the body of an error, which some servers send under HTTP 200; for parsed JSON of any shape."""
    if type(parsed) is not dict:
        return False
    error, code, kind = map(parsed.get, ("error", "error_code", "type"))
    if error or code or kind == "error":
        return True
    return "base_resp" in parsed and _minimax_code(parsed) is not None


def is_error_resource(data: bytes) -> bool:
    """True for the body of an error in the place of a file or a batch; one that has a state is none, though it may name
    errors of its own."""
    try:
        parsed = loads(data)
    except ValueError:
        return False
    if not is_error(parsed):
        return False
    # Together wraps a new batch.
    fields = as_object(parsed.get("job")) or parsed
    return not any(isinstance(fields.get(name), str) for name in ("status", "processing_status"))


def explains_itself(data: bytes) -> bool:
    """True for a body that is no completion and, without the field `error`, says what is wrong: by a status of its own
    (`{"code": 500, "msg": ...}`), or by a code or message that is known."""
    error = _read_error(data)
    if _inner_status(error) != 200:
        return True
    # Without a message of its own the body's text stands for it, which may be anything.
    if not _message(error.fields):
        error = replace(error, message="")
    return any(meaning.is_said(error) for meaning in _EXPLANATIONS)


def _lacks_capacity(error: _Error, status: int) -> bool:
    """True if a slower tier has no room at the moment: by its status alone, or by words under one that may mean it."""
    if status in _NO_CAPACITY:
        return True
    return (status in (429, 498) or status >= 500) and _CAPACITY.is_said(error)


def refuses_tier(status: int | None, data: bytes, tier: Tier) -> bool:
    """True if the response says that the model cannot be asked in this tier: it names its parameter, or its word."""
    if status not in (400, 422):
        return False
    names = [*tier.params]
    names += [word for word in tier.params.values() if isinstance(word, str)]
    return bool(_names_in(_read_error(data), names))


def _is_unpaid(spec: ModelSpec, error: _Error, status: int) -> bool:
    """True if waiting is of no use: the quota is used up for the day or for good, or a bill is due."""
    # A server in trouble quotes what it likes: its own words are believed where it refuses.
    if status < 500 and _UNPAID.words.search(error.message):
        return True
    for code in error.codes.difference(spec.rate_limit_words):
        if code in _UNPAID.codes or code.endswith("_spend_limit_exceeded"):
            return True
    # Gemini names the limits that were hit; the waiting time beside them is wrong for those of a day.
    quotas: list[str] = []
    for detail in _details(error, "QuotaFailure"):
        violations = _objects(detail.get("violations"))
        quotas += [str(violation.get("quotaId")) for violation in violations]
    return bool(quotas) and all("PerDay" in quota for quota in quotas)


def _is_too_long(error: _Error, status: int) -> bool:
    """True if a shorter request may be accepted."""
    if status in (413, 429):  # nginx and other proxies say 413 in no words at all
        return True
    if status not in (200, 400, 422, 500):
        return False
    return _TOO_LONG.is_said(error) or _TOO_LARGE.is_said(error)


def _inner_status(error: _Error) -> int:
    """The status that an error under HTTP 200 should have had; 200 if it does not say."""
    for name in _STATUS_FIELDS:
        code = error.fields.get(name)
        # Some gateways write numbers as texts.
        if isinstance(code, str) and _STATUS.fullmatch(code):
            code = int(code)
        if isinstance(code, int) and 400 <= code < 600:
            return code
    if error.codes & _RATE_LIMIT.codes:
        return 429
    return 200


# --- Waiting times --------------------------------------------------------------------------------------

_UNIT = (
    r"(?:(?:ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?)(?![a-z])"
    r"|秒钟?|分钟?|个?小时|天)"
)
_AMOUNT = rf"\d{{1,9}}(?:\.\d{{1,6}})? ?{_UNIT}"
_TIME: Final = rf"(?P<time>{_AMOUNT}(?:,? ?(?:and )?{_AMOUNT}){{0,4}})"
_DATE: Final = (
    r"(?P<date>\d{4}-\d\d-\d\d)(?:T| at | )(?P<clock>\d\d:\d\d(?::\d\d)?)(?:\.\d+)?"
    r" ?(?P<zone>Z\b|UTC|GMT|[+-]\d\d:?\d\d)?"
)
_DURATIONS: Final = tuple(
    re.compile(words.replace("{time}", _TIME), re.IGNORECASE) for words in _TABLES["waits"]["durations"]
)
_DATES: Final = tuple(
    re.compile(words.replace("{date}", _DATE), re.IGNORECASE) for words in _TABLES["waits"]["dates"]
)


def _wait_s(error: _Error, status: int, head: Mapping[str, str], now: float) -> float | None:
    """Seconds to wait, by the header made for it, else by the body, else, after a 429, by the reset headers."""
    passed_on = _passed_on_headers(error)
    for headers in (head, passed_on):
        wait_s = retry_after_s(headers, now)
        if wait_s is not None:
            return wait_s
    for detail in _details(error, "RetryInfo")[:1]:  # Gemini's waiting time stands in the body
        wait_s = duration_s(str(detail.get("retryDelay")))
    if wait_s is None:
        wait_s = wait_in_words(error.message, now)
    if wait_s is None and status == 429:
        resets = (reset_s(head, now), reset_s(passed_on, server_time(head, now)))
        wait_s = max((wait for wait in resets if wait is not None), default=None)
    return wait_s


def wait_in_words(message: str, now: float) -> float | None:
    """The longest time to wait that a message names ("try again in 7h12m0s", "resets at 2026-01-01 00:00 UTC"), in
    seconds from the wall-clock time `now`; None if it names none."""
    waits: list[float | None] = []
    for durations in _DURATIONS:
        waits += [spoken_duration_s(duration["time"]) for duration in durations.finditer(message)]
    for dates in _DATES:
        for date in dates.finditer(message):
            zone = (date["zone"] or "").upper().replace("UTC", "Z").replace("GMT", "Z")
            waits.append(seconds_until(f"{date['date']}T{date['clock']}{zone}", now))
    return max((wait for wait in waits if wait is not None and wait >= 0), default=None)


def _passed_on_headers(error: _Error) -> dict[str, str]:
    """The provider's headers that a gateway (OpenRouter) repeats in the body of an error."""
    headers = as_object(as_object(error.fields.get("metadata")).get("headers"))
    return {str(name).lower(): str(text) for name, text in headers.items()}


# --- Parameters and settings ----------------------------------------------------------------------------


def refused_parameter(
    status: int | None, data: bytes, sent: Iterable[str], defaults: Iterable[str] = ()
) -> str | None:
    """The one of the parameters `sent` that the response refuses, if the request can do without it; else None.

    One of `defaults`, which nobody has set, may be refused in any words that name it, such as a range of values.
    """
    if status not in (400, 422):
        return None
    error = _read_error(data)
    refused = _names_in(error, list(defaults))
    if not refused and _is_unsupported(error):
        refused = _names_in(error, [name for name in sent if name in _OPTIONAL_PARAMS])
    if refused:
        return refused[0]
    return None


def setting_hint(spec: ModelSpec, status: int | None, data: bytes, sent: Collection[str]) -> str:
    """What to set in cts.toml where the response refuses the form of a request with the parameters `sent`; else ""."""
    if status not in (400, 422):
        return ""
    error = _read_error(data)
    every_name = _names_in(error, sent)
    optional = [name for name in every_name if name in _OPTIONAL_PARAMS]
    names = {"": optional, "all": optional, "last": optional[-1:], "any": every_name}
    # "gpt:another-id@prompts" is set in the table of "gpt".
    model = spec.name.partition(":")[0].partition("@")[0]
    for hint in _HINTS:
        if not hint.words.search(error.message):
            continue
        if hint.unsupported and not _is_unsupported(error):
            continue
        if hint.parameters and not names[hint.parameters]:
            continue
        return hint.text.format(model=model, names='", "'.join(names[hint.parameters]))
    return ""


@dataclass(frozen=True, slots=True)
class _Hint:
    words: re.Pattern[str]
    text: str
    unsupported: bool
    """True if it is for a field that the server does not know or take at all."""
    parameters: str
    """Which parameters it speaks of: "last" or "all" of the optional ones that the message names, "any" named one."""


_HINTS: Final = tuple(
    _Hint(_pattern(row["words"]), row["hint"], row.get("unsupported", False), row.get("named", ""))
    for row in _TABLES["hints"]
)


def _is_unsupported(error: _Error) -> bool:
    words = f"{error.message} {error.fields.get('code')}".replace("_", " ")
    return _UNSUPPORTED.words.search(words) is not None


def _names_in(error: _Error, names: Iterable[str]) -> list[str]:
    """Those of `names` that the error names: the one in its field `param`, else those in its message, in its order."""
    places: dict[int, str] = {}
    for name in names:
        if name == error.fields.get("param"):
            return [name]
        place = re.search(rf"\b{re.escape(name)}\b", error.message)
        if place:
            places[place.start()] = name
    return [places[start] for start in sorted(places)]


# --- Bodies ---------------------------------------------------------------------------------------------

_CODE_FIELDS: Final = ("code", "type", "status", "error_code")
_STATUS_FIELDS: Final = ("code", "status", "error_code", "status_code")
_STATUS: Final = re.compile(r"[45]\d\d")
_MESSAGE_FIELDS: Final = ("message", "error_msg", "detail", "msg", "status_msg", "error_description", "error")
_TITLE: Final = re.compile(r"<title[^>]*>([^<]{1,200})</title>", re.IGNORECASE)


def _read_error(data: bytes) -> _Error:
    """The error in a body; without fields if it is no JSON object."""
    fields = _error_fields(data)
    codes: set[str] = set()
    for name in _CODE_FIELDS:
        if fields.get(name):
            codes.add(str(fields[name]).lower())
    minimax = _minimax_code(fields)
    if minimax is not None:
        codes.add(f"base_resp.{minimax}")
    message = " ".join(_message(fields).split()) or excerpt(data)
    is_page = data[:400].lstrip().startswith(b"<")
    return _Error(fields, frozenset(codes), message[:SEARCHED_CHARS], is_page)


def _error_fields(data: bytes) -> Mapping[str, Any]:
    """The fields of the error object in a body; Gemini wraps it in a list."""
    try:
        parsed = loads_leniently(data)
    except ValueError:
        return {}
    if isinstance(parsed, list) and parsed:
        parsed = parsed[0]
    if not isinstance(parsed, dict):
        return {}
    error = parsed.get("error", parsed)
    if isinstance(error, dict):
        return error
    if isinstance(error, str):  # xAI and Ollama: the message alone, and a code beside it
        return parsed | {"message": error}
    return {}


def _message(fields: Mapping[str, Any]) -> str:
    """The message of an error, "" if it has none; what a gateway (OpenRouter) quotes of the provider follows it."""
    message = ""
    for name in _MESSAGE_FIELDS:
        message = _as_text(fields.get(name))
        if message:
            break
    if not message:  # MiniMax
        message = _as_text(as_object(fields.get("base_resp")).get("status_msg"))
    if not message:
        for error in _objects(fields.get("errors"))[:1]:  # Cloudflare's API
            message = _as_text(error.get("message"))
    raw = as_object(fields.get("metadata")).get("raw")
    if isinstance(raw, str):
        return f"{message}: {raw}"
    return message


def _as_text(value: Any) -> str:
    """A message as text: FastAPI sends a list of problems, each with its place, and Mistral an object around it."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return _as_text(value.get("detail") or value.get("message"))
    problems: list[str] = []
    for problem in _objects(value):
        place = ".".join(map(str, as_list(problem.get("loc"))))
        problems.append(f"{place}: {problem.get('msg')}")
    return "; ".join(problems)


def _minimax_code(fields: Mapping[str, Any]) -> int | None:
    """MiniMax's error code, which stands in every reply; None for 0 or none."""
    code = as_object(fields.get("base_resp")).get("status_code")
    if isinstance(code, int) and code:
        return code
    return None


def _details(error: _Error, kind: str) -> list[dict[str, Any]]:
    """The details of Google's errors that have this type."""
    details = _objects(error.fields.get("details"))
    return [detail for detail in details if str(detail.get("@type")).endswith(kind)]


def _objects(values: Any) -> list[dict[str, Any]]:
    return [value for value in as_list(values) if isinstance(value, dict)]


def excerpt(data: bytes) -> str:
    """The beginning of a body, on one line; of a web page its title."""
    text = " ".join(data[:2000].decode(errors="replace").split())
    title = _TITLE.search(text)
    if title and text.startswith("<"):
        return f"a web page, {title[1].strip()!r}"
    return text[:200] or "(empty body)"
