"""Tool health: which share of a run's searches and visits worked, and where and why the others did not.

Scores fall with it, so it stands beside them. It is read from the lines that count in `results.jsonl`. Hosts and
reasons are untrusted text, from web pages and servers: they are bounded here, and escaped where they are shown.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np

TOOLS: Final = {"search": "searches", "visit": "visits"}
"""A tool and the word for what it was asked."""
MOST: Final = 20
"""Hosts and reasons that are told, the most frequent ones."""
MOST_SAID: Final = 3
_TEXT_CHARS: Final = 80

Cause = tuple[str, str, str]
"""Tool, host, reason."""


@dataclass(frozen=True, slots=True)
class ToolHealth:
    """Queries and pages asked for, and those that failed, by cause.

    `lexical` are pages that no model could read for their goal.
    """

    asked: Mapping[str, int] = field(default_factory=dict)
    """By tool."""
    failed: Counter[Cause] = field(default_factory=Counter)
    lexical: int = 0

    def n_failed(self, tool: str) -> int:
        return sum(n for (of, _, _), n in self.failed.items() if of == tool)

    def share(self, tool: str) -> float | None:
        """The share of what was asked that worked; None where nothing was."""
        asked = self.asked.get(tool, 0)
        return 1 - self.n_failed(tool) / asked if asked else None

    def as_json(self) -> dict[str, Any]:
        """`searches` and `visits` with their shares, then the most frequent causes; `other` counts the rest."""
        told = self.failed.most_common(MOST)
        return {
            **{
                word: {
                    "asked": self.asked.get(tool, 0),
                    "failed": self.n_failed(tool),
                    "worked": self.share(tool),
                }
                for tool, word in TOOLS.items()
            },
            "read_lexically": self.lexical,
            "failures": [
                {"tool": tool, "host": host, "reason": reason, "n": n} for (tool, host, reason), n in told
            ],
            "other_failures": self.failed.total() - sum(n for _, n in told),
        }

    def lines(self) -> list[str]:
        """One line for each tool that failed at all: "visits worked: 87 % (http 404 at example.org 12, ...)"."""
        said = []
        for tool, word in TOOLS.items():
            share = self.share(tool)
            if share is None or share == 1:
                continue
            causes = Counter({cause: n for cause, n in self.failed.items() if cause[0] == tool})
            told = causes.most_common(MOST_SAID)
            parts = [f"{reason} at {host} {n}" if host else f"{reason} {n}" for (_, host, reason), n in told]
            rest = causes.total() - sum(n for _, n in told)
            parts += [f"others {rest}"] if rest else []
            said.append(f"{word} worked: {_percent(share)} % ({', '.join(parts)})")
        return said


def _percent(share: float) -> str:
    """Never 100 where something failed, nor 0 where something worked."""
    return f"{min(99.0, max(1.0, share * 100)) if share else 0:.0f}"


class HealthColumns:
    """The health of many lines, by row, so that lines that were superseded can be left out again.

    Rows without tools take no memory, and causes are kept once.
    """

    def __init__(self) -> None:
        self._asked: dict[str, tuple[array[int], array[int]]] = {
            name: (array("q"), array("q")) for name in (*TOOLS, "lexical")
        }
        self._rows, self._causes, self._counts = array("q"), array("q"), array("q")
        self._known: dict[Cause, int] = {}

    def add(self, row: int, line: Mapping[str, Any]) -> None:
        """Take in what the results line number `row` says; a line that says nothing, or nonsense, counts nothing."""
        search = line.get("search")
        tools = search.get("tools") if isinstance(search, Mapping) else None
        if not isinstance(tools, Mapping):
            return
        for name, word in (*TOOLS.items(), ("lexical", "lexical")):
            if isinstance(n := tools.get(word), int) and n > 0:
                rows, counts = self._asked[name]
                rows.append(row)
                counts.append(n)
        failed = tools.get("failed")
        for failure in failed if isinstance(failed, list) else ():
            if not (isinstance(failure, Mapping) and isinstance(failure.get("n", 1), int)):
                continue
            cause = tuple(_bounded(failure.get(part)) for part in ("tool", "host", "reason"))
            self._rows.append(row)
            self._causes.append(self._known.setdefault(cause, len(self._known)))  # type: ignore[arg-type]
            self._counts.append(failure.get("n", 1))

    def of(self, rows: np.ndarray[Any, Any]) -> ToolHealth:
        """The health of those rows together."""
        import numpy as np

        def kept(own: array[int], values: array[int]) -> list[int]:
            if not own:
                return []
            chosen: list[int] = np.asarray(values)[np.isin(np.asarray(own), rows)].tolist()
            return chosen

        asked = {name: sum(kept(*columns)) for name, columns in self._asked.items()}
        causes = list(self._known)
        failed: Counter[Cause] = Counter()
        numbers = zip(kept(self._rows, self._causes), kept(self._rows, self._counts), strict=True)
        for number, n in numbers:
            failed[causes[number]] += n
        lexical = asked.pop("lexical")
        return ToolHealth(asked, failed, lexical)


def _bounded(value: object) -> str:
    return " ".join(str(value or "").split())[:_TEXT_CHARS]
