"""Whatever a server sends as a reply ends its own step at worst: arbitrary JSON in every field of each API."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, cast

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cts_async.engine.lane import Lane, LaneLimits
from cts_async.errors import CTSError, RunStopped, StepError, UnusableOutput
from cts_async.llm import json_text
from cts_async.llm.apis import load_api
from cts_async.llm.catalog import ModelSpec
from cts_async.llm.coverage import CoverageList
from cts_async.llm.model import Client, Completion, Model, _parse
from cts_async.llm.parsing import Choice, Clarification, Expect, OneLine, QuestionList, ShortPhrase
from cts_async.llm.redact import Redactor
from cts_async.llm.responses import read_reply
from cts_async.protocol.gold_check import GoldForm, NumberedSource
from cts_async.search.agent import AgentTurn
from cts_async.search.evidence import EvidenceForm

Path_ = tuple[str | int, ...]
SOURCE = NumberedSource("S1", "https://a.example/", "A", "The ferry leaves at nine in June.")
FORMS: tuple[Expect[Any], ...] = (
    ShortPhrase(),
    OneLine(),
    QuestionList(2),
    Clarification(1, reasoning=True, types=True),
    Clarification(2, "queries"),
    Choice(("this", "that")),
    CoverageList(("N1", "N2")),
    EvidenceForm(),
    GoldForm((SOURCE,)),
    AgentTurn(must_answer=False),
    Completion(),
)


def nested(depth: int, opening: str = "[", closing: str = "]") -> str:
    return opening * depth + "1" + closing * depth


DEPTHS = (99, 300, 1015, 5000)
RAW = [
    *(nested(depth) for depth in DEPTHS),
    *(nested(depth, '{"a":', "}") for depth in DEPTHS),
    *(
        "9" * 5000,
        "-1e400",
        "18446744073709551616",
        '"\\ud800"',
        '{"\\udfff": NaN}',
        '"' + "x" * 20_000 + '"',
    ),
]
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=()), max_size=8)
    | st.sampled_from(
        ["stop", "length", "text", "error", "thinking", "content_filter", "rate_limit_exceeded"]
    )
    | st.sampled_from([400, 401, 402, 404, 429, 500, 2**64, 10**400, -1])
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text(max_size=4) | st.sampled_from(["type", "text", "code", "message", "thinking"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)

OPENAI: dict[str, Any] = {
    "model": "m-1",
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "unknown",
                "reasoning_content": "Hm.",
                "refusal": None,
                "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}],
            },
            "finish_reason": "stop",
        }
    ],
    "usage": {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9},
}
PARTS = {
    **OPENAI,
    "choices": [{"message": {"content": [{"type": "thinking", "thinking": "x"}, {"type": "text"}]}}],
}
CHUNK = {"model": "m", "choices": [{"index": 0, "delta": {"content": "x", "tool_calls": [{"function": {}}]}}]}
ANTHROPIC: dict[str, Any] = {
    "type": "message",
    "model": "m-1",
    "content": [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "unknown"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 7, "output_tokens": 2, "cache_read_input_tokens": 0},
}
DELTA = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x"}}
START = {"type": "message_start", "message": {"usage": {}, "content": []}}
ERROR = {
    "error": {
        "message": "m",
        "type": "t",
        "code": "c",
        "param": "p",
        "status": "s",
        "details": [{"@type": "x"}],
    }
}
BODIES = (OPENAI, PARTS, CHUNK, ANTHROPIC, DELTA, START, ERROR)


def paths_in(value: Any, path: Path_ = ()) -> list[Path_]:
    """The way to each place in a JSON value, the whole included."""
    found: list[Path_] = [path]
    inner: Sequence[tuple[str | int, Any]] = ()
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    for name, item in inner:
        found += paths_in(item, (*path, name))
    return found


def replaced(value: Any, path: Path_, new: Any) -> Any:
    if not path:
        return new
    if isinstance(value, dict):
        return {
            name: replaced(item, path[1:], new) if name == path[0] else item for name, item in value.items()
        }
    return [replaced(item, path[1:], new) if n == path[0] else item for n, item in enumerate(value)]


def spec_of(api: str) -> ModelSpec:
    return ModelSpec("mine", api, "http://a.example/v1", "m-1", None, "mine", 8)


def check(api: str, status: int, data: bytes) -> None:
    """Read a response as a step does: it has a reply that can be recorded, or ends with one of our errors."""
    data = REDACTOR.body(data, good=status == 200)
    spec = spec_of(api)
    failed: CTSError | None = None
    try:
        reply = read_reply(load_api(api), spec, status, {}, data, now=0.0)
    except (StepError, RunStopped) as error:
        failed = error
    if failed is not None:
        orjson.dumps(str(failed))
        assert len(str(failed)) < 1000
        return
    model = Model(spec, cast(Client, None), Lane("mine", LaneLimits()))
    for form in FORMS:
        response = model._response(reply, form)
        assert orjson.loads(orjson.dumps({"response": response})) == {"response": response}
        with suppress(StepError):
            _parse(response, form)


REDACTOR = Redactor()
REDACTOR.add("sk-0123456789abcdef")
SENT = [(body, path) for body in BODIES for path in paths_in(body)]


def framed(body: Any, text: str) -> list[bytes]:
    """A body as it is, and as the only event of a stream."""
    data = text.encode("utf-8", "surrogatepass")
    return [data, b"data: " + data + b"\n\ndata: [DONE]\n\n"]


@given(st.sampled_from(SENT), values, st.sampled_from([200, 200, 400, 429, 500]), st.booleans())
@example((OPENAI, ("choices", 0, "message", "content")), float("nan"), 200, False)
@example((OPENAI, ("usage", "prompt_tokens")), 10**400, 200, False)
def test_any_json_in_any_field_ends_no_more_than_its_step(
    place: tuple[Any, Path_], value: Any, status: int, with_key: bool
) -> None:
    body, path = place
    changed = replaced(body, path, value)
    if with_key and isinstance(changed, dict):
        changed = {**changed, "id": "sk-0123456789abcdef"}
    for data in framed(changed, json.dumps(changed)):
        for api in ("openai", "anthropic"):
            check(api, status, data)


@pytest.mark.parametrize("raw", RAW, ids=lambda raw: f"{raw[:12]}x{len(raw)}")
def test_depth_and_length_in_any_field_end_no_more_than_their_step(raw: str) -> None:
    for body, path in SENT:
        text = json.dumps(replaced(body, path, "(here)")).replace('"(here)"', raw, 1)
        for data in framed(body, text):
            for api in ("openai", "anthropic"):
                check(api, 200, data)
        check("openai", 400, text.encode())


@given(values, st.sampled_from(["", "```json\n", "Sure: ", "<think>a</think>", "[THINK]a[/THINK]"]))
def test_any_text_of_a_reply_is_a_value_or_unusable(value: Any, before: str) -> None:
    for text in (json.dumps(value), json.dumps({"id": value, "coverage": "full"}), str(value)):
        for form in FORMS:
            with suppress(UnusableOutput):
                form.parse(before + text.encode("utf-8", "replace").decode())


@pytest.mark.parametrize("raw", RAW, ids=lambda raw: f"{raw[:12]}x{len(raw)}")
def test_deep_or_long_json_in_a_reply_is_unusable_at_worst(raw: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # All forms look for the same brackets, for a third of the time of all these tests.
    monkeypatch.setattr(json_text, "_spans", cache(json_text._spans))
    texts = (
        raw,
        f'{{"id": {raw}, "coverage": "full"}}',
        f'{{"results": [{{"id": {raw}, "coverage": "full"}}]}}',
        f'{{"N1": {raw}, "N2": "full"}}',
        f'{{"questions": {raw}}}',
        f'{{"reasoning": {raw}, "ambiguity_types": {raw}, "questions": ["a"]}}',
        f'{{"choice": {raw}}}',
        f"{{'id': {raw}, 'coverage': 'full'",
        f'<tool_call>{{"name": "search", "arguments": {{"query": {raw}}}}}</tool_call>',
        f'<tool_call>{{"name": {raw}}}</tool_call>',
    )
    for text in texts:
        for form in FORMS:
            with suppress(UnusableOutput):
                form.parse(text)


def test_deep_verdict_is_this_step_s_error() -> None:
    text = '{"id":' + nested(300) + ',"coverage":"full"}'
    with pytest.raises(UnusableOutput):
        CoverageList(("N1",)).parse(text)


def test_errors_keep_their_kind_whatever_their_codes_are() -> None:
    body: Mapping[str, Any] = {"error": {"message": "odd", "code": [[["rate_limit_exceeded"]]]}}
    with pytest.raises(CTSError, match="odd"):
        read_reply(load_api("openai"), spec_of("openai"), 429, {}, orjson.dumps(body), now=0.0)
