"""`cts view` over a run of 100,000 instances and 1,000,000 steps, one of which has a trace of 20 MB.

Files are dropped from the cache of the operating system before the server starts: its first page is read from the
disk. "Painted" is what a person waits for: Chromium has drawn it. Memory is that of all the server's processes.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from benchmarks.shared.big_run import BigRun, id_of, write_big_run
from benchmarks.shared.browser import NONE_FOUND, Page, chromium, find_chromium, painted
from benchmarks.shared.memory import watched_memory
from benchmarks.shared.process import CTS, interleaved, ours
from benchmarks.shared.result import Result, Row

N, OPENED, ROUNDS = 100_000, 50, 3
TITLE = f"viewer: {N:,} instances, 1,000,000 steps, one trace of 20 MB"
ROWS_SHOWN = "document.querySelectorAll('.instances tbody tr').length >= 50"
TURNS_SHOWN = "document.querySelectorAll('.trace > li').length >= 2"


@dataclass(frozen=True, slots=True)
class Server:
    """A `cts view` that has been started, at `began` by time.monotonic(); perhaps it does not listen yet."""

    pid: int
    url: str
    began: float
    run: str

    def get(self, name: str, **query: object) -> Any:
        """One answer of the API about the run."""
        address = f"{self.url}api/{name}?{urlencode({'run': self.run, **query})}"
        with urllib.request.urlopen(address, timeout=60) as response:
            return json.load(response)

    def page(self, route: str, **query: str) -> str:
        return f"{self.url}#/{route}?{urlencode({'run': self.run, **query})}"


def bench() -> Result:
    if find_chromium() is None:
        return Result(TITLE, skipped=NONE_FOUND)
    with tempfile.TemporaryDirectory() as folder:
        big = write_big_run(Path(folder), N)
        with chromium() as browser:
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            rows = [*_begun(big, page), *_looked_at(big, page)]
            page.close()
    busy = f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    return Result(TITLE, rows, [f"starts: median of {ROUNDS}, interleaved; {busy}"])


def _begun(big: BigRun, page: Page) -> list[Row]:
    """From the command to the first page: its rows over HTTP, and with another server as painted."""
    done = interleaved(
        ROUNDS, {"http": lambda: _first_rows_s(big), "painted": lambda: _first_page_s(big, page)}
    )
    listening, rows = (statistics.median(column) for column in zip(*done["http"], strict=True))
    return [
        Row("s from the command until it listens", listening, digits=2),
        Row("s from the command to the first 50 rows, HTTP", rows, "<=", 1.0, 2),
        Row("s until a new server's first page is painted", statistics.median(done["painted"]), "<=", 1.0, 2),
    ]


def _first_rows_s(big: BigRun) -> tuple[float, float]:
    """Seconds from the command until it listens, and until it has answered with the first rows."""
    with served(big) as server:
        _wait_until_listening(server)
        listening_s = time.monotonic() - server.began
        if len(server.get("instances", limit=50)["rows"]) != 50:
            raise ValueError("the first page has not its 50 rows")
        return listening_s, time.monotonic() - server.began


def _first_page_s(big: BigRun, page: Page) -> float:
    """Seconds from opening a page until it is painted, the first thing that a new server is asked for."""
    with served(big) as server:
        _wait_until_listening(server)
        opened = time.monotonic()
        page.goto(server.page("run"))
        return painted(page, ROWS_SHOWN, opened)


def _looked_at(big: BigRun, page: Page) -> Iterator[Row]:
    with served(big) as server, watched_memory(server.pid) as memory:
        _wait_until_listening(server)
        yield Row("s until everything is indexed", _indexed_s(server), digits=1)
        indexed_mb = memory.mb
        yield from _paged(server)
        yield from _long_instance(server, big, page)
        yield from _searched(server)
        yield from _downloaded(server, big)
        yield Row("peak MB while indexing", indexed_mb, "<=", 200.0)
        yield Row(
            f"peak MB after {OPENED} instances, the long one, searches, a download", memory.mb, "<=", 200.0
        )


def _indexed_s(server: Server) -> float:
    while server.get("instances", limit=1)["ready"] < 1 or _steps_unknown(server):
        time.sleep(0.1)
    return time.monotonic() - server.began


def _steps_unknown(server: Server) -> bool:
    return server.get("instance", id=id_of(N - 1))["steps"] is None


def _paged(server: Server) -> Iterator[Row]:
    opened = []
    for i in range(4, N, N // OPENED):  # English and Chinese ones, and not the long one
        began = time.monotonic()
        page = server.get("instance", id=id_of(i))
        server.get("trace", id=id_of(i))
        opened.append(time.monotonic() - began)
        if page["id"] != id_of(i):
            raise ValueError(f"asked for {id_of(i)}, got {page['id']}")
    yield Row("ms for an instance with its trace, the slowest", max(opened) * 1e3, note=f"of {len(opened)}")
    began = time.monotonic()
    server.get("instances", limit=50, sort="-score", unknown="some")
    yield Row("ms for the first page of a filtered, sorted list", (time.monotonic() - began) * 1e3)


def _long_instance(server: Server, big: BigRun, page: Page) -> Iterator[Row]:
    """Open the long one, then go down until its last turn is there."""
    began = time.monotonic()
    page.goto("about:blank")
    page.goto(server.page("instance", id=big.long_id))
    yield Row("s until the 20 MB instance is painted", painted(page, TURNS_SHOWN, began), "<=", 1.0, 2)
    began, turns = time.monotonic(), 0
    while _turns_shown(page) < _turns_there(server, big):
        page.evaluate("document.querySelector('.trace-end').scrollIntoView()")
        painted(page, f"document.querySelectorAll('.trace > li').length > {turns}", began)
        turns = _turns_shown(page)
    yield Row("s to scroll it to its end", time.monotonic() - began, digits=2, note=f"{turns} turns")
    yield Row("MB that the page's scripts hold then", _heap_mb(page))
    frame_ms = page.evaluate(_LONGEST_FRAME)
    yield Row("ms of the longest frame, jumping through it", frame_ms, digits=0)


_LONGEST_FRAME = """async () => {
  let longest = 0;
  for (let i = 0; i <= 20; i += 1) {
    const began = performance.now();
    scrollTo(0, document.body.scrollHeight * (i / 20));
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    longest = Math.max(longest, performance.now() - began);
  }
  return longest;
}"""


def _heap_mb(page: Page) -> float:
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    metrics = session.send("Performance.getMetrics")["metrics"]
    session.detach()
    return float(next(one["value"] for one in metrics if one["name"] == "JSHeapUsedSize")) / 1e6


def _turns_shown(page: Page) -> int:
    return int(page.locator(".trace > li").count())


def _turns_there(server: Server, big: BigRun) -> int:
    return int(server.get("trace", id=big.long_id)["total"])


def _searched(server: Server) -> Iterator[Row]:
    """A word of the last instance alone: every line has to be looked at."""
    after, slices, found = "", [], 0
    while after is not None:
        began = time.monotonic()
        part = server.get("instances", text=f"number {N - 1}", limit=50, after=after)
        slices.append(time.monotonic() - began)
        after, found = part["next"], found + len(part["rows"])
    yield Row("s to search all instances for a text", sum(slices), digits=2, note=f"{found} found")
    yield Row("ms of it in the longest answer", max(slices) * 1e3, "<=", 500.0, note=f"{len(slices)} answers")


def _downloaded(server: Server, big: BigRun) -> Iterator[Row]:
    began, size = time.monotonic(), 0
    address = f"{server.url}api/download?{urlencode({'run': server.run, 'id': big.long_id})}"
    with urllib.request.urlopen(address, timeout=60) as response:
        while block := response.read(1 << 20):
            size += len(block)
    yield Row(
        "s to download its journal lines", time.monotonic() - began, digits=2, note=f"{size / 1e6:.1f} MB"
    )


@contextmanager
def served(big: BigRun) -> Iterator[Server]:
    """`cts view`, its files not in memory."""
    for path in big.runs.parent.rglob("*.jsonl"):
        _forget(path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    command = [*CTS, "view", str(big.runs), "--port", str(port)]
    began = time.monotonic()
    with subprocess.Popen(command, env=ours(), stdout=subprocess.DEVNULL) as process:
        try:
            yield Server(process.pid, f"http://127.0.0.1:{port}/", began, big.name)
        finally:
            process.terminate()


def _forget(path: Path) -> None:
    """Drop a file from the operating system's cache."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


def _wait_until_listening(server: Server) -> None:
    while True:
        try:
            urllib.request.urlopen(server.url, timeout=5).close()
        except urllib.error.URLError:
            if time.monotonic() - server.began > 30:
                raise
            time.sleep(0.005)
        else:
            return
