"""What was done for an instance before it failed: questions, answers, queries and the answer, from the journal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import count
from typing import Any, TypeVar

from cts_async.errors import CTSError
from cts_async.llm.parsing import Choice, Clarified, OneLine, QuestionList, ShortPhrase
from cts_async.protocol.conversation import QUERIES_OFFERED, form_of
from cts_async.records import MODES, SCHEMES, Mode, Scheme
from cts_async.report.untrusted import as_object, as_text
from cts_async.report.viewer.run import OpenRun
from cts_async.report.viewer.trace import instance_records, search_events

T = TypeVar("T")


def done_before(run: OpenRun, id: str) -> dict[str, Any]:
    """The fields that a line of results would have, as far as successful steps of the journal give them."""
    found = _Replies(instance_records(run, id))
    scheme: Scheme = next((one for one in SCHEMES if one == run.metadata.scheme), "cts")
    mode: Mode = next((one for one in MODES if one == run.metadata.mode), "at-once")
    events = search_events(run, id)
    line = {
        "turns": list(
            _at_once(found, scheme, run.metadata.k or 0) if mode == "at-once" else _turns(found, scheme, mode)
        ),
        "rewritten_query": found.parsed("rewrite", OneLine().parse),
        "answer": events[-1].text if events and events[-1].kind == "answer" else None,
    }
    return {name: value for name, value in line.items() if value}


class _Replies:
    """The replies of successful steps by name, the latest of each."""

    def __init__(self, records: Iterator[Mapping[str, Any]]) -> None:
        self._texts = {
            as_text(one.get("step")) or "": as_text(as_object(one.get("response")).get("text")) or ""
            for one in records
            if one.get("ok") is True
        }

    def parsed(self, step: str, parse: Callable[[str], T]) -> T | None:
        """A reply read by its form; None if there is none, or none of that form."""
        with suppress(CTSError, ValueError):
            return parse(self._texts[step]) if step in self._texts else None
        return None

    def answers(self, turn: int) -> list[str]:
        """The user's answer at a turn, or to a question, from 1; [] without one."""
        answer = self.parsed(f"answer/{turn}", ShortPhrase().parse)
        return [answer.text] if answer else []


def _at_once(found: _Replies, scheme: Scheme, k: int) -> Iterator[dict[str, Any]]:
    """Each question with its answer."""
    questions = found.parsed("clarify", QuestionList(k).parse) or ()
    offer = found.parsed("clarify/1", form_of(scheme, "at-once", k).parse)
    for n, question in enumerate(offer.offered if offer else questions, 1):
        yield {"offered": [question], "answers": found.answers(n)}


def _turns(found: _Replies, scheme: Scheme, mode: Mode) -> Iterator[dict[str, Any]]:
    """The turns of a conversation, up to the first without an offer."""
    form = form_of(scheme, mode, QUERIES_OFFERED if mode == "select" else 1)
    for turn in count(1):
        offer: Clarified | None = found.parsed(f"clarify/{turn}", form.parse)
        if offer is None:
            return
        chosen = found.parsed(f"select/{turn}", Choice(offer.offered).parse) if mode == "select" else None
        query = found.parsed(f"reformulate/{turn}", OneLine().parse)
        yield {
            "offered": list(offer.offered),
            "types": list(offer.types),
            "reasoning": offer.reasoning,
            "answers": found.answers(turn),
            "chosen": chosen,
            "query": query if chosen is None else offer.offered[chosen],
        }
