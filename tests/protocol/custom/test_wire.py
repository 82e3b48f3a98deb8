"""Replies of custom roles: which shapes are read."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import orjson
import pytest

from cts_async.errors import UnusableOutput
from cts_async.llm.redact import Redactor
from cts_async.protocol.custom import wire
from cts_async.protocol.custom.wire import reply_value, response_of


@pytest.mark.parametrize(
    "value",
    [
        {"N1": "full"},
        [("N1", "full")],
        [["N1", "full"]],
        [{"id": "N1", "coverage": "full"}],
        (MappingProxyType({"id": "N1", "coverage": "full"}),),
    ],
)
def test_labels_are_read_in_each_shape(value: Any) -> None:
    text = response_of("judge", value)["text"]
    assert orjson.loads(text) == {"results": [{"id": "N1", "coverage": "full"}]}


@pytest.mark.parametrize(
    "value",
    [
        [{"id": 'N"1\n', "coverage": "full"}, {"id": "N2", "coverage": "Ganz – voll"}],
        [{"coverage": "full", "id": 'N"1\n'}, {"id": "N2", "coverage": "Ganz – voll", "reason": ["clear"]}],
        [('N"1\n', "full"), ("N2", "Ganz – voll")],
    ],
)
def test_equal_labels_are_stored_as_the_same_text(value: Any) -> None:
    text = '{"results":[{"id":"N\\"1\\n","coverage":"full"},{"id":"N2","coverage":"Ganz – voll"}]}'
    assert response_of("judge", value) == {"text": text}


class Text(str):
    """A text to Python, and to its JSON."""


@pytest.mark.parametrize("label", ["full", Text("full")])
def test_key_in_a_label_is_taken_out(label: str, monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = Redactor()
    secrets.add("sk-0123456789abcdef")
    monkeypatch.setattr(wire, "SECRETS", secrets)
    value = [{"id": "sk-0123456789abcdef", "coverage": label}]
    assert response_of("judge", value) == {"text": '{"results":[{"id":"(key)","coverage":"full"}]}'}


def test_wrong_reply_of_many_fields_is_one_short_line() -> None:
    reply = {f"field {n} {'x' * 1000}": n for n in range(300)}
    with pytest.raises(
        UnusableOutput, match=r"expected the field 'answer', got 'field 0 .*, 292 more$"
    ) as caught:
        reply_value("answerer", reply, "exec:x")
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("value", [["ab"], [{"N1", "full"}], [("N1",)], [{"id": "N1"}], [("N1", 1)]])
def test_labels_without_a_definite_id_are_refused(value: Any) -> None:
    with pytest.raises(UnusableOutput, match="expected an id and a label"):
        response_of("judge", value)
