"""What workers bring reaches the files in an order that a crash cannot harm."""

from __future__ import annotations

import asyncio
import fcntl
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import orjson
import pytest
from virtual_time import run_virtual

from cts_async.cluster import intake as intakes
from cts_async.cluster.intake import Intake
from cts_async.cluster.messages import Asked, Ended, Line, Shard
from cts_async.cluster.probe import sees_probe
from cts_async.engine.journal import Journal, read_jsonl
from cts_async.engine.step import step_key
from cts_async.errors import RunStopped
from cts_async.protocol.run_files import RunFiles


def record(name: str, size: int = 0) -> bytes:
    key = step_key(name)
    return orjson.dumps({"key": key, "ok": True, "response": "x" * size}, option=orjson.OPT_APPEND_NEWLINE)


@pytest.fixture
def files(tmp_path: Path) -> Iterator[list[RunFiles]]:
    """Two runs with a journal each."""
    opened = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        opened.append(RunFiles(tmp_path / name))
    yield opened
    for one in opened:
        one.close()


def play(act: Callable[[], Awaitable[None]]) -> None:
    run_virtual(act)


def shard(files: RunFiles, name: str, *lines: bytes) -> Path:
    path = files.directory / "shards" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"".join(lines))
    return path


def test_places_that_share_a_journal_have_its_number(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "steps.jsonl")
    names = ("a", "b")
    for name in names:
        (tmp_path / name).mkdir()
    files = [RunFiles(tmp_path / name, journal=journal) for name in names]
    intake = Intake(files)
    assert intake.journal_of == (0, 0)
    assert intake.directories == (tmp_path.resolve(),)
    assert not intake.beside
    for one in (*files, journal):
        one.close()


def test_journals_beside_each_other_find_each_others_steps(files: list[RunFiles]) -> None:
    async def main() -> None:
        files[0].journal.beside = [files[1].journal]
        intake = Intake(files)
        assert intake.beside
        await intake.keep([(1, record("x"))])
        asked: list[Asked] = [(0, step_key("x"))]
        found = await intake.find(asked)
        assert found == {(0, step_key("x")): record("x").rstrip()}

    play(main)


def test_records_go_into_their_journals_and_are_found(files: list[RunFiles]) -> None:
    async def main() -> None:
        intake = Intake(files)
        await intake.keep([(0, record("x")), (1, record("y")), (0, record("z"))])
        keys = [[line["key"] for line in read_jsonl(one.directory / "steps.jsonl")] for one in files]
        assert keys == [[step_key("x"), step_key("z")], [step_key("y")]]
        asked: list[Asked] = [(0, step_key("x")), (0, step_key("y"))]
        found = await intake.find(asked)
        assert found == {(0, step_key("x")): record("x").rstrip(), (0, step_key("y")): None}
        assert asked == []

    play(main)


def test_one_turn_brings_so_many_records(files: list[RunFiles], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intakes, "FOUND_BYTES", 150)

    async def main() -> None:
        intake = Intake(files)
        await intake.keep([(0, record(name, 100)) for name in "abc"])
        asked: list[Asked] = [(0, step_key(name)) for name in "abc"]
        assert len(await intake.find(asked)) == 1, "one is 158 bytes"
        assert len(asked) == 2

    play(main)


def test_judgments_are_written_before_results(files: list[RunFiles], monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[tuple[str, str | None, int]] = []
    original = RunFiles.add_lines

    async def noted(self: RunFiles, judge: str | None, lines: list[bytes]) -> None:
        order.append((self.directory.name, judge, len(lines)))
        await original(self, judge, lines)

    monkeypatch.setattr(RunFiles, "add_lines", noted)

    async def main() -> None:
        ended = [
            Ended(seq, (Line(place, None, b"{}\n"), Line(place, "gpt", b"{}\n")))
            for seq, place in enumerate((0, 1, 0))
        ]
        await Intake(files).write(ended)
        assert order == [("a", "gpt", 2), ("b", "gpt", 1), ("a", None, 2), ("b", None, 1)]

    play(main)


def test_a_closed_shard_is_merged_and_gone(files: list[RunFiles]) -> None:
    async def main() -> None:
        intake = Intake(files)
        path = shard(files[0], "w1-1.jsonl", record("x"))
        await intake.merge([Shard(0, "w1-1.jsonl"), Shard(0, "w1-2.jsonl")])
        assert not path.exists()
        assert step_key("x") in files[0].journal
        intake.tidy()
        assert not path.parent.exists()

    play(main)


def test_a_large_shard_is_merged_beside_the_loop(
    files: list[RunFiles], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intakes, "LARGE", 10)

    async def main() -> None:
        shard(files[0], "w1-1.jsonl", record("x"))
        await Intake(files).merge([Shard(0, "w1-1.jsonl")])
        assert step_key("x") in files[0].journal

    asyncio.run(main())


def test_a_lost_workers_shards_are_merged_when_nobody_writes_them(files: list[RunFiles]) -> None:
    async def main() -> None:
        intake = Intake(files)
        path = shard(files[0], "w1-1.jsonl", record("x"))
        other = shard(files[0], "w2-1.jsonl", record("y"))
        with path.open("rb") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            merging = asyncio.ensure_future(intake.merge_left("w1"))
            await asyncio.sleep(2.0)
            assert not merging.done()
        await merging
        assert step_key("x") in files[0].journal
        assert other.exists(), "that of a worker that lives"

    play(main)


def test_a_shard_that_is_written_for_ever_stops_the_run(files: list[RunFiles]) -> None:
    async def main() -> None:
        path = shard(files[0], "w1-1.jsonl", record("x"))
        with path.open("rb") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            with pytest.raises(RunStopped, match=r"w1-1\.jsonl: a worker is still writing it"):
                await Intake(files).merge_left("w1")

    play(main)


def test_what_a_dead_worker_left_torn_is_told_once(files: list[RunFiles]) -> None:
    async def main() -> None:
        intake = Intake(files)
        shard(files[0], "w1-1.jsonl", record("x"), record("y")[:20])
        await intake.merge_left("w1")
        (said,) = intake.found_damaged()
        assert "the last line was torn off" in said
        assert intake.found_damaged() == []

    play(main)


def test_a_token_lies_beside_each_journal_as_long_as_the_run_goes_on(files: list[RunFiles]) -> None:
    intake = Intake(files)
    tokens = intake.write_probes()
    seen = [sees_probe(one.directory, token) for one, token in zip(files, tokens, strict=True)]
    assert seen == [True, True]
    intake.remove_probes()
    assert not sees_probe(files[0].directory, tokens[0])
