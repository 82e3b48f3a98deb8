"""Cut prompts in a finished run, by its journal alone, so that runs of earlier versions are covered, too.

A reply that was made from a cut prompt is marked where that was noticed (`cut_prompt`, about how many tokens were sent).
Without marks an agent's conversation shows it: each turn's prompt is longer than the one before, so that turns
which are counted as exactly the same, largest number of tokens were cut.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from cts_async.foreign_json import as_list, as_object, as_texts
from cts_async.llm.apis import MAX_USAGE_TOKENS
from cts_async.llm.model import FIRST_PER_BYTE, printable_name
from cts_async.llm.prompt_cuts import MIN_CALLS, MIN_TOKENS, cut_prompt_text

__all__ = ["CutPrompts", "JournalCuts", "cut_prompt_lines"]

_TURN: Final = "search/turn/"
_TOOL: Final = "search/tool/"
_HIT_CHARS: Final = 60
"""About how many characters the agent reads around the texts of a search result: its number, link and labels."""


class CutPrompts(NamedTuple):
    """What a server did to the longest prompt that it cut, in tokens, and the number of prompts that it cut."""

    counted: int
    sent: int
    calls: int


class _Turn(NamedTuple):
    instance: int
    number: int
    tokens: int
    n_bytes: int
    """Of what follows the prompt of this turn in that of the next: the reply and the responses of its tools."""
    shortened: bool


@dataclass(slots=True)
class JournalCuts:
    """Collects what says so from the steps of a run, in any order."""

    _marked: dict[str, CutPrompts] = field(default_factory=dict)
    _models: list[str] = field(default_factory=list)
    # Columns of numbers: a journal may have a million turns.
    _turns: array[int] = field(default_factory=lambda: array("q"))
    """Instance, turn, tokens, bytes of the reply, index of the model, 1 if the prompt is not simply longer."""
    _tools: array[int] = field(default_factory=lambda: array("q"))
    """Instance, turn, bytes of a tool's result."""

    def add(self, record: Mapping[str, Any]) -> None:
        """Add one step."""
        response, step = map(record.get, ("response", "step"))
        if type(response) is not dict or type(step) is not str:
            return
        sent = None
        if "cut_prompt" in response:
            sent = response["cut_prompt"]
        elif not step.startswith("search/"):
            return
        is_turn = step.startswith(_TURN)
        if not is_turn and sent is None:
            # Most steps of a search: of these only what the agent was given to read says anything.
            if step.startswith(_TOOL) and "/query/" in step:
                self._add_tool(record, step, response)
            return
        usage, model = record.get("usage"), record.get("model")
        # The usage of several attempts is one sum.
        if not isinstance(usage, dict) or not isinstance(model, str) or record.get("attempts", 1) != 1:
            return
        tokens = usage.get("input")
        if not isinstance(tokens, int) or not 0 < tokens <= MAX_USAGE_TOKENS:
            return
        # A journal may be anybody's: more tokens counted than sent is no cut.
        if isinstance(sent, int) and tokens < sent <= MAX_USAGE_TOKENS:
            self._mark(model, tokens, sent)
        if is_turn:
            self._add_turn(record, step, response, model, tokens)

    def _add_tool(self, record: Mapping[str, Any], step: str, response: Mapping[str, Any]) -> None:
        number = _number_in(step[len(_TOOL) :].partition(".")[0])
        if number is not None:
            self._tools.extend((_instance_of(record), number, _result_bytes(response)))

    def _add_turn(
        self, record: Mapping[str, Any], step: str, response: Mapping[str, Any], model: str, tokens: int
    ) -> None:
        number = _number_in(step[len(_TURN) :])
        if number is None:
            return
        if model not in self._models:
            self._models.append(model)
        request = as_object(record.get("request"))
        shortened = "dropped" in request or "demand" in request
        n_bytes = len(str(response.get("text")).encode("utf-8", "replace"))
        index = self._models.index(model)
        self._turns.extend((_instance_of(record), number, tokens, n_bytes, index, int(shortened)))

    def by_model(self) -> dict[str, CutPrompts]:
        """What was cut, by model; empty if nothing says so."""
        cuts = dict(self._marked)
        for index, model in enumerate(self._models):
            if model in cuts:
                continue
            plateau = self._plateau(index)
            if plateau:
                cuts[model] = plateau
        return cuts

    def _mark(self, model: str, tokens: int, sent: int) -> None:
        cut = self._marked.get(model)
        if cut is None:
            self._marked[model] = CutPrompts(tokens, sent, 1)
        elif sent > cut.sent:
            self._marked[model] = CutPrompts(tokens, sent, cut.calls + 1)
        else:
            self._marked[model] = CutPrompts(cut.counted, cut.sent, cut.calls + 1)

    def _plateau(self, index: int) -> CutPrompts | None:
        """What the turns of one model show: successive ones that are counted as the same, largest number."""
        # Instances run at the same time: their turns are mixed in the journal.
        turns = sorted(self._turns_of(index))
        max_tokens = max(turn.tokens for turn in turns)
        if max_tokens < MIN_TOKENS or min(turn.tokens for turn in turns) == max_tokens:
            # The latter: a server that reports the same number whatever it is sent.
            return None
        sent, calls = 0, 0
        whole_tokens = whole_bytes = 0
        """Of the last prompt of this conversation that was counted in full, and what was added since."""
        before: _Turn | None = None
        for turn in turns:
            if before is None or not _is_longer(turn, before) or turn.tokens < max_tokens:
                whole_tokens, whole_bytes = turn.tokens, 0
            else:
                whole_bytes += before.n_bytes
                if before.tokens == max_tokens:
                    calls += 1
                    sent = max(sent, round(whole_tokens + FIRST_PER_BYTE * whole_bytes))
            before = turn
        # Two prompts may have as many tokens by chance.
        if calls < MIN_CALLS:
            return None
        return CutPrompts(max_tokens, max(sent, max_tokens), calls)

    def _turns_of(self, index: int) -> Iterator[_Turn]:
        results: dict[tuple[int, int], int] = {}
        for at in range(0, len(self._tools), 3):
            instance, number, n_bytes = self._tools[at : at + 3]
            results[instance, number] = results.get((instance, number), 0) + n_bytes
        for at in range(0, len(self._turns), 6):
            instance, number, tokens, n_bytes, model, shortened = self._turns[at : at + 6]
            if model == index:
                after = n_bytes + results.get((instance, number), 0)
                yield _Turn(instance, number, tokens, after, bool(shortened))


def _is_longer(turn: _Turn, before: _Turn) -> bool:
    """Whether the prompt of a turn is that of the turn before and what followed it."""
    is_next = (before.instance, before.number + 1) == (turn.instance, turn.number)
    # Where the agent itself left responses out, an equal number says nothing about the server.
    return is_next and not turn.shortened


def _instance_of(record: Mapping[str, Any]) -> int:
    return hash(str(record.get("instance")))


def _number_in(text: str) -> int | None:
    """The number of a turn in a step's name; None if it is none."""
    # Journals may be a stranger's: more digits would not fit into the columns.
    if text.isdecimal() and len(text) < 7:
        return int(text)
    return None


def _result_bytes(response: Mapping[str, Any]) -> int:
    """About the bytes of the search results that the agent reads."""
    size = 0
    for hit in as_list(response.get("hits")):
        for text in as_texts(hit):
            size += len(text.encode("utf-8", "replace"))
        size += _HIT_CHARS
    return size


def cut_prompt_lines(cuts: Mapping[str, CutPrompts]) -> Iterator[str]:
    """Yield a line for each model whose server cuts prompts."""
    for model, cut in sorted(cuts.items()):
        prompts = "1 prompt was"
        if cut.calls > 1:
            prompts = f"{cut.calls:,} prompts were"
        yield f"{cut_prompt_text(printable_name(model), cut.counted, cut.sent)} ({prompts} cut)"
