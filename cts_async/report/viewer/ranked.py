"""Works out a leaderboard, as a program: runs on its standard input, `{boards, problem}` on its standard output.

The numbers are those of `cts compare`: the same functions make them.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import orjson

from cts_async.analysis.board import Board, Entrant, make_board
from cts_async.analysis.compare import Standing as Ranked
from cts_async.analysis.compare import leaderboard
from cts_async.analysis.selection import check_same_data, reader
from cts_async.errors import CTSError
from cts_async.protocol.run_files import JUDGMENTS, MANIFEST, PER_ITEM, RESULTS
from cts_async.protocol.run_folders import is_talk
from cts_async.report.comparison import ORIG
from cts_async.report.viewer.api_types import LeaderboardOf, Standing
from cts_async.report.viewer.files import NO_FILE, printable, stat_of

NICE: Final = 10


def ranked(runs: Mapping[str, Path]) -> dict[str, Any]:
    """The leaderboard under each judge; a `problem` where the runs cannot be set side by side. Names by runs' paths."""
    names = {path: name for name, path in runs.items()}
    scored = [path for path in names if _has_own_files(path) and not is_talk(path)]
    if not scored:
        return {"boards": [], "problem": "conversations alone have no scores"}
    try:
        check_same_data(scored)
        board = make_board(reader(path)() for path in scored)
    except (CTSError, OSError, ValueError) as error:
        return {"boards": [], "problem": _without_paths(str(error), names)}
    boards = [_of(board, judge, names) for judge in board.judges]
    return {"boards": boards, "problem": "" if boards else "none of these runs is judged yet"}


def _of(board: Board, judge: str, names: Mapping[Path, str]) -> LeaderboardOf:
    baseline = ORIG if ORIG in board.systems else None
    entrants = {entrant.label: entrant for entrant in board.entrants}
    standings = leaderboard(board, judge, baseline or board.systems[0])
    return {
        "judge": judge,
        "baseline": baseline,
        "standings": [_standing(one, entrants[one.system], names, baseline) for one in standings],
    }


def _standing(one: Ranked, entrant: Entrant, names: Mapping[Path, str], baseline: str | None) -> Standing:
    """Without a baseline there is nothing that a difference could refer to."""
    scores, delta = one.scores, one.delta if baseline else None
    return {
        "run": names.get(entrant.directory, ""),
        "system": one.system,
        "smoke_test": entrant.embedded,
        "n_scored": scores.n_scored,
        "n_expected": scores.n_expected,
        "n_failed": scores.n_failed,
        "mean": scores.mean,
        "p50": scores.p50,
        "p90": scores.p90,
        "delta": delta.mean if delta else None,
        "delta_low": delta.low if delta else None,
        "delta_high": delta.high if delta else None,
    }


def _has_own_files(path: Path) -> bool:
    """Whether nothing that is read of a run is a link or a pipe, or lies behind a link."""
    found = [path / MANIFEST, path / RESULTS, path / PER_ITEM, *(path / JUDGMENTS).glob("*.jsonl")]
    return (path / JUDGMENTS).resolve() == path / JUDGMENTS and all(
        stat_of(file) != NO_FILE for file in found if os.path.lexists(file)
    )


def _without_paths(problem: str, names: Mapping[Path, str]) -> str:
    for path in sorted(names, key=lambda path: len(str(path)), reverse=True):
        problem = problem.replace(str(path), names[path])
    return printable(problem)


def _asked(words: Sequence[Mapping[str, str]]) -> dict[str, Path]:
    return {one["name"]: Path(one["path"]) for one in words}


if __name__ == "__main__":
    os.nice(NICE)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.stdout.buffer.write(orjson.dumps(ranked(_asked(json.loads(sys.stdin.buffer.read())))))
