"""Parameters of requests: no reservation is negative, or less than the call can be charged."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan
from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from llm_calls import FreeText, spec_at

from cts_async.engine.lane import Lane, LaneLimits
from cts_async.engine.runner import Context
from cts_async.llm.model import Client, Model, ModelCall
from cts_async.llm.params import (
    MAX_OUTPUT_TOKENS,
    OUTPUT_LIMITS,
    output_limit,
    params_problem,
    uncounted_bytes,
)


@pytest.mark.parametrize(
    "value", [-1_000_000, 0, True, 9.0, "9", [9], {}, inf, MAX_OUTPUT_TOKENS + 1, 10**400, -(10**400)]
)
@pytest.mark.parametrize("name", OUTPUT_LIMITS)
def test_limit_of_a_reply_is_an_integer_of_at_least_one(name: str, value: Any) -> None:
    problem = params_problem({"temperature": 0.0, name: value})
    assert problem == (name, "must be an integer from 1 to 10,000,000; leave it out for no limit")


@pytest.mark.parametrize(
    ("params", "wrong"),
    [
        ({"temperature": nan}, "must be a finite number"),
        ({"top_p": inf}, "must be a finite number"),
        ({"logit_bias": {"7": [1.0, -inf]}}, "must be a finite number"),
        ({"n": 5}, "must be 1: every reply is charged, and only the first is read"),
        ({"best_of": True}, "must be 1: every reply is charged, and only the first is read"),
        ({"candidate_count": [1]}, "must be 1: every reply is charged, and only the first is read"),
        ({"messages": [{"role": "user", "content": "x" * 9}]}, "is no parameter: the request has its own"),
        ({"model": "o9-dear"}, "is no parameter: the request has its own"),
    ],
)
def test_parameter_that_would_escape_a_budget_is_named(params: dict[str, Any], wrong: str) -> None:
    (name,) = params
    assert params_problem(params) == (name, wrong)


def test_usual_parameters_and_null_are_accepted() -> None:
    usual = {"temperature": 0.6, "top_k": -1, "stop": ["\n"], "n": 1, "max_tokens": None, "seed": -5}
    assert params_problem(usual) is None
    assert output_limit(usual) is None
    assert output_limit({**usual, "max_completion_tokens": 7, "n_predict": 9}) == 9


class _Job:
    id = "s01"


class _Call:
    """As much of a Context as a step's key needs."""

    job = _Job()


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(-5, 50), st.floats(), st.text(max_size=30)
)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3), max_leaves=5)
NAMES = st.sampled_from([*OUTPUT_LIMITS, "n", "best_of", "temperature", "tools", "messages", "model"])


@given(st.dictionaries(NAMES, VALUES), st.text(max_size=200), st.integers(0, 40))
@example({"max_tokens": -1_000_000}, "hi", 0)
@example({"tools": ["x" * 5000]}, "hi", 0)
def test_no_reservation_is_negative_or_below_what_a_call_can_be_charged(
    params: dict[str, Any], prompt: str, used: int
) -> None:
    """Charged is at most a token for every two bytes that the model reads, and the reply's own limit."""
    if params_problem(params) is not None:
        return
    spec = replace(spec_at("http://127.0.0.1:9/v1"), input_usd_per_mtok=1.0, output_usd_per_mtok=2.0)
    model = Model(spec, cast(Client, None), Lane("mine", LaneLimits()))
    messages = [{"role": "user", "content": prompt}]
    call = ModelCall("ask", messages, FreeText(), {}, params=params, key_on=["p"])
    step = model.step(cast(Context, _Call()), call)
    assert step.most_usage is not None
    most = step.most_usage(None)
    n_read = len(prompt.encode()) + uncounted_bytes(params)
    limit = output_limit(params)
    assert most.input_tokens >= n_read / 2 >= 0
    assert most.output_tokens >= (used if limit is None else limit) > -1
    assert step.reserved >= 0
    assert step.prices is not None
    assert step.prices.usd(most) >= (n_read / 2 * 1.0 + most.output_tokens * 2.0) / 1e6
