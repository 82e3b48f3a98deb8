"""Regions that a query names, in Chinese and English, and the regions that enclose them.

The list is regions.txt, compact on purpose. A region that is not in it is not seen, and what is named after a place
(北京大学) counts as naming it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

_FILE: Final = Path(__file__).with_name("regions.txt")


def regions_in(text: str) -> frozenset[str]:
    """Return the regions that a text names, each by its first name in the list: {"Beijing"} for 北京 and beijing.

    Of overlapping names the longest counts: "West Virginia" does not name Virginia.
    """
    pattern, by_name = _pattern()
    normalised = unicodedata.normalize("NFKC", text)
    names = (match.group() for match in pattern.finditer(normalised))
    return frozenset(by_name.get(name) or by_name[name.casefold()] for name in names)


def lower_case_names() -> tuple[str, ...]:
    """Return all names in lower case, without those that are other words then (us, turkey)."""
    return tuple(name.casefold() for name in _regions()[1] if not name.startswith("="))


def enclosing(region: str) -> Iterator[str]:
    """Yield the regions that this one lies in, the smallest first."""
    parents = _regions()[0]
    while parent := parents[region]:
        yield parent
        region = parent


@cache
def _regions() -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Parse the file: the parent of each region ("" for a continent), and the region by spelling, "=" included."""
    parents: dict[str, str] = {}
    spellings: dict[str, str] = {}
    path: list[str] = []
    for line in _FILE.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        depth = (len(line) - len(line.lstrip())) // 2
        names = [name.strip() for name in line.split("/")]
        region = names[0].removeprefix("=")
        path = [*path[:depth], region]
        parents[region] = path[-2] if depth else ""
        spellings.update(dict.fromkeys(names, region))
    return parents, spellings


@cache
def _pattern() -> tuple[re.Pattern[str], Mapping[str, str]]:
    """Compile a pattern for all names, and map names to regions (in lower case but for those marked with "=")."""
    by_name: dict[str, str] = {}
    alternatives = []
    for spelling, region in _regions()[1].items():
        exact, name = spelling.startswith("="), spelling.removeprefix("=")
        by_name[name if exact else name.casefold()] = region
        text = re.escape(name) if exact else f"(?i:{re.escape(name)})"
        # Latin names need word boundaries; Chinese is written without them.
        alternatives.append((len(name), rf"(?<![A-Za-z]){text}(?![A-Za-z])" if name[0].isascii() else text))
    alternatives.sort(key=lambda one: -one[0])
    return re.compile("|".join(text for _, text in alternatives)), by_name
