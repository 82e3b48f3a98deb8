"""`docs/scale.md` says what the simulation gives and what arithmetic makes of it, whatever machine this is."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.scale import tables, totals
from benchmarks.scale.costs import COSTS, Costs
from benchmarks.scale.flow import PARTS, Work, flow_of
from benchmarks.scale.limits import Shared, use_of
from benchmarks.scale.sizes import KINDS, TYPICAL, Kind, Sizes, sizes
from benchmarks.scale.spoken import duration, large, number, parsed, size

TEXT = (Path(__file__).parents[1] / "docs" / "scale.md").read_text(encoding="utf-8")
DOC = tables.tables_in(TEXT)
COSTS_THERE, TYPICAL_THERE = tables.costs_in(DOC), tables.sizes_in(DOC, "typical")
NEAR = 0.05
"""Of what a simulation gives: a dealer that deals a little otherwise changes no conclusion."""

ROUND = Costs(
    worker_us=91,
    piece_us=5,
    read_us=5,
    head_us=4,
    turn_us=100,
    deal_worker_us=0,
    send_us=2,
    take_us=3,
    merge_us=1,
    call_us=400,
    call_kb_us=1,
    piece_bytes=2000,
    end_bytes=2000,
    storage_mb_s=500,
    network_mb_s=1000,
)
TEN = Sizes(candidate=10.0, result=3000.0, step=1000.0, input_tokens=900.0, output_tokens=100.0)


# --- The document


def test_the_document_is_short_enough_to_be_read() -> None:
    assert len(TEXT.splitlines()) <= 150


def test_it_has_every_table_once() -> None:
    assert sorted(DOC) == ["bytes", "costs", "flow", "limits", "saturation", "streamed", "totals"]
    assert TEXT.count("<!-- table: ") == len(DOC)


def test_its_costs_are_those_that_a_simulation_has_unless_others_are_given() -> None:
    assert Costs() == COSTS_THERE
    assert DOC["costs"] == tables.costs_table(COSTS_THERE)


def test_its_totals_are_bytes_times_numbers() -> None:
    pace = tables.pace_in(DOC["flow"])
    assert DOC["totals"] == tables.totals_table(TYPICAL_THERE, COSTS_THERE, pace)
    assert DOC["saturation"] == tables.saturation_table(TYPICAL_THERE, COSTS_THERE)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_its_bytes_are_those_of_a_real_judging(kind: Kind) -> None:
    """A step's time and latency have more digits or fewer: some bytes of 600."""
    there, real = tables.sizes_in(DOC, kind.name), sizes(kind, 50)
    for name in ("candidate", "result", "step", "input_tokens", "output_tokens"):
        assert getattr(there, name) == pytest.approx(getattr(real, name), rel=0.01)


@pytest.mark.parametrize(("workers", "latency_s"), [(1, 0.01), (4, 0.01), (16, 0.01), (16, 2.0)])
def test_its_flows_are_what_the_simulation_gives(workers: int, latency_s: float) -> None:
    flow = flow_of(tables.work(workers, latency_s, TYPICAL_THERE), COSTS_THERE)
    head, *rows = DOC["flow"]
    cell = next(row for row in rows if row[0] == f"{workers}")[head.index(f"{latency_s:g} s")]
    assert parsed(cell) == pytest.approx(flow.calls_s, rel=NEAR)
    assert cell.endswith(f"({flow.first})")


def test_its_streamed_flow_is_what_the_simulation_gives() -> None:
    flow = flow_of(tables.work(4, 0.01, TYPICAL_THERE, streamed=True), COSTS_THERE)
    row = DOC["streamed"][1]
    assert row[0] == "4"
    assert parsed(row[2]) == pytest.approx(flow.calls_s, rel=NEAR)
    megabytes = flow.calls_s * (COSTS_THERE.end_bytes + TYPICAL_THERE.step) / 1e6
    assert parsed(row[3]) == pytest.approx(megabytes, rel=NEAR)


def test_its_shared_limit_is_what_the_simulation_gives() -> None:
    there = next(row for row in DOC["limits"] if row[0] == "16")
    found = tables.limits_row(tables.shared(16), COSTS_THERE)
    assert [parsed(cell) for cell in there[:3]] == pytest.approx(
        [parsed(cell) for cell in found[:3]], rel=0.1
    )


def test_no_pace_in_it_is_beyond_what_a_head_or_its_workers_can_do() -> None:
    """But for two percent, since a window begins and ends somewhere."""
    most = 1.02 * totals.of_head(COSTS_THERE)
    for row in DOC["flow"][1:]:
        for cell in filter(None, row[1:]):
            assert parsed(cell) <= most
            assert parsed(cell) <= 1.02 * parsed(row[0]) * totals.of_worker(COSTS_THERE)


def test_a_document_keeps_its_words_when_its_tables_are_made_anew() -> None:
    text = "one\n\n<!-- table: a -->\n| x |\n| --- |\n| 1 |\n\ntwo\n"
    made = tables.with_tables(text, {"a": [["x", "y"], ["2", ""]]})
    assert made == "one\n\n<!-- table: a -->\n| x | y |\n| --- | --- |\n| 2 |  |\n\ntwo\n"
    assert tables.tables_in(made) == {"a": [["x", "y"], ["2", ""]]}


# --- Arithmetic, by hand


def test_a_thousand_judgements_by_hand() -> None:
    """4,010 bytes of disk and 1,000 tokens each; 900 read at $1 and 100 written at $10 a million are $0.0019."""
    total = totals.Total(1000, TEN, ROUND)
    assert total.disk_bytes == 4_010_000
    assert total.tokens == 1_000_000
    assert total.gpu_h == pytest.approx(100 / 3600)
    assert total.usd(1.0, 10.0) == pytest.approx(1.9)
    assert total.time_s(500 / 60) == pytest.approx(120)


def test_where_parts_are_full_by_hand() -> None:
    """A worker: 91 + 5 + 4 kB = 100 us. The head: 15 us of its own, and the same 4 kB: 19 us; a turn 500 us."""
    assert totals.of_worker(ROUND) == pytest.approx(10_000)
    assert totals.of_head(ROUND) == pytest.approx(1e6 / 19)
    assert totals.of_turns(ROUND) == pytest.approx(500)  # of 250,000 us each quarter of a second
    assert totals.of_storage(ROUND, TEN) == pytest.approx(100_000)
    assert totals.of_network(ROUND, TEN) == pytest.approx(1e9 / 3000)


def test_turns_that_grow_with_the_workers_fill_the_head_at_fewer() -> None:
    """With 1 us more for each: 250,000 = n (500 + n), so n = 309."""
    assert totals.of_turns(ROUND.named(deal_worker_us=1.0)) == pytest.approx(309, abs=0.1)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (number(8281.4), "8,280"),
        (number(0.3512), "0.351"),
        (number(0), "0"),
        (size(1.827e9), "1.83 GB"),
        (size(999.9e6), "1 GB"),
        (duration(7.9), "7.9 s"),
        (duration(7900), "2.19 h"),
        (duration(2000), "33.3 min"),
        (large(1.039e9), "1.04 billion"),
        (large(12), "12"),
    ],
)
def test_numbers_are_said_with_three_digits(said: str, meant: str) -> None:
    assert said == meant


def test_a_number_is_read_as_it_is_said() -> None:
    assert [parsed(text) for text in ("8,280 (head)", "$1,490", "95%", "0.1")] == [8280, 1490, 95, 0.1]


# --- The simulation


def test_one_worker_of_quick_calls_is_bound_by_its_core() -> None:
    """100 us a call and nothing else: 10,000 a second, for which the head takes 19 us each and its turns."""
    flow = flow_of(Work(1, 0.001, 100, TEN.step, TEN.result), ROUND)
    assert flow.calls_s == pytest.approx(10_000, rel=0.03)
    assert flow.first == "workers"
    assert 0.19 < flow.busy["head"] < 0.3


def test_slow_calls_are_bound_by_how_many_are_in_flight() -> None:
    """50 at a time, of 1 s: 50 a second from each of 3 workers."""
    flow = flow_of(Work(3, 1.0, 50, TEN.step, TEN.result), ROUND)
    assert flow.calls_s == pytest.approx(150, rel=0.1)
    assert flow.in_flight == pytest.approx(flow.calls_s)
    assert flow.first == "in flight"


def test_slow_storage_is_found_out() -> None:
    """5 MB/s for 5,000 bytes each."""
    flow = flow_of(Work(2, 0.01, 50, TEN.step, TEN.result), ROUND.named(storage_mb_s=5))
    assert flow.calls_s == pytest.approx(1000, rel=0.05)
    assert flow.first == "storage"
    assert set(flow.busy) == set(PARTS)


def test_the_same_seed_gives_the_same_flow() -> None:
    """But for who is first of workers that want alike: their names are drawn anew in each session."""
    work = Work(2, 0.1, 20, TEN.step, TEN.result, seed=7)
    assert flow_of(work, ROUND).calls_s == pytest.approx(flow_of(work, ROUND).calls_s, rel=0.02)


def test_a_limit_is_used_and_not_crossed() -> None:
    """600 a minute to three workers; a window of 6 s may hold one more than ten a second."""
    shared = Shared(3, 600.0, 0.5, 100)
    use = use_of(shared, Costs())
    assert 0.9 < use.used(shared) <= 61 / 60


def test_every_cost_says_what_it_is() -> None:
    assert all(one.unit and one.what and one.how for one in COSTS)
    assert TYPICAL in KINDS
