"""The prompts of a run: are they those the manifest names, and do they hold text of anybody's q*?

A prompt is the same for all instances, and shares a few words with many a query. So it is searched for what
no accident explains: the whole of a q* with at least LEAST_WORDS words of its own (not function words), or
any LONG_RUN units of it in a row, unless q has them too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from cts_async.protocol.audit.findings import Finding
from cts_async.protocol.audit.sources import Queries
from cts_async.protocol.audit.text import names
from cts_async.protocol.audit.words import FUNCTION_WORDS

LEAST_WORDS: Final = 2
LONG_RUN: Final = 6

Gram = tuple[str, ...]


class Prompts:
    """The texts in a run's `prompts/`, by name; `findings` are about the files themselves."""

    def __init__(self, directory: Path, manifest: Mapping[str, Any]) -> None:
        self.expected: Mapping[str, str] = manifest.get("identity", {}).get("prompts", {})
        self.texts: dict[str, str] = {}
        self.findings: list[Finding] = []
        for path in sorted((directory / "prompts").glob("*.txt")):
            self.texts[path.stem] = path.read_bytes().decode(errors="replace")
        for name, sha256 in self.expected.items():
            path = directory / "prompts" / f"{name}.txt"
            if name not in self.texts:
                self._broken("missing", name, "the prompt is not in prompts/")
            elif hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
                self._broken("provenance", name, "the prompt's text is not what the manifest's sha256 says")
        if not self.expected:
            self._broken("missing", "", "run.json names no prompts")
        self._read = {name: names(text) for name, text in self.texts.items()}
        self._grams = {name: _grams(read, LONG_RUN) for name, read in self._read.items()}
        self._all = frozenset().union(*self._grams.values()) if self._grams else frozenset()

    def leaks(self, instance: str, queries: Queries) -> Iterator[Finding]:
        """Every prompt that holds text of the instance's q*."""
        intent = names(queries.fused)
        if len(intent) < LONG_RUN:
            yield from self._whole(instance, tuple(intent), queries)
            return
        shared = _grams(intent, LONG_RUN) & self._all
        if shared:
            shared -= _grams(names(queries.blurred), LONG_RUN)
        for name, grams in self._grams.items():
            if found := shared & grams:
                yield self._leak(instance, name, min(found))

    def _whole(self, instance: str, intent: Gram, queries: Queries) -> Iterator[Finding]:
        own = set(intent) - set(names(queries.blurred)) - FUNCTION_WORDS
        if len(own) < LEAST_WORDS:
            return
        for name, read in self._read.items():
            if intent in _grams(read, len(intent)):
                yield self._leak(instance, name, intent)

    def _leak(self, instance: str, name: str, gram: Gram) -> Finding:
        problem = f"the prompt {name} holds text of q*"
        return Finding("leak", instance, "prompts", problem, " ".join(gram))

    def _broken(self, level: Any, name: str, problem: str) -> None:
        self.findings.append(Finding(level, "", f"prompts/{name}.txt" if name else "run.json", problem))


def _grams(read: list[str], n: int) -> frozenset[Gram]:
    return frozenset(zip(*(read[i:] for i in range(n)), strict=False)) if n else frozenset()
