"""Runs of conversations: what was offered, answered and chosen, turn by turn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ValidationError

from cts_async.errors import InputError
from cts_async.records import MODES, SCHEMES, UNKNOWN, AmbiguityType, Answer, ConversationTurn, Mode, Scheme
from cts_async.runs.files import RESULTS
from cts_async.runs.manifest import require_manifest
from cts_async.runs.results import Line, failed, latest_results


@dataclass(frozen=True, slots=True)
class ConversationRun:
    """A run of conversations by the model `clarifier` with a user played by `user` ("" for none)."""

    directory: Path
    clarifier: str
    user: str
    scheme: Scheme
    mode: Mode
    k: int
    conversations: Mapping[str, tuple[ConversationTurn, ...]] = field(repr=False)
    """The turns by instance id, in order of completion; failed instances have none."""


def read_conversation_run(directory: Path) -> ConversationRun:
    """Read a run whose results have turns: one of `cts converse`, or of `cts run` with --scheme or --mode.

    Raises InputError if it is not a run or has no turns, and for a malformed turn.
    """
    manifest = require_manifest(directory)
    path = directory / RESULTS
    scheme = manifest.identity.scheme or "cts"
    mode = manifest.identity.mode or "at-once"
    if scheme not in SCHEMES or mode not in MODES:
        raise InputError(directory / "run.json", f"unknown scheme {scheme!r} or mode {mode!r}")
    lines = latest_results(path).items()
    return ConversationRun(
        directory=directory,
        clarifier=manifest.players.get("clarifier") or "",
        user=manifest.players.get("support") or "",
        scheme=scheme,
        mode=mode,
        k=manifest.identity.k or 0,
        conversations={id: _turns(path, line) for id, line in lines if _is_whole(line)},
    )


def _is_whole(line: Line) -> bool:
    """Whether a line has a whole conversation: a search or a judge that failed later does not take it away."""
    return not failed(line) or bool(line.get("turns") and line.get("rewritten_query"))


def _turns(path: Path, line: Line) -> tuple[ConversationTurn, ...]:
    turns = line.get("turns")
    if not isinstance(turns, list):
        raise InputError(
            path,
            f"{line['id']}: no conversation: turns are missing, since this run asked all questions at once",
        )
    try:
        return tuple(map(turn_of, turns))
    except ValueError as error:
        raise InputError(path, f"{line['id']}: {error}", field="turns") from None


# Lines leave out what a scheme or a mode does not have; null means the same.
_Texts = Annotated[tuple[str, ...], BeforeValidator(lambda value: value or ())]
_Text = Annotated[str, BeforeValidator(lambda value: value or "")]


class _Turn(BaseModel):
    """A turn of `results.jsonl`."""

    offered: _Texts = ()
    types: Annotated[tuple[AmbiguityType, ...], BeforeValidator(lambda value: value or ())] = ()
    reasoning: _Text = ""
    answers: _Texts = ()
    chosen: int | None = None
    query: _Text = ""


def turn_of(value: Any) -> ConversationTurn:
    """Parse a turn of `results.jsonl`. Raises ValueError with the problem."""
    try:
        turn = _Turn.model_validate(value)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_context=False)[0]
        place = ".".join(map(str, problem["loc"])) or "turn"
        raise ValueError(f"{place}: {problem['msg']}") from None
    if turn.chosen is not None and not 0 <= turn.chosen < len(turn.offered):
        raise ValueError(f"chosen must be the index of an offered query, not {turn.chosen}")
    answers = tuple(Answer(text, text == UNKNOWN) for text in turn.answers)
    return ConversationTurn(turn.offered, turn.types, turn.reasoning, answers, turn.chosen, turn.query)
