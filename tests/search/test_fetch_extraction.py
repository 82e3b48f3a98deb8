"""Text extraction in other processes: they may hang or die, and the caller goes on."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fake_web import article

from cts_async.errors import ToolError
from cts_async.search.backends import fetch
from cts_async.search.backends.fetch import Extracted, TextExtractor

STUBBORN = """
import os, sys, time
sys.stdin.buffer.readline()
{action}
"""


def played_by(monkeypatch: pytest.MonkeyPatch, folder: Path, action: str) -> None:
    """Let the processes do `action` with every request."""
    program = folder / "program.py"
    program.write_text(STUBBORN.format(action=action), encoding="utf-8")
    monkeypatch.setattr(fetch, "_PROGRAM", program)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_for_text(path: Path) -> None:
    """Wait until a process has written something there."""
    while not path.exists() or not path.read_text():
        time.sleep(0.01)


async def test_a_page_s_text_comes_back() -> None:
    extractor = TextExtractor()
    found = await extractor.extract(article().encode(), "html", "utf-8", 30)
    extractor.close()
    assert (found.title, found.text) == ("Ferries", "Sentence number 0 says that th")
    assert found.chars > 500


async def test_a_process_is_kept_for_the_next_page() -> None:
    extractor = TextExtractor(workers=1)
    pids = set()
    for text in ("one", "two", "three"):
        assert await extractor.extract(text.encode(), "plain", "", 99) == Extracted("", text, len(text))
        pids |= {worker._process.pid for worker in extractor._idle}
    assert len(pids) == 1
    extractor.close()
    assert not alive(pids.pop())


async def test_pages_are_read_side_by_side_each_to_its_own_caller() -> None:
    extractor = TextExtractor(workers=2)
    pages = [f"page {number} " * 2000 for number in range(12)]
    found = await asyncio.gather(*(extractor.extract(page.encode(), "plain", "", 8) for page in pages))
    assert [each.text for each in found] == [page[:8] for page in pages]
    assert len(extractor._idle) <= 2
    extractor.close()


async def test_a_page_without_text_is_told() -> None:
    extractor = TextExtractor()
    with pytest.raises(ToolError) as caught:
        await extractor.extract(b"<html></html>", "html", "", 99)
    assert caught.value.reason == "no text"
    assert (await extractor.extract(b"x", "plain", "", 99)).text == "x"
    extractor.close()


async def test_a_process_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    extractor = TextExtractor(timeout_s=0.3)
    with monkeypatch.context() as patch:
        played_by(patch, tmp_path, "time.sleep(600)")
        with pytest.raises(ToolError, match=r"takes longer than 0.3 s") as caught:
            await extractor.extract(bytes(1_000_000), "html", "", 99)
    assert caught.value.reason == "too large"
    assert extractor._idle == []
    extractor.timeout_s = 20.0
    assert (await extractor.extract(b"next", "plain", "", 99)).text == "next"
    extractor.close()


@pytest.mark.parametrize(
    "action", ["os.abort()", "sys.exit(0)", "print('{}', flush=True)", "sys.stdout.write('{}')"]
)
async def test_a_process_that_dies_or_gives_up_costs_one_page(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, action: str
) -> None:
    extractor = TextExtractor()
    with monkeypatch.context() as patch:
        played_by(patch, tmp_path, action)
        with pytest.raises(ToolError) as caught:
            await extractor.extract(b"<p>x</p>", "html", "", 99)
    assert caught.value.reason == "no text"
    extractor.close()


async def test_a_cancelled_page_ends_its_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ids = tmp_path / "pid"
    played_by(monkeypatch, tmp_path, f"open({str(ids)!r}, 'w').write(str(os.getpid())); time.sleep(600)")
    extractor = TextExtractor()
    task = asyncio.create_task(extractor.extract(b"x", "html", "", 99))
    await asyncio.to_thread(wait_for_text, ids)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not alive(int(ids.read_text()))
    assert extractor._idle == []


async def test_processes_end_when_nobody_uses_the_extractor() -> None:
    extractor = TextExtractor()
    await extractor.extract(b"x", "plain", "", 99)
    pid = extractor._idle[0]._process.pid
    del extractor
    gc.collect()
    assert not alive(pid)


async def test_processes_are_told_no_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    names = tmp_path / "names"
    played_by(monkeypatch, tmp_path, f"open({str(names)!r}, 'w').write(' '.join(os.environ))")
    extractor = TextExtractor()
    with pytest.raises(ToolError):
        await extractor.extract(b"x", "html", "", 99)
    assert "OPENAI_API_KEY" not in names.read_text()


async def test_a_hostile_page_does_not_stop_the_loop() -> None:
    """Many seconds of parsing, given up after one; meanwhile the loop keeps turning."""
    extractor = TextExtractor(timeout_s=1.0)
    page = b"<html><body>" + b"<div></div>" * 450_000
    task = asyncio.create_task(extractor.extract(page, "html", "", 99))
    turns = 0
    while not task.done():
        await asyncio.sleep(0.01)
        turns += 1
    with pytest.raises(ToolError):
        await task
    assert turns > 5


async def test_ten_megabytes_of_open_tags_are_survived() -> None:
    extractor = TextExtractor(timeout_s=20.0)
    with pytest.raises(ToolError) as caught:
        await extractor.extract(b"<div>" * 2_000_000, "html", "", 99)
    assert caught.value.reason in ("no text", "too large")
    assert (await extractor.extract(b"next", "plain", "", 99)).text == "next"
    extractor.close()


def test_processes_end_with_the_program_that_started_them(tmp_path: Path) -> None:
    """Even one that is killed: the pipe that they read from ends."""
    code = (
        "import asyncio, os, signal\n"
        "from cts_async.search.backends.fetch import TextExtractor\n"
        "extractor = TextExtractor()\n"
        "asyncio.run(extractor.extract(b'x', 'plain', '', 9))\n"
        "print(extractor._idle[0]._process.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    pid = int(done.stdout)
    deadline = time.monotonic() + 30
    while alive(pid) and time.monotonic() < deadline and not _is_zombie(pid):
        time.sleep(0.02)
    assert not alive(pid) or _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    """Ended, and not yet collected by whoever inherited it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return False
