"""`cts judge`: another judge on answers that exist already."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cts_async.cli import options

if TYPE_CHECKING:
    from cts_async.config import JudgeConfig

HELP = """Judge answers again: a finished run's, or a candidates file's against a gold file.

The answers stay as they are. A run gets judgments/JUDGE.jsonl; candidates are judged into --out.

Example: cts judge runs/sample-local-k1 --judge ernie

Example: cts judge --gold gold_public_hard518.jsonl --candidates cand.jsonl --out outputs/cand --judge ernie
"""


def judge(
    run: Annotated[Path | None, typer.Argument(help="A run directory.")] = None,
    judge: Annotated[
        list[str] | None, typer.Option(help="Judge: a model, or lexical [paper: ernie].")
    ] = None,
    gold: Annotated[Path | None, typer.Option("--gold", "--gold_a", help="Nuggets (JSONL).")] = None,
    candidates: Annotated[
        str | None, typer.Option("--candidates", "--gold_b", help="Answers (JSONL).")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "--out_dir", help="Where the verdicts go.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N answers.")] = None,
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
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    from cts_async.config import JudgeConfig

    asked = JudgeConfig(
        judges=tuple(dict.fromkeys(judge or ())),
        run=run,
        gold=gold,
        candidates=candidates,
        out=out,
        fields=options.read_fields(field),
        config_file=options.config_file(config),
        max_outage_s=max_outage,
        budget=options.read_budget(max_usd, max_tokens, max_calls, deadline),
        in_flight=in_flight,
        retry_failed=retry_failed,
        sync=sync,
        limit=limit,
        seed=seed,
        command=" ".join(["cts", *sys.argv[1:]]),
    )
    raise typer.Exit(_judge(asked, quiet=quiet, as_json=as_json))


judge.__doc__ = HELP


def _judge(config: JudgeConfig, *, quiet: bool, as_json: bool) -> int:
    import os

    import orjson
    from rich.console import Console

    from cts_async.cli.drive import drive
    from cts_async.errors import EXIT_OK, EXIT_SOME_FAILED
    from cts_async.llm.catalog import load_catalogue
    from cts_async.protocol.rejudge import plan_judging, run_judging
    from cts_async.protocol.run_files import PER_ITEM, RESULTS
    from cts_async.report.summary import summarise_run, write_summary
    from cts_async.report.table import SMOKE_TEST, print_results

    plan = plan_judging(config, load_catalogue(config.config_file), os.environ)
    totals = {plan.group(judge): plan.n_answers for judge in plan.judges}
    stopped = drive(run_judging, plan, totals, quiet=quiet)
    summary = summarise_run(plan.directory, RESULTS if plan.identity is None else PER_ITEM)
    written = write_summary(summary)
    if as_json:
        typer.echo(orjson.dumps(written, option=orjson.OPT_INDENT_2).decode())
    else:
        print_results(Console(), [summary])
        if summary.manifest.get("embedded") or plan.embedded:
            Console().print(SMOKE_TEST, style="yellow", soft_wrap=True)
    if stopped:
        raise stopped
    failed = any(scores.summary.n_failed for scores in summary.judges) or summary.failures
    return EXIT_SOME_FAILED if failed else EXIT_OK
