"""Conversations as analyses see them, and which of them share a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ValidationError

from cts_async.engine.run_dir import read_manifest
from cts_async.errors import InputError
from cts_async.protocol.results import Line, failed, latest_results
from cts_async.protocol.run_files import RESULTS
from cts_async.records import (
    MODES,
    SCHEMES,
    UNKNOWN,
    AmbiguityType,
    Answer,
    ConversationTurn,
    Mode,
    Scheme,
)


@dataclass(frozen=True, slots=True)
class Talk:
    """A run of conversations by the model `clarifier` with a user played by `user` ("" for none).

    Failed instances have no conversation and are counted.
    """

    directory: Path
    label: str
    clarifier: str
    user: str
    scheme: Scheme
    mode: Mode
    k: int
    conversations: Mapping[str, tuple[ConversationTurn, ...]] = field(repr=False)
    """The turns by instance id, in order of completion."""
    n_failed: int
    n_expected: int


def read_talk(directory: Path) -> Talk:
    """Read a run whose results have turns: one of `cts converse`, or of `cts run` with --scheme or --mode.

    Raises InputError if it is not a run or has no turns, and for a malformed turn.
    """
    manifest = read_manifest(directory)
    if manifest is None:
        raise InputError(directory, "not a run directory: run.json not found")
    identity, path = manifest.get("identity", {}), directory / RESULTS
    scheme, mode = identity.get("scheme", "cts"), identity.get("mode", "at-once")
    if scheme not in SCHEMES or mode not in MODES:
        raise InputError(directory / "run.json", f"unknown scheme {scheme!r} or mode {mode!r}")
    lines = latest_results(path)
    found = {id: _turns(path, line) for id, line in lines.items() if not failed(line)}
    return Talk(
        directory=directory,
        label=str(identity.get("system") or directory.name),
        clarifier=str(manifest.get("players", {}).get("clarifier", "")),
        user=str(manifest.get("players", {}).get("support", "")),
        scheme=scheme,
        mode=mode,
        k=int(identity.get("k") or 0),
        conversations=found,
        n_failed=len(lines) - len(found),
        n_expected=max(int(manifest.get("n_expected", 0)), len(lines)),
    )


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
        first = error.errors(include_url=False, include_context=False)[0]
        raise ValueError(f"{'.'.join(map(str, first['loc'])) or 'turn'}: {first['msg']}") from None
    if turn.chosen is not None and not 0 <= turn.chosen < len(turn.offered):
        raise ValueError(f"chosen must be the index of an offered query, not {turn.chosen}")
    answers = tuple(Answer(text, text == UNKNOWN) for text in turn.answers)
    return ConversationTurn(turn.offered, turn.types, turn.reasoning, answers, turn.chosen, turn.query)


# Groups of conversations that share a table: a table has a row for each scheme and turn and a column for each mode,
# so it holds one run of each. Runs that differ in anything else need tables of their own.


def talk_groups(talks: Iterable[Talk]) -> list[tuple[str, list[Talk]]]:
    """Group runs by Clarifier under distinct names, in the order of the first run of each.

    A group has at most one run of each scheme and mode. If a Clarifier has more, there is a group for each user and
    number of turns, and for each further run of the same. Runs of mode at-once, which have no user, join each of these
    groups, or form groups of their own if there are several of the same scheme.
    """
    return [group for own in _by(lambda talk: talk.clarifier, talks) for group in _groups(own)]


def _groups(own: list[Talk]) -> Iterator[tuple[str, list[Talk]]]:
    if _distinct(own):
        yield own[0].clarifier, own
        return
    at_once = [talk for talk in own if talk.mode == "at-once"]
    joined = at_once if _distinct(at_once) else []
    for same in _by(_way, (talk for talk in own if talk not in joined)):
        kinds = _by(lambda talk: f"{talk.scheme} {talk.mode}", same)
        for number in range(max(map(len, kinds))):
            again = f", again ({number + 1})" if number else ""
            group = [runs[number] for runs in kinds if number < len(runs)]
            yield f"{own[0].clarifier}, {_way(same[0])}{again}", [*group, *joined]


def _way(talk: Talk) -> str:
    if talk.mode == "at-once":
        return f"{talk.k} question{'s' * (talk.k != 1)} at once"
    return f"user {talk.user}, {talk.k} turn{'s' * (talk.k != 1)}"


def _distinct(talks: Sequence[Talk]) -> bool:
    return len({(talk.scheme, talk.mode) for talk in talks}) == len(talks)


def _by(key: Callable[[Talk], str], talks: Iterable[Talk]) -> list[list[Talk]]:
    found: dict[str, list[Talk]] = {}
    for talk in talks:
        found.setdefault(key(talk), []).append(talk)
    return list(found.values())
