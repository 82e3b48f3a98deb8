"""Which conversations stand side by side in one table: a Clarifier's, with one user and as many turns.

A table has a row for each scheme and turn and a column for each mode, and so room for one run of each. Runs that
differ in something else need tables of their own: in one they would hide each other, or be tested against themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from cts_async.analysis.conversations import Talk


@dataclass(frozen=True, slots=True)
class TalkGroup:
    """Talks of one Clarifier, one of each scheme and mode. `name` is the Clarifier's, and where needed says the way."""

    name: str
    talks: tuple[Talk, ...]


def talk_groups(talks: Iterable[Talk]) -> list[TalkGroup]:
    """The talks in groups, Clarifier by Clarifier, in the order of the first talk of each.

    Where a Clarifier has a scheme and mode more than once, there is a group for each user and number of turns, and
    for each further run of the same. Questions asked at once, which no user answers, stand beside each of these, or,
    if there are several runs of them as well, in groups of their own.
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
    """The first run of every scheme and mode, then the second ones, and so on."""
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
