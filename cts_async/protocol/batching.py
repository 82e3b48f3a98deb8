"""Which models of a command are asked by batches, and where the ledgers of these batches are."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from cts_async.config import CommandConfig
from cts_async.errors import UsageError
from cts_async.llm.batch_apis import NAMES
from cts_async.llm.batch_ledger import read_ledger
from cts_async.llm.batches import BatchSettings
from cts_async.llm.catalog import BATCH, ModelSpec

BATCH_IN_FLIGHT: Final = 20_000
"""Instances that wait for batches at once; with more the batches follow each other. Measured with answers of 2,000
characters: 23 KB each (10,000 take 390 MB altogether, 20,000 take 610, 50,000 take 1,240)."""


def check_batches(config: CommandConfig, players: Iterable[str], specs: Mapping[str, ModelSpec]) -> None:
    """Raise UsageError where one of the `players` cannot be asked by batches, with whom the command asks for them.

    `specs` are models by name; whoever is none of them, but for the lexical judge, is code of the user's.
    """
    if not config.uses_batches:
        if config.batch_fallback != "batch":
            raise UsageError(
                f"--batch-fallback {config.batch_fallback} is about what a batch has no reply to; add --batch, or leave "
                "it out"
            )
        return
    players = list(players)
    if not players:
        raise UsageError("--batch: no model is asked here; name one, or leave out --batch")
    for player in players:
        spec = specs.get(player)
        if spec is None:
            raise UsageError(
                f"--batch: {player} is code of yours, whose calls cannot wait for a batch; leave out --batch"
            )
        problem = _problem_of(spec)
        if problem:
            raise UsageError(f"--batch: {player} has no batches at this provider: {problem}")


def remarks_on_batches(
    config: CommandConfig,
    specs: Mapping[str, ModelSpec],
    journals: Iterable[Path],
    begun_from: Iterable[Path],
) -> Iterator[str]:
    """Say which requests are asked, and paid, though they have been handed in: of this command's own ledgers where it
    does not ask for batches, and of the versions that its new ones began from, whose ledgers it does not read."""
    if not config.uses_batches:
        addresses = {(spec.base_url, spec.model) for spec in specs.values()}
        for folder in dict.fromkeys(journal.parent for journal in journals):
            pending = _batches_under_way(folder, addresses)
            if pending:
                yield (
                    f"{folder.name}: {pending} handed in; with --batch this command collects them, without it the same "
                    "requests are asked live, and paid, again"
                )
    for folder in begun_from:
        pending = _batches_under_way(folder)
        if pending:
            yield (
                f"{folder.name}: {pending} handed in with other settings; the command that did so collects, and not "
                "this one"
            )


def _batches_under_way(folder: Path, addresses: Collection[tuple[str, str]] | None = None) -> str:
    """The batches of a ledger that may be under way, in words; "" for none. Of all models, or those at `addresses`."""
    n_batches = n_requests = 0
    for batch in read_ledger(folder):
        if batch.is_open and (addresses is None or (batch.server, batch.model) in addresses):
            n_batches += 1
            n_requests += len(batch.ids)
    if not n_batches:
        return ""
    if n_batches == 1:
        return f"1 batch ({n_requests:,} requests) is"
    return f"{n_batches:,} batches ({n_requests:,} requests) are"


def has_batches(spec: ModelSpec) -> bool:
    """Whether a model can be asked by batches, unless it is asked in a tier of the ordinary call."""
    return not _problem_of(replace(spec, tier=""))


def _problem_of(spec: ModelSpec) -> str:
    """Why a model cannot be asked by batches, and what to do; "" if it can."""
    if spec.embedded:
        return "it is embedded in this program, and costs nothing; leave out --batch"
    if spec.api not in NAMES:
        return f"the wire format {spec.api} has none; leave out --batch"
    terms = spec.tiers.get(BATCH)
    if terms is None:
        return (
            f"there is no [models.{spec.alias}.tiers.batch]; leave out --batch, or add that to cts.toml if its provider "
            "has batches (docs/batches.md)"
        )
    if terms.models and spec.model not in terms.models:
        return f"it makes them of {', '.join(terms.models)}, and not of {spec.model}; name that model"
    if spec.tier:
        return (
            f"it is asked in the tier {spec.tier}, which has none; leave out --cheap and the tier, or --batch"
        )
    return ""


def batch_widths(config: CommandConfig, n_jobs: int, *, n_streams: int = 1) -> list[int]:
    """How many of a command's jobs are in flight at once, for each of its streams; [] for as many as usual.

    What waits for a batch must not keep the next instance from being worked on, and is in memory: several streams
    together have no more than one would have alone.
    """
    if not config.uses_batches or config.in_flight:
        return []
    width = max(1, min(n_jobs, BATCH_IN_FLIGHT // max(1, n_streams)))
    return [width] * n_streams


def batch_settings(config: CommandConfig, journals: Iterable[Path]) -> BatchSettings:
    """The settings of a command's batches; each journal has a ledger in its folder."""
    folders = list(dict.fromkeys(journal.parent for journal in journals))
    return BatchSettings(folders, config.batch_fallback, config.max_outage_s)
