"""The options of `cts run`, which `cts plan` takes too, read as one RunConfig."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Annotated, Any

import typer

from cts_async.cli import options
from cts_async.config import RunConfig
from cts_async.records import AGENT_PROMPTS, MODES, SCHEMES


def _read(
    common: dict[str, Any],
    model: Annotated[
        list[str], typer.Option("--model", "-m", metavar="NAME", help="Clarifier; may be repeated.")
    ] = ["local"],
    k: Annotated[
        list[int],
        typer.Option(
            "-k", metavar="N", min=1, max=3, help="Questions it may ask, or turns; may be repeated."
        ),
    ] = [1],
    scheme: Annotated[
        list[str],
        typer.Option(
            metavar="SCHEME", help="Prompting: cts, standard, at-standard, cot, at-cot; may be repeated."
        ),
    ] = ["cts"],
    mode: Annotated[
        list[str],
        typer.Option(
            metavar="MODE",
            help="Questions at-once; one a turn: respond; queries to pick: select. Repeatable.",
        ),
    ] = ["at-once"],
    data: Annotated[
        str, typer.Option(help="sample, hard518:PATH, qulac:PATH, clariq:PATH, or a .csv or .jsonl file.")
    ] = "sample",
    gold: Annotated[
        Path | None, typer.Option(help="Nuggets (JSONL), joined by id or by fused_query.")
    ] = None,
    skip_bad_gold: options.SkipBadGold = False,
    answers: Annotated[
        str | None,
        typer.Option(metavar="DATA", help="Whose answers take the User Answerer's place: qulac or clariq."),
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
        typer.Option(metavar="HOST_OR_NET", help="Private host or network that pages may come from."),
    ] = None,
    replay: Annotated[
        list[Path] | None,
        typer.Option(metavar="RUN", help="Answer searches and visits from this run's journal only."),
    ] = None,
    support: Annotated[str | None, typer.Option(help="User Answerer and Rewriter [paper: ernie].")] = None,
    judge: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Judge; the first gives the score [paper: ernie]."),
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
    agent_prompt: Annotated[
        str | None,
        typer.Option(
            metavar="PROMPT",
            help="The agent's: native (WebDancer's), en, zh, or query: as its query [webdancer: native, others: query].",
        ),
    ] = None,
    date: Annotated[
        str | None,
        typer.Option(
            "--date",
            metavar="YYYY-MM-DD",
            help="Date in the agent's prompt [today; of a run that is resumed: its own].",
        ),
    ] = None,
    empty_answers: Annotated[
        str,
        typer.Option(
            metavar="fail|zero",
            help="A search that ends without an answer: failed and in no mean, or scored 0 without a call.",
        ),
    ] = "fail",
) -> RunConfig:
    """What the options ask for. Raises UsageError."""
    return RunConfig(
        models=(every_role,) if every_role and model == ["local"] else tuple(model),
        ks=tuple(k),
        schemes=options.read_names("--scheme", scheme, SCHEMES),
        modes=options.read_names("--mode", mode, MODES),
        data=data,
        gold=gold,
        skip_bad_gold=skip_bad_gold,
        answers=answers,
        corpus=corpus,
        search=search,
        visit=visit,
        visit_model=visit_model,
        allow_addresses=tuple(allow_address or ()),
        replay=tuple(replay or ()),
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
        max_turns=max_turns,
        agent_prompt=None
        if agent_prompt is None
        else options.read_names("--agent-prompt", [agent_prompt], AGENT_PROMPTS)[0],
        date=None if date is None else options.read_date(date),
        empty_answers=options.empty_answers_of(empty_answers),
        **common,
    )


read_config = options.with_options(options.read_common, _read, own_first=True)
"""The options of a run, and those that it shares with other commands, as one RunConfig. Raises UsageError."""


def with_run_options(command: Callable[..., None], *, without: Collection[str] = ()) -> Callable[..., None]:
    """Give `command(config, **own)` the options of a run, followed by its own; see `options.with_options`."""
    return options.with_options(read_config, command, without=without)
