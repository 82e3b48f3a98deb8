"""Commands that misbehave: floods, full pipes and children that outlive them harm nobody else."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop
from custom_roles import command, script

from cts_async.engine.events import Event, Events, Notice
from cts_async.errors import ProviderDown, TransientError, UnusableOutput
from cts_async.protocol.custom.command import MAX_DEATHS, Command
from cts_async.protocol.custom.sources import custom_role

Run = Callable[[Coroutine[Any, Any, None]], None]

PRELUDE = """
import json, os, subprocess, sys, time

def replies(lines):
    for line in lines:
        print(json.dumps({"id": json.loads(line)["id"], "answer": "yes"}), flush=True)

"""


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Run a coroutine on each of the two event loops."""
    return asyncio.run if request.param == "asyncio" else uvloop.run


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that do not end by themselves are waited for less long."""
    monkeypatch.setattr("cts_async.protocol.custom.command.STOP_S", 0.5)


@asynccontextmanager
async def started(directory: Path, content: str, events: Events | None = None) -> AsyncIterator[Command]:
    name = command(script(directory, "hostile.py", PRELUDE + content))
    process = Command(custom_role(name, "answerer"), dict(os.environ), events or Events())
    try:
        yield process
    finally:
        began = time.monotonic()
        await process.close()
        assert time.monotonic() - began < 6


async def answered(process: Command, n: int, *, size: int = 10) -> list[Any]:
    asked = (process.request({"role": "answerer", "view": {"question": "x" * size}}) for _ in range(n))
    async with asyncio.timeout(20):
        return [reply["answer"] for reply in await asyncio.gather(*asked)]


FLOODS = {
    "stderr": """
sys.stderr.write("x" * (64 << 20)); sys.stderr.flush()
for _ in range(300_000): sys.stderr.write("a log line\\n")
replies(sys.stdin)
""",
    "a megabyte of stray lines": """
sys.stdout.write("a stray line\\n" * 80_000)
replies(sys.stdin)
""",
    "bytes that are no text": """
sys.stdout.buffer.write(bytes(range(256)) * 100 + b"\\n"); sys.stdout.flush()
sys.stderr.buffer.write(bytes(range(256)) * 100); sys.stderr.flush()
replies(sys.stdin)
""",
}


def test_reply_that_is_json_to_others_is_read(tmp_path: Path) -> None:
    """Python writes NaN, and JavaScript half an emoji where a text was cut."""
    content = """
for line in sys.stdin:
    id = json.loads(line)["id"]
    print('{"id": "%s", "answer": "\\\\ud83d", "score": NaN}' % id, flush=True)
"""

    async def main() -> None:
        async with started(tmp_path, content) as process:
            assert await answered(process, 1) == ["?"]

    asyncio.run(main())


DEEP = '"[" * LEVELS + "]" * LEVELS'


def test_bug_in_reading_replies_fails_their_requests_instead_of_letting_them_hang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(data: bytes) -> Any:
        raise KeyError("answer")

    monkeypatch.setattr("cts_async.protocol.custom.command.read_reply", broken)

    async def main() -> None:
        async with started(tmp_path, "replies(sys.stdin)") as process:
            with pytest.raises(TransientError, match=r"replies could not be read: KeyError\('answer'\)"):
                await answered(process, 1)

    asyncio.run(main())


@pytest.fixture(params=[1_000, 20_000], ids=["usual recursions", "many recursions"])
def recursion_limit(request: pytest.FixtureRequest) -> Iterator[None]:
    """Python's own, and one that code of the user's may have set in this process."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(request.param)
    yield
    sys.setrecursionlimit(limit)


@pytest.mark.usefixtures("recursion_limit")
@pytest.mark.parametrize("levels", [300, 900, 5_000])
@pytest.mark.parametrize(
    ("reply", "n_notices"),
    [
        ('\'{"id": %s, "answer": "yes"}\' % deep', 1),  # it may answer any request that is in flight
        ('\'{"id": "%s", "answer": %s}\' % (id, deep)', 0),
    ],
)
def test_reply_nested_deeply_fails_its_request_instead_of_letting_it_hang(
    tmp_path: Path, levels: int, reply: str, n_notices: int
) -> None:
    content = f"""
for n, line in enumerate(sys.stdin):
    id, deep = json.loads(line)["id"], {DEEP.replace("LEVELS", str(levels))}
    if n == 0:
        print({reply}, flush=True)
    else:
        replies([line])
"""

    async def main() -> None:
        seen: list[Event] = []
        async with started(tmp_path, content, Events(seen.append)) as process:
            with pytest.raises(UnusableOutput, match="nested deeper than 100 levels"):
                await answered(process, 1)
            assert await answered(process, 2) == ["yes", "yes"]
        assert len(seen) == n_notices

    asyncio.run(main())


def test_reply_that_is_no_json_fails_its_request_instead_of_letting_it_hang(tmp_path: Path) -> None:
    content = """
for line in sys.stdin:
    print('{"id": "%s", "answer": %s}' % (json.loads(line)["id"], "9" * 5_000), flush=True)
"""

    async def main() -> None:
        async with started(tmp_path, content, Events()) as process:
            with pytest.raises(UnusableOutput, match="its reply cannot be read as JSON"):
                await answered(process, 1)

    asyncio.run(main())


@pytest.mark.parametrize("flood", FLOODS)
def test_command_that_floods_a_stream_is_answered_all_the_same(tmp_path: Path, run: Run, flood: str) -> None:
    seen: list[Event] = []

    async def main() -> None:
        async with started(tmp_path, FLOODS[flood], Events(seen.append)) as process:
            assert await answered(process, 20) == ["yes"] * 20

    run(main())
    notices = [event.text for event in seen if isinstance(event, Notice)]
    assert len(notices) == (flood != "stderr")
    assert all("\n" not in notice and len(notice) < 400 for notice in notices)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("while True: print('nothing but noise ' * 500)", "wrote 16 MiB of lines that answer no request"),
        ("while True: sys.stdout.write('x' * 65536)", "wrote a line of more than 16 MiB"),
        ("os.close(1); time.sleep(60)", "exit status -9"),
        ("sys.stderr.write('\\x1b[2Jred\\x07 alert\\r\\n'); sys.exit(5)", "exit status 5: [2Jred  alert"),
    ],
)
def test_command_that_can_answer_nothing_is_ended_and_counted(
    tmp_path: Path, run: Run, content: str, why: str
) -> None:
    async def main() -> None:
        async with started(tmp_path, content) as process:
            for _ in range(MAX_DEATHS):
                with pytest.raises(TransientError, match="the command ended") as caught:
                    await answered(process, 1)
                assert why in str(caught.value)
                assert str(caught.value).isprintable()
            with pytest.raises(ProviderDown, match="died 3 times in a row"):
                await answered(process, 1)

    run(main())


def test_full_input_of_one_command_does_not_hold_up_another(tmp_path: Path, run: Run) -> None:
    """It never reads: a megabyte waits for it, while the other is answered."""
    other = tmp_path / "other"
    other.mkdir()

    async def main() -> None:
        async with started(tmp_path, "time.sleep(60)") as deaf, started(other, "replies(sys.stdin)") as good:
            waiting = asyncio.gather(
                *(deaf.request({"view": "x" * 100_000}) for _ in range(10)), return_exceptions=True
            )
            assert await answered(good, 20, size=200_000) == ["yes"] * 20
            assert not waiting.done()
            waiting.cancel()

    run(main())


CHILDREN = {
    "its own": "child = subprocess.Popen(['sleep', '20']).pid",
    "in a session of its own": "child = subprocess.Popen(['sleep', '20'], start_new_session=True).pid",
    "whose parent has gone": """
ends, child = os.pipe(), 0
if os.fork() == 0:
    os.setsid()
    orphan = subprocess.Popen(['sleep', '20'], start_new_session=True)
    os.write(ends[1], str(orphan.pid).encode())
    os._exit(0)
child = int(os.read(ends[0], 20))
""",
}


@pytest.mark.parametrize("child", CHILDREN)
def test_child_that_keeps_the_pipes_open_does_not_hide_a_death(tmp_path: Path, run: Run, child: str) -> None:
    """The command leaves a sleeper behind and dies at the first request; the sleeper dies with it."""
    content = f"""
{CHILDREN[child]}
open(__file__ + ".pid", "a").write(f"{{child}}\\n")
sys.stdin.readline()
sys.exit(4)
"""

    async def main() -> None:
        async with started(tmp_path, content) as process:
            began = time.monotonic()
            with pytest.raises(TransientError, match="exit status 4"):
                await answered(process, 3)
            assert time.monotonic() - began < 5

    run(main())
    (pid,) = map(int, (tmp_path / "hostile.py.pid").read_text().split())
    until = time.monotonic() + 10
    while alive(pid) and time.monotonic() < until:  # a killed process takes a moment to be gone
        time.sleep(0.02)
    assert not alive(pid)


def alive(pid: int) -> bool:
    try:
        return b"Z" not in Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except FileNotFoundError:
        return False


def test_script_finds_its_neighbours_and_gets_no_modules_of_ours(tmp_path: Path) -> None:
    script(tmp_path, "neighbour.py", "from os import environ as found")
    content = "import neighbour\nassert not [n for n in neighbour.found if n.startswith('PYTHON')]\nreplies(sys.stdin)"

    async def main() -> None:
        async with started(tmp_path, content) as process:
            assert await process.request({"role": "answerer", "view": {}}) == {"id": "1", "answer": "yes"}

    asyncio.run(main())
