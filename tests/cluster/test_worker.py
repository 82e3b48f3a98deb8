"""A worker's turns: what comes back when, and what becomes of it when nobody asks any more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from small_cluster import OwnLanes, SmallTrade, World
from virtual_time import run_virtual

from cts_async.cluster import worker as workers
from cts_async.cluster.messages import Begun, News, Piece, Turn
from cts_async.cluster.probe import write_probe
from cts_async.cluster.trades import Setup
from cts_async.cluster.worker import Worker
from cts_async.cluster.worker_journals import ShardJournal
from cts_async.engine.journal import read_jsonl
from cts_async.engine.step import step_key
from cts_async.errors import StorageFull

Play = Callable[["Player"], Awaitable[None]]


class Player:
    """Plays the head of one worker."""

    def __init__(self, folder: Path, *, shared: bool = True, **options: Any) -> None:
        self.world = World(seconds=0.0)
        self.folder = folder
        trade = SmallTrade(self.world, **options)
        token = write_probe(folder) if shared else "of another machine"
        setup = Setup("w1", 1, trade, (str(folder),), (0,), (token,))
        self.worker = Worker(setup, {}, lanes=OwnLanes)
        self.running = asyncio.create_task(self.worker.run())
        self.kept = 0

    async def turn(self, *pieces: Piece, **options: Any) -> News:
        news = await self.worker.turn(Turn(pieces, kept=self.kept, **options))
        self.kept += len(news.records)
        return news

    async def until(self, told: Callable[[News], object], *pieces: Piece) -> News:
        """Turns until the news say what is waited for."""
        news = await self.turn(*pieces)
        while not told(news):
            news = await self.turn()
        return news

    async def to_the_end(self) -> list[News]:
        """Turns until it is over."""
        heard = [await self.turn(last=True)]
        while not heard[-1].over:
            heard.append(await self.turn(last=True))
        await self.running
        return heard


def piece(seq: int, **options: Any) -> Piece:
    return Piece(seq, "g", f"i{seq}", 0, None, **options)


def play(folder: Path, act: Play, **options: Any) -> None:
    async def main() -> None:
        player = Player(folder, **options)
        try:
            await act(player)
        finally:
            player.running.cancel()

    run_virtual(main)


def now() -> float:
    return round(asyncio.get_running_loop().time(), 3)


def test_a_worker_says_where_it_is_and_how_much_it_does_at_once(tmp_path: Path) -> None:
    async def act(player: Player) -> None:
        begun = await player.worker.begin()
        assert isinstance(begun, Begun)
        assert (begun.in_flight, begun.streamed, begun.refused) == (4, False, "")

    play(tmp_path, act)


def test_who_does_not_see_the_heads_token_streams(tmp_path: Path) -> None:
    async def act(player: Player) -> None:
        assert (await player.worker.begin()).streamed
        heard = [await player.turn(piece(0)), *await player.to_the_end()]
        records = [orjson.loads(line) for news in heard for _, line in news.records]
        assert sorted(record["step"] for record in records) == ["a", "b/1", "b/2", "c"]
        assert not (tmp_path / "shards").exists()

    play(tmp_path, act, shared=False)


def test_a_step_is_done_when_the_head_has_it(tmp_path: Path) -> None:
    async def act(player: Player) -> None:
        await player.worker.begin()
        news = await player.until(lambda news: news.records, piece(0))
        assert len(news.records) == 1
        player.kept = 0
        assert (await player.turn()).records == (), "b waits for a to be kept"
        player.kept = 1
        assert len((await player.turn()).records) == 2

    play(tmp_path, act, shared=False)


def test_what_is_done_is_told_and_stands_in_a_shard(tmp_path: Path) -> None:
    async def act(player: Player) -> None:
        await player.worker.begin()
        heard = [await player.turn(piece(0), piece(1)), *await player.to_the_end()]
        ended = {ended.seq: ended for news in heard for ended in news.ended}
        assert sorted(ended) == [0, 1]
        assert [line.judge for line in ended[0].lines] == ["judge", None]
        assert (ended[0].executed, ended[0].steps, ended[0].failed) == (4, 4, False)
        (shard,) = [shard for news in heard for shard in news.shards]
        assert len(list(read_jsonl(tmp_path / "shards" / shard.name))) == 8
        assert sum(count.calls for news in heard for count in news.counts) == 8

    play(tmp_path, act)


def test_a_turn_ends_after_a_while_and_at_once_where_work_runs_out(tmp_path: Path) -> None:
    """Four are under way and five wait: with fewer than two of them left it is time for more."""

    async def act(player: Player) -> None:
        await player.worker.begin()
        player.world.seconds = 1.0
        await player.turn()
        assert now() == 0.25, "nothing to say"
        news = await player.turn(*[piece(seq) for seq in range(9)])
        assert now() == 0.5, "nothing that is urgent"
        left = []
        while now() % 0.25 == 0:
            left.append(news.in_hand)
            news = await player.turn()
        assert min(left) > 5
        assert news.in_hand == 5

    play(tmp_path, act)


def test_nothing_in_hand_is_told_at_once(tmp_path: Path) -> None:
    async def act(player: Player) -> None:
        await player.worker.begin()
        news = await player.until(lambda news: news.ended, piece(0))
        assert now() < 0.25
        assert (len(news.ended), news.in_hand) == (1, 0)

    play(tmp_path, act)


def test_pieces_that_were_dealt_before_are_looked_up_first(tmp_path: Path) -> None:
    """One question for both of the steps that are reached at once; what is found is not done again."""

    async def act(player: Player) -> None:
        await player.worker.begin()
        key = step_key("i0/a")
        news = await player.until(lambda news: news.asked, piece(0, again=True))
        assert news.asked == ((0, key),)
        record = orjson.dumps({"key": key, "ok": True, "response": "i0/a"})
        news = await player.turn(found={(0, key): record})
        assert {asked for _, asked in news.asked} == {step_key("i0/b1"), step_key("i0/b2")}
        await player.turn(found=dict.fromkeys(news.asked))
        assert player.world.begun == {"i0/b1": 1, "i0/b2": 1}

    play(tmp_path, act)


def test_news_too_large_for_one_message_come_in_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "NEWS_BYTES", 150)

    async def act(player: Player) -> None:
        await player.worker.begin()
        await player.turn(*[piece(seq) for seq in range(4)])
        await asyncio.sleep(0.1)
        before = now()
        heard = await player.to_the_end()
        sizes = [sum(len(line.data) for ended in news.ended for line in ended.lines) for news in heard]
        assert max(sizes) <= 150
        assert len(sizes) >= 2
        assert now() == before, "the next turn comes at once"

    play(tmp_path, act)


def test_a_head_that_is_silent_is_gone(tmp_path: Path) -> None:
    """What is under way is finished, nothing more is begun, and shards are closed."""

    async def act(player: Player) -> None:
        await player.worker.begin()
        player.world.seconds = 50.0
        await player.turn(*[piece(seq) for seq in range(9)])
        await asyncio.sleep(workers.SILENCE_S - 0.1)
        assert not player.worker._told_to_stop
        await player.running
        assert {label.partition("/")[0] for label in player.world.begun} == {"i0", "i1", "i2", "i3"}
        assert player.world.begun == player.world.done
        on_record = [record for shard in (tmp_path / "shards").iterdir() for record in read_jsonl(shard)]
        assert len(on_record) == player.world.done.total()
        news = await player.turn()
        assert news.over
        assert news.stopped is None

    play(tmp_path, act)


def test_a_head_that_is_silent_keeps_no_one_waiting_for_it(tmp_path: Path) -> None:
    """Records that it will never write are given up."""

    async def act(player: Player) -> None:
        await player.worker.begin()
        await player.turn(piece(0))
        await player.running
        assert now() < 20.0

    play(tmp_path, act, shared=False)


def test_a_stop_is_not_told_back(tmp_path: Path) -> None:
    async def act(player: Player) -> None:
        await player.worker.begin()
        player.world.seconds = 1.0
        await player.turn(*[piece(seq) for seq in range(9)])
        news = await player.turn(stop="interrupted", last=True)
        while not news.over:
            news = await player.turn(stop="interrupted", last=True)
        assert news.stopped is None
        assert player.world.begun == player.world.done
        assert len(player.world.begun) < 9

    play(tmp_path, act)


def test_a_reason_of_its_own_is_told(tmp_path: Path) -> None:
    async def act(player: Player) -> None:
        await player.worker.begin()

        def full(label: str, n: int) -> None:
            raise StorageFull("no space")

        player.world.act = full
        news = await player.turn(piece(0))
        while not news.over:
            news = await player.turn()
        assert news.stopped == ("StorageFull", "no space")

    play(tmp_path, act)


@pytest.mark.parametrize("error", [StorageFull("no space"), OSError("odd")])
def test_what_goes_wrong_at_the_very_end_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fails(self: ShardJournal) -> None:
        raise error

    async def act(player: Player) -> None:
        await player.worker.begin()
        with monkeypatch.context() as patch:
            patch.setattr(ShardJournal, "close", fails)
            news = (await player.to_the_end())[-1]
        told = news.stopped[1] if news.stopped else news.crash
        assert str(error) in told

    play(tmp_path, act)


def test_a_bug_is_told_with_its_traceback(tmp_path: Path) -> None:
    async def act(player: Player) -> None:
        await player.worker.begin()
        player.world.bug = "i0"
        news = await player.until(lambda news: news.over, piece(0))
        assert "ZeroDivisionError: a bug" in news.crash

    play(tmp_path, act)


def test_what_is_missing_on_its_machine_is_told_at_the_beginning(tmp_path: Path) -> None:
    async def act(player: Player) -> None:
        begun = await player.worker.begin()
        assert begun.refused == "no key here"

    play(tmp_path, act, refused="no key here")
