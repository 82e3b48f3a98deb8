"""What a run's steps took: calls, tokens, dollars and seconds, from its journal, which several runs may share."""

from __future__ import annotations

import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from os.path import normpath
from pathlib import Path
from typing import Any, Final

import numpy as np

from cts_async.engine.journal import read_records
from cts_async.errors import InputError
from cts_async.llm.parsing import wording_of_unknown
from cts_async.runs.cut_prompts import CutPrompts, JournalCuts
from cts_async.runs.files import STEPS
from cts_async.runs.manifest import Manifest, read_manifest

_UNPRICED: Final[Mapping[str, float | None]] = {"input": None, "output": None}


@dataclass(slots=True)
class Spent:
    """Calls, tokens and models of a run's steps, failed attempts included."""

    calls: int = 0
    failed_attempts: int = 0
    tokens: dict[str, Counter[str]] = field(default_factory=dict)
    """Tokens "input" and "output" by model."""
    served: dict[str, Counter[str]] = field(default_factory=dict)
    """By requested model: number of replies by the model that answered, as the server named it."""
    dropped: dict[str, Counter[str]] = field(default_factory=dict)
    """By model: number of replies made without a parameter that the server refused."""
    cuts: JournalCuts = field(default_factory=JournalCuts)
    latency_s: float = 0.0
    """Seconds that the calls took, without waiting for limits; calls at the same time count each."""
    paraphrased: int = 0
    """Replies of the User Answerer that mean `unknown` without being exactly that word."""
    _instances: array[int] = field(default_factory=lambda: array("q"))
    """Hash of the instance of each call."""
    _latencies: array[float] = field(default_factory=lambda: array("f"))
    """Seconds of each call, failed attempts included."""

    def add(self, record: Mapping[str, Any]) -> None:
        """Add one step. Raises AttributeError, TypeError or ValueError for a malformed one."""
        model = record.get("model")
        step = record.get("step")
        if isinstance(step, str) and step.startswith("answer/") and step.count("/") == 1:
            self.paraphrased += _paraphrases_unknown(record)
        self.cuts.add(record)
        if model is None:
            return
        if not isinstance(model, str):
            raise TypeError("the name of a model is text")
        self.calls += int(record.get("attempts", 1))
        latency_s = record.get("latency_s") or 0.0
        for attempt in record.get("failed_attempts", ()):
            self.failed_attempts += 1
            latency_s += attempt.get("latency_s") or 0.0
        self.latency_s += latency_s
        self._instances.append(hash(record.get("instance")))
        self._latencies.append(latency_s)
        # A journal has millions of steps, and making or updating a Counter for each would dominate the time.
        if (tokens := self.tokens.get(model)) is None:
            tokens = self.tokens[model] = Counter()
        for kind, used in (record.get("usage") or {}).items():
            tokens[kind] += used
        if response := record.get("response"):
            if (served := self.served.get(model)) is None:
                served = self.served[model] = Counter()
            served[str(response.get("served_model") or model)] += 1
            if dropped := response.get("dropped"):
                self.dropped.setdefault(model, Counter()).update(map(str, dropped))

    def latency_per_instance_s(self) -> float | None:
        """Return the median over instances of the seconds that an instance's calls took, summed; None if unknown.

        It is the system's own: limits, and what else the command did at the time, do not change it.
        """
        if not self.latency_s:
            return None
        _, places = np.unique(np.frombuffer(self._instances, np.int64), return_inverse=True)
        return float(np.median(np.bincount(places, np.frombuffer(self._latencies, np.float32))))

    def cost_usd(self, prices: Mapping[str, Mapping[str, float | None]]) -> float | None:
        """Return dollars; None if a model has no price, or never reports its tokens."""
        cost, unpriced = self.known_cost(prices)
        return None if unpriced else cost

    def known_cost(self, prices: Mapping[str, Mapping[str, float | None]]) -> tuple[float, tuple[str, ...]]:
        """Return the dollars of models whose cost is known, and the models whose cost is not."""
        parts, unpriced = [], []
        for model, used in self.tokens.items():
            price = prices.get(model, _UNPRICED)
            free = not any(each != 0 for each in price.values())
            silent = not used and self.served.get(model) and not free
            costs = [
                None if (each := price.get(kind)) is None else n * each / 1e6 for kind, n in used.items()
            ]
            if silent or None in costs:
                unpriced.append(model)
            else:
                parts += [cost for cost in costs if cost is not None]
        return math.fsum(parts), tuple(unpriced)


def _paraphrases_unknown(record: Mapping[str, Any]) -> bool:
    response = record.get("response")
    if not record.get("ok") or not isinstance(response, dict):
        return False
    return wording_of_unknown(str(response.get("text"))) == "paraphrased"


def spent_of(manifest: Manifest, known: dict[Path, Mapping[str, Spent]]) -> Spent:
    """Sum the steps of a system, in a journal of its own or one that several share. Raises InputError."""
    journal, shared = journal_of(manifest)
    if journal not in known:
        known[journal] = spent_by(journal, lambda instance: instance.partition("/")[0] if shared else "")
    return known[journal].get(manifest.directory.name if shared else "", Spent())


def journal_of(manifest: Manifest) -> tuple[Path, bool]:
    """Return a run's journal, and whether it is shared: then its instances are named DIRECTORY/ID."""
    path = manifest.directory / (manifest.journal or STEPS)
    return Path(normpath(path)), bool(manifest.journal)


def cut_prompts_in(directory: Path) -> dict[str, CutPrompts]:
    """What the servers of a run's models did to prompts that were too long, by model, from the run's journal."""
    manifest = read_manifest(directory)
    if manifest is None:
        return {}
    journal, shared = journal_of(manifest)
    cuts = JournalCuts()
    for record in read_records(journal):
        if not shared or str(record.get("instance")).partition("/")[0] == directory.name:
            cuts.add(record)
    return cuts.by_model()


def spent_by(journal: Path, group: Callable[[str], str]) -> dict[str, Spent]:
    """Sum the steps of a journal by what `group` makes of their instance. Raises InputError."""
    found: dict[str, Spent] = defaultdict(Spent)
    try:
        for record in read_records(journal):
            found[group(str(record.get("instance")))].add(record)
    except (AttributeError, TypeError, ValueError):
        # Checking every field beforehand would cost more than reading.
        problem = "a step's model, attempts, usage or response is malformed"
        raise InputError(journal, problem) from None
    return found
