"""An instance's steps out of the journal, so that the search can be told again: by name, query and address."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from cts_async.report.viewer.values import as_object, as_text, as_texts
from cts_async.search.turn_format import SearchCall, ToolCall, VisitCall

_TURN: Final = "search/turn/"
_TOOL: Final = "search/tool/"
_READING: Final = "visit/"
_TOLD: Final = "search/told/"
_LONG: Final = ("text", "hits", "evidence", "summary")


class Placed(NamedTuple):
    """A record, and where its line begins. What a tool or a reader brought is not held: it is read there."""

    at: int
    record: Mapping[str, Any]


@dataclass(slots=True)
class InstanceSteps:
    """The steps of a search, the latest of each; a query or page is there once, whichever turn asked first."""

    turns: dict[int, Placed] = field(default_factory=dict)
    tools: dict[str, Placed] = field(default_factory=dict)
    """By the name of the call: "3.1/query/2"; a call that was remembered whole, as older versions did, "3.1"."""
    readings: dict[str, Placed] = field(default_factory=dict)
    told: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    """By turn, what the agent was told had failed, by piece ("1/query/2")."""
    calls: dict[ToolCall, Placed] = field(default_factory=dict)
    """Calls that were remembered whole; the same one made again was no step of its own."""
    queries: dict[str, Placed] = field(default_factory=dict)
    pages: dict[str, Placed] = field(default_factory=dict)

    def whole(self, name: str, call: ToolCall) -> Placed | None:
        """A call that was remembered whole, perhaps when it was made before."""
        return self.tools.get(name) or self.calls.get(call)

    def query(self, name: str, query: str) -> Placed | None:
        """The hits of a query: those recorded under its name, if they are its own, else its earlier ones."""
        found = self.tools.get(name)
        return found if found and _asked(found, "query") == query else self.queries.get(query)

    def page(self, name: str, url: str) -> Placed | None:
        """A page that was fetched, likewise."""
        found = self.tools.get(name)
        return found if found and _asked(found, "url") == url else self.pages.get(url)


def steps_of(placed: Iterable[Placed]) -> InstanceSteps:
    """Sort an instance's records, in the order of the journal; failed ones, and those of other roles, are left out."""
    steps = InstanceSteps()
    for one in placed:
        name = as_text(one.record.get("step")) or ""
        if one.record.get("ok") is not True:
            continue
        if name.startswith(_TURN):
            steps.turns[_number(name.removeprefix(_TURN))] = one
        elif name.startswith(_TOOL):
            _add_tool(steps, name.removeprefix(_TOOL), one)
        elif name.startswith(_READING):
            steps.readings[name.removeprefix(_READING)] = one
        elif name.startswith(_TOLD):
            steps.told[_number(name.removeprefix(_TOLD))] = as_object(one.record.get("response"))
    return steps


def without_text(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """A record of a tool's or a reader's without its long texts, which may come to megabytes; others as they are."""
    if not (as_text(record.get("step")) or "").startswith((_TOOL, _READING)):
        return record
    response = as_object(record.get("response"))
    return {**record, "response": {name: None if name in _LONG else of for name, of in response.items()}}


def _add_tool(steps: InstanceSteps, name: str, one: Placed) -> None:
    steps.tools[name] = one
    request = as_object(one.record.get("request"))
    if isinstance(request.get("query"), list):
        steps.calls[SearchCall(tuple(as_texts(request["query"])))] = one
    elif isinstance(request.get("url"), list):
        steps.calls[VisitCall(tuple(as_texts(request["url"])), as_text(request.get("goal")) or "")] = one
    query, url = _asked(one, "query"), _asked(one, "url")
    if query is not None:
        steps.queries[query] = one
    elif url is not None:
        steps.pages[url] = one


def _asked(one: Placed, name: str) -> str | None:
    return as_text(as_object(one.record.get("request")).get(name))


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 9 else 0
