"""How the original program of InteractComp would have read the user's yes-no replies, beside how they are read here.

Its parser takes the first line of a reply in lower case. Unless that is one of the words it knows, it looks for "yes",
then for "no", then for "don't know" anywhere in it: so "I don't know." with a full stop, a curly apostrophe, "unknown"
and "not stated" are all no, since "know" has "no" in it. A reply that never came is "i don't know". (Deng et al. 2025;
github.com/FoundationAgents/InteractComp.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from cts_async.engine.journal import read_records
from cts_async.errors import UnusableOutput
from cts_async.foreign_json import as_list, as_object, as_text
from cts_async.llm.parsing import YesNo
from cts_async.records import DONT_KNOW
from cts_async.runs.files import STEPS
from cts_async.runs.finished import FinishedRun
from cts_async.search.asking import ASK_STEP

YES: Final = "yes"
NO: Final = "no"
FAILED: Final = "failed"
"""What stands here for a reply that never came, or that is none of the three: the instance fails."""
_KNOWN_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    YES: ("yes", "y", "sure", "correct", "true", "是", "是的", "对", "对的", "正确"),
    NO: ("no", "n", "false", "incorrect", "不是", "不对", "否", "错误"),
    DONT_KNOW: ("idk", "i don't know", "i dont know", "不知道", "不清楚", "无法确定", "信息不足"),
}
MOST_EXAMPLES: Final = 3


def read_by_original(reply: str) -> str:
    """Return what the original parser makes of a reply: yes, no, or "i don't know"."""
    lines = reply.strip().lower().splitlines()
    if not lines:
        return DONT_KNOW
    first_line = lines[0].strip()
    for reading, words in _KNOWN_WORDS.items():
        if first_line in words:
            return reading
    if YES in first_line:
        return YES
    if NO in first_line:
        return NO
    return DONT_KNOW


@dataclass(slots=True)
class ReplyReadings:
    """The yes-no replies of a run, by how they are read here (`FAILED` for none) and by the original parser."""

    system: str
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By (reading, original): how it is read here, and there."""
    examples: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    """Distinct replies that are read differently, as the model wrote them: the first MOST_EXAMPLES of each pair."""

    @property
    def n(self) -> int:
        """Number of replies."""
        return self.counts.total()

    @property
    def n_turned(self) -> int:
        """Replies that the original parser reads differently, those that failed here not counted."""
        n_turned = 0
        for (reading, original), n in self.counts.items():
            if reading not in (original, FAILED):
                n_turned += n
        return n_turned

    @property
    def n_failed(self) -> int:
        """Replies that failed here; the original program goes on with some word."""
        return sum(n for (reading, _), n in self.counts.items() if reading == FAILED)

    def add(self, reply: str, reading: str) -> None:
        """Count a reply as the model wrote it, "" for none, and how it was read here."""
        original = read_by_original(reply)
        self.counts[reading, original] += 1
        if reading == original or not reply:
            return
        examples = self.examples.setdefault((reading, original), [])
        if reply not in examples and len(examples) < MOST_EXAMPLES:
            examples.append(reply)


def reply_readings(directory: Path, system: str) -> ReplyReadings:
    """Read the replies to an agent from the journal of a run whose user replies yes, no, or "i don't know"."""
    latest: dict[tuple[str, str], Mapping[str, Any]] = {}
    for record in read_records(directory / STEPS):
        step, instance = as_text(record.get("step")) or "", as_text(record.get("instance")) or ""
        # A reply that failed may have been asked for again by --retry-failed.
        if step.startswith(ASK_STEP):
            latest[instance, step] = record
    readings = ReplyReadings(system)
    for reply in latest.values():
        readings.add(_first_reply(reply), _read_here(reply))
    return readings


def _first_reply(record: Mapping[str, Any]) -> str:
    """What the user's model wrote first, which is all that the original program would have seen."""
    # A reply that is none of the three is asked for again here; the journal has it with the attempt that it ended.
    for attempt in map(as_object, as_list(record.get("failed_attempts"))):
        text = as_text(attempt.get("text"))
        if text is not None:
            return text
    return as_text(as_object(record.get("response")).get("text")) or ""


def _read_here(record: Mapping[str, Any]) -> str:
    text = as_text(as_object(record.get("response")).get("text"))
    if record.get("ok") is not True or text is None:
        return FAILED
    try:
        return YesNo().parse(text).text
    except UnusableOutput:
        return FAILED


def all_readings(runs: Iterable[FinishedRun]) -> tuple[ReplyReadings, ...]:
    """Read the runs whose user replies yes, no, or "i don't know", in their order; without those without a reply."""
    readings: list[ReplyReadings] = []
    for run in runs:
        if run.replies != "yes-no":
            continue
        readings_of_run = reply_readings(run.directory, run.label)
        if readings_of_run.n:
            readings.append(readings_of_run)
    return tuple(readings)
