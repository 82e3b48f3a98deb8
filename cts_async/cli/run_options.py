"""The options of `cts run`, which `cts plan` takes too, read as one RunConfig."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from cts_async.cli import options
from cts_async.config import RunConfig


def read_config(
    model: Annotated[list[str], typer.Option("--model", "-m", help="Clarifier; may be repeated.")] = [
        "local"
    ],
    k: Annotated[
        list[int], typer.Option("-k", min=1, max=3, help="Questions it may ask; may be repeated.")
    ] = [1],
    data: Annotated[
        str, typer.Option(help="sample, hard518:PATH, qulac:PATH, or a .csv or .jsonl file.")
    ] = "sample",
    gold: Annotated[
        Path | None, typer.Option(help="Nuggets (JSONL), joined by id or by fused_query.")
    ] = None,
    corpus: Annotated[
        Path | None, typer.Option(help="Documents {id,url,title,text} (JSONL) to search.")
    ] = None,
    search: Annotated[
        str | None,
        typer.Option(help="Searches: corpus, serper, or one of cts.toml [corpus if there is one]."),
    ] = None,
    visit: Annotated[
        str | None,
        typer.Option(help="Pages: jina, direct, or one of cts.toml [of the web: jina if its key is set]."),
    ] = None,
    visit_model: Annotated[
        str | None,
        typer.Option(help="Model that reads pages for a goal, or lexical for none [of the web: support]."),
    ] = None,
    allow_address: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST_OR_NET", help="Private host or network that may be fetched directly."),
    ] = None,
    replay: Annotated[
        list[Path] | None,
        typer.Option(metavar="RUN", help="Answer searches and visits from this run's journal only."),
    ] = None,
    support: Annotated[str | None, typer.Option(help="User Answerer and Rewriter [paper: ernie].")] = None,
    judge: Annotated[
        list[str] | None, typer.Option(help="Judge; the first gives the score [paper: ernie].")
    ] = None,
    agent: Annotated[str | None, typer.Option(help="Deep-search model [paper: webdancer].")] = None,
    extractor: Annotated[str | None, typer.Option(hidden=True, help="Model that builds gold.")] = None,
    every_role: Annotated[
        str | None, typer.Option("--all", metavar="NAME", help="One model for every role.")
    ] = None,
    orig: Annotated[
        bool, typer.Option(help="Also search the blurred query itself, as the paper does.")
    ] = True,
    with_gold: Annotated[bool, typer.Option("--gold-query", help="Also search the intent itself.")] = False,
    no_judge: Annotated[bool, typer.Option("--no-judge", help="Answer only; no scores.")] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N instances.")] = None,
    name: Annotated[str | None, typer.Option(help="Name of the run [default: DATA-MODEL-kK].")] = None,
    runs_dir: Annotated[Path, typer.Option(help="Where runs are kept.")] = Path("runs"),
    max_turns: Annotated[
        int | None, typer.Option(min=1, help="Model calls per search [WebDancer: 20].")
    ] = None,
    field: options.Fields = None,
    config: options.ConfigFile = None,
    max_outage: options.MaxOutage = 900.0,
    max_usd: options.MaxUsd = None,
    max_tokens: options.MaxTokens = None,
    max_calls: options.MaxCalls = None,
    deadline: options.DeadlineAt = None,
    in_flight: options.InFlight = None,
    retry_failed: options.RetryFailed = False,
    sync: options.Sync = False,
    seed: options.Seed = 0,
) -> RunConfig:
    """What the options ask for. Raises UsageError."""
    return RunConfig(
        models=(every_role,) if every_role and model == ["local"] else tuple(model),
        ks=tuple(k),
        data=data,
        gold=gold,
        corpus=corpus,
        search=search,
        visit=visit,
        visit_model=visit_model,
        allow_addresses=tuple(allow_address or ()),
        replay=tuple(replay or ()),
        fields=options.read_fields(field),
        support=support,
        judges=tuple(judge or ()),
        agent=agent,
        extractor=extractor,
        every_role=every_role,
        references=("orig",) * orig + ("gold",) * with_gold,
        no_judge=no_judge,
        limit=limit,
        name=name,
        runs_dir=runs_dir,
        config_file=options.config_file(config),
        max_turns=max_turns,
        max_outage_s=max_outage,
        budget=options.read_budget(max_usd, max_tokens, max_calls, deadline),
        in_flight=in_flight,
        retry_failed=retry_failed,
        sync=sync,
        seed=seed,
        command=" ".join(["cts", *sys.argv[1:]]),
    )


def with_run_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give `command(config, **own)` the options of a run, followed by its own."""
    shared = inspect.signature(read_config, eval_str=True).parameters
    first, *own = inspect.signature(command, eval_str=True).parameters.values()

    def run(**given: Any) -> None:
        config = read_config(**{name: given.pop(name) for name in shared})
        command(**{first.name: config}, **given)

    parameters = [*shared.values(), *own]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__doc__ = command.__doc__
    return run
