"""`cts judge`: other judges on answers that exist already."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from cts_async.cli import options
from cts_async.report.output import print_json

if TYPE_CHECKING:
    from rich.console import Console

    from cts_async.cli.drive import RunOnCluster
    from cts_async.config import JudgeConfig
    from cts_async.protocol.rejudge import JudgePlan
    from cts_async.report.progress import RunGroup
    from cts_async.report.summary import RunSummary

HELP = """Judge answers again: those of finished runs, or anybody's candidates against a gold file.

The answers stay as they are. A run gets judgments/JUDGE.jsonl. One file of candidates is judged into --out, several
into a directory each in it; the first judge gives per_item.jsonl, the others judgments/JUDGE.jsonl. The same
question to the same judge is asked once, however many answers it is about. The same command again resumes.

Example: cts judge runs/sample-local-k1 --judge ernie

Example: cts judge --gold gold_public_hard518.jsonl --candidates 'candidates/*.jsonl' --out judged --judge ernie

On a Ray cluster, with 64 workers: cts judge runs/sample-local-k1 --judge ernie --ray ray://head:10001 --workers 64
"""


def judge(
    common: dict[str, Any],
    runs: Annotated[
        list[Path] | None, typer.Argument(metavar="[RUN]...", help="Run directories, or folders of them.")
    ] = None,
    judge: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A model, or lexical; may be repeated, the first gives the score [paper: ernie].",
        ),
    ] = None,
    gold: Annotated[Path | None, typer.Option("--gold", "--gold_a", help="Nuggets (JSONL).")] = None,
    skip_bad_gold: options.SkipBadGold = False,
    join: Annotated[
        str,
        typer.Option(
            metavar="BY",
            help="Join candidates with the gold by id-and-query, or by id: whatever query they name.",
        ),
    ] = "id-and-query",
    candidates: Annotated[
        list[str] | None,
        typer.Option(
            "--candidates",
            "--gold_b",
            metavar="FILE",
            help="Answers (JSONL): a file, a pattern, a directory or a run; may be repeated.",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "--out_dir", help="Where the verdicts go.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N answers of each.")] = None,
    lexical: Annotated[
        bool,
        typer.Option("--lexical", help="Judge candidates lexically as well, to see how far judges agree."),
    ] = False,
    nuggets_per_call: Annotated[
        int | None, typer.Option(min=1, help="Ask about at most N nuggets at once [judge_nuggets: 20].")
    ] = None,
    empty_answers: Annotated[
        str,
        typer.Option(
            metavar="fail|zero",
            help="A candidate's empty answer: failed and in no mean, or scored 0 without a call.",
        ),
    ] = "fail",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what it will take, and start nothing; needs no key.")
    ] = False,
    ray: options.Ray = None,
    workers: options.Workers = None,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    from cts_async.config import Join, JudgeConfig
    from cts_async.protocol.run_folders import run_folders, without_conversations

    words = runs or []
    # The shell expands an unquoted pattern: its first file goes to --candidates, the others arrive as arguments.
    spread = [word for word in words if candidates and word.is_file()]
    config = JudgeConfig(
        judges=tuple(dict.fromkeys(judge or ())),
        runs=tuple(without_conversations(run_folders(word for word in words if word not in spread))),
        gold=gold,
        skip_bad_gold=skip_bad_gold,
        join=options.read_names("--join", [join], get_args(Join))[0],
        candidates=(*(candidates or ()), *map(str, spread)),
        out=out,
        limit=limit,
        lexical=lexical,
        nuggets_per_call=nuggets_per_call,
        empty_answers=options.empty_answers_of(empty_answers),
        **common,
    )
    if dry_run:
        _forecast(config, as_json=as_json)
    else:
        _judge(config, ray, workers, quiet=quiet, as_json=as_json)


judge.__doc__ = HELP


def _forecast(config: JudgeConfig, *, as_json: bool) -> None:
    from rich.console import Console

    from cts_async.llm.catalog import load_catalogue
    from cts_async.protocol.rejudge import forecast_judging, plan_judging
    from cts_async.report.forecast import judging_forecast_json, print_judging_forecast

    plan = plan_judging(config, load_catalogue(config.config_file), os.environ, keyless=True)
    foreseen = forecast_judging(plan)
    if as_json:
        print_json(judging_forecast_json(plan, foreseen))
    else:
        print_judging_forecast(Console(), plan, foreseen)


def _judge(config: JudgeConfig, ray: str | None, workers: int | None, *, quiet: bool, as_json: bool) -> None:
    from rich.console import Console

    from cts_async.cli.drive import conclude, drive
    from cts_async.llm.catalog import load_catalogue
    from cts_async.protocol.rejudge import plan_judging, run_judging
    from cts_async.report.summary import write_summary

    plan = plan_judging(
        config, load_catalogue(config.config_file), os.environ, keys_elsewhere=ray is not None
    )
    options.check_keys(config.config_file, config.config_consent, plan.specs.values())
    keys = {spec.key_env for spec in plan.specs.values() if spec.key_env}
    works = [_work(plan, judge) for judge in plan.judges]
    stopped = drive(
        run_judging, plan, works, quiet=quiet, on_cluster=_on_cluster, ray=ray, workers=workers, keys=keys
    )
    summaries = _summaries(plan)
    if stopped and not summaries:
        raise stopped
    written = [
        {"run": str(summary.directory), "system": summary.label, **write_summary(summary)}
        for summary in summaries
    ]
    if as_json:
        print_json(written if len(plan.targets) > 1 else written[0])
    else:
        _print_results(Console(), plan, summaries)
    failed = any(
        summary.failures or any(scores.summary.n_failed for scores in summary.judges) for summary in summaries
    )
    conclude(stopped, failed=failed)


def _on_cluster() -> RunOnCluster[JudgePlan]:
    from cts_async.cluster.head import run_judging_on

    return run_judging_on


def _work(plan: JudgePlan, judge: str) -> RunGroup:
    """One judge's progress; its mean is shown for a single target only, a mean over several systems means nothing."""
    from cts_async.protocol.run_files import PER_ITEM, judgments_path
    from cts_async.report.progress import RunGroup

    directories = dict.fromkeys([plan.out, *plan.directories()])
    first = plan.targets[0]
    scores = first.directory / PER_ITEM if first.scoring == judge else judgments_path(first.directory, judge)
    return RunGroup(
        plan.group(judge),
        plan.n_answers,
        tuple(directories),
        scores if len(plan.targets) == 1 else None,
        plan.embedded,
    )


def _summaries(plan: JudgePlan) -> list[RunSummary]:
    """The summary of every target that was begun; a journal that they share is read once."""
    from cts_async.protocol.run_files import MANIFEST
    from cts_async.report.summary import spent_by_system, summarise_run

    spent = spent_by_system(plan.journals[0]) if plan.targets[0].shared_journal else None
    begun = [directory for directory in plan.directories() if (directory / MANIFEST).exists()]
    return [summarise_run(directory, spent) for directory in begun]


def _print_results(out: Console, plan: JudgePlan, summaries: list[RunSummary]) -> None:
    from cts_async.report.results import SMOKE_TEST, print_judged

    print_judged(out, summaries, plan.judges)
    if plan.specs and plan.repeats.n_repeated:
        repeated = f"{plan.repeats.n_repeated:,} of {plan.repeats.n_asked:,} answers"
        out.print(f"{repeated} repeat others and took no calls.", highlight=False, soft_wrap=True)
    if plan.embedded or any(summary.manifest.get("embedded") for summary in summaries):
        out.print(SMOKE_TEST, style="yellow", soft_wrap=True)
