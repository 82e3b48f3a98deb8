"""One account's lane in many processes, as one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async.engine.events import LaneStatus, merged
from cts_async.engine.lanes_of_many import LanesOfMany

CALM = LaneStatus(
    name="gpt",
    in_flight=0,
    waiting=0,
    places=8,
    sent=0,
    tokens=0.0,
    requests_per_min=None,
    tokens_per_min=None,
    answers_429=0,
    paused_s=0.0,
    probe_s=None,
    reason="",
    gone=False,
)


def test_what_is_counted_is_summed() -> None:
    one = replace(CALM, in_flight=3, waiting=2, sent=100, tokens=1500.0, answers_429=1)
    other = replace(CALM, in_flight=8, waiting=5, places=16, sent=40, tokens=500.0, answers_429=2)
    together = merged([one, other])
    assert (together.in_flight, together.waiting, together.places) == (11, 7, 24)
    assert (together.sent, together.tokens, together.answers_429) == (140, 2000.0, 3)


def test_of_the_limits_that_they_know_the_lowest_counts() -> None:
    told = merged([replace(CALM, requests_per_min=600.0), CALM, replace(CALM, requests_per_min=570.0)])
    assert (told.requests_per_min, told.tokens_per_min) == (570.0, None)


def test_the_longest_pause_counts_and_the_earliest_look_at_an_outage() -> None:
    out = replace(CALM, probe_s=34.0, reason="HTTP 503")
    told = merged([CALM, out, replace(CALM, probe_s=4.0, reason="no answer", paused_s=2.0)])
    assert (told.probe_s, told.reason, told.paused_s, told.gone) == (4.0, "HTTP 503", 2.0, False)


def test_a_provider_that_is_gone_for_one_is_gone() -> None:
    out = replace(CALM, probe_s=34.0, reason="HTTP 503")
    told = merged([out, CALM, replace(CALM, gone=True, reason="HTTP 401")])
    assert (told.gone, told.reason, told.probe_s) == (True, "HTTP 401", None)


def test_one_alone_is_as_it_says() -> None:
    alone = replace(CALM, in_flight=3, sent=9, requests_per_min=60.0, paused_s=2.0, probe_s=1.0, reason="503")
    assert merged([alone]) == alone


def test_lanes_are_named_once_in_the_order_of_their_use() -> None:
    lanes = LanesOfMany()
    assert lanes.heard("w1", [CALM]) == ["gpt"]
    assert lanes.heard("w2", [CALM, replace(CALM, name="kimi")]) == ["kimi"]
    assert lanes.heard("w1", [CALM]) == []
    assert lanes.names() == ["gpt", "kimi"]
    with pytest.raises(KeyError):
        lanes.status("ernie")


def test_of_one_that_is_gone_only_what_it_sent_is_left() -> None:
    lanes = LanesOfMany()
    lanes.heard("w1", [replace(CALM, in_flight=3, waiting=1, sent=100, tokens=1500.0, answers_429=2)])
    lanes.heard("w2", [replace(CALM, sent=10, probe_s=9.0, reason="HTTP 503")])
    lanes.gone("w2")
    lanes.gone("w1")
    assert lanes.status("gpt") == replace(CALM, places=0, sent=110, tokens=1500.0, answers_429=2)
    # It comes again under another name.
    lanes.heard("w3", [replace(CALM, in_flight=1, sent=5)])
    assert (lanes.status("gpt").sent, lanes.status("gpt").in_flight) == (115, 1)


def test_a_late_word_of_one_that_is_gone_counts_no_more() -> None:
    lanes = LanesOfMany()
    lanes.heard("w1", [replace(CALM, sent=100)])
    lanes.gone("w1")
    lanes.gone("w1")
    assert lanes.heard("w1", [replace(CALM, sent=120), replace(CALM, name="kimi")]) == []
    assert (lanes.status("gpt").sent, lanes.names()) == (100, ["gpt"])


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9), st.booleans()), max_size=60))
def test_what_was_sent_only_ever_grows(happened: list[tuple[int, int, bool]]) -> None:
    """Workers 0 to 4 send so many more and say so, or are gone; in whatever order."""
    lanes, sent, seen = LanesOfMany(), [0] * 5, 0
    gone: set[int] = set()
    lanes.heard("first", [CALM])
    for worker, more, leaves in happened:
        if leaves:
            lanes.gone(str(worker))
            gone.add(worker)
            continue
        sent[worker] += more * (worker not in gone)
        lanes.heard(str(worker), [replace(CALM, sent=sent[worker])])
        now = lanes.status("gpt").sent
        assert now >= seen
        seen = now
    assert lanes.status("gpt").sent == sum(sent)
