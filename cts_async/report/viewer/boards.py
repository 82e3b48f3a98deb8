"""Leaderboards by data, worked out by a process of its own and kept until a results file changes.

Reading many large runs whole takes memory and time that a server has better uses for: the process gives both back.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, cast

import orjson

from cts_async.engine.processes import child_environment, python_command
from cts_async.report.viewer.api_types import Leaderboard, LeaderboardOf
from cts_async.report.viewer.library import counted_state
from cts_async.report.viewer.run import About, Place

PROGRAM: Final = "cts_async.report.viewer.ranked"
WAIT_S: Final = 1.0
"""So long an answer waits for numbers that are being worked out."""
MAX_KEPT: Final = 64
FAILED: Final = "the leaderboard could not be worked out"

Runs = list[tuple[Place, About]]


@dataclass(slots=True)
class _Board:
    """What is known of the runs over some data, and the state of their files that it was made from."""

    state: object = None
    boards: list[LeaderboardOf] | None = None
    problem: str = ""
    task: asyncio.Task[None] | None = None


class Boards:
    """One process at a time works out what was asked for."""

    def __init__(self) -> None:
        self._boards: dict[str, _Board] = {}
        self._one = asyncio.Lock()

    async def of(self, data_sha: str, runs: Runs) -> Leaderboard:
        """The leaderboard of `runs`, as it is known within a second; `computing` says that it is not the last word."""
        state = await asyncio.to_thread(_state, runs)
        board = self._boards.setdefault(data_sha, _Board())
        while len(self._boards) > MAX_KEPT:
            self._boards.pop(next(iter(self._boards)))
        if board.task is None and board.state != state:
            board.task = asyncio.create_task(self._work(board, state, runs))
        if board.task is not None:
            await asyncio.wait([board.task], timeout=WAIT_S)
        return {
            "data": next((about.data for _, about in runs if about.data), ""),
            "data_sha": data_sha,
            "boards": board.boards or [],
            "problem": board.problem,
            "computing": board.task is not None,
        }

    async def close(self) -> None:
        """End what is under way."""
        tasks = [board.task for board in self._boards.values() if board.task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _work(self, board: _Board, state: object, runs: Runs) -> None:
        try:
            async with self._one:
                answer = await _ranked(runs)
            board.state, board.boards = state, cast("list[LeaderboardOf]", answer["boards"])
            board.problem = str(answer["problem"])
        finally:
            board.task = None


async def _ranked(runs: Runs) -> dict[str, Any]:
    """What the program says of the runs; a cancelled one is ended."""
    process = await asyncio.create_subprocess_exec(
        *python_command("-m", PROGRAM),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=child_environment(),
        start_new_session=True,  # Ctrl-C is for the server, which ends it
    )
    asked = [{"name": place.name, "path": str(place.path)} for place, _ in runs]
    try:
        said, _ = await process.communicate(json.dumps(asked).encode())
        answer = orjson.loads(said)
    except orjson.JSONDecodeError:
        return {"boards": [], "problem": FAILED}
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    return cast("dict[str, Any]", answer)


def _state(runs: Iterable[tuple[Place, About]]) -> object:
    return [(place.name, counted_state(place)) for place, _ in runs]
