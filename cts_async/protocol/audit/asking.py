"""Questions to the user during a search, and answers that are given to the agent at some turn.

    step              request or response                checked against
    search/ask/n      {question}, q* by its digest       a question that the agent wrote in one of its turns
    search/ask/n      its reply                          of the replies "yes-no" exactly one of three
    search/turn/n     the text `injected`                exactly what was asked and answered before the search, at the
                                                         turn that the run's share says, and at no other
    search            `asks` of code of the user's       its result
    the result        `asks`                             for each question the recorded reply, in a turn that asked it;
                                                         what the agent's next turn noted; the most and the least that
                                                         the run allows
    the result        `injected_turn`                    the turn of the request that has the text

The user is asked one question at a time and sees nothing of the others: the fields of each request are exactly one
question. Equal questions are asked once: the agent reads the reply again. What the agent wrote is read here by an own
reader, and more loosely than by the agent's: a question is the agent's if its letters stand in a call of that turn.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeGuard

from cts_async.llm.parsing import YesNo
from cts_async.protocol.audit.evidence import (
    Record,
    dict_at,
    parsed_reply,
    possible_answers,
    question_of,
    role_and_turn,
)
from cts_async.protocol.audit.findings import Finding, Level
from cts_async.records import DONT_KNOW, UNKNOWN, AskRules
from cts_async.runs.results import Line

INTRODUCTIONS: Final = (
    "The user was asked before your search, and answered:",
    "搜索之前已向用户提问，用户的回答如下：",
)
"""How a text begins that is given to the agent later: the audit's own copy; a test compares it to the pipeline's."""

_YES_NO_REPLIES: Final = ("yes", "no", DONT_KNOW)
_CALL: Final = re.compile(r"<tool_call\b", re.IGNORECASE)
_ASKS: Final = re.compile(r"\b(?:ask|ask_user|clarify)\b", re.IGNORECASE)
"""The names under which an agent may call the tool."""
_ESCAPED: Final = re.compile(r"((?:\\u[0-9a-fA-F]{4})+)|\\(.)", re.DOTALL)
_MAX_ESCAPED: Final = 2
"""Arguments are JSON, and may be JSON within a string of JSON."""
_RESULTS: Final = "results"


@dataclass(frozen=True, slots=True)
class AskingFacts:
    """What a run's manifest says of its searches."""

    rules: AskRules | None = None
    """None: the agent may not ask."""
    inject_at: float | None = None
    """The share of turns after which it is given the answers of before; None: it is given none."""
    max_turns: int = 0

    @property
    def injected_turn(self) -> int:
        """The turn before which the answers are given: the first with at least that share of the turns before it."""
        share = self.inject_at or 0.0
        for n_used in range(self.max_turns):
            # A quotient is what its decimal is, which a product is not always: 0.55 * 20 is more than 11.
            if n_used / self.max_turns >= share:
                return n_used + 1
        return self.max_turns + 1

    def reads(self, record: Record) -> list[str]:
        """The replies that a recorded one can have been read as; [] if it is unusable."""
        if self.rules is None or self.rules.replies == "open":
            return possible_answers(record)
        answer = parsed_reply(record, YesNo())
        return [answer.text] if answer else []


class SearchQuestions:
    """What the agent of one instance asked the user during its search, as its journal has it."""

    def __init__(
        self, facts: AskingFacts, instance: str, records: Sequence[Record], *, is_custom: bool
    ) -> None:
        """`is_custom`: the agent is code of the user's."""
        self._facts, self._instance, self._is_custom = facts, instance, is_custom
        self._replies: dict[str, dict[str, list[str]]] = {}
        """By step, the possible replies by question, normalised; a step may be recorded twice, for other questions."""
        self.texts: list[str] = []
        """All questions and replies, which the agent has."""
        self._turns: dict[int, list[Record]] = {}
        self._injected: dict[int, list[str]] = {}
        """By turn, the texts given to the agent before it."""
        self._ended: list[Mapping[str, Any]] = []
        """The responses of an agent that is code of the user's."""
        for record in records:
            self._read(record)

    def _read(self, record: Record) -> None:
        step = str(record["step"])
        role, number = role_and_turn(step)
        if step.startswith("search/turn/"):
            number = int(step.rpartition("/")[2])
            injected = dict_at(record, "request").get("injected")
            if injected is not None:
                self._injected.setdefault(number, []).append(str(injected))
        if not record.get("ok"):
            return
        if role == "ask":
            question, replies = question_of(record), self._facts.reads(record)
            by_question = self._replies.setdefault(step, {})
            by_question.setdefault(normalised_question(question), []).extend(replies)
            self.texts += [question, *replies]
        elif step == "search":
            self._ended.append(dict_at(record, "response"))
        elif step.startswith("search/turn/"):
            self._turns.setdefault(number, []).append(record)

    def replies_in(self, line: Line | None) -> dict[str, list[str]]:
        """Return the replies of a result by their question; {} without a result, or one of another form."""
        replies: dict[str, list[str]] = {}
        asks = None if line is None else line.get("asks")
        if _are_asks(asks):
            for ask in asks:
                replies.setdefault(ask["question"], []).append(ask["reply"])
        return replies

    # --- Requests

    def check_question(self, step: str, question: str, record: Record) -> Iterator[Finding]:
        """Check what the user was asked in a step, and the form of the reply."""
        rules = self._facts.rules
        _, number = role_and_turn(step)
        if rules is None:
            yield self._finding("provenance", step, "the agent of this run may not ask the user")
            return
        if number > rules.max_asks:
            problem = f"the agent of this run may ask the user {rules.max_asks} times"
            yield self._finding("provenance", step, problem)
        if not self._is_asked_by_agent(question):
            yield self._finding("provenance", step, "it is no question that the agent asked", question)
        earlier = self._earlier_step(step, question)
        if earlier:
            problem = f"the user was asked this before, in {earlier}"
            yield self._finding("provenance", step, problem, question)
        if record.get("ok") and rules.replies == "yes-no" and not self._facts.reads(record):
            problem = f"its reply is none of {', '.join(_YES_NO_REPLIES)}"
            yield self._finding("provenance", step, problem, str(dict_at(record, "response").get("text")))

    def _is_asked_by_agent(self, question: str) -> bool:
        if not self._is_custom:
            return any(self._asks(question, turn) for turn in self._turns)
        # A call that has not ended, or failed, has not said what it asked.
        return not self._ended or any(
            question == asked for response in self._ended for asked, _, _ in _asks_of(response)
        )

    def _asks(self, question: str, turn: int) -> bool:
        """Whether the question stands in a call of a recorded turn."""
        letters = _letters(question)
        for record in self._turns.get(turn, ()):
            reply = str(dict_at(record, "response").get("text"))
            for call in _CALL.split(reply)[1:]:
                # "??" has no letters, and is a question all the same.
                stands_in = _stands_in(letters, call) if letters else question in call
                if stands_in and _ASKS.search(call):
                    return True
        return False

    def _earlier_step(self, step: str, question: str) -> str:
        """The step before `step` that asked the same; "" for none, or where a search was begun again otherwise."""
        normalised = normalised_question(question)
        for earlier, replies_by_question in self._replies.items():
            if earlier == step:
                break
            if list(replies_by_question) == [normalised] and len(self._replies.get(step, {})) <= 1:
                return earlier
        return ""

    def check_injected(self, step: str, text: Any, *, is_rendered: bool) -> Iterator[Finding]:
        """Check a text that was given to the agent before a turn.

        `is_rendered`: after its introduction it has exactly the questions and answers of before.
        """
        number = int(step.rpartition("/")[2])
        if self._facts.inject_at is None:
            yield self._finding(
                "provenance", step, "the agent of this run is given no answers later", str(text)
            )
        elif not is_rendered:
            problem = "the text that it was given is not exactly what was asked and answered before"
            yield self._finding("provenance", step, problem, str(text))
        elif number != self._facts.injected_turn:
            problem = (
                f"it was given the answers before turn {number}, and not before {self._facts.injected_turn}"
            )
            yield self._finding("provenance", step, problem)

    # --- The result

    def result(self, line: Line) -> Iterator[Finding]:
        """Check what the result of a whole search says of asking."""
        yield from self._check_injected_turn(line)
        rules, asks = self._facts.rules, line.get("asks")
        if rules is None:
            if asks is not None:
                problem = "it has asks, but the agent of this run may not ask the user"
                yield self._finding("provenance", _RESULTS, problem)
            return
        if not _are_asks(asks):
            yield self._finding("missing", _RESULTS, "its result does not say what the agent asked")
            return
        if len(asks) > rules.max_asks:
            problem = f"it has {len(asks)} asks, but the agent of this run may ask {rules.max_asks} times"
            yield self._finding("provenance", _RESULTS, problem)
        if len(asks) < rules.min_asks and not self._is_excused(line):
            problem = f"it has {len(asks)} asks, but the agent of this run has to ask {rules.min_asks} times"
            yield self._finding("provenance", _RESULTS, problem)
        for step, ask in zip(_steps_of(asks), asks, strict=True):
            yield from self._check_reply(step, ask["question"], ask["reply"])
        if self._is_custom:
            yield from self._check_against_call(line, asks)
        else:
            yield from self._check_turns(line, asks)

    def _is_excused(self, line: Line) -> bool:
        """Whether fewer questions are no fault: an answer that was forced, or in the last turn, is taken as it is."""
        if self._is_custom:
            return False
        search = dict_at(line, "search")
        is_at_end = search.get("model_calls") == self._facts.max_turns
        return bool(search.get("forced")) or is_at_end or _ends_empty(line)

    def _check_reply(self, step: str, question: str, reply: str) -> Iterator[Finding]:
        recorded = self._replies.get(step, {}).get(normalised_question(question))
        if recorded is None:
            problem = "its result has a question that is not recorded: the user was not asked it"
            yield self._finding("missing", step, problem, question)
        elif reply not in recorded:
            problem = "the reply in its result, which the agent read, is not the recorded one"
            yield self._finding("provenance", step, problem, reply)

    def _check_turns(self, line: Line, asks: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
        """Check in which turns the agent asked, by what it wrote and by what its next turns noted."""
        search = dict_at(line, "search")
        n_turns = search.get("turns")
        expected: dict[int, list[tuple[str, str]]] = {}
        for step, ask in zip(_steps_of(asks), asks, strict=True):
            question, turn = ask["question"], ask["turn"]
            expected.setdefault(turn, []).append((question, step))
            if not self._asks(question, turn):
                problem = "its result says that the agent asked in this turn, which did not"
                yield self._finding("provenance", f"search/turn/{turn}", problem, question)
        if not isinstance(n_turns, int) or (n_turns not in self._turns and not _ends_empty(line)):
            problem = f"its result has {n_turns} turns, but the last of them is not recorded"
            yield self._finding("provenance", _RESULTS, problem)
            return
        noted_counts: Counter[str] = Counter()
        is_one_search = True  # begun again as another conversation, it has recorded its turns twice
        for turn, records in self._turns.items():
            if not 1 < turn <= n_turns:
                continue
            # What became of a turn's calls is noted in the next one.
            if expected.get(turn - 1, []) not in [_noted_asks(record) for record in records]:
                problem = "what it notes that the agent asked and read before is not what its result has"
                yield self._finding("provenance", f"search/turn/{turn}", problem)
            noted_counts.update(kind for kind, _, _ in _noted_calls(records[-1]))
            is_one_search = is_one_search and len(records) == 1
        for name, kind in (("asks_refused", "ask_refused"), ("early_answers", "early_answer")):
            n_in_result = search.get(name) or 0
            if is_one_search and not _ends_empty(line) and n_in_result != noted_counts[kind]:
                problem = f"its result has {n_in_result} {name}, but its turns note {noted_counts[kind]}"
                yield self._finding("provenance", _RESULTS, problem)

    def _check_against_call(self, line: Line, asks: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
        """Check the asks and the number of turns of code of the user's against what its call recorded."""
        in_result = [(ask["question"], ask["reply"], ask["turn"]) for ask in asks]
        search = dict_at(line, "search")
        for response in self._ended:
            counts = (response.get("turns"), response.get("asks_refused") or 0)
            in_search = (search.get("turns"), search.get("asks_refused") or 0)
            if _asks_of(response) == in_result and counts == in_search:
                return
        yield self._finding(
            "provenance", "search", "what it says that the agent asked is not what its result has"
        )

    def _check_injected_turn(self, line: Line) -> Iterator[Finding]:
        in_result = line.get("injected_turn")
        if self._facts.inject_at is None:
            if "injected_turn" in line:
                problem = "it has an injected_turn, but the agent of this run is given no answers later"
                yield self._finding("provenance", _RESULTS, problem)
            return
        due = self._facts.injected_turn
        n_calls = dict_at(line, "search").get("model_calls")
        allowed: list[int | None] = [None]
        if isinstance(n_calls, int) and n_calls >= due:
            allowed = [due]
            if due not in self._injected and not _ends_empty(line):
                problem = "the agent was not given the answers, which were due before this turn"
                yield self._finding("provenance", f"search/turn/{due}", problem)
        elif _ends_empty(line):
            # It ended before that turn was recorded: its conversation had no more room.
            allowed.append(due)
        if "injected_turn" not in line or in_result not in allowed:
            problem = f"it says that the agent was given the answers before turn {in_result}"
            yield self._finding("provenance", _RESULTS, problem)

    def _finding(self, level: Level, step: str, problem: str, text: str = "") -> Finding:
        return Finding(level, self._instance, step, problem, text)


def is_known_reply(reply: str) -> bool:
    """Whether the user has said something."""
    return reply not in (UNKNOWN, DONT_KNOW)


def injected_pairs(text: Any) -> str | None:
    """The lines of questions and answers in a text that was given to the agent; None if it does not begin as one."""
    introduction, _, pairs = str(text).partition("\n")
    return pairs if introduction in INTRODUCTIONS else None


def normalised_question(question: str) -> str:
    """What makes two questions equal: letters and digits in one case and width, with single spaces."""
    # As search.asking has it, and not taken from there: an audit shares no code with what it audits.
    folded = unicodedata.normalize("NFKC", question).casefold()
    return " ".join("".join(char for char in folded if char.isalnum() or char.isspace()).split())


def _letters(text: str) -> str:
    return normalised_question(text).replace(" ", "")


def _stands_in(letters: str, call: str) -> bool:
    """Whether the letters stand in a call, where any of them may be escaped."""
    for _ in range(_MAX_ESCAPED):
        if letters in _letters(call):
            return True
        call = _ESCAPED.sub(_unescaped, call)
    return letters in _letters(call)


def _unescaped(escape: re.Match[str]) -> str:
    if escape[1]:
        # Characters beyond the first plane are two escapes, which mean nothing one by one.
        return bytes.fromhex(escape[1].replace("\\u", "")).decode("utf-16-be", "replace")
    return {"n": "\n", "t": "\t", "r": "\r", "b": " ", "f": " "}.get(escape[2], escape[2])


def _noted_calls(record: Record) -> list[tuple[str, str, str]]:
    """What a turn notes of the calls before it: kind, request and the step with the reply."""
    calls = dict_at(record, "notes").get("calls")
    noted: list[tuple[str, str, str]] = []
    if isinstance(calls, list):
        for call in calls:
            if isinstance(call, dict):
                noted.append((str(call.get("kind")), str(call.get("request")), str(call.get("record"))))
    return noted


def _noted_asks(record: Record) -> list[tuple[str, str]]:
    """The questions that a turn notes of the one before, each with the step of its reply."""
    return [(request, step) for kind, request, step in _noted_calls(record) if kind == "ask"]


def _steps_of(asks: Sequence[Mapping[str, Any]]) -> list[str]:
    """For each of a result's asks the step of its reply: they are numbered, equal questions once."""
    numbers: dict[str, int] = {}
    steps: list[str] = []
    for ask in asks:
        number = numbers.setdefault(normalised_question(ask["question"]), len(numbers) + 1)
        steps.append(f"search/ask/{number}")
    return steps


def _ends_empty(line: Line) -> bool:
    """Whether a search ended without an answer, and that is its result."""
    return bool(dict_at(line, "search").get("unanswered")) or not line.get("answer")


def _asks_of(response: Mapping[str, Any]) -> list[tuple[Any, Any, Any]]:
    """The (question, reply, turn) that a call of code of the user's recorded; rows of another form are left out."""
    rows = response.get("asks")
    asks: list[tuple[Any, Any, Any]] = []
    if isinstance(rows, list):
        for row in rows:
            if isinstance(row, list) and len(row) == 3:
                asks.append((row[0], row[1], row[2]))
    return asks


def _are_asks(value: Any) -> TypeGuard[list[dict[str, Any]]]:
    """Whether it has the shape of a result's asks; results are untrusted input."""
    if not isinstance(value, list):
        return False
    for ask in value:
        if not isinstance(ask, dict) or not isinstance(ask.get("turn"), int):
            return False
        if not isinstance(ask.get("question"), str) or not isinstance(ask.get("reply"), str):
            return False
    return True
