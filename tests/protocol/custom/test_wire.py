"""Replies of custom roles: which shapes are read."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import orjson
import pytest

from cts_async.errors import UnusableOutput
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
