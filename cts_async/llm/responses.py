"""What a provider's HTTP responses mean, whichever API it speaks: replies and finish reasons.

Errors are read in `refusals.py`, limits and waiting times in `limit_headers.py`. An `error` object under HTTP 200 is an
error. Redirects are not followed.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import orjson

from cts_async.errors import NoCompletion, TransientError
from cts_async.foreign_json import NestedTooDeeply
from cts_async.llm.apis import Api, Reply
from cts_async.llm.bodies import BrokenStream, UnreadableBody, parse_body
from cts_async.llm.catalog import ModelSpec
from cts_async.llm.limit_headers import quotas_in
from cts_async.llm.refusals import error_from_response, excerpt, explains_itself, is_error

_WORDS: Final = tomllib.loads(Path(__file__).with_name("responses.toml").read_text("utf-8"))


def read_reply(
    api: Api,
    spec: ModelSpec,
    status: int,
    head: Mapping[str, str],
    data: bytes,
    now: float,
    *,
    with_limits: bool = True,
) -> Reply:
    """Read a response. Raises the error that it stands for; `now` is the wall clock (for dates in headers).

    The limits that its headers name are read only `with_limits`.
    """
    if status != 200:
        raise error_from_response(spec, status, head, data, now)
    try:
        parsed, strict = parse_body(api, data)
    except BrokenStream as broken:
        raise TransientError(f"{spec.name}: the server broke its reply off ({broken})", status=200) from None
    except (NestedTooDeeply, UnreadableBody) as problem:
        raise NoCompletion(f"{spec.name}: the response is not a chat completion: {problem}") from None
    except ValueError:
        problem_text = f"{spec.name}: the response is not a chat completion: {excerpt(data)}"
        raise TransientError(problem_text, status=status) from None
    if not strict:
        data = orjson.dumps(parsed)
    if is_error(parsed):
        raise error_from_response(spec, status, head, data, now)
    quotas = None
    if with_limits:
        quotas = quotas_in(head, now)
    try:
        reply = api.reply(parsed, quotas)
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError):
        if explains_itself(data):  # as Zhipu's and SiliconFlow's
            raise error_from_response(spec, status, head, data, now) from None
        raise NoCompletion(
            f"{spec.name}: the response is not a chat completion (api = {spec.api!r}): {excerpt(data)}"
        ) from None
    if reply.finish_reason == ABORTED:
        raise TransientError(f"{spec.name}: the server broke its reply off", status=status)
    return reply


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
