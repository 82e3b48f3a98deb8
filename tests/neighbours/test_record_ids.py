"""Record ids of Qulac: its README's examples, what is refused, and the round trip."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async.neighbours.qulac.collection import encode_facet_id
from cts_async.neighbours.qulac.records import (
    RecordId,
    decode_facet_id,
    decode_record_id,
    encode_record_id,
)

NUMBERS = st.integers(1, 10**9 - 1)
ASKED = st.builds(
    RecordId, NUMBERS, NUMBERS, st.lists(NUMBERS, max_size=2).map(tuple), NUMBERS, st.booleans()
)
UNASKED = st.builds(RecordId, NUMBERS, NUMBERS, st.just(()), st.just(0), st.just(False))


@pytest.mark.parametrize(
    ("text", "record"),
    [
        ("18-2-1-2-10-1", RecordId(18, 2, (1, 2), 10, True)),
        ("18-2-1-2-10-0", RecordId(18, 2, (1, 2), 10, False)),
        ("25-1-3-8-1", RecordId(25, 1, (3,), 8, True)),
        ("18-2-10-1", RecordId(18, 2, (), 10, True)),
        ("18-2-0-0", RecordId(18, 2, (), 0, False)),
    ],
)
def test_the_readme_s_examples_decode(text: str, record: RecordId) -> None:
    assert decode_record_id(text) == record
    assert encode_record_id(record) == text


@given(ASKED | UNASKED)
def test_what_is_encoded_decodes_to_itself(record: RecordId) -> None:
    assert decode_record_id(encode_record_id(record)) == record
    assert decode_facet_id(record.facet_id) == (record.topic, record.facet)


@given(st.from_regex(r"[0-9X-]{1,14}", fullmatch=True) | st.text(max_size=9))
def test_what_decodes_is_what_would_be_written(text: str) -> None:
    try:
        record = decode_record_id(text)
    except ValueError:
        return
    assert encode_record_id(record) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "18-2",
        "18-2-1",
        "18-2-1-2",  # the flag is 0 or 1
        "18-2-1-2-3-4-1",  # three past questions
        "18-2-X-0",
        "18-2-01-1",
        "18-0-1-1",
        "18-2-3-0-0",  # no question, yet a history
        "18-2-0-1",  # no question, yet an answer
        "-18-2-1-1",
        "18-2-1-1\n",
        "١٨-2-1-1",
        "18-2-12345678901-1",
    ],
)
def test_anything_else_is_no_record_id(text: str) -> None:
    with pytest.raises(ValueError):
        decode_record_id(text)


def test_a_facet_and_a_history_have_ids_of_their_own() -> None:
    record = RecordId(18, 2, (1, 2), 10, True)
    assert (record.facet_id, record.history_id) == ("18-2", "18-2-1-2")
    assert RecordId(18, 2, (), 10, True).history_id == "18-2"
    assert encode_facet_id(18, 2) == "18-2"
    for text in ("18", "18-2-1", "18-x"):
        with pytest.raises(ValueError, match="such as 18-2: two numbers"):
            decode_facet_id(text)


def test_ids_sort_by_their_numbers() -> None:
    ids = ["18-10-1-1", "18-2-10-1", "18-2-9-1", "9-1-1-0"]
    assert sorted(ids, key=decode_record_id) == ["9-1-1-0", "18-2-9-1", "18-2-10-1", "18-10-1-1"]


def test_a_record_that_no_id_stands_for_cannot_be_made() -> None:
    for topic, history, question, answered in [(0, (), 1, True), (1, (0,), 1, True), (1, (), 0, True)]:
        with pytest.raises(ValueError):
            RecordId(topic, 1, history, question, answered)
    with pytest.raises(ValueError, match="at most 2"):
        RecordId(1, 1, (1, 2, 3), 4, True)
