"""Which generated questions are compared with people's: those that a scheme asks when it knows q alone.

AT-CoT (SIGIR 2025) generates several questions at once for its tables 5 to 7, and takes the first turn of "respond"
where retrieval is compared with them (section 7): people's questions are about q, not about what was said since.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from cts_async.analysis.conversations import Talk
from cts_async.analysis.generation import Generated
from cts_async.analysis.scheme_correlation import Retrieval
from cts_async.analysis.turn_retrieval import TurnRetrieval
from cts_async.records import SCHEMES, Mode

_SOURCES: Final[tuple[Mode, Mode]] = ("at-once", "respond")


def source_of(talks: Sequence[Talk]) -> Mode | None:
    """The mode whose questions are compared: "at-once" if anybody asked so, else "respond"; None without either."""
    modes = {talk.mode for talk in talks}
    return next((mode for mode in _SOURCES if mode in modes), None)


def asked_first(talks: Sequence[Talk], blurred: Mapping[str, str]) -> dict[str, dict[str, Generated]]:
    """By scheme and query what `source_of` the talks of one Clarifier asked first.

    `blurred` is q by instance id, in the data's order; of several intents behind one q the first counts that has a
    conversation, since the first question depends on q alone.
    """
    source = source_of(talks)
    chosen = sorted((talk for talk in talks if talk.mode == source), key=lambda t: SCHEMES.index(t.scheme))
    return {talk.scheme: _of_queries(talk, blurred) for talk in chosen}


def _of_queries(talk: Talk, blurred: Mapping[str, str]) -> dict[str, Generated]:
    found: dict[str, Generated] = {}
    for id, query in blurred.items():
        conversation = talk.conversations.get(id)
        if conversation is not None and conversation.turns and query not in found:
            first = conversation.turns[0]
            found[query] = Generated(first.offered, first.types)
    return found


def retrieved_first(found: TurnRetrieval, measure: str, blurred: Mapping[str, str]) -> Retrieval:
    """By scheme and query the measure of every intent after the first turn of "respond"."""
    retrieval: dict[str, dict[str, list[float]]] = {}
    for cell in found.cells:
        if (cell.mode, cell.turn) == ("respond", 1):
            queries = retrieval.setdefault(cell.scheme, {})
            for id, value in cell.scores[measure].items():
                queries.setdefault(blurred[id], []).append(value)
    return retrieval
