"""The tables of `docs/scale.md`: each made of unit costs and sizes, found in a document, and put into it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from math import ceil
from typing import Final

from benchmarks.scale import totals
from benchmarks.scale.costs import COSTS, Costs
from benchmarks.scale.flow import Flow, Work, flow_of
from benchmarks.scale.limits import Shared, Use, use_of
from benchmarks.scale.sizes import KINDS, Sizes
from benchmarks.scale.spoken import duration, large, number, parsed, size
from benchmarks.scale.totals import Total
from cts_async.llm.catalog import load_catalogue

Rows = list[list[str]]
"""Of a table, its head first; cells as they stand in a document."""

NUMBERS: Final = (1e6, 1e7, 1e8, 1e9, 1e10)
WORKERS: Final = (1, 4, 16, 64, 256, 1024, 4096)
LATENCIES: Final = (0.01, 0.5, 2.0, 5.0)
MOST_IN_FLIGHT, ENOUGH_S = 1024, 64_000
"""Calls of a worker at once, as far as so many calls a second need them."""
LARGEST_AT: Final = 2.0
"""The latency at which the largest number of workers is looked at."""
PACED_BY: Final = (64, 2.0)
"""Workers and latency that times are reckoned with where nobody limits the calls."""
STREAMED: Final = (4, 16)
SHARED: Final = (1, 16, 128, 512)
PER_MIN, LATENCY_S = 30_000, 2.0
SLOW_MB_S: Final = 125.0
"""1 Gbit/s."""
MODELS: Final = ("ernie", "gpt")
_COST: Final = re.compile(r"`(\w+)` ([\d.,]+)")
_TABLE: Final = re.compile(r"<!-- table: (\w+) -->\n((?:\|.*\n)+)")


# --- In a document


def tables_in(text: str) -> dict[str, Rows]:
    """Its marked tables by name, without the lines under their heads."""
    return {name: _rows(body) for name, body in _TABLE.findall(text)}


def with_tables(text: str, tables: Mapping[str, Rows]) -> str:
    """The document with these in the places of those with their names."""
    return _TABLE.sub(lambda found: f"<!-- table: {found[1]} -->\n{_markdown(tables[found[1]])}", text)


def costs_in(tables: Mapping[str, Rows]) -> Costs:
    """The unit costs that a document was made with."""
    said = "; ".join(row[1] for row in tables["costs"][1:])
    return Costs().named(**{name: parsed(value) for name, value in _COST.findall(said)})


def sizes_in(tables: Mapping[str, Rows], kind: str) -> Sizes:
    """The sizes of a kind of candidates, as a document has them."""
    head, *rows = tables["bytes"]
    column = head.index(kind)
    return Sizes(*(parsed(row[column]) for row in rows))


# --- Made


def costs_table(costs: Costs) -> Rows:
    """A row for each part."""
    rows = [["of", "costs", "found"]]
    for of, some in groupby(COSTS, lambda one: one.of):
        ones = list(some)
        said = [f"`{one.name}` {number(getattr(costs, one.name))} {one.unit}: {one.what}" for one in ones]
        rows.append([of, "; ".join(said), ", ".join(dict.fromkeys(one.how for one in ones))])
    return rows


def bytes_table(sizes: Sequence[Sizes]) -> Rows:
    """Of the kinds in their order."""
    names = (
        "bytes of a candidate's line",
        "bytes of its line in `per_item.jsonl`",
        "bytes of its step in `steps.jsonl`",
        "tokens asked (estimated)",
        "tokens answered (estimated)",
    )
    fields = ("candidate", "result", "step", "input_tokens", "output_tokens")
    rows = [["", *(kind.name for kind in KINDS)]]
    for name, field in zip(names, fields, strict=True):
        rows.append([name, *(f"{getattr(one, field):,.0f}" for one in sizes)])
    return rows


def totals_table(sizes: Sizes, costs: Costs, calls_s: float) -> Rows:
    """By number of judgements; `calls_s` is what a cluster makes where nobody limits it."""
    all_of = [Total(n, sizes, costs) for n in NUMBERS]
    models = load_catalogue().models
    rows = [["judgements", *(f"1e{len(str(int(n))) - 1}" for n in NUMBERS)]]

    def add(name: str, cells: Iterator[str]) -> None:
        rows.append([name, *cells])

    add("candidates", (size(one.n * sizes.candidate) for one in all_of))
    add("`per_item.jsonl`", (size(one.n * sizes.result) for one in all_of))
    add("`steps.jsonl`", (size(one.n * sizes.step) for one in all_of))
    add("all three", (size(one.disk_bytes) for one in all_of))
    add("tokens, in and out", (large(one.tokens) for one in all_of))
    for name in MODELS:
        spec = models[name]
        prices = (spec.input_usd_per_mtok or 0.0, spec.output_usd_per_mtok or 0.0)
        add(f"`{name}`", (f"${number(one.usd(*prices))}" for one in all_of))
    add("self-hosted, GPU-hours", (number(one.gpu_h) for one in all_of))
    add("memory of the head", (size(one.fresh_bytes) for one in all_of))
    add("the same, typed again when done", (size(one.resumed_bytes) for one in all_of))
    add("until the first call", (duration(one.checked_s) for one in all_of))
    for per_min in (500, PER_MIN):
        add(f"at {per_min:,} requests/min", (duration(one.time_s(per_min / 60)) for one in all_of))
    workers, latency_s = PACED_BY
    paced = f"no limit, {workers} workers, {latency_s:g} s a call"
    add(paced, (duration(one.time_s(calls_s)) for one in all_of))
    add("memory of `cts score`", (size(one.n * totals.SCORED_B) for one in all_of))
    return rows


def flow_table(sizes: Sizes, costs: Costs) -> Rows:
    rows = [["workers", *(f"{latency_s:g} s" for latency_s in LATENCIES)]]
    for workers in WORKERS:
        cells = [
            flow_cell(flow_of(work(workers, latency_s, sizes), costs))
            if workers < max(WORKERS) or latency_s == LARGEST_AT
            else ""
            for latency_s in LATENCIES
        ]
        rows.append([f"{workers:,}", *cells])
    return rows


def pace_in(flows: Rows) -> float:
    """Calls a second in the cell that times are reckoned with."""
    workers, latency_s = PACED_BY
    column = flows[0].index(f"{latency_s:g} s")
    return next(parsed(row[column]) for row in flows if row[0] == f"{workers}")


def streamed_table(sizes: Sizes, costs: Costs) -> Rows:
    rows = [["workers", "shared storage", "streamed", "to the head, MB/s"]]
    for workers in STREAMED:
        shared, streamed = (
            flow_of(work(workers, LATENCIES[0], sizes, streamed=streamed), costs)
            for streamed in (False, True)
        )
        megabytes = streamed.calls_s * (costs.end_bytes + sizes.step) / 1e6
        rows.append([f"{workers}", flow_cell(shared), flow_cell(streamed), number(megabytes)])
    return rows


def limits_table(costs: Costs) -> Rows:
    rows = [["workers", "calls/s of 500", "asks/s", "limiter"]]
    return rows + [limits_row(shared(workers), costs) for workers in SHARED]


def limits_row(asked: Shared, costs: Costs) -> list[str]:
    use: Use = use_of(asked, costs)
    return [f"{asked.workers:,}", number(use.calls_s), number(use.asks_s), f"{use.busy:.0%}"]


def saturation_table(sizes: Sizes, costs: Costs) -> Rows:
    """What each part comes to by itself, and what helps then."""
    slow = totals.of_network(costs.named(network_mb_s=SLOW_MB_S), sizes)
    return [
        ["part", "is full at", "found", "then"],
        ["a worker's core", f"{number(totals.of_worker(costs))} calls/s", "measured", "more workers"],
        [
            f"a worker with {MOST_IN_FLIGHT:,} calls at once",
            f"{MOST_IN_FLIGHT / 2:g} calls/s of 2 s",
            "computed",
            "`--in-flight`, more workers",
        ],
        ["the head's core", f"{number(totals.of_head(costs))} calls/s", "measured parts", "several runs"],
        [
            "the same, by turns alone",
            f"{number(totals.of_turns(costs))} workers",
            "computed",
            "fewer workers, with more in flight each",
        ],
        [
            "shared storage",
            f"{number(totals.of_storage(costs, sizes))} calls/s",
            "computed",
            "a faster one for `--out`",
        ],
        [
            "the head's network, steps streamed",
            f"{number(totals.of_network(costs, sizes))} calls/s",
            "computed",
            f"nothing; at 1 Gbit/s it is full at {number(slow)}",
        ],
        [
            "the limiter's core, by asks alone",
            f"{number(totals.of_limiter(costs))} workers",
            "computed",
            "fewer workers: one can send more than any limit allows",
        ],
    ]


def work(workers: int, latency_s: float, sizes: Sizes, *, streamed: bool = False) -> Work:
    """The case of a table's cell."""
    in_flight = min(MOST_IN_FLIGHT, max(64, ceil(ENOUGH_S * latency_s / workers)))
    return Work(workers, latency_s, in_flight, sizes.step, sizes.result, streamed)


def shared(workers: int, per_min: float = PER_MIN, latency_s: float = LATENCY_S) -> Shared:
    """The case of a row: with twice the places that the limit needs."""
    return Shared(workers, per_min, latency_s, ceil(2 * per_min / 60 * latency_s))


def flow_cell(flow: Flow) -> str:
    """Calls a second, and the busiest part."""
    return f"{number(flow.calls_s)} ({flow.first})"


def _rows(body: str) -> Rows:
    head, _, *rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in body.splitlines()]
    return [head, *rows]


def _markdown(rows: Rows) -> str:
    head, *body = rows
    lines = [head, ["---"] * len(head), *body]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in lines)
