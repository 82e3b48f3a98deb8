"""Conversations as analyses see them, and which of them share a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from cts_async.engine.run_dir import read_manifest
from cts_async.errors import InputError
from cts_async.protocol.results import Line, failed, latest_results
from cts_async.protocol.run_files import RESULTS
from cts_async.records import (
    AMBIGUITY_TYPES,
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
class Conversation:
    """One instance's conversation; `fused_query` is the intent behind it ("" if no user took part)."""

    id: str
    blurred_query: str
    fused_query: str
    turns: tuple[ConversationTurn, ...]


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
    conversations: Mapping[str, Conversation] = field(repr=False)
    """By instance id, in order of completion."""
    n_failed: int
    n_expected: int

    @property
    def name(self) -> str:
        """Short name for tables: "at-cot respond"."""
        return f"{self.scheme} {self.mode}"

    def of(self, ids: frozenset[str]) -> Mapping[str, Conversation]:
        """Return the conversations over these instances."""
        return {id: one for id, one in self.conversations.items() if id in ids}


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
    found = {id: _conversation(path, line) for id, line in lines.items() if not failed(line)}
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


def _conversation(path: Path, line: Line) -> Conversation:
    turns = line.get("turns")
    if not isinstance(turns, list):
        raise InputError(
            path,
            f"{line['id']}: no conversation: turns are missing, since this run asked all questions at once",
        )
    try:
        read = tuple(map(turn_of, turns))
    except (TypeError, ValueError) as error:
        raise InputError(path, f"{line['id']}: {error}", field="turns") from None
    return Conversation(
        str(line["id"]), str(line.get("blurred_query") or ""), str(line.get("fused_query") or ""), read
    )


def turn_of(value: Mapping[str, Any]) -> ConversationTurn:
    """Parse a turn of `results.jsonl`. Raises ValueError with the problem."""
    if not isinstance(value, dict):
        raise ValueError("a turn must be an object")
    offered, types, answers = (_texts(value, name) for name in ("offered", "types", "answers"))
    if not set(types) <= set(AMBIGUITY_TYPES):
        raise ValueError(f"types must be among {', '.join(AMBIGUITY_TYPES)}, not {', '.join(types)}")
    chosen = value.get("chosen")
    if chosen is not None and not (isinstance(chosen, int) and 0 <= chosen < len(offered)):
        raise ValueError(f"chosen must be the index of an offered query, not {chosen!r}")
    return ConversationTurn(
        offered=offered,
        types=cast("tuple[AmbiguityType, ...]", types),
        reasoning=str(value.get("reasoning") or ""),
        answers=tuple(Answer(text, text == UNKNOWN) for text in answers),
        chosen=chosen,
        query=str(value.get("query") or ""),
    )


def _texts(value: Mapping[str, Any], name: str) -> tuple[str, ...]:
    texts = value.get(name) or []
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"{name} must be a list of texts")
    return tuple(texts)


# Groups of conversations that share a table: a table has a row for each scheme and turn and a column for each mode,
# so it holds one run of each. Runs that differ in anything else need tables of their own.


@dataclass(frozen=True, slots=True)
class TalkGroup:
    """Runs of one Clarifier, at most one of each scheme and mode, under a distinct name."""

    name: str
    talks: tuple[Talk, ...]


def talk_groups(talks: Iterable[Talk]) -> list[TalkGroup]:
    """Group runs by Clarifier, in the order of the first run of each.

    If a Clarifier has a scheme and mode more than once, there is a group for each user and number of turns, and
    for each further run of the same. Runs of mode at-once, which have no user, join each of these groups, or form
    groups of their own if there are several of the same scheme.
    """
    return [group for own in _by(lambda talk: talk.clarifier, talks).values() for group in _groups(own)]


def _groups(own: Sequence[Talk]) -> Iterator[TalkGroup]:
    if _distinct(own):
        yield TalkGroup(own[0].clarifier, tuple(own))
        return
    asked = [talk for talk in own if talk.mode == "at-once"]
    beside = asked if _distinct(asked) else []
    apart = (talk for talk in own if not (beside and talk.mode == "at-once"))
    for way, same in _by(_way, apart).items():
        for number, group in enumerate(_rounds(same), start=1):
            again = f", again ({number})" if number > 1 else ""
            yield TalkGroup(f"{own[0].clarifier}, {way}{again}", (*group, *beside))


def _way(talk: Talk) -> str:
    if talk.mode == "at-once":
        return f"{talk.k} question{'s' * (talk.k != 1)} at once"
    return f"user {talk.user}, {talk.k} turn{'s' * (talk.k != 1)}"


def _rounds(talks: Iterable[Talk]) -> Iterator[list[Talk]]:
    """Yield the first run of every scheme and mode, then the second ones, and so on."""
    kinds = _by(lambda talk: f"{talk.scheme} {talk.mode}", talks).values()
    for number in range(max(map(len, kinds))):
        yield [runs[number] for runs in kinds if number < len(runs)]


def _distinct(talks: Sequence[Talk]) -> bool:
    return len({(talk.scheme, talk.mode) for talk in talks}) == len(talks)


def _by(key: Callable[[Talk], str], talks: Iterable[Talk]) -> dict[str, list[Talk]]:
    found: dict[str, list[Talk]] = {}
    for talk in talks:
        found.setdefault(key(talk), []).append(talk)
    return found
