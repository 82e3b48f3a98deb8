"""What was asked of the user before and during each search, read from the results of a run.

A search that failed has no answer, and is left out: what it had asked by then is known only to the journal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cts_async.errors import InputError
from cts_async.foreign_json import as_count, as_object
from cts_async.records import Ask
from cts_async.runs import files
from cts_async.runs.results import ASKING_FIELDS, answered, line_number, placed_results


@dataclass(frozen=True, slots=True)
class QuestionedSearch:
    """One answered instance: what its user was asked, and when."""

    id: str
    query: str = ""
    intent: str = ""
    before: tuple[tuple[str, str], ...] = ()
    """(question, answer) of before the search, in order."""
    asks: tuple[Ask, ...] = ()
    """The agent's own questions, in order, repeated ones included."""
    n_turns: int = 0
    """All turns of the search; 0 where they are not recorded."""
    n_refused: int = 0
    """Questions beyond those that were allowed, which the user never saw."""
    n_early: int = 0
    """Answers that were sent back, since more questions had to be asked first."""
    injected_turn: int | None = None
    """The turn before which the agent was given the answers; None if it was given none."""

    @property
    def first_ask_turn(self) -> int | None:
        """The turn of the agent's first question; None if it asked none."""
        return min((ask.turn for ask in self.asks), default=None)

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """All questions with their replies, those of before the search first."""
        return self.before + tuple((ask.question, ask.reply) for ask in self.asks)


def questioned_searches(directory: Path) -> dict[str, QuestionedSearch]:
    """Return the answered instances of a run by id, in the order of the ids; the last line of an id counts.

    Raises InputError for a malformed line.
    """
    path = directory / files.results_of(directory)
    searches: dict[str, QuestionedSearch] = {}
    for offset, line in placed_results(path, ASKING_FIELDS):
        searches.pop(line["id"], None)
        if not answered(line):
            continue
        search = _search_of(line)
        if any(ask.turn > search.n_turns for ask in search.asks):
            raise InputError(
                path,
                "has to be a number of turns, not less than the turn of any question",
                line=line_number(path, offset),
                field="search.turns",
            )
        searches[search.id] = search
    return {id: searches[id] for id in sorted(searches)}


def _search_of(line: Mapping[str, Any]) -> QuestionedSearch:
    asks: list[Ask] = []
    for ask in line.get("asks") or ():
        asks.append(Ask(ask["question"], ask["reply"], ask["turn"]))
    counts = as_object(line.get("search"))
    # Only a run that was stopped before the answers has questions without them.
    before = tuple(zip(line.get("questions") or (), line.get("answers") or (), strict=False))
    return QuestionedSearch(
        id=line["id"],
        query=str(line.get("blurred_query") or ""),
        intent=str(line.get("fused_query") or ""),
        before=before,
        asks=tuple(asks),
        # Of an agent that cannot ask each call of its model is a turn.
        n_turns=as_count(counts.get("turns")) or as_count(counts.get("model_calls")),
        n_refused=as_count(counts.get("asks_refused")),
        n_early=as_count(counts.get("early_answers")),
        injected_turn=line.get("injected_turn"),
    )
