"""Tool health: which share of a run's searches and visits worked, and where and why the others failed.

Scores fall with it, so it is shown beside them. It is read from the lines that count in results.jsonl. Hosts and reasons
are untrusted text, from web pages and servers: they are bounded here, and escaped where they are printed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from cts_async.foreign_json import as_object
from cts_async.runs.results import COUNTED_AS
from cts_async.search.toolbox import every_tool

MOST: Final = 20
"""Causes that are listed, the most frequent first."""
MOST_PRINTED: Final = 3
FEW_WORKED: Final = 0.1
"""Below this share of searches that found something, or of visits that worked, a score measures the tools."""
_TEXT_CHARS: Final = 80

Cause = tuple[str, str, str]
"""Tool, host, reason."""


@dataclass(slots=True)
class ToolHealth:
    """Queries and pages asked for, and failures by cause.

    `lexical` counts pages that no model could read, so that passages were chosen by their words, `empty` searches that
    worked and found nothing.
    """

    asked: Counter[str] = field(default_factory=Counter)
    """By tool."""
    failed: Counter[Cause] = field(default_factory=Counter)
    lexical: int = 0
    empty: int = 0

    def add(self, tools: Mapping[str, Any]) -> None:
        """Add the tools of one results line. Malformed counts and causes are ignored."""
        for tool, field_name in COUNTED_AS.items():
            self.asked[tool] += _count(tools.get(field_name))
        for tool, n in as_object(tools.get("others")).items():
            self.asked[_text(tool)] += _count(n)
        self.lexical += _count(tools.get("lexical"))
        self.empty += _count(tools.get("empty"))
        failed = tools.get("failed")
        if not isinstance(failed, list):
            return
        for failure in failed:
            if not isinstance(failure, Mapping):
                continue
            n = failure.get("n", 1)
            if isinstance(n, int):
                cause = _text(failure.get("tool")), _text(failure.get("host")), _text(failure.get("reason"))
                self.failed[cause] += n

    def tools(self) -> dict[str, str]:
        """What each tool is asked for: "searches" and "visits", then those of further tools that were asked."""
        requests = dict(COUNTED_AS)
        nouns = {tool.name: tool.requests for tool in every_tool().tools}
        for tool in sorted(self.asked.keys() - requests.keys()):
            requests[tool] = nouns.get(tool, tool)  # of a plug-in that is no longer installed
        return requests

    def n_failed(self, tool: str) -> int:
        n_failed = 0
        for (failed_tool, _, _), n in self.failed.items():
            if failed_tool == tool:
                n_failed += n
        return n_failed

    def share(self, tool: str) -> float | None:
        """Share of requests that worked; None without requests."""
        n_asked = self.asked[tool]
        if not n_asked:
            return None
        return 1 - self.n_failed(tool) / n_asked

    def as_json(self) -> dict[str, Any]:
        """Return each tool's share of requests that worked, then the most frequent causes; `other` counts the rest."""
        health: dict[str, Any] = {}
        further_tools: dict[str, Any] = {}
        for tool in self.tools():
            counts = {"asked": self.asked[tool], "failed": self.n_failed(tool), "worked": self.share(tool)}
            if tool in COUNTED_AS:
                health[COUNTED_AS[tool]] = counts
            else:
                further_tools[tool] = counts
        if further_tools:
            health["others"] = further_tools
        health["read_lexically"] = self.lexical
        failures = []
        n_listed = 0
        for (tool, host, reason), n in ranked(self.failed)[:MOST]:
            failures.append({"tool": tool, "host": host, "reason": reason, "n": n})
            n_listed += n
        health["failures"] = failures
        health["other_failures"] = self.failed.total() - n_listed
        if self.empty:
            health["searches_without_results"] = self.empty
        return health

    def lines(self) -> list[str]:
        """Return a line for each tool with failures: "visits worked: 87 % (http 404 at example.org 12, ...)"."""
        lines = []
        for tool, word in self.tools().items():
            share = self.share(tool)
            if share is not None and share < 1:
                # Rounded down: never 100 if something failed.
                lines.append(f"{word} worked: {math.floor(100 * share)} % ({self._causes(tool)})")
        if self.empty:
            lines.append(f"searches without results: {self.empty:,} of {self.asked['search']:,}")
        return lines

    def notices(self) -> list[str]:
        """Return why the scores do not measure the queries: hardly a search found anything, hardly a visit worked."""
        notices = []
        searches, visits = self.asked["search"], self.asked["visit"]
        n_found = searches - self.n_failed("search") - self.empty
        if searches and n_found < FEW_WORKED * searches:
            causes = self._causes("search")
            if self.empty:
                causes += f"{', ' * bool(causes)}no results {self.empty}"
            notices.append(_tools_failed(n_found, searches, "searches", "found anything", causes))
        n_read = visits - self.n_failed("visit")
        if visits and n_read < FEW_WORKED * visits:
            notices.append(_tools_failed(n_read, visits, "visits", "worked", self._causes("visit")))
        return notices

    def _causes(self, tool: str) -> str:
        """Name the most frequent causes: "http 404 at example.org 12, timeout at a.org 3"."""
        causes: list[str] = []
        for (failed_tool, host, reason), n in ranked(self.failed):
            if failed_tool == tool:
                causes.append(f"{reason} at {host or '?'} {n}")
        return ", ".join(causes[:MOST_PRINTED])


def _tools_failed(n: int, n_asked: int, nouns: str, verb: str, causes: str) -> str:
    """Say that hardly any use of a tool brought anything, and what that means for the score."""
    share = f"Only {n:,} of {n_asked:,} {nouns}"
    # The counts are of unknown origin: failures may outnumber requests.
    if n <= 0:
        share = f"None of {n_asked:,} {nouns}"
    return f"{share} {verb} ({causes}): these scores do not measure the queries"


def _text(value: object) -> str:
    """Text of unknown origin in one line, bounded."""
    return " ".join(str(value or "").split())[:_TEXT_CHARS]


def _count(value: object) -> int:
    """A count of unknown origin; 0 for what is none."""
    if isinstance(value, int) and value > 0:
        return value
    return 0


Counted = TypeVar("Counted", str, tuple[str, str], tuple[str, str, str])


def ranked(counts: Mapping[Counted, int]) -> list[tuple[Counted, int]]:
    """Sort counts: the largest first, equal ones by name."""
    return sorted(counts.items(), key=lambda count: (-count[1], count[0]))
