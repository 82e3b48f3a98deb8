"""Leaderboards of runs, by group of comparable ones, and the difference of two runs, with the numbers of `cts compare`.

Reading many large runs takes much memory and time, so a child process does it (this module as a program) and gives
both back. Its results are cached until a results file changes.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import orjson

from cts_async.engine.processes import child_environment, python_command
from cts_async.errors import CTSError, UsageError
from cts_async.runs.files import JUDGMENTS, MANIFEST, PER_ITEM, RESULTS
from cts_async.runs.index import NO_FILE, Json, display_name, stat_of
from cts_async.runs.manifest import Manifest, name_of_data
from cts_async.runs.open_run import Place
from cts_async.viewer.library import scores_state

if TYPE_CHECKING:
    from cts_async.analysis.asking import Asking
    from cts_async.analysis.board import Board
    from cts_async.analysis.stats import Difference

WAIT_S: Final = 1.0
"""How long an answer waits for numbers that are being computed."""
NICE: Final = 10
"""Of the child process, as of the command nice."""
MAX_CACHED: Final = 200
"""Leaderboards and differences that are kept: n runs make n * (n - 1) differences."""
_BOARDS: Final = "leaderboard"
_DIFFERENCE: Final = "difference"
_PROGRAM: Final = "cts_async.viewer.leaderboards"

_SCORES: Final = ("n_scored", "n_expected", "n_failed", "mean", "p50", "p90")
_GAIN: Final = ("gain", "gain_pairs", "gain_differ", "gain_low", "gain_high", "gain_too_short")
_STANDING_COLUMNS: Final = ("run", "system") + _SCORES + _GAIN

Runs = Sequence[tuple[Place, Manifest]]


class Leaderboards:
    """Leaderboards and differences; one at a time is computed."""

    def __init__(self) -> None:
        self._tasks: dict[str, tuple[object, asyncio.Task[None]]] = {}
        """By key, the latest computation, and the state of the files that it reads."""
        self._latest: dict[str, Json] = {}
        self._one_at_a_time = asyncio.Lock()

    async def leaderboard(self, data_sha: str, runs: Runs) -> Json:
        """The leaderboard of `runs`, after a second at most; `computing` means that its numbers are out of date.

        `data_sha` is "" for runs over several data.
        """
        board: Json = {
            "data": data_name(data_sha, runs),
            "data_sha": data_sha,
            # Until the first computation ends.
            "boards": [],
        }
        names = [place.name for place, _ in runs]
        return board | await self._latest_numbers("\n".join([_BOARDS] + names), _BOARDS, runs)

    async def difference(self, runs: Runs) -> Json:
        """The first of two runs less the second (`difference_of`), after a second at most; `computing` as above."""
        names = [place.name for place, _ in runs]
        difference: Json = {"runs": names, "judges": []}
        key = "\n".join([_DIFFERENCE] + names)
        return difference | await self._latest_numbers(key, _DIFFERENCE, runs)

    async def close(self) -> None:
        """Stop computing."""
        tasks = [task for _, task in self._tasks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _latest_numbers(self, key: str, subject: str, runs: Runs) -> Json:
        """What is known under the key by now; it is computed again if a results file has changed."""
        state = await asyncio.to_thread(_scores_states, runs)
        computed_state, task = self._tasks.get(key, (None, None))
        # A computation that runs is left alone: with results that change all the time none would ever end.
        if task is None or (task.done() and computed_state != state):
            task = asyncio.create_task(self._compute(key, subject, runs))
            self._tasks[key] = (state, task)
            self._forget_oldest()
        await asyncio.wait([task], timeout=WAIT_S)
        numbers: Json = {"problem": ""}
        numbers |= self._latest.get(key, {})
        numbers["computing"] = not task.done()
        return numbers

    async def _compute(self, key: str, subject: str, runs: Runs) -> None:
        async with self._one_at_a_time:
            paths = {place.name: str(place.path) for place, _ in runs}
            self._latest[key] = await _compute_in_child(subject, paths)

    def _forget_oldest(self) -> None:
        for key in list(self._tasks)[:-MAX_CACHED]:
            _, task = self._tasks.pop(key)
            task.cancel()
            self._latest.pop(key, None)


def data_name(data_sha: str, runs: Runs) -> str:
    """What the data of a leaderboard are called; "" for several."""
    if not data_sha:
        return ""
    return name_of_data(manifest for _, manifest in runs)


def _scores_states(runs: Runs) -> list[tuple[str, object]]:
    return [(place.name, scores_state(place)) for place, _ in runs]


RECOMPUTED: Final = "stored scores contradict their nuggets, and are recomputed"
"""What a CSV file says of a system with such scores."""


def board_csv(board: Json) -> Iterator[bytes]:
    """A leaderboard as CSV, a row for each judge and system; `gain` is the mean paired difference to `baseline`.

    Where there are several groups of runs, a column names each one.
    """
    from cts_async.tables.table import csv_of

    rows: list[Json] = []
    keys = ["judge", *_STANDING_COLUMNS, "baseline", "caveat"]
    for judge_board in board["boards"]:
        heading = judge_board["heading"]
        if heading and "group" not in keys:
            keys.append("group")
        for standing in judge_board["standings"]:
            row: Json = {"judge": judge_board["judge"], "baseline": judge_board["baseline"]}
            for name in _STANDING_COLUMNS:
                row[name] = standing[name]
            row["caveat"] = standing["caveat"]
            if standing["recomputed"]:
                row["caveat"] = "; ".join(filter(None, (standing["caveat"], RECOMPUTED)))
            if heading:
                row["group"] = heading
            rows.append(row)
    yield csv_of(keys, rows).encode(errors="replace")


async def _compute_in_child(subject: str, paths: Mapping[str, str]) -> Json:
    process = await asyncio.create_subprocess_exec(
        *python_command("-m", _PROGRAM),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=child_environment(),
        # Ctrl-C goes to the server, which ends the child.
        start_new_session=True,
    )
    try:
        # json, not orjson: a path may hold bytes that are not UTF-8 (surrogates in a Python string).
        output, _ = await process.communicate(json.dumps([subject, paths]).encode())
        numbers: Json = orjson.loads(output)
        return numbers
    # A child that ran out of memory, say, has written nothing.
    except orjson.JSONDecodeError:
        return {"problem": f"the {subject} could not be computed"}
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


# --- In the child process


def leaderboards_of(runs: Mapping[str, Path]) -> Json:
    """The leaderboard of runs (by name) under each judge, for each group of comparable ones (`comparable_runs`).

    Runs without a search are left out. A group that cannot be read is named in `problem`; the others are shown.
    """
    from cts_async.analysis.board import make_board
    from cts_async.runs.finished import read_path
    from cts_async.runs.groups import comparable_runs
    from cts_async.runs.selection import RunPath

    names = {path: name for name, path in runs.items()}
    boards: list[Json] = []
    contradictions: list[str] = []
    problems: list[str] = []
    try:
        scored = [RunPath(path, named=False) for path in _scored_paths(runs.values())]
        groups = comparable_runs(scored)
    except (CTSError, OSError, ValueError) as error:
        groups = []
        problems.append(str(error))
    for group in groups:
        agent = group.agent if len(groups) > 1 else ""
        described: Json = {
            "agent": display_name(agent),
            "heading": display_name(group.heading),
            "facets": [[facet, display_name(value)] for facet, value in group.facets],
        }
        try:
            board = make_board(read_path(run.path) for run in group.runs)
            boards += [described | _judge_board(board, judge, names) for judge in board.judges]
        except (CTSError, OSError, ValueError) as error:
            problems.append(": ".join(filter(None, (group.heading, str(error)))))
            continue
        for entrant in board.entrants:
            contradictions += [_without_paths(sentence, names) for sentence in entrant.contradictions]
    if not boards and not problems:
        problems.append("none of these runs is judged yet")
    problem = _without_paths("; ".join(problems), names)
    return {"boards": boards, "problem": problem, "contradictions": contradictions}


def _scored_paths(paths: Iterable[Path]) -> list[Path]:
    """The runs with scores. Raises CTSError if there is none."""
    from cts_async.runs.files import has_no_answers

    scored = [path for path in paths if _has_regular_files(path) and not has_no_answers(path)]
    if not scored:
        raise UsageError("runs without an agent have no scores")
    return scored


def difference_of(runs: Mapping[str, Path]) -> Json:
    """The scores of the first of two runs (by name) less those of the second: see `differences_of`."""
    a, b = runs
    return differences_of(runs, [(a, b)])[a, b]


def differences_of(
    runs: Mapping[str, Path], pairs: Sequence[tuple[str, str]]
) -> Mapping[tuple[str, str], Json]:
    """For each pair of names, A and B, what `cts compare A B --baseline B` says of A under each judge of both.

    {"judges": [{judge, n, n_differ, no_difference, difference, low, high, too_short, p}], "problem": ""}: the mean
    difference in points of restore_score_100 over n instances, of which n_differ have not the same score, the ends of
    its 95 % interval (None where none is shown) and the p of its test.
    """
    from cts_async.analysis.board import make_board
    from cts_async.runs.finished import read_path
    from cts_async.runs.selection import check_same_data

    names = {path: name for name, path in runs.items()}
    try:
        scored = _scored_paths(runs.values())
        check_same_data(scored)
        board = make_board(map(read_path, scored))
    except (CTSError, OSError, ValueError) as error:
        problem = _without_paths(str(error), names)
        return {pair: {"judges": [], "problem": problem} for pair in pairs}
    columns = {names[entrant.directory]: column for column, entrant in enumerate(board.entrants)}
    differences: dict[tuple[str, str], Json] = {}
    for a, b in pairs:
        judges: list[Json] = []
        if a in columns and b in columns:
            two = _board_of_two(board, columns[a], columns[b])
            for judge in board.judges:
                difference = _difference_under(two, judge)
                if difference is not None:
                    judges.append(difference)
        differences[a, b] = {"judges": judges, "problem": ""}
    return differences


def _board_of_two(board: Board, a: int, b: int) -> Board:
    """A board of two of its columns. A test over more of them would draw other random signs."""
    columns = [a, b]
    return replace(
        board,
        entrants=(board.entrants[a], board.entrants[b]),
        scores={judge: scores[:, columns] for judge, scores in board.scores.items()},
        labels={judge: labels[:, columns] for judge, labels in board.labels.items()},
        answers=board.answers[:, columns],
    )


def _difference_under(board: Board, judge: str) -> Json | None:
    """The first system of a board less the second; None if no instance has a score of both."""
    from cts_async.analysis.compare import compare_under

    system, baseline = board.systems
    judged = compare_under(board, judge, baseline, against_baseline=True)
    gains = {standing.system: standing.gain for standing in judged.standings}
    gain = gains.get(system)
    if gain is None or not judged.pairs:
        return None
    # The interval as it is shown: none below a number of instances, unlike `gain.low`.
    low, high = gain.interval or (None, None)
    return {
        "judge": judge,
        "n": gain.n,
        "n_differ": judged.pairs[0].n_differ,
        "no_difference": gain.nowhere,
        "difference": gain.mean,
        "low": low,
        "high": high,
        "too_short": low is not None and gain.too_short,
        "p": judged.pairs[0].p,
    }


def _judge_board(board: Board, judge: str, names: Mapping[Path, str]) -> Json:
    from cts_async.analysis.asking import analyse_asking
    from cts_async.analysis.compare import compare_under
    from cts_async.tables.comparison import reference_of

    baseline = reference_of(board, None)
    entrants = {entrant.label: entrant for entrant in board.entrants}
    judged = compare_under(board, judge, baseline)
    standings: list[Json] = []
    for standing in judged.standings:
        entrant = entrants[standing.system]
        row: Json = {
            "run": names.get(entrant.directory, ""),
            "system": _without_paths(standing.system, names),
            "caveat": entrant.caveat,
            "recomputed": bool(entrant.contradictions),
        }
        for name in _SCORES:
            row[name] = getattr(standing.scores, name)
        row |= _gain_fields(standing.gain)
        row |= {
            "n_common": standing.n_common,
            "common_mean": standing.common_mean,
            "judge_is": bool(standing.judge_is),
            "best_or_tied": standing.best,
            "testable": standing.testable,
        }
        standings.append(row)
    best = [_without_paths(standing.system, names) for standing in judged.best[:1]]
    best += [_without_paths(standing.system, names) for standing in judged.tied]
    asking = analyse_asking(board, judge)
    asking_json: Json = {}
    if asking is not None:
        asking_json["asking"] = _asking(asking, names)
    return asking_json | {
        "judge": judge,
        "baseline": _without_paths(baseline, names) or None,
        "best": best,
        "untestable": [_without_paths(standing.system, names) for standing in judged.untestable],
        "standings": standings,
    }


def _asking(asking: Asking, names: Mapping[Path, str]) -> Json:
    """The tables of `cts diagnose` about asking during the search, as rows by name; each interval as it is shown."""
    from cts_async.analysis.stats import FEWEST
    from cts_async.tables.asking import asking_tables

    described: Json = {"orig": _without_paths(asking.orig, names), "tables": {}}
    for table in asking_tables(asking):
        rows: list[Json] = []
        for table_row in table.rows:
            row = dict(table_row)
            for key, value in table_row.items():
                if isinstance(value, str):
                    row[key] = _without_paths(value, names)
                if key.endswith("_pairs") and value < FEWEST:
                    name = key.removesuffix("_pairs")
                    row |= {f"{name}_low": None, f"{name}_high": None, f"{name}_too_short": False}
            rows.append(row)
        described["tables"][table.name] = rows
    return described


def _gain_fields(gain: Difference | None) -> Json:
    """The gain over the baseline, over the instances scored in both."""
    if gain is None:
        fields: Json = dict.fromkeys(_GAIN)
        fields["no_difference"] = False
        return fields
    low, high = gain.interval or (None, None)
    return {
        "gain": gain.mean,
        "gain_low": low,
        "gain_high": high,
        "gain_pairs": gain.n,
        "gain_differ": gain.n_differ,
        # About an interval that is not shown nothing is said either.
        "gain_too_short": gain.interval is not None and gain.too_short,
        "no_difference": gain.nowhere,
    }


def _has_regular_files(path: Path) -> bool:
    """Whether no file that will be read is a link or a pipe, or lies behind a link."""
    judgments = path / JUDGMENTS
    if judgments.resolve() != judgments:
        return False
    files = [path / MANIFEST, path / RESULTS, path / PER_ITEM]
    files += judgments.glob("*.jsonl")
    # `stat_of` has nothing of links and pipes, as of files that do not exist.
    return all(stat_of(file) != NO_FILE for file in files if os.path.lexists(file))


def _without_paths(text: str, names: Mapping[Path, str]) -> str:
    """Text with the runs' names for their paths; equally named systems in different folders have paths for labels."""
    # The longest first: a run may lie in the folder of another one.
    for path in sorted(names, key=lambda path: len(str(path)), reverse=True):
        text = text.replace(str(path), names[path])
    return display_name(text)


def _main() -> None:
    """Read [subject, {name: path}] from standard input, write what is computed to standard output."""
    # Requests are answered first, whatever is computed beside.
    os.nice(NICE)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    subject, paths = json.loads(sys.stdin.buffer.read())
    sys.stdout.buffer.write(numbers_of(subject, paths))


def numbers_of(subject: str, paths: Mapping[str, str]) -> bytes:
    """What the child process gives back, as JSON: the leaderboard, or the difference, of runs by name."""
    runs = {name: Path(path) for name, path in paths.items()}
    if subject == _BOARDS:
        return orjson.dumps(leaderboards_of(runs))
    return orjson.dumps(difference_of(runs))


if __name__ == "__main__":
    _main()
