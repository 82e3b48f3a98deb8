"""The models of the catalogue, what each lacks and which roles it plays: on a terminal, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cts_async.config import RunConfig
from cts_async.errors import UsageError
from cts_async.llm.catalog import Catalogue, ModelSpec, Tier, load_catalogue
from cts_async.llm.local import model_file
from cts_async.protocol.systems import choose_roles
from cts_async.tables.output import print_plainly
from cts_async.tables.table import print_facts

_API_TITLES: Final = {"openai": "OpenAI style", "anthropic": "Anthropic messages API"}
"""What formats are called in words; another is called by its name in cts.toml."""


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """A model of the catalogue; `spec` has the address that the environment sets, if any."""

    name: str
    spec: ModelSpec
    roles: tuple[str, ...]
    missing: tuple[str, ...]
    """Environment variables that have to be set."""
    problem: str
    """What else prevents its use; empty: nothing."""
    shipped: bool
    """Whether it is defined as shipped, not by a cts.toml."""
    file: Path | None = None
    """The last cts.toml that has a table for it."""

    @property
    def ready(self) -> bool:
        return not (self.missing or self.problem)

    @property
    def key_set(self) -> bool | None:
        """Whether its key is set; None: it needs no key."""
        if self.spec.key_env is None:
            return None
        return self.spec.key_env not in self.missing


def model_entries(
    catalogue: Catalogue, environ: Mapping[str, str], name: str | None = None
) -> list[ModelEntry]:
    """The model called `name` (or `alias:model-id`), else all of the catalogue and of cts.toml's [roles].

    Roles are those that a model plays without options. Raises UsageError for an unknown name.
    """
    usual = choose_roles(RunConfig(models=("a model",)), catalogue.roles)
    # As in `cts run` without options: -m is the embedded model by default.
    players = {"clarifier": "local", "support": usual.support, "judge": usual.judges[0], "agent": usual.agent}
    if "extractor" in catalogue.roles:
        players["extractor"] = catalogue.roles["extractor"]
    shipped = load_catalogue().models
    entries = []
    # A role of cts.toml may be played by an alias:model-id, which has no table of its own.
    names = dict.fromkeys(catalogue.models) | dict.fromkeys(players.values())
    if name:
        names = {name: None}
    for listed in names:
        missing = catalogue.missing_variables(listed, environ)
        spec = catalogue.models[listed.partition(":")[0]]
        # By the entry itself: the environment may change address and id of a shipped model.
        as_shipped = shipped.get(spec.name) == spec
        file = catalogue.sources.get(spec.name)
        problem = ""
        try:
            spec = catalogue.resolve(listed, environ)
            if spec.embedded:
                model_file(environ)
        except UsageError as error:
            # Where a variable is missing, that is the reason, and says what to do.
            if not missing:
                problem = str(error)
        roles = tuple(role for role, player in players.items() if player == listed)
        entries.append(ModelEntry(listed, spec, roles, missing, problem, as_shipped, file))
    return entries


def model_json(entry: ModelEntry) -> dict[str, Any]:
    """An entry as JSON; never contains a key."""
    # The spec has the name of the key's variable only.
    spec = entry.spec
    row: dict[str, Any] = {
        "name": entry.name,
        "model": spec.model,
        "api": spec.api,
        "base_url": spec.base_url or None,
        "key_env": spec.key_env,
        "key_set": entry.key_set,
        "ready": entry.ready,
        "missing": entry.missing,
        "problem": entry.problem or None,
        "roles": entry.roles,
        "source": "shipped",
        "account": spec.account,
        "limits": {
            "requests_per_min": spec.requests_per_min,
            "tokens_per_min": spec.tokens_per_min,
            "max_concurrency": spec.max_concurrency,
            "limit": spec.limit,
            "window_s": spec.window_s,
            "fixed": spec.limits_fixed,
        },
        "prices": {"input": spec.input_usd_per_mtok, "output": spec.output_usd_per_mtok},
        "params": spec.sent({}),
        "drops": spec.drops,
        "timeout_s": spec.timeout_s,
        "context_tokens": spec.context_tokens,
        "agent": spec.agent,
        "agent_prompt": spec.agent_prompt,
        "embedded": spec.embedded,
        "note": spec.note,
    }
    if not entry.shipped:
        row["source"] = str(entry.file)
    # For models without a system role, a field of 0.12; it is left out where nothing is unusual.
    if spec.system != "system":
        row["system"] = spec.system
    # Fields of 0.15, in the same way.
    if spec.cached_input_usd_per_mtok is not None:
        row["prices"]["cached"] = spec.cached_input_usd_per_mtok
    if spec.cache_write_usd_per_mtok is not None:
        row["prices"]["cache_write"] = spec.cache_write_usd_per_mtok
    if spec.tier:
        row["tier"] = spec.tier
    if spec.tiers:
        row["tiers"] = {name: _tier_json(tier) for name, tier in spec.tiers.items()}
    return row


def _tier_json(tier: Tier) -> dict[str, Any]:
    """A tier as JSON: the factor over the model's prices, and how it is asked."""
    return {
        "price": tier.price,
        "batch": not tier.is_ordinary_call,
        "params": tier.params,
        "base_url": tier.base_url or None,
        "timeout_s": tier.timeout_s,
        "patience_s": tier.patience_s,
        "waits": tier.waits,
    }


def print_models(console: Console, entries: Sequence[ModelEntry]) -> None:
    """Print a block for each model: id, address, limits, prices, and whether its key is set."""
    table = Table.grid(padding=(0, 2, 1, 0))
    table.add_column(no_wrap=True)
    table.add_column(ratio=1, overflow="fold")
    table.add_column(no_wrap=True)
    for entry in entries:
        spec = entry.spec
        facts = (spec.model, spec.base_url, limit_text(spec), price_text(spec), tiers_text(spec))
        text = Text("\n".join(filter(None, facts)))
        if entry.roles:
            text.append(f"\nplays {', '.join(entry.roles)} by default", "bold")
        if spec.note:
            text.append(f"\n{spec.note}", "dim")
        table.add_row(Text(entry.name, "bold cyan"), text, _state(entry))
    console.print(table)
    ready = ", ".join(entry.name for entry in entries if entry.ready) or "none"
    for line in (f"Ready: {ready}", "Details: cts models NAME; a test question: cts doctor --ask NAME"):
        print_plainly(console, line)


def print_model(console: Console, entry: ModelEntry) -> None:
    """Print all facts about one model, one per line."""
    print_facts(console, entry.name, _facts(entry))


def _facts(entry: ModelEntry) -> Iterator[tuple[str, str]]:
    spec = entry.spec
    yield "model id", spec.model
    yield "address", f"{_address(spec)} ({_API_TITLES.get(spec.api, f'api = {spec.api}')})"
    yield "key", _key_text(entry)
    yield "missing", _missing_text(entry)
    yield "roles", ", ".join(entry.roles) or "none by default"
    yours = " (yours: headers may only lower them)" * spec.limits_fixed
    yield "limits", f"{limit_text(spec)}; {spec.limit}{yours}; account {spec.account}"
    yield "time", f"{spec.timeout_s:g} s for a whole answer"
    yield "prices", price_text(spec)
    for name, tier in spec.tiers.items():
        yield f"tier {name}", _tier_text(spec, name, tier)
    yield "parameters", _parameters(spec.sent({})) or "none"
    if spec.drops:
        yield "never sent", ", ".join(spec.drops)
    if spec.system == "user":
        yield "instructions", "in the first user turn: it has no system role"
    if spec.agent:
        yield "as the agent", f"{_parameters(spec.agent)}, agent_prompt = {spec.agent_prompt}"
    if spec.context_tokens:
        yield "context", f"{spec.context_tokens:,} tokens"
    if entry.shipped:
        yield "defined in", "the catalogue"
    else:
        yield "defined in", f"your {entry.file}"
    if spec.note:
        yield "note", spec.note


def _address(spec: ModelSpec) -> str:
    if spec.base_url:
        return spec.base_url
    if spec.embedded:  # its server has an address only while it runs
        return "this machine"
    return f"where {spec.base_url_env} says"


def _key_text(entry: ModelEntry) -> str:
    if entry.key_set is None:
        return "none needed"
    if entry.key_set:
        return f"{entry.spec.key_env}, set"
    return f"{entry.spec.key_env}, not set"


def _missing_text(entry: ModelEntry) -> str:
    missing = [f"set {name}" for name in entry.missing]
    if entry.problem:
        missing.append(entry.problem)
    return "; ".join(missing) or "nothing"


def _state(entry: ModelEntry) -> Text:
    """Name the variables that are missing, or say that the key is set; the value of a key is never shown."""
    if entry.missing:
        return Text("\n".join(f"{name}\nis not set" for name in entry.missing), "yellow")
    if entry.problem:
        return Text("cannot be used", "yellow")
    if entry.spec.key_env is None:
        return Text("needs no key", "green")
    return Text(f"{entry.spec.key_env}\nis set", "green")


def limit_text(spec: ModelSpec) -> str:
    """Format limits: `500 requests, 500k tokens a minute, 64 at once`."""
    limits = []
    if spec.requests_per_min is not None:
        limits.append(f"{short_count(spec.requests_per_min)} requests")
    if spec.tokens_per_min is not None:
        limits.append(f"{short_count(spec.tokens_per_min)} tokens")
    per_min = "no known limit"
    if limits:
        per_min = f"{', '.join(limits)} a minute"
    return f"{per_min}, {spec.max_concurrency} at once"


def price_text(spec: ModelSpec) -> str:
    """Format prices: `$0.60 in, $14 out per million tokens`."""
    price_in, price_out = spec.input_usd_per_mtok, spec.output_usd_per_mtok
    if price_in is None or price_out is None:
        return "price unknown"
    if price_in == price_out == 0:
        return "free"
    text = f"{_dollars(price_in)} in, {_dollars(price_out)} out per million tokens"
    caches = []
    if spec.cached_input_usd_per_mtok is not None:
        caches.append(f"{_dollars(spec.cached_input_usd_per_mtok)} cached")
    if spec.cache_write_usd_per_mtok is not None:
        caches.append(f"{_dollars(spec.cache_write_usd_per_mtok)} written to the cache")
    if caches:
        text += f" ({', '.join(caches)})"
    return text


def tiers_text(spec: ModelSpec) -> str:
    """Format the tiers: `flex at 50 % (--cheap), batch at 50 %`; "" without any."""
    texts = []
    for name, tier in spec.tiers.items():
        text = f"{name} at {tier.price:.0%}"
        if name == spec.tier:
            text += " (in use)"
        elif name == spec.cheap_tier:
            text += " (--cheap)"
        texts.append(text)
    if not texts:
        return ""
    return f"tiers: {', '.join(texts)}"


def _tier_text(spec: ModelSpec, name: str, tier: Tier) -> str:
    """What a tier costs, how it is asked and what it waits for, in one line."""
    facts = [f"{tier.price:.0%} of the price"]
    if not tier.is_ordinary_call:
        facts.append("a batch interface")
    elif name == spec.tier:
        facts.append("in use")
    elif name == spec.cheap_tier:
        facts.append(f'with --cheap, or tier = "{name}" in cts.toml')
    else:
        facts.append(f'with tier = "{name}" in cts.toml')
    if tier.params:
        facts.append(_parameters(tier.params))
    if tier.base_url:
        facts.append(tier.base_url)
    if tier.waits:
        facts.append(f"waits {tier.waits}")
    return "; ".join(facts)


def _dollars(price: float) -> str:
    if 0 < price < 0.1 or round(price, 2) != price:
        return f"${price:.4f}".rstrip("0")
    return f"${price:.2f}".removesuffix(".00")


def short_count(value: float) -> str:
    """Format a count: `500`, `30k`, `1.5M`."""
    for unit, letter in ((1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:g}{letter}"
    return f"{value:g}"


def _parameters(params: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in params.items())
