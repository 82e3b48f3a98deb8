"""Three systems' conversations about three intents, two turns each, and what their queries find: MRR@10 by hand."""

from __future__ import annotations

from pathlib import Path

from made_talks import made_talk

from cts_async.analysis.conversations import Talk, read_talk
from cts_async.search.rankers import Ranked

INTENTS = {str(n): "q" for n in range(3)}
QRELS = {id: {"cat": 1} for id in INTENTS}
RANKED = {
    "q": [Ranked("os", 2.0), Ranked("cat", 1.0)],
    "good": [Ranked("cat", 1.0)],
    "bad": [Ranked("os", 1.0)],
}


def talk(folder: Path, scheme: str, mode: str, *queries: str) -> Talk:
    """A system whose query after each turn is the same for every intent."""
    turns = [{"offered": ["Which?"], "query": query} for query in queries]
    return read_talk(made_talk(folder, scheme=scheme, mode=mode, rows=dict.fromkeys(INTENTS, turns), k=2))


def three_talks(folder: Path) -> list[Talk]:
    return [
        talk(folder, "standard", "respond", "q", "bad"),
        talk(folder, "at-cot", "respond", "good", "good"),
        talk(folder, "at-cot", "select", "good", "bad"),
    ]
