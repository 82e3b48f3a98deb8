"""A run's journal, which several runs may share: where each instance's steps stand, and what the steps took, in calls,
tokens, dollars and seconds.

`Spent` sums records that are read once. `JournalIndex` and `SpendingIndex` follow a journal that is being written.
"""

from __future__ import annotations

import math
import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from os.path import normpath
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

from cts_async import foreign_json
from cts_async.engine.journal import placed_records, read_records
from cts_async.engine.prices import CACHED, INPUT, OUTPUT, TIER_MARK, cost_terms, is_priced
from cts_async.errors import InputError, NoCompletion, UnusableOutput
from cts_async.foreign_json import as_text
from cts_async.llm.parsing import wording_of_unknown
from cts_async.runs.cut_prompts import CutPrompts, JournalCuts
from cts_async.runs.files import STEPS
from cts_async.runs.index import Index, id_hash, record_in
from cts_async.runs.manifest import Manifest, read_manifest

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

_UNPRICED: Final[Mapping[str, float | None]] = {"input": None, "output": None}
_UNUSED_REPLIES: Final = frozenset({NoCompletion.kind, UnusableOutput.kind})
"""Kinds of failed attempts that had a reply: it was charged, and of no use."""


@dataclass(slots=True)
class Spent:
    """Calls, tokens and models of a run's steps, failed attempts included; those of reused steps apart."""

    steps: int = 0
    """Finished steps that the run executed itself."""
    reused: Spent | None = None
    """The steps that it took from other runs, and what they took there; None without any."""
    calls: int = 0
    failed_attempts: int = 0
    tokens: dict[str, Counter[str]] = field(default_factory=dict)
    """Tokens by model and kind: "input", "output", and their parts (see `engine.prices`)."""
    served: dict[str, Counter[str]] = field(default_factory=dict)
    """By requested model: number of replies by the model that answered, as the server named it."""
    dropped: dict[str, Counter[str]] = field(default_factory=dict)
    """By model: number of replies made without a parameter that the server refused."""
    other_tiers: dict[str, Counter[str]] = field(default_factory=dict)
    """By model: number of replies that were served in another tier than asked for, by its name."""
    without_usage: dict[str, Counter[str]] = field(default_factory=dict)
    """By model: number of replies that named no tokens, by kind of step; those that could not be used are among them.
    Tokens and dollars are of the others only."""
    cuts: JournalCuts = field(default_factory=JournalCuts)
    latency_s: float = 0.0
    """Seconds that the calls took, without waiting for limits; calls at the same time count each."""
    paraphrased: int = 0
    """Replies of the User Answerer that mean `unknown` without being exactly that word."""
    _instances: array[int] = field(default_factory=lambda: array("q"))
    """Hash of the instance of each call."""
    _latencies: array[float] = field(default_factory=lambda: array("d"))
    """Seconds of each call, failed attempts included."""

    def add(self, record: Mapping[str, Any]) -> None:
        """Add one step. Raises AttributeError, TypeError or ValueError for a malformed one."""
        # A journal has millions of steps: the Counters of a model are made once, since making or updating one for each
        # step would dominate the time.
        model, step, response = record.get("model"), record.get("step"), record.get("response")
        if type(step) is str:
            # Of most steps, verdicts and answers, nothing can be read there.
            room = step[:7]
            if room == "answer/" and step.count("/") == 1:
                self.paraphrased += _paraphrases_unknown(record)
            if type(response) is dict and ("cut_prompt" in response or room == "search/"):
                self.cuts.add(record)
        if "reused" in record:
            self._add_reused(record)
            return
        if record.get("ok") is True:
            self.steps += 1
        if model is None:
            return
        if type(model) is not str:
            raise TypeError("the name of a model is text")
        attempts = 1
        if "attempts" in record:
            attempts = int(record["attempts"])
        self.calls += attempts
        latency_s = record.get("latency_s") or 0.0
        n_without_usage = unused_tokens = 0
        if "failed_attempts" in record:
            for attempt in record["failed_attempts"]:
                self.failed_attempts += 1
                latency_s += attempt.get("latency_s") or 0.0
                unused = attempt.get("usage")
                if unused:
                    unused_tokens += _n_tokens(unused)
                elif attempt.get("kind") in _UNUSED_REPLIES:
                    # A reply that cannot be used is charged as any other is.
                    n_without_usage += 1
        self.latency_s += latency_s
        self._instances.append(hash(record.get("instance")))
        self._latencies.append(latency_s)
        tokens = self.tokens.get(model)
        if tokens is None:
            tokens = self.tokens[model] = Counter()
        usage = record.get("usage")
        if usage:
            for kind, used in usage.items():
                tokens[kind] += used
        # What a step was charged includes the replies that could not be used.
        if response and (not usage or (unused_tokens and _n_tokens(usage) == unused_tokens)):
            n_without_usage += 1
        if n_without_usage:
            kind_of_step = str(step).partition("/")[0]
            self.without_usage.setdefault(model, Counter())[kind_of_step] += n_without_usage
        if response:
            self._add_served(model, response)

    def _add_reused(self, record: Mapping[str, Any]) -> None:
        """Add a step that was taken from another run: paid there, but these results are of the models that it asked."""
        if self.reused is None:
            self.reused = Spent()
        paid = dict(record)
        del paid["reused"]
        self.reused.add(paid)
        if type(record.get("model")) is str and record.get("response"):
            self._add_served(record["model"], record["response"])

    def add_part(self, part: SpentPart) -> None:
        """Add the steps of a part that is whole: all sums become what `add` would make of each step."""
        spent = part.spent
        self.steps += spent.steps
        self.calls += spent.calls
        self.failed_attempts += spent.failed_attempts
        self.paraphrased += spent.paraphrased
        for latency_s in spent._latencies:
            # One by one, as `add` does: a sum of floats depends on their order.
            self.latency_s += latency_s
        self._latencies += spent._latencies
        self._instances.extend(map(hash, part.instances))
        for counts, added in zip(self._counters(), spent._counters(), strict=True):
            for model, counter in added.items():
                total = counts.setdefault(model, Counter())
                for name, n in counter.items():
                    total[name] += n

    def _counters(self) -> tuple[dict[str, Counter[str]], ...]:
        """All that is counted by model and name."""
        return self.tokens, self.served, self.dropped, self.other_tiers, self.without_usage

    def _add_served(self, model: str, response: Mapping[str, Any]) -> None:
        """Note which model answered, and which parameters its server refused."""
        served = self.served.get(model)
        if served is None:
            served = self.served[model] = Counter()
        served[str(response.get("served_model") or model)] += 1
        if "dropped" not in response and "served_tier" not in response:
            return  # as nearly all responses
        if response.get("dropped"):
            self.dropped.setdefault(model, Counter()).update(map(str, response["dropped"]))
        if response.get("served_tier"):
            self.other_tiers.setdefault(model, Counter())[str(response["served_tier"])] += 1

    @property
    def input_tokens(self) -> int:
        """Tokens sent, those read from caches included."""
        return sum(tokens[INPUT] for tokens in self.tokens.values())

    @property
    def total_tokens(self) -> int:
        """Tokens sent and received."""
        return sum(tokens[INPUT] + tokens[OUTPUT] for tokens in self.tokens.values())

    @property
    def cached_tokens(self) -> int:
        """Those of `input_tokens` that were read from the providers' caches."""
        return sum(tokens[CACHED] for tokens in self.tokens.values())

    def tokens_by_tier(self) -> dict[str, int]:
        """Tokens sent and received that were charged in tiers other than the ordinary one, by the tier's name."""
        n_by_tier: Counter[str] = Counter()
        for tokens in self.tokens.values():
            for key, n_tokens in tokens.items():
                kind, _, tier = key.partition(TIER_MARK)
                if tier and kind in (INPUT, OUTPUT):
                    n_by_tier[tier] += n_tokens
        return dict(n_by_tier)

    def latency_per_instance_s(self) -> float | None:
        """Return the median over instances of the seconds that an instance's calls took, summed; None if unknown.

        It is the system's own: limits, what else the command did at the time, and where its steps were executed, do
        not change it. So the calls of reused steps count with the seconds that they took in the run that paid for them.
        """
        instances = np.frombuffer(self._instances, np.int64)
        latencies = np.frombuffer(self._latencies)
        if self.reused is not None:
            instances = np.concatenate([instances, np.frombuffer(self.reused._instances, np.int64)])
            latencies = np.concatenate([latencies, np.frombuffer(self.reused._latencies)])
        if not latencies.any():
            return None
        _, places = np.unique(instances, return_inverse=True)
        return float(np.median(np.bincount(places, latencies.astype(np.float32))))

    def cost_usd(self, prices: Mapping[str, Mapping[str, float | None]]) -> float | None:
        """Return dollars; None if a model has no price, or a reply of it named no tokens."""
        # A sum without the dearest model would pass for the cost of the run.
        cost, unpriced = self.known_cost(prices)
        if unpriced:
            return None
        return cost

    def known_cost(self, prices: Mapping[str, Mapping[str, float | None]]) -> tuple[float, tuple[str, ...]]:
        """Return the dollars that are known, and the models whose cost is not, or not all of it."""
        costs: list[float] = []
        unpriced: list[str] = []
        for model, used in self.tokens.items():
            price_by_kind = prices.get(model, _UNPRICED)
            # Servers of one's own report no tokens, and cost nothing all the same.
            is_free = price_by_kind.get(INPUT) == 0 and price_by_kind.get(OUTPUT) == 0
            all_priced = all(is_priced(kind, price_by_kind) for kind in used)
            if not all_priced or (model in self.without_usage and not is_free):
                unpriced.append(model)
            if all_priced:
                costs += cost_terms(used, price_by_kind)
        return math.fsum(costs), tuple(unpriced)


@dataclass(slots=True)
class SpentPart:
    """Sums of some of a system's steps, made by the process that executed them. Picklable."""

    spent: Spent = field(default_factory=Spent)
    instances: list[str] = field(default_factory=list)
    """The instance of each call: their hashes, as `spent` has them, differ between processes."""
    system: str = ""
    """Of the first step, if its journal is one that several systems share."""
    is_whole: bool = True
    """False if there are steps that can only be summed together with those before them."""

    def add(self, record: Mapping[str, Any]) -> None:
        """Add one step. Raises as `Spent.add`."""
        instance, step, response = record.get("instance"), record.get("step"), record.get("response")
        is_reused_or_cut = "reused" in record or (type(response) is dict and "cut_prompt" in response)
        if type(instance) is not str or type(step) is not str or is_reused_or_cut or step[:7] == "search/":
            self.is_whole = False
            return
        if not self.system:
            self.system = system_of(instance)
        calls_before = len(self.spent._latencies)
        self.spent.add(record)
        if len(self.spent._latencies) > calls_before:
            self.instances.append(instance)

    def __reduce__(self) -> tuple[Callable[..., SpentPart], tuple[Any, ...]]:
        # In plain objects, and without what a part does not have: for a few steps most of a pickle would be classes.
        spent = self.spent
        numbers = spent.steps, spent.calls, spent.failed_attempts, spent.latency_s, spent.paraphrased
        counters = []
        for counts in spent._counters():
            counters.append({model: dict(counter) for model, counter in counts.items()})
        latencies = list(spent._latencies)
        return _unpacked_part, (self.system, self.is_whole, self.instances, latencies, numbers, counters)


def _unpacked_part(
    system: str,
    is_whole: bool,
    instances: list[str],
    latencies: list[float],
    numbers: tuple[int, int, int, float, int],
    counters: list[dict[str, dict[str, int]]],
) -> SpentPart:
    steps, calls, failed_attempts, latency_s, paraphrased = numbers
    spent = Spent(steps, None, calls, failed_attempts, latency_s=latency_s, paraphrased=paraphrased)
    spent._latencies.extend(latencies)
    for counts, plain in zip(spent._counters(), counters, strict=True):
        for model, counter in plain.items():
            counts[model] = Counter(counter)
    return SpentPart(spent, instances, system, is_whole)


def _n_tokens(usage: Mapping[str, int]) -> int:
    """Tokens sent and received."""
    return usage.get(INPUT, 0) + usage.get(OUTPUT, 0)


def _paraphrases_unknown(record: Mapping[str, Any]) -> bool:
    response = record.get("response")
    if not record.get("ok") or not isinstance(response, dict):
        return False
    return wording_of_unknown(str(response.get("text"))) == "paraphrased"


def spent_of(manifest: Manifest, journals: dict[Path, Mapping[str, Spent]]) -> Spent:
    """Sum the steps of a system, in a journal of its own or one that several share. Raises InputError.

    `journals` has the sums of the journals that were read before, by system, "" in one that is not shared.
    """
    journal, is_shared = journal_of(manifest)
    system, group = "", _no_system
    if is_shared:
        system, group = manifest.directory.name, system_of
    if journal not in journals:
        journals[journal] = spent_by(journal, group)
    return journals[journal].get(system, Spent())


def system_of(instance: str) -> str:
    """The system that an instance of a shared journal belongs to."""
    return instance.partition("/")[0]


def _no_system(instance: str) -> str:
    return ""


class InstanceSpending:
    """What each instance of a run took, from its journal; read whole, at once."""

    def __init__(self, manifest: Manifest) -> None:
        journal, is_shared = journal_of(manifest)
        self._prefix = ""
        if is_shared:
            self._prefix = f"{manifest.directory.name}/"
        self._by_id: Mapping[str, Spent] | None = None
        # Judged files have no manifest, and a release no journal: what they took is unknown, not nothing.
        if manifest.raw and journal.is_file():
            self._by_id = spent_by(journal, str)

    def spent_on(self, id: str) -> Spent | None:
        """What an instance took; None without a journal."""
        if self._by_id is None:
            return None
        return self._by_id.get(self._prefix + id, Spent())


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
        if not shared or system_of(str(record.get("instance"))) == directory.name:
            cuts.add(record)
    return cuts.by_model()


def spent_by(journal: Path, group: Callable[[str], str]) -> dict[str, Spent]:
    """Sum the steps of a journal by what `group` makes of their instance. Raises InputError."""
    spent: dict[str, Spent] = defaultdict(Spent)
    try:
        for _, record in placed_records(journal, _without_request):
            spent[group(str(record.get("instance")))].add(record)
    except (AttributeError, TypeError, ValueError):
        # Checking every field beforehand would cost more than reading.
        problem = "a step's model, attempts, usage or response is malformed"
        raise InputError(journal, problem) from None
    return spent


_BEFORE_REQUEST: Final = re.compile(
    rb'\{"key":"[0-9a-f]{32}","ok":true,"instance":"[^"\\]*","step":"(?!search/turn/)[^"\\]*"'
    rb'(?:,"model":"[^"\\]*")?(?=,"request":)'
)
"""The beginning of a finished step's line as the journal writes it; what an agent's turn requested is looked at."""
_RESPONSE: Final = b',"response":'


def _without_request(line: bytes) -> Any:
    """A step's record, as a rule without request and notes: they may be most of a line, and cost nothing.

    Raises ValueError for a damaged line.
    """
    before = _BEFORE_REQUEST.match(line)
    if before is not None:
        # In a text its quotation marks would be escaped. In an object of the request a bracket would be left without
        # its pair: such a line is parsed whole.
        response = line.find(_RESPONSE, before.end())
        if response >= 0:
            with suppress(ValueError):
                return foreign_json.loads(before[0] + line[response:])
    return foreign_json.loads(line)


# --- Indexes of a journal that is being written

_JOURNAL_LINE: Final = re.compile(
    rb'(?:\{"key":"[0-9a-f]{32}","ok":(?:true|false),"instance":"([^"\\\n]*)","step":"[^\n]*\}|[^\n]*)\n'
)
"""A whole line; group 1 is its instance if the line begins as the journal writes it."""


class JournalIndex(Index):
    """Index of the journal by instance.

    A line that begins as the journal writes it is not parsed; any other is, and damaged ones are skipped.
    """

    kinds = ("int64", "int64")

    @property
    def n_steps(self) -> int:
        return len(self._columns)

    def _rows(self, offset: int, block: bytes) -> Iterator[tuple[int, int]]:
        for match in _JOURNAL_LINE.finditer(block):
            name = match[1]
            if name is None:
                id = _parsed_hash(match[0])
            else:
                # Bytes hash as `id_hash` of their text.
                id = hash(name)
            if id is not None:
                yield id, offset + match.start()

    def offsets(self, id: str) -> Array:
        """Offsets of an instance's lines in file order; shape (steps,)."""
        ids, offsets = self._columns.all()
        of_instance: Array = offsets[ids == id_hash(id)]
        return of_instance


def _parsed_hash(line: bytes) -> int | None:
    record = record_in(line)
    if record is None or not isinstance(record.get("instance"), str):
        return None
    return id_hash(record["instance"])


class SpendingIndex(Index):
    """Seconds and dollars of the model calls of each instance, as a journal has them; a row for each in a block.

    In a journal of several systems a run's instances begin with `prefix`. `prices` are dollars per million tokens, by
    model and kind.
    """

    kinds = ("int64", "float64", "float64")

    def __init__(self, path: Path, prefix: str, prices: Mapping[str, Mapping[str, float | None]]) -> None:
        super().__init__(path)
        self._prefix, self._prices = prefix, prices

    def _rows(self, offset: int, block: bytes) -> Iterator[tuple[int, float, float]]:
        for id, spent in self._spent_in(block).items():
            cost = spent.cost_usd(self._prices)
            if cost is None:
                cost = math.nan
            yield id, spent.latency_s, cost

    def amounts(self, ids: Array) -> Array:
        """Seconds and dollars of distinct instances, given by hash, NaN where unknown; shape (2, instances)."""
        indexed_ids, seconds, dollars = self._columns.all()
        distinct, places = np.unique(indexed_ids, return_inverse=True)
        sums = np.array([np.bincount(places, seconds), np.bincount(places, dollars)])
        amounts = np.full((2, len(ids)), math.nan)
        _, rows, sum_rows = np.intersect1d(ids, distinct, assume_unique=True, return_indices=True)
        amounts[:, rows] = sums[:, sum_rows]
        return amounts

    def _spent_in(self, block: bytes) -> dict[int, Spent]:
        spent: dict[int, Spent] = defaultdict(Spent)
        for raw in block.split(b"\n"):
            # Only calls of models have this; within a text its quotation marks would be escaped.
            if b'"model":' not in raw:
                continue
            record = record_in(raw)
            instance = record and as_text(record.get("instance"))
            if record and instance and instance.startswith(self._prefix):
                with suppress(AttributeError, TypeError, ValueError):  # a malformed step is left out
                    spent[id_hash(instance.removeprefix(self._prefix))].add(record)
        return spent
