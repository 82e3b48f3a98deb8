"""Parameters of requests: which numbers of theirs a budget relies on, and what such a number may be.

They come from strangers: a folder's cts.toml, and through the gateway from code that plays a role. A budget reserves the
most that a call may cost before it is sent, so a parameter that could make it cost more, or the reservation negative, is
refused where it enters.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any, Final

import orjson

from cts_async.foreign_json import NestedTooDeeply, check_depth

__all__ = ["SAMPLING", "output_limit", "params_problem", "tier_params_problem", "uncounted_bytes"]

OUTPUT_LIMITS: Final = (
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "n_predict",
    "max_new_tokens",
    "num_predict",
)
"""Names that limit a reply's tokens: OpenAI's old and new one, the Responses API's; llama.cpp's, TGI's and Ollama's."""
MAX_OUTPUT_TOKENS: Final = 10_000_000
"""More than any model writes in one reply; a sum of a thousand of them is an exact number."""
REPLY_COUNTS: Final = ("n", "best_of", "num_return_sequences", "candidate_count")
"""Names that ask for several replies: all are charged, and only the first is read."""
SAMPLING: Final = frozenset(
    [
        "frequency_penalty",
        "max_tokens",
        "min_p",
        "presence_penalty",
        "reasoning_effort",
        "repetition_penalty",
        "seed",
        "temperature",
        "top_k",
        "top_p",
    ]
)
"""Names that steer how a reply is sampled, as plain values."""
OWN_FIELDS: Final = ("model", "messages")
"""Fields of a request that are no parameters: as such they would replace what was counted."""


def params_problem(params: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the first parameter that cannot be sent, and what is wrong with it; None if all can."""
    for name, value in params.items():
        if name in OWN_FIELDS:
            return name, "is no parameter: the request has its own"
        if name in OUTPUT_LIMITS and not _is_output_limit(value):
            return name, f"must be an integer from 1 to {MAX_OUTPUT_TOKENS:,}; leave it out for no limit"
        if name in REPLY_COUNTS and not _is_one(value):
            return name, "must be 1: every reply is charged, and only the first is read"
        try:
            check_depth(value)
        except NestedTooDeeply as error:
            return name, str(error)
        if not _all_finite(value):
            return name, "must be a finite number"
    return None


def tier_params_problem(params: Mapping[str, Any]) -> tuple[str, str] | None:
    """`params_problem` of the parameters that ask for a tier, which must not change what is replied, nor its price."""
    for name in params:
        if name in SAMPLING or name in OUTPUT_LIMITS or name == "stop":
            return (
                name,
                "changes replies, and a tier must not: its steps are those of the model's other tiers",
            )
    return params_problem(params)


def output_limit(params: Mapping[str, Any]) -> int | None:
    """The most tokens that a reply may have by a request's parameters; None where they set no limit."""
    if not params:
        return None
    # null is what some clients send for no limit.
    limits = [params[name] for name in OUTPUT_LIMITS if params.get(name) is not None]
    return max(limits, default=None)


def uncounted_bytes(params: Mapping[str, Any]) -> int:
    """Bytes of parameters that a model reads beside the messages: descriptions of tools, a schema of the reply."""
    size = 0
    for value in params.values():
        # Numbers, as nearly all parameters are, only set how the model samples.
        if isinstance(value, (str, list, dict)):
            size += len(orjson.dumps(value))
    return size


def _is_output_limit(value: object) -> bool:
    if value is None:
        return True
    # True is an integer to Python, and "9" or 9.0 one to lenient servers only.
    if isinstance(value, bool) or not isinstance(value, int):
        return False
    return 1 <= value <= MAX_OUTPUT_TOKENS


def _is_one(value: object) -> bool:
    if value is None:
        return True
    return not isinstance(value, bool) and value == 1


def _all_finite(value: object) -> bool:
    if isinstance(value, float):
        return isfinite(value)
    if isinstance(value, Mapping):
        return all(map(_all_finite, value.values()))
    if isinstance(value, (list, tuple)):
        return all(map(_all_finite, value))
    return True
