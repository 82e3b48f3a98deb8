"""The processes that share a command's work as lines of a screen: one for all, and one each where there is room."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from cts_async.report.live import LiveCluster, LiveWorker, compact
from cts_async.report.output import plain
from cts_async.report.workers import is_silent, one_by_one, worker_state, workers_line, workers_of

NAME, HOST = 16, 20
"""Columns that names of workers and of hosts have at most."""
COLUMNS: Final = {"in hand": 7, "done": 7, "calls/min": 9}
LEFT_OUT: Final = ("done", "calls/min", "in hand")
"""Columns that a narrow terminal has no room for, the first ones first."""
STATE: Final = 10
"""Columns that are left for what comes last; what is longer is cut at the terminal's edge."""


def worker_section(live: LiveCluster, width: int, room: int) -> Iterator[Text]:
    """At most `room` lines, but one at least; none where there are no workers."""
    if not workers_of(live):
        return
    yield Text(plain(workers_line(live, width)))
    told = one_by_one(live, room - 2)
    if told:
        yield from _table(told, width, elsewhere=bool(live.get("cluster")))


def _table(workers: list[LiveWorker], width: int, *, elsewhere: bool) -> Iterator[Text]:
    """A heading and a line each. All that are on this machine are told apart by their processes."""
    where = {one["name"]: plain(one["host"]) if elsewhere else f"{one['pid'] or ''}" for one in workers}
    names = min(NAME, max([6, *(cell_len(plain(one["name"])) for one in workers)]))
    hosts = min(HOST, max([4, *map(cell_len, where.values())]))
    columns = dict(COLUMNS)
    for head in LEFT_OUT:
        if names + hosts + 4 + sum(columns.values()) + 2 * len(columns) + STATE > width:
            del columns[head]
    heads = "".join(f"  {head:>{size}}" for head, size in columns.items())
    first = f"{set_cell_size('worker', names)}  {set_cell_size('host' if elsewhere else 'pid', hosts)}"
    yield Text(f"{first}{heads}  state", "dim")
    for one in workers:
        first = f"{set_cell_size(plain(one['name']), names)}  {set_cell_size(where[one['name']], hosts)}"
        yield Text(first).append(_cells(one, columns)).append(f"  {plain(worker_state(one))}", _colour(one))


def _cells(worker: LiveWorker, columns: Mapping[str, int]) -> str:
    cells = {
        "in hand": f"{worker['in_hand']}",
        "done": compact(worker["done"]),
        "calls/min": compact(worker["calls_per_min"]),
    }
    return "".join(f"  {cells[head]:>{size}}" for head, size in columns.items())


def _colour(worker: LiveWorker) -> str:
    if worker["state"] == "lost":
        return "red"
    return "yellow" if is_silent(worker) else ""
