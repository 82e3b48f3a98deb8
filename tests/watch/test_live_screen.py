"""Progress as a screen of fixed sizes, and in plain lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_live import cluster, lane, live, part, scored, worker

from cts_async.engine.events import CircuitChanged, LanePaused, LimitLearned, Notice, Stopping
from cts_async.watch.live import LiveFile, LiveWorker, short_number
from cts_async.watch.screen import (
    MANY,
    LiveScreen,
    labels,
    notable,
    one_by_one,
    part_mean,
    progress_line,
    state_of,
    worker_state,
    workers_line,
)


def drawn(*lives: LiveFile, width: int = 80, height: int = 23, foot: tuple[str, ...] = ()) -> list[str]:
    return [line.plain for line in LiveScreen(lives, foot).lines(width, height)]


ORIG = part("d-orig", 10, **scored(40.0, 4.0))
GPT = part("d-gpt-k1", 5, n_failed=2, eta_s=750.0, **scored(54.2, 3.1))
BUSY = lane("gpt", in_flight=12, waiting=30, places=64, calls_per_min=1180.0, calls_allowed=1200.0)


def test_run_has_a_bar_provider_a_line_and_process_its_costs() -> None:
    state = live([ORIG, GPT], [BUSY], calls=1180, tokens=410_000, spent_usd=0.52, max_usd=2.0, eta_s=750.0)
    assert drawn(state) == [
        "orig    ━━━━━━━━━━━━━━━━  10/10            40.0 ± 4.0  done",
        "gpt-k1  ━━━━━━━━────────   5/10  2 failed  54.2 ± 3.1  12:30 left",
        "all     ━━━━━━━━━━━━────  15/20                        12:30 left",
        "provider  in flight  waiting    calls/min  tokens/min  429s",
        "gpt           12/64       30  1,180/1,200           0     0",
        "1,180 calls, 2 failed, 410k tokens, $0.52 of $2.00, 1:00 so far",
    ]


def test_outage_shows_next_probe_and_reason() -> None:
    out = lane("gpt", waiting=7, open_s=34.0, reason="HTTP 503", answers_429=3, calls_per_min=5.0)
    slow = lane("kimi", in_flight=1, paused_s=12.0, answers_429=3)
    lines = drawn(live([part("a", note="waiting for gpt")], [out, slow]))
    assert lines[0] == "a  ────────────────  0/10  waiting for gpt"
    assert lines[2].endswith("outage, next probe in 34 s: HTTP 503")
    assert lines[3].endswith("waiting 12 s")


SYSTEMS = [f"hard518-{name}-k{k}" for name in ("gpt", "claude", "gemini", "kimi") for k in (1, 2, 3)]
PROVIDERS = ["gpt", "claude", "gemini", "kimi", "ernie", "webdancer"]


def test_finished_and_idle_rows_fold_for_lack_of_room() -> None:
    parts = [part("d-orig", 10), part("d-gold", 10), *(part(f"d-gpt-k{k}", 1) for k in (1, 2, 3))]
    lanes = [lane("gpt", in_flight=1), lane("serper"), lane("jina")]
    lines = drawn(live(parts, lanes), height=9)
    assert lines == [
        "gpt-k1  ━───────────────   1/10",
        "gpt-k2  ━───────────────   1/10",
        "gpt-k3  ━───────────────   1/10",
        "2 done: orig, gold",
        "all     ━━━━━━━─────────  23/50",
        "provider  in flight  waiting  calls/min  tokens/min  429s",
        "gpt             1/8        0          0           0     0",
        "2 idle: serper, jina",
        "0 calls, 0 tokens, 1:00 so far",
    ]


def test_narrow_terminal_has_fewer_columns_and_cuts_no_number() -> None:
    kimi = part("kimi-k3", 40, 518, n_failed=6, eta_s=4000.0, **scored(54.2, 13.1))
    paused = lane("openai", in_flight=5, calls_per_min=4321.0, calls_allowed=5000.0, paused_s=12.0)
    lines = {width: drawn(live([kimi], [paused]), width=width) for width in (80, 60, 44, 30)}
    assert lines[80][0] == "kimi-k3  ━───────────────  40/518  6 failed  54.2 ± 13.1  1:06:40 left"
    assert lines[60][0] == "kimi-k3  ━───────────────  40/518  54.2 ± 13.1  1:06:40 left"
    assert lines[44][0] == "kimi-k3  ━───────────────  40/518"
    assert lines[30][0] == "kimi-k3  40/518"
    assert lines[60][2] == "openai          5/8  4,321/5,000     0  waiting 12 s"
    assert lines[44][2] == "openai          5/8  waiting 12 s"


def test_idle_runs_follow_as_far_as_there_is_room() -> None:
    state = live([part("a")])
    assert drawn(state, foot=("b: finished",))[-1] == "b: finished"
    lines = drawn(state, height=4, foot=("b: finished", "c: finished", "d: finished"))
    assert lines[-2:] == ["b: finished", "2 more are not running"]


REMOTE = cluster(
    [
        worker("w1"),
        worker("w2", host="node-b", state="idle", in_hand=0, done=12_345),
        worker("w3", state="lost", in_hand=0, calls_per_min=0.0, note="its process died"),
    ],
    wanted=2,
    address="ray://head:10001",
)


def test_workers_have_a_line_for_all_and_one_each() -> None:
    state = live([part("a", 4)], [lane("gpt", in_flight=1)], **REMOTE)
    assert drawn(state)[3:] == [
        "2 workers on 2 hosts, 1 lost; 8 tasks in flight, 1 idle; ray://head:10001",
        "worker      host        in flight     done  calls/min  state",
        "w1          node-a              8      120        180  working",
        "w2          node-b              0      12k        180  idle",
        "w3          node-a              0      120          0  lost: its process died",
        "0 calls, 0 tokens, 1:00 so far",
    ]


def test_twelve_systems_six_providers_and_sixty_four_workers_fit_80_by_24() -> None:
    parts = [part(name, 123, 518, eta_s=4000.0, n_failed=2, **scored(54.2, 3.1)) for name in SYSTEMS]
    lanes = [lane(name, in_flight=3, answers_429=1, paused_s=9.0, calls_per_min=99.0) for name in PROVIDERS]
    workers = [worker(f"w{n}", host=f"node-{n % 8}", in_hand=n % 9) for n in range(64)]
    shared = cluster(workers, 64, "ray://head:10001")
    state = live(parts, lanes, calls=123_456, retries=99, eta_s=4000.0, **shared)
    lines = drawn(state)
    assert len(lines) <= 23
    assert "64 workers on 8 hosts; 252 tasks in flight; ray://head:10001" in lines
    text = "\n".join(lines)
    assert text.count("123/518  2 failed  54.2 ± 3.1  1:06:40 left") == 12
    assert text.count("waiting 9 s") == 6
    assert "…" not in text
    assert len(drawn(state, width=200, height=500)) == len(lines)


def test_control_characters_are_replaced() -> None:
    state = live(
        [part("a\x1b[2J", note="waiting for \x9b1A")], [lane("x\x07", open_s=1.0, reason="\x1b]0;no")]
    )
    lines = drawn(state)
    assert "".join(lines).isprintable()
    assert lines[0].startswith("a?[2J")
    hostile = worker("w\x07", host="\x9b1A", note="\x1b]0;no")
    assert "".join(drawn(live([part("a")], **cluster([hostile], 1, "\x1b[2J")))).isprintable()


@given(
    st.integers(20, 200),
    st.integers(1, 60),
    st.lists(st.tuples(st.text(max_size=40), st.integers(0, 20), st.integers(0, 20)), max_size=20),
    st.lists(st.tuples(st.text(max_size=30), st.integers(0, 99), st.text(max_size=50)), max_size=8),
    st.lists(
        st.tuples(st.text(max_size=30), st.sampled_from(["idle", "lost"]), st.text(max_size=50)), max_size=70
    ),
    st.text(max_size=30),
)
def test_screen_never_exceeds_the_terminal(
    width: int,
    height: int,
    runs: list[tuple[str, int, int]],
    providers: list[tuple[str, int, str]],
    others: list[tuple[str, str, str]],
    address: str,
) -> None:
    parts = [part(f"{name}{n}", done, expected) for n, (name, done, expected) in enumerate(runs)]
    lanes = [lane(name, in_flight=busy, reason=reason) for name, busy, reason in providers]
    workers = [worker(name, host=name, state=state, note=note) for name, state, note in others]
    state = live(parts, lanes, **cluster(workers, 8, address))
    lines = LiveScreen([state], ("foot",)).lines(width, height)
    assert len(lines) <= height
    assert all(line.cell_len <= width for line in lines)


def test_line_shows_progress_effort_and_time_left() -> None:
    state = live([part("a", 9, 14, calls=1, tokens=950)])
    assert progress_line(state) == "9/14 instances, 1 call, 950 tokens"
    state = live(
        [part("a", 9, 14, n_failed=1, calls=1, replayed=1, retries=2, tokens=1000, **scored(54.2, 3.1))],
        eta_s=750.0,
    )
    assert progress_line(state) == (
        "9/14 instances, 1 call, 1 replayed, 2 retries, 1 failed, 1.0k tokens, 12:30 left; mean 54.2 ± 3.1"
    )


def test_line_has_the_mean_of_each_of_several_runs() -> None:
    state = live([part("d-orig", 3, **scored(40, 2)), part("d-gpt-k1", 3, **scored(50, 2)), part("d-kimi")])
    assert progress_line(state) == "6/30 instances, 0 calls, 0 tokens; orig 40.0 ± 2.0, gpt-k1 50.0 ± 2.0"


def test_smoke_test_is_marked_next_to_its_mean() -> None:
    assert part_mean(part("a", **scored(26.56, 1.0), smoke_test=True)) == "26.6 ± 1.0 (smoke test)"
    assert part_mean(part("a", mean=26.56)) == "26.6"


def test_mean_has_no_interval_below_5_scores() -> None:
    assert part_mean(part("a", **scored(26.56, 1.0, n=4))) == "26.6"
    assert part_mean(part("a", **scored(26.56, 60.0, n=5))) == "26.6 ± 60.0"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, ""),
        ({"paused_s": 12.3}, "waiting 12 s"),
        ({"open_s": 34.0, "reason": "HTTP 503"}, "outage, next probe in 34 s: HTTP 503"),
        ({"open_s": 0.0, "reason": "HTTP 503"}, "outage, probing: HTTP 503"),
        ({"reason": "HTTP 401"}, "gone: HTTP 401"),
        ({"open_s": 34.0, "reason": "gpt: HTTP 503"}, "outage, next probe in 34 s: HTTP 503"),
        ({"reason": "gpt: HTTP 401"}, "gone: HTTP 401"),
    ],
)
def test_held_back_provider_shows_the_reason(fields: dict[str, object], words: str) -> None:
    assert state_of(lane("gpt", **fields)) == words


def test_notable_events_are_sentences() -> None:
    learned = "gpt: the server reports a limit of 1,200 requests per minute"
    assert notable(LimitLearned("gpt", "requests", 1200.0)) == learned
    assert notable(Notice("line 3 is damaged")) == "line 3 is damaged"
    assert notable(LanePaused("gpt", 0.5)) is None
    assert notable(CircuitChanged("gpt", open=True, reason="503")) == "gpt: outage, waiting (503)"
    assert notable(CircuitChanged("gpt", open=True, reason="gpt: 503")) == "gpt: outage, waiting (503)"
    assert notable(Stopping("no money")) == "stopping: no money"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *((0, "0"), (950, "950"), (999.6, "1.0k"), (1200, "1.2k"), (9_949, "9.9k"), (12_345, "12k")),
        *((999_400, "999k"), (999_600, "1.0M"), (3_440_000, "3.4M"), (2e9, "2.0G")),
    ],
)
def test_numbers_are_short(value: float, expected: str) -> None:
    assert short_number(value) == expected


def test_labels_drop_common_words() -> None:
    names = ["qulac-talk-gpt-cot-select-k3+support-kimi", "qulac-talk-gpt-at-cot-respond-k3+support-kimi"]
    assert list(labels(names).values()) == ["cot-select-k3", "at-cot-respond-k3"]
    assert labels(["qulac-orig+agent-a", "qulac-gpt-k1+all-a"]) == {
        "qulac-orig+agent-a": "orig+agent-a",
        "qulac-gpt-k1+all-a": "gpt-k1+all-a",
    }
    assert labels(["qulac-gpt-k1+all-a"]) == {"qulac-gpt-k1+all-a": "qulac-gpt-k1+all-a"}
    assert labels(["a", "a-b"]) == {"a": "a", "a-b": "a-b"}


# Workers


def shared(*workers: LiveWorker, wanted: int = 2, address: str = "ray://head:10001") -> LiveFile:
    return live([part("a", 4)], **cluster(workers, wanted, address))


W1, W2 = worker("w1"), worker("w2", host="node-b", in_hand=4)
LOST = worker("w0", state="lost", note="its process died", in_hand=5)


def test_plain_line_counts_workers() -> None:
    assert progress_line(shared(W1, W2)) == "4/10 instances, 0 calls, 0 tokens, 2 workers"
    assert progress_line(shared(W1, LOST, wanted=3)).endswith("0 tokens, 1 of 3 workers")
    assert progress_line(shared(W1, wanted=1)).endswith("0 tokens, 1 worker")
    assert progress_line(shared(worker("w1", state="starting"))).endswith("0 of 2 workers")


def test_workers_line_counts_unhealthy_workers_without_tasks_of_lost_ones() -> None:
    silent = worker("w3", heard_s=7.3, in_hand=1)
    line = workers_line(shared(LOST, W1, silent, address="ray"))
    assert line == "2 workers on 1 host, 1 lost, 1 silent; 9 tasks in flight; ray"
    late = worker("w3", state="starting", host="", in_hand=0)
    line = workers_line(shared(LOST, W1, late, address=""))
    assert line == "1 of 2 workers on this machine, 1 lost, 1 starting; 8 tasks in flight"
    there = shared(W1, worker("w2", state="idle", in_hand=0), worker("w3", state="ended", in_hand=0))
    assert workers_line(there) == "3 workers on 1 host; 8 tasks in flight, 1 idle, 1 ended; ray://head:10001"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "working"),
        ({"heard_s": 5.0}, "working"),
        ({"heard_s": 5.6}, "silent for 6 s"),
        ({"state": "starting", "heard_s": 9.0}, "starting"),
        ({"state": "ended", "heard_s": 900.0}, "ended"),
        ({"state": "lost", "heard_s": 900.0}, "lost"),
        ({"state": "lost", "note": "its process died"}, "lost: its process died"),
    ],
)
def test_worker_state_has_its_reason(fields: dict[str, object], words: str) -> None:
    assert worker_state(worker("w1", **fields)) == words


def names(workers: list[LiveWorker]) -> str:
    return " ".join(one["name"] for one in workers)


def test_active_workers_and_last_lost_ones_are_listed() -> None:
    lost = [worker(f"l{n}", state="lost") for n in range(5)]
    there = shared(*lost, W1, W2)
    assert names(one_by_one(there, 10)) == "w1 w2 l2 l3 l4"
    assert names(one_by_one(there, 3)) == "w1 w2 l4"
    assert names(one_by_one(there, 2)) == "w1 w2"
    assert names(one_by_one(there, 1)) == "l4"
    assert [one_by_one(there, room) for room in (0, -1)] == [[], []]


def test_only_unhealthy_ones_of_many_workers_are_listed() -> None:
    well = [worker(f"w{n}") for n in range(MANY)]
    silent = worker("s", heard_s=6.0)
    assert one_by_one(shared(*well), 1000) == []
    assert names(one_by_one(shared(*well, silent, LOST), 1000)) == "s w0"
    assert names(one_by_one(shared(*well, *[silent] * 4, LOST), 1000)) == "s s s"
    assert len(one_by_one(shared(*well[1:]), 1000)) == MANY - 1
