"""The screen of what goes on, at fixed sizes."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_live import cluster, lane, live, part, scored, worker
from rich.console import Console

from cts_async.report.live import LiveFile
from cts_async.report.live_screen import LiveScreen


def drawn(*lives: LiveFile, width: int = 80, height: int = 23, foot: tuple[str, ...] = ()) -> list[str]:
    return [line.plain for line in LiveScreen(lives, foot).lines(width, height)]


ORIG = part("d-orig", 10, **scored(40.0, 4.0))
GPT = part("d-gpt-k1", 5, n_failed=2, eta_s=750.0, **scored(54.2, 3.1))
BUSY = lane("gpt", in_flight=12, waiting=30, places=64, calls_per_min=1180.0, calls_allowed=1200.0)


def test_a_run_has_a_bar_a_provider_a_line_and_all_of_it_its_cost() -> None:
    told = live([ORIG, GPT], [BUSY], calls=1180, tokens=410_000, spent_usd=0.52, max_usd=2.0, eta_s=750.0)
    assert drawn(told) == [
        "orig    ━━━━━━━━━━━━━━━━  10/10            40.0 ± 4.0  done",
        "gpt-k1  ━━━━━━━━────────   5/10  2 failed  54.2 ± 3.1  12:30 left",
        "all     ━━━━━━━━━━━━────  15/20                        12:30 left",
        "provider  in flight  waiting    calls/min   tokens/min   429s",
        "gpt           12/64       30  1,180/1,200            0      0",
        "1,180 calls, 2 failed, 410k tokens, $0.52 of $2.00, 1:00 so far",
    ]


def test_outage_shows_next_probe_and_reason() -> None:
    out = lane("gpt", waiting=7, open_s=34.0, reason="HTTP 503", answers_429=3, calls_per_min=5.0)
    slow = lane("kimi", in_flight=1, paused_s=12.0, answers_429=3)
    lines = drawn(live([part("a", note="waiting for gpt")], [out, slow]))
    assert lines[0] == "a  ────────────────  0/10  waiting for gpt"
    assert lines[2] == "gpt             0/8        7  outage, next probe in 34 s: HTTP 503"
    assert lines[3] == "kimi            1/8        0            0            0      3  waiting 12 s"


SYSTEMS = [f"hard518-{name}-k{k}" for name in ("gpt", "claude", "gemini", "kimi") for k in (1, 2, 3)]
PROVIDERS = ["gpt", "claude", "gemini", "kimi", "ernie", "webdancer"]


def test_twelve_systems_and_six_providers_fit_80_by_24() -> None:
    parts = [part(name, 123, 518, eta_s=4000.0, n_failed=2, **scored(54.2, 3.1)) for name in SYSTEMS]
    lanes = [lane(name, in_flight=3, answers_429=1, paused_s=9.0, calls_per_min=99.0) for name in PROVIDERS]
    lines = drawn(live(parts, lanes, calls=123_456, retries=99, eta_s=4000.0))
    assert len(lines) <= 23
    text = "\n".join(lines)
    assert text.count("123/518  2 failed  54.2 ± 3.1  1:06:40 left") == 12
    assert text.count("waiting 9 s") == 6
    assert "…" not in text


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
        "provider  in flight  waiting    calls/min   tokens/min   429s",
        "gpt             1/8        0            0            0      0",
        "2 idle: serper, jina",
        "0 calls, 0 tokens, 1:00 so far",
    ]


def test_first_bars_stay_for_lack_of_room() -> None:
    told = live([part(f"d-gpt-k{k}", 1) for k in range(1, 10)], [lane("gpt", in_flight=1)])
    lines = drawn(told, height=8)
    assert [line.split()[0] for line in lines] == ["k1", "k2", "k3", "6", "all", "provider", "gpt", "0"]
    assert lines[3] == "6 more: k4, k5, k6, k7, k8, k9"


def test_long_names_drop_settings_if_still_distinct() -> None:
    one, other = "d-orig+agent-webdancer+judge-ernie", "d-gpt-k1+support-kimi+agent-webdancer"
    lines = drawn(live([part(one), part(other)]))
    assert [line.split()[0] for line in lines[:3]] == ["orig", "gpt-k1", "all"]
    wide = drawn(live([part(one), part(other)]), width=140)
    assert wide[0].startswith("orig+agent-webdancer+judge-ernie ")


def test_a_narrow_terminal_has_fewer_columns() -> None:
    lines = drawn(live([GPT], [BUSY], calls=1180, retries=12), width=44)
    assert lines[1] == "provider  in flight    calls/min   429s"
    assert lines[2] == "gpt           12/64  1,180/1,200      0"
    assert all(len(line) <= 44 for line in lines)


def test_on_a_narrow_terminal_no_number_is_cut() -> None:
    kimi = part("kimi-k3", 40, 518, n_failed=6, eta_s=4000.0, **scored(54.2, 13.1))
    paused = lane("openai", in_flight=5, calls_per_min=4321.0, calls_allowed=5000.0, paused_s=12.0)
    lines = {width: drawn(live([kimi], [paused]), width=width) for width in (80, 60, 40, 30)}
    assert lines[80][0] == "kimi-k3  ━───────────────  40/518  6 failed  54.2 ± 13.1  1:06:40 left"
    assert lines[60][0] == "kimi-k3  ──────  40/518  6 failed  54.2 ± 13.1  1:06:40 left"
    assert lines[40][0] == "kimi-k3  ────────  40/518  54.2 ± 13.1"
    assert lines[30][0] == "kimi-k3  ───────────  40/518"
    assert lines[60][2] == "openai          5/8  4,321/5,000      0  waiting 12 s"
    assert lines[40][2] == "openai          5/8  waiting 12 s"


def test_a_smoke_test_says_so_beside_its_mean() -> None:
    lines = drawn(live([part("a", 5, smoke_test=True, eta_s=60.0, **scored(26.6, 1.0))]))
    assert lines[0] == "a  ━━━━━━━━────────  5/10  26.6 ± 1.0 (smoke test)  1:00 left"


def test_idle_runs_are_below_as_far_as_there_is_room() -> None:
    told = live([part("a")])
    assert drawn(told, foot=("b: finished",))[-1] == "b: finished"
    lines = drawn(told, height=4, foot=("b: finished", "c: finished", "d: finished"))
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
    told = live([part("a", 4)], [lane("gpt", in_flight=1)], **REMOTE)
    assert drawn(told)[3:] == [
        "2 workers on 2 hosts, 1 lost and replaced; 8 tasks in hand, 1 idle",
        "worker  host    in hand     done  calls/min  state",
        "w1      node-a        8      120        180  working",
        "w2      node-b        0      12k        180  idle",
        "w3      node-a        0      120          0  lost: its process died",
        "0 calls, 0 tokens, 1:00 so far",
    ]
    assert drawn(told, width=120)[3].endswith("1 idle; ray://head:10001")


def test_local_workers_show_their_pids() -> None:
    told = live([part("a", 4)], **cluster([worker("w1", pid=17), worker("w2", pid=0, state="starting")], 2))
    assert drawn(told)[1:4] == [
        "1 of 2 workers on this machine, 1 starting; 16 tasks in hand",
        "worker  pid   in hand     done  calls/min  state",
        "w1      17          8      120        180  working",
    ]


def test_workers_fold_into_one_line_for_lack_of_room() -> None:
    told = live([part("a", 4)], [lane("gpt", in_flight=1)], **REMOTE)
    first = {height: [line.split()[0] for line in drawn(told, height=height)] for height in (6, 7, 8)}
    assert first[8] == ["a", "provider", "gpt", "2", "worker", "w1", "w2", "0"]
    assert first[7] == ["a", "provider", "gpt", "2", "worker", "w3", "0"]
    assert first[6] == ["a", "provider", "gpt", "2", "0"]


def test_sixty_four_workers_are_one_line_and_fit_with_systems_and_providers_80_by_24() -> None:
    parts = [part(name, 123, 518, eta_s=4000.0, n_failed=2, **scored(54.2, 3.1)) for name in SYSTEMS]
    lanes = [lane(name, in_flight=3, calls_per_min=99.0) for name in PROVIDERS]
    workers = [worker(f"w{n}", host=f"node-{n % 8}", in_hand=n % 9) for n in range(64)]
    told = live(parts, lanes, **cluster(workers, 64, "ray://head:10001"))
    lines = drawn(told)
    assert len(lines) <= 23
    assert "64 workers on 8 hosts; 252 tasks in hand; ray://head:10001" in lines
    assert sum("123/518" in line for line in lines) == 12
    assert len(drawn(told, width=200, height=500)) == len(lines)


def test_a_narrow_terminal_has_fewer_columns_of_workers() -> None:
    lines = drawn(live([part("a")], **REMOTE), width=44)
    assert lines[1] == "2 workers on 2 hosts, 1 lost and replaced"
    assert lines[2] == "worker  host    in hand  state"
    assert lines[5] == "w3      node-a        0  lost: its process …"


def test_several_processes_are_stacked() -> None:
    lines = drawn(live([part("a")], [lane("gpt", in_flight=1)]), live([part("b")], pid=2))
    assert [line.split()[0] for line in lines] == ["a", "provider", "gpt", "0", "b", "0"]


def test_nothing_in_a_name_or_a_reason_moves_the_cursor() -> None:
    told = live(
        [part("a\x1b[2J", note="waiting for \x9b1A")], [lane("x\x07", open_s=1.0, reason="\x1b]0;no")]
    )
    lines = drawn(told)
    assert "".join(lines).isprintable()
    assert lines[0].startswith("a?[2J")
    hostile = worker("w\x07", host="\x9b1A", note="\x1b]0;no")
    assert "".join(drawn(live([part("a")], **cluster([hostile], 1, "\x1b[2J")))).isprintable()


@pytest.mark.parametrize("color", ["0", "1"])
def test_ascii_terminal_shows_the_same_text(color: str) -> None:
    out = io.StringIO()
    environ = {"NO_COLOR": "1"} if color == "0" else {}
    console = Console(
        file=out, force_terminal=True, width=80, height=24, _environ={"TERM": "xterm-256color", **environ}
    )
    console.print(LiveScreen([live([ORIG, GPT], [BUSY])]))
    shown = out.getvalue()
    assert ("\x1b[32m" in shown) is (color == "1")
    assert "━━━━━━━━" in shown
    assert "2 failed" in shown


def test_a_terminal_without_other_characters_gets_ascii() -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    console = Console(file=out, force_terminal=True, width=80, height=24, color_system=None)
    console.print(LiveScreen([live([GPT])]))
    out.seek(0)
    assert out.read().startswith("d-gpt-k1  ########--------  5/10  2 failed  54.2 ~ 3.1  12:30 left")


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
def test_it_never_exceeds_the_terminal(
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
    told = live(parts, lanes, **cluster(workers, 8, address))
    lines = LiveScreen([told], ("foot",)).lines(width, height)
    assert len(lines) <= height
    assert all(line.cell_len <= width for line in lines)
