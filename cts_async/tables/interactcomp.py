"""Ours beside what InteractComp's paper prints (interactcomp.toml): its six modes, and rows of its table of models.

A mode is a setting of `cts run` (docs/interactcomp.md): which tools the agent has, whether it may or must ask, and
whether it is told the context. Nothing is demanded to match: the published values are those of the best of 17 models.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from math import fsum
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from cts_async.analysis.board import Board
from cts_async.analysis.confidence import calibrate_confidence
from cts_async.analysis.stats import wilson
from cts_async.foreign_json import as_count, as_object
from cts_async.records import DEFAULT_TOOLS
from cts_async.runs.asking import questioned_searches
from cts_async.runs.finished import FinishedRun
from cts_async.runs.manifest import ORIG, manifest_of
from cts_async.runs.settings import ASK_TOOL
from cts_async.tables.comparison import RunsCompared
from cts_async.tables.table import (
    MISSING,
    Column,
    DataTable,
    Row,
    number,
    text,
    text_columns,
    with_interval,
)

DATA: Final = "interactcomp"
SOURCE: Final = "Deng et al. 2025"
Mode: TypeAlias = Literal["answer_only", "search_only", "ask_only", "full", "forced_ask", "full_with_context"]
_GOLD: Final = "gold"
_MULTIPLES: Final = (
    "Of the paper's 17 accuracies only 5 are multiples of 1/210 (28/210 is 13.33 %, 29/210 is 13.81 %), so none can be "
    "demanded exactly."
)


@cache
def published_values() -> Mapping[str, Any]:
    """Return what interactcomp.toml holds."""
    toml = Path(__file__).with_name("interactcomp.toml").read_text(encoding="utf-8")
    return tomllib.loads(toml)


def mode_of(run: FinishedRun) -> Mode | None:
    """Return the mode of the original program that a run is; None for one that it does not have."""
    if run.data.name != DATA or run.clarifier or run.inject_at is not None:
        return None
    manifest = manifest_of(run.directory)
    # The usual tools are not recorded.
    tools = set(as_object(manifest.raw_identity.get("agent_tools", dict.fromkeys(DEFAULT_TOOLS))))
    if run.max_asks and tools == {ASK_TOOL}:
        return "ask_only"
    if run.max_asks and "search" in tools:
        # One question that has to be asked forces it already; the original has five.
        if as_count(manifest.identity.asks.get("min")):
            return "forced_ask"
        return "full"
    if run.system == _GOLD and "search" in tools:
        return "full_with_context"
    if run.system == ORIG and "search" in tools:
        return "search_only"
    if run.system == ORIG and not tools:
        return "answer_only"
    return None


def is_interactcomp(board: Board) -> bool:
    """True if all runs of a board are over InteractComp."""
    return bool(board.entrants) and all(entrant.data.name == DATA for entrant in board.entrants)


def ladder_tables(boards: Iterable[tuple[Board, str]]) -> Iterator[DataTable]:
    """Yield the table of modes, and that of models; boards each with the judge whose scores count."""
    mode_rows: dict[str, list[Row]] = {}
    for mode in published_values()["modes"]:
        mode_rows[mode["mode"]] = []
    model_rows: list[Row] = []
    for published in published_values()["models"]:
        model_rows.append(published | {"whose": "published"})
    for board, judge in boards:
        for place, run in enumerate(board.entrants):
            mode_of_run = mode_of(run)
            if mode_of_run is None or judge not in board.scores:
                continue
            mode_rows[mode_of_run].append(_ours(board, judge, place))
            # The paper's table is of this mode.
            if mode_of_run == "full":
                model_rows.append(_like_a_model(board, judge, place))
    yield _modes_table(mode_rows)
    yield _models_table(model_rows)


def ladder_of(compared: RunsCompared) -> list[DataTable]:
    """The tables of all groups of a comparison, each under its first judge."""
    boards: list[tuple[Board, str]] = []
    for group in compared.groups:
        if group.judged:
            boards.append((group.board, group.judged[0].judge))
    return list(ladder_tables(boards))


def ladder_json(tables: Sequence[DataTable]) -> dict[str, Any]:
    """Return all numbers, unrounded."""
    result: dict[str, Any] = {"source": SOURCE, "remark": _MULTIPLES}
    for table in tables:
        result[table.name] = list(table.rows)
    return result


def _ours(board: Board, judge: str, place: int) -> dict[str, Any]:
    """The accuracy of a run, in percent, with Wilson's interval."""
    scores = board.scores[judge][:, place]
    scores = scores[~np.isnan(scores)]
    n, run = len(scores), board.entrants[place]
    row: dict[str, Any] = {"run": run.directory.name, "agent": run.players.get("agent") or None, "n": n}
    row |= {"accuracy": None, "low": None, "high": None}
    if not n:
        return row
    row["accuracy"] = float(scores.mean())
    n_right = int((scores == 100).sum())
    # A judge of nuggets may have given half the score: then there is no share of right answers.
    interval = wilson(n_right, n)
    if interval is not None and 100 * n_right == fsum(scores.tolist()):
        row["low"], row["high"] = 100 * interval[0], 100 * interval[1]
    return row


def _like_a_model(board: Board, judge: str, place: int) -> dict[str, Any]:
    """What the paper's table has of a model, of a run."""
    run = board.entrants[place]
    row: dict[str, Any] = {"model": run.players.get("agent") or run.system, "whose": run.directory.name}
    searches = questioned_searches(run.directory)
    n_turns = n_asks = 0
    for search in searches.values():
        n_turns += search.n_turns
        n_asks += len(search.asks)
    row["rounds"] = row["interaction_rate"] = None
    if n_turns:
        row["rounds"] = n_turns / len(searches)
        row["interaction_rate"] = 100 * n_asks / n_turns
    row["accuracy"] = _ours(board, judge, place)["accuracy"]
    row["calibration_error"] = None
    if board.confidences is not None:
        calibration = calibrate_confidence(board.confidences[:, place], board.scores[judge][:, place])
        row["calibration_error"] = calibration.error
    # Of the paper's it is not known what it counts.
    row["cost"] = None
    return row


def _modes_table(rows_by_mode: Mapping[str, Sequence[Row]]) -> DataTable:
    rows: list[Row] = []
    nothing = dict.fromkeys(("run", "agent", "n", "accuracy", "low", "high"))
    for mode in published_values()["modes"]:
        head = {"mode": mode["mode"], "what": mode["what"], "published": mode.get("best")}
        head |= {"published_above": mode.get("above"), "published_model": mode.get("model")}
        # A mode without a run of ours has its row all the same.
        for row in rows_by_mode[mode["mode"]] or [nothing]:
            rows.append(head | dict(row))
    columns = (
        *text_columns("mode", "what"),
        Column("published best", _published),
        Column("ours", _accuracy),
        Column("n", text("n")),
        *text_columns("agent", "run"),
    )
    n_questions = published_values()["n"]
    caption = (
        f"accuracy in percent; published: {SOURCE}, the best of 17 models over {n_questions} questions; ours "
        "with Wilson's 95 % interval"
    )
    return DataTable(
        "interactcomp_modes",
        "InteractComp's modes",
        caption,
        columns,
        rows,
        remarks=(_MULTIPLES,),
    )


def _accuracy(row: Row) -> str:
    if row["accuracy"] is None:
        return MISSING
    return with_interval(row["accuracy"], row["low"], row["high"], ".2f")


def _published(row: Row) -> str:
    if row["published_above"] is not None:
        return f"> {row['published_above']:.0f}"
    if row["published"] is None:
        return MISSING
    value = f"{row['published']:.2f}"
    if row["published_model"]:
        value += f" ({row['published_model']})"
    return value


def _models_table(rows: Sequence[Row]) -> DataTable:
    columns = (
        *text_columns("model"),
        Column("rounds", number("rounds", ".2f")),
        Column("interaction rate", number("interaction_rate", ".2f")),
        Column("accuracy", number("accuracy", ".2f")),
        Column("calibration error", number("calibration_error", ".2f")),
        Column("cost", number("cost", ".2f")),
        *text_columns("whose"),
    )
    caption = (
        f"mode full; published: {SOURCE}, cost as printed. Ours: rounds are turns of the agent, interaction rate is "
        "questions / turns in percent, calibration error as in the table of confidences; how the paper computed "
        "the last two was not checked"
    )
    return DataTable("interactcomp_models", "InteractComp's table of models", caption, columns, rows)
