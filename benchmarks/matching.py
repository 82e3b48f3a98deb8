"""How often a question finds the human answer it should: changed annotated questions, and questions of others.

Over Qulac (`../shared/data/qulac.json`, or the path in QULAC), three questions of every facet, seeded. The threshold
of `cts_async/protocol/human_answers.py` comes from here.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from benchmarks.shared.process import ROOT
from benchmarks.shared.result import Result, Row
from cts_async.datasets.kinds import HumanPairs
from cts_async.neighbours.qulac.collection import read_annotations, read_instances
from cts_async.protocol.human_answers import THRESHOLD, best_match

QULAC: Final = Path(os.environ.get("QULAC", ROOT.parent / "shared" / "data" / "qulac.json"))
EACH: Final = 3
FRAMES: Final = (
    *("are you looking for", "are you interested in", "do you want to know about", "would you like"),
    *("would you like to know about", "do you want", "are you trying to find", "do you need"),
    *("are you asking about", "are you searching for"),
)

Change = Callable[[random.Random, str], str | None]


def word_left_out(rng: random.Random, question: str) -> str | None:
    words = question.split()
    if len(words) < 4:
        return None
    del words[rng.randrange(len(words))]
    return " ".join(words)


def letters_swapped(rng: random.Random, question: str) -> str:
    i = rng.randrange(len(question) - 1)
    return question[:i] + question[i + 1] + question[i] + question[i + 2 :]


def words_swapped(rng: random.Random, question: str) -> str | None:
    words = question.split()
    if len(words) < 2:
        return None
    i = rng.randrange(len(words) - 1)
    words[i], words[i + 1] = words[i + 1], words[i]
    return " ".join(words)


def another_frame(rng: random.Random, question: str) -> str | None:
    for frame in FRAMES:
        if question.startswith(f"{frame} "):
            return rng.choice([other for other in FRAMES if other != frame]) + question[len(frame) :]
    return None


def asked_politely(rng: random.Random, question: str) -> str:
    return f"Could you tell me, {question}?"


CHANGES: Final[dict[str, Change]] = {
    "two words swapped": words_swapped,
    "asked politely": asked_politely,
    "another frame": another_frame,
    "two letters swapped": letters_swapped,
    "a word left out": word_left_out,
}


def bench() -> Result:
    title = f"Questions matched with those that people were asked, at {THRESHOLD:g} %"
    if not QULAC.exists():
        return Result(title, skipped=f"Qulac is not at {QULAC}; name it in QULAC")
    counts = _counted(read_annotations(QULAC).pairs, {i.id: i.query for i in read_instances(QULAC)})
    rows = [
        Row(name, 100 * counts[name, True] / total, digits=1, note=f"% of {total}")
        for name in (*CHANGES, "another topic's", "another of the same facet")
        if (total := counts[name, True] + counts[name, False])
    ]
    return Result(title, rows)


def _counted(pairs: Mapping[str, HumanPairs], topic: Mapping[str, str]) -> Counter[tuple[str, bool]]:
    """By name of a change, or of whose question it is, and whether it found its own, or anything."""
    rng = random.Random(0)
    of_facet = {facet: list(dict.fromkeys(asked for asked, _ in found)) for facet, found in pairs.items()}
    counts: Counter[tuple[str, bool]] = Counter()
    for facet, questions in of_facet.items():
        for question in rng.sample(questions, min(EACH, len(questions))):
            for name, change in CHANGES.items():
                if (changed := change(rng, question)) is not None:
                    match = best_match(changed, questions)
                    counts[name, match is not None and questions[match[0]] == question] += 1
            rest = [other for other in questions if other != question]
            counts["another of the same facet", best_match(question, rest) is not None] += 1
        for _ in range(EACH):
            other = rng.choice([one for one in of_facet if topic[one] != topic[facet]])
            asked = rng.choice(of_facet[other])
            counts["another topic's", best_match(asked, questions) is not None] += 1
    return counts
