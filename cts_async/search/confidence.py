"""How sure an agent says it is of its answer, as InteractComp's agents say it (Deng et al. 2025): a number, 0 to 100.

Where answers are judged right or wrong, the agent's prompt asks for a last line `Confidence: NN`. It is no part of the
answer: whoever judges never sees it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from cts_async.records import Language, Trace

REQUEST: Final[Mapping[Language, str]] = {
    "en": (
        "End your answer, inside <answer>, with a line of its own that says how sure you are that it is right: "
        "`Confidence: NN`, with a whole number from 0 (a guess) to 100 (certain) in place of NN."
    ),
    "zh": (
        "在<answer>内，用答案之后单独的最后一行写出你对该答案正确的把握：`Confidence: NN`，"
        "其中NN是从0（纯属猜测）到100（完全确定）的整数。"
    ),
}
"""What is added to the agent's prompt."""
MOST: Final = 100.0

_LINE: Final = re.compile(
    r"""
    [\W_]*                                                # **, -, (
    (?:confidence(?:[ ](?:level|score))?|置信度|信心|把握)
    [\s*_`"]*[:：=][\s*_`"]*
    (?P<number>[0-9]{1,3}(?:\.[0-9]+)?)
    \s*(?P<unit>[%％]|/\s*100)?
    [\s*_`".。)）]*
    """,
    re.IGNORECASE | re.VERBOSE,
)
_MAX_LINE: Final = 100
"""Characters of a line that states a confidence; a longer one is text, and would take the pattern long."""
_END_OF_ANSWER: Final = re.compile(r"</answer\s*>", re.IGNORECASE)


class StatedAnswer(NamedTuple):
    """An answer without the line that states a confidence, and that confidence; None if there is no such line."""

    text: str
    confidence: float | None


def split_confidence(answer: str) -> StatedAnswer:
    """Take the last line off an answer if it states a confidence from 0 to 100.

    A line that cannot be read for sure stays, and states nothing: `high`, `120`, or a share such as `0.9`, which may be
    meant of 1 or of 100. So does one without an answer before it.
    """
    text = answer.rstrip()
    before, _, last_line = text.rpartition("\n")
    confidence = _stated_in(last_line)
    if confidence is None or not before.strip():
        return StatedAnswer(answer, None)
    return StatedAnswer(before.strip(), confidence)


def is_only_confidence(answer: str) -> bool:
    """True for a line that states a confidence in the place of an answer."""
    return _stated_in(answer.strip()) is not None


def with_confidence(trace: Trace, last_turn: str = "") -> Trace:
    """Return a trace whose answer has no line of confidence any more, and has it as a number.

    Some models write it behind `</answer>`: `last_turn` is the text of the agent's last turn.
    """
    answer, confidence = split_confidence(trace.answer)
    if confidence is None:
        *_, behind = _END_OF_ANSWER.split(last_turn)
        lines = [line for line in behind.splitlines() if line.strip()]
        # The answer itself has been read: a turn without tags is all answer.
        if lines and trace.answer_from == "tag":
            confidence = _stated_in(lines[-1])
    return replace(trace, answer=answer, confidence=confidence)


def _stated_in(line: str) -> float | None:
    if len(line) > _MAX_LINE:
        return None
    match = _LINE.fullmatch(line)
    if match is None:
        return None
    confidence = float(match["number"])
    if confidence > MOST:
        return None
    if 0 < confidence < 1 and not match["unit"]:
        return None
    return confidence
