"""Leaderboards of runs over the same data, with the numbers of `cts compare`.

Reading many large runs takes much memory and time, so a child process does it (this module as a program) and gives
both back. Its results are cached until a results file changes.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import orjson

from cts_async.engine.processes import child_environment, python_command
from cts_async.errors import CTSError
from cts_async.protocol.run_files import JUDGMENTS, MANIFEST, PER_ITEM, RESULTS
from cts_async.report.viewer.index import NO_FILE, Json, display_name, stat_of
from cts_async.report.viewer.library import scores_state
from cts_async.report.viewer.run import Metadata, Place

if TYPE_CHECKING:
    from cts_async.analysis.board import Board

WAIT_S: Final = 1.0
"""How long an answer waits for numbers that are being computed."""
NICE: Final = 10
_PROGRAM: Final = "cts_async.report.viewer.leaderboards"

_SCORES: Final = ("n_scored", "n_expected", "n_failed", "mean", "p50", "p90")
_GAIN: Final = ("gain", "gain_pairs", "gain_differ", "gain_low", "gain_high", "gain_too_short")

Runs = Sequence[tuple[Place, Metadata]]


class Leaderboards:
    """Leaderboards by data; one at a time is computed."""

    def __init__(self) -> None:
        self._tasks: dict[str, tuple[object, asyncio.Task[None]]] = {}
        """By data, the latest computation, and the state of the files that it reads."""
        self._latest: dict[str, Json] = {}
        self._one_at_a_time = asyncio.Lock()

    async def of(self, data_sha: str, runs: Runs) -> Json:
        """The leaderboard of `runs`, after a second at most; `computing` means that its numbers are out of date."""
        state = await asyncio.to_thread(lambda: [(place.name, scores_state(place)) for place, _ in runs])
        known, task = self._tasks.get(data_sha, (None, None))
        if task is None or (task.done() and known != state):
            task = asyncio.create_task(self._compute(data_sha, runs))
            self._tasks[data_sha] = (state, task)
        await asyncio.wait([task], timeout=WAIT_S)
        return {
            "data": next((metadata.data for _, metadata in runs if metadata.data), ""),
            "data_sha": data_sha,
            **self._latest.get(data_sha, {"boards": [], "problem": ""}),
            "computing": not task.done(),
        }

    async def close(self) -> None:
        """Stop computing."""
        tasks = [task for _, task in self._tasks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _compute(self, data_sha: str, runs: Runs) -> None:
        async with self._one_at_a_time:
            self._latest[data_sha] = await _computed_by_child(
                {place.name: str(place.path) for place, _ in runs}
            )


def board_csv(board: Json) -> Iterator[bytes]:
    """A leaderboard as CSV, a row for each judge and system; `gain` is the mean paired difference to `baseline`."""
    from cts_async.report.tables import csv_of

    rows = []
    for one in board["boards"]:
        for row in one["standings"]:
            gain = {name: row[name.replace("gain", "delta")] for name in _GAIN}
            scores = {name: row[name] for name in ("run", "system", *_SCORES)}
            marks = {"baseline": one["baseline"], "caveat": row["caveat"]}
            rows.append({"judge": one["judge"], **scores, **gain, **marks})
    keys = ("judge", "run", "system", *_SCORES, *_GAIN, "baseline", "caveat")
    yield csv_of(keys, rows).encode(errors="replace")


async def _computed_by_child(paths: Mapping[str, str]) -> Json:
    process = await asyncio.create_subprocess_exec(
        *python_command("-m", _PROGRAM),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=child_environment(),
        start_new_session=True,  # Ctrl-C goes to the server, which ends the child
    )
    try:
        # json, not orjson: a path may hold bytes that are not UTF-8 (surrogates in a Python string).
        output, _ = await process.communicate(json.dumps(paths).encode())
        found: Json = orjson.loads(output)
        return found
    except orjson.JSONDecodeError:
        return {"boards": [], "problem": "the leaderboard could not be computed"}
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


# --- In the child process


def leaderboards_of(runs: Mapping[str, Path]) -> Json:
    """The leaderboard of runs (by name) under each judge; of each agent if several have played orig (`by_agent`).

    Runs without a search are left out.
    """
    from cts_async.analysis.board import make_board
    from cts_async.analysis.runs import by_agent, check_same_data, read_path
    from cts_async.protocol.run_files import has_no_answers

    names = {path: name for name, path in runs.items()}
    scored = [path for path in names if _has_regular_files(path) and not has_no_answers(path)]
    if not scored:
        return {"boards": [], "problem": "runs without an agent have no scores"}
    try:
        check_same_data(scored)
        made = [(agent, make_board(map(read_path, paths))) for agent, paths in by_agent(scored).items()]
    except (CTSError, OSError, ValueError) as error:
        return {"boards": [], "problem": _without_paths(str(error), names)}
    boards = [
        {"agent": display_name(agent), **_board_of(board, judge, names)}
        for agent, board in made
        for judge in board.judges
    ]
    return {"boards": boards, "problem": "" if boards else "none of these runs is judged yet"}


def _board_of(board: Board, judge: str, names: Mapping[Path, str]) -> Json:
    from cts_async.analysis.compare import compare_under
    from cts_async.analysis.runs import ORIG

    origs = [entrant.label for entrant in board.entrants if entrant.system == ORIG]
    baseline = origs[0] if len(origs) == 1 else ""
    entrants = {entrant.label: entrant for entrant in board.entrants}
    judged = compare_under(board, judge, baseline)
    standings: list[Json] = []
    for one in judged.standings:
        entrant = entrants[one.system]
        low, high = (one.delta and one.delta.interval) or (None, None)
        standings.append(
            {
                "run": names.get(entrant.directory, ""),
                "system": _without_paths(one.system, names),
                "caveat": entrant.caveat,
                **{name: getattr(one.scores, name) for name in _SCORES},
                # To the baseline, over the instances scored in both.
                "delta": one.delta and one.delta.mean,
                "delta_low": low,
                "delta_high": high,
                "delta_pairs": one.delta and one.delta.n,
                "delta_differ": one.delta and one.delta.n_differ,
                "delta_too_short": one.delta and one.delta.interval is not None and one.delta.too_short,
                "no_difference": bool(one.delta and one.delta.nowhere),
                "n_common": one.n_common,
                "common_mean": one.common_mean,
                "own_text": bool(one.own_text),
                "best_or_tied": one.best,
                "testable": one.testable,
            }
        )
    best = [_without_paths(one.system, names) for one in (*judged.best[:1], *judged.tied)]
    untestable = [_without_paths(one.system, names) for one in judged.untestable]
    return {
        "judge": judge,
        "baseline": _without_paths(baseline, names) or None,
        "best": best,
        "untestable": untestable,
        "standings": standings,
    }


def _has_regular_files(path: Path) -> bool:
    """Whether no file that will be read is a link or a pipe, or lies behind a link."""
    judgments = path / JUDGMENTS
    found = [path / MANIFEST, path / RESULTS, path / PER_ITEM, *judgments.glob("*.jsonl")]
    regular = all(stat_of(file) != NO_FILE for file in found if os.path.lexists(file))
    return judgments.resolve() == judgments and regular


def _without_paths(text: str, names: Mapping[Path, str]) -> str:
    """Text with the runs' names for their paths; equally named systems in different folders have paths for labels."""
    for path in sorted(names, key=lambda path: len(str(path)), reverse=True):
        text = text.replace(str(path), names[path])
    return display_name(text)


def _main() -> None:
    """Read {name: path} from standard input, write what `leaderboards_of` returns to standard output."""
    os.nice(NICE)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    paths: dict[str, str] = json.loads(sys.stdin.buffer.read())
    found = leaderboards_of({name: Path(path) for name, path in paths.items()})
    sys.stdout.buffer.write(orjson.dumps(found))


if __name__ == "__main__":
    _main()
