"""What an answer of people's may be: the reply to one question, and in their own words.

answer/i        {question i}                    one of their answers for this instance, or unknown
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from cts_async.datasets.annotations import HumanPairs
from cts_async.protocol.audit.findings import Level
from cts_async.protocol.audit.journal import Record
from cts_async.protocol.audit.replies import fields_of
from cts_async.records import UNKNOWN

People = Mapping[str, HumanPairs]
"""What people answered, by instance."""


class Wrong(NamedTuple):
    """What is wrong with an answer, and the text concerned."""

    level: Level
    problem: str
    text: str = ""


def wrong_with(record: Record, pairs: HumanPairs | None) -> Iterator[Wrong]:
    """All that is wrong with the record of an answer. `pairs` are the instance's, None where nothing knows them."""
    request = record.get("request")
    if set(request or ()) != {"fields"} or set(fields_of(request)) != {"clarification_question"}:
        yield Wrong("provenance", "its request holds more than the question", str(request))
    if pairs is None:
        yield Wrong("missing", "what people answered about it is nowhere: name the data with --data")
        return
    reply: Any = record.get("response")
    said = reply if isinstance(reply, dict) else {}
    text, matched = said.get("text"), said.get("question")
    if record.get("ok") and text != UNKNOWN and (matched, text) not in pairs:
        problem = "nobody gave this answer to the question that it was matched with"
        yield Wrong("provenance", problem, str(text))
