"""The models of the catalogue on a terminal: an overview, or one in detail."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cts_async.llm.catalog import ModelSpec
from cts_async.protocol.systems import ModelEntry
from cts_async.report.tables import print_facts

_APIS = {"openai": "OpenAI style", "anthropic": "Anthropic messages API"}


def print_models(console: Console, entries: Sequence[ModelEntry]) -> None:
    """Print a block for each model: id, address, limits, prices, and whether its key is set."""
    table = Table.grid(padding=(0, 2, 1, 0))
    table.add_column(no_wrap=True)
    table.add_column(ratio=1, overflow="fold")
    table.add_column(no_wrap=True)
    for entry in entries:
        spec = entry.spec
        facts = (spec.model, spec.base_url, limit_text(spec), price_text(spec))
        text = Text("\n".join(filter(None, facts)))
        if entry.roles:
            text.append(f"\nplays {', '.join(entry.roles)} by default", "bold")
        if spec.note:
            text.append(f"\n{spec.note}", "dim")
        table.add_row(Text(entry.name, "bold cyan"), text, _state(entry))
    console.print(table)
    ready = ", ".join(entry.name for entry in entries if entry.ready) or "none"
    for line in (f"Ready: {ready}", "Details: cts models NAME; a test question: cts doctor --ask NAME"):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def print_model(console: Console, entry: ModelEntry) -> None:
    """Print all facts about one model, one per line."""
    print_facts(console, entry.name, _facts(entry))


def _facts(entry: ModelEntry) -> Iterator[tuple[str, str]]:
    spec = entry.spec
    elsewhere = "this machine" if spec.embedded else f"where {spec.base_url_env} says"
    lacks = "; ".join([*(f"set {name}" for name in entry.missing), *filter(None, [entry.problem])])
    yield "model id", spec.model
    yield "address", f"{spec.base_url or elsewhere} ({_APIS[spec.api]})"
    yield "key", f"{spec.key_env}, {'set' if entry.key_set else 'not set'}" if spec.key_env else "none needed"
    yield "missing", "nothing" if entry.ready else lacks
    yield "roles", ", ".join(entry.roles) or "none by default"
    yours = " (yours: headers may only lower them)" * spec.limits_fixed
    yield "limits", f"{limit_text(spec)}; {spec.limit}{yours}; account {spec.account}"
    yield "time", f"{spec.timeout_s:g} s for a whole answer"
    yield "prices", price_text(spec)
    yield "parameters", _parameters(spec.sent({})) or "none"
    if spec.drops:
        yield "never sent", ", ".join(spec.drops)
    if spec.agent:
        yield "as the agent", f"{_parameters(spec.agent)}, agent_prompt = {spec.agent_prompt}"
    if spec.context_tokens:
        yield "context", f"{spec.context_tokens:,} tokens"
    yield "defined in", "the catalogue" if entry.shipped else "your cts.toml"
    if spec.note:
        yield "note", spec.note


def _state(entry: ModelEntry) -> Text:
    """Name the variables that are missing, or say that the key is set; the value of a key is never shown."""
    if entry.missing:
        text = "\n".join(f"{name}\nis not set" for name in entry.missing)
    elif entry.problem:
        text = "cannot be used"
    else:
        text = f"{entry.spec.key_env}\nis set" if entry.spec.key_env else "needs no key"
    return Text(text, "green" if entry.ready else "yellow")


def limit_text(spec: ModelSpec) -> str:
    """Format limits: `500 requests, 500k tokens a minute, 64 at once`."""
    known = [
        f"{short_count(value)} {what}"
        for value, what in ((spec.requests_per_min, "requests"), (spec.tokens_per_min, "tokens"))
        if value is not None
    ]
    per_min = f"{', '.join(known)} a minute" if known else "no known limit"
    return f"{per_min}, {spec.max_concurrency} at once"


def price_text(spec: ModelSpec) -> str:
    """Format prices: `$0.60 in, $14 out per million tokens`."""
    price_in, price_out = spec.input_usd_per_mtok, spec.output_usd_per_mtok
    if price_in is None or price_out is None:
        return "price unknown"
    if price_in == price_out == 0:
        return "free"
    each = (f"${price:.2f}".removesuffix(".00") for price in (price_in, price_out))
    return "{} in, {} out per million tokens".format(*each)


def short_count(value: float) -> str:
    """Format a count: `500`, `30k`, `1.5M`."""
    for unit, letter in ((1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:g}{letter}"
    return f"{value:g}"


def _parameters(params: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in params.items())
