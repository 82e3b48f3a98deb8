"""`cts judge`: other judges on answers that exist already."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from cts_async.cli import options
from cts_async.cli.options import BUDGETS, DATA, MODELS, RESULTS, one_of, option
from cts_async.config import Join, JudgeConfig
from cts_async.report.output import print_json

if TYPE_CHECKING:
    from cts_async.protocol.rejudge import JudgePlan
    from cts_async.report.progress import RunGroup


class JudgeOptions(options.CommandOptions):
    """Options of `cts judge` that define what is judged."""

    gold: Annotated[Path | None, option(DATA, "--gold", "--gold_a", help="Nuggets (JSONL).")] = None
    candidates: Annotated[
        list[str] | None,
        option(
            DATA,
            "--candidates",
            "--gold_b",
            metavar="FILE",
            help="Answers (JSONL): a file, a pattern, a directory or a run; may be repeated.",
        ),
    ] = None
    join: Annotated[
        str,
        option(
            DATA,
            metavar="BY",
            callback=one_of("--join", get_args(Join)),
            help="Join candidates with the gold by id-and-query, or by id: whatever query they name.",
        ),
    ] = "id-and-query"
    skip_bad_gold: options.SkipBadGold = False
    limit: Annotated[int | None, option(DATA, min=1, help="Only the first N answers of each.")] = None
    judges: Annotated[
        list[str] | None,
        option(
            MODELS,
            "--judge",
            metavar="NAME",
            help="A model, or lexical; may be repeated, the first gives the score [paper: ernie].",
        ),
    ] = None
    lexical: Annotated[
        bool,
        option(MODELS, "--lexical", help="Judge candidates lexically as well, to see how far judges agree."),
    ] = False
    nuggets_per_call: Annotated[
        int | None, option(MODELS, min=1, help="Ask about at most N nuggets at once [judge_nuggets: 20].")
    ] = None
    empty_answers: options.EmptyAnswersOption = "fail"
    out: Annotated[Path | None, option(RESULTS, "--out", "--out_dir", help="Where the verdicts go.")] = None


@options.with_options(JudgeOptions, JudgeConfig)
def judge(
    config: JudgeConfig,
    runs: Annotated[
        list[Path] | None, typer.Argument(metavar="[RUN]...", help="Run directories, or folders of them.")
    ] = None,
    dry_run: Annotated[
        bool, option(BUDGETS, "--dry-run", help="Say what it will take, and start nothing; needs no key.")
    ] = False,
    ray: options.Ray = None,
    workers: options.Workers = None,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Judge answers again: those of finished runs, or anybody's candidates against a gold file.

    The answers stay as they are. A run gets judgments/JUDGE.jsonl. One file of candidates is judged into --out, several
    into a directory each in it; the first judge gives per_item.jsonl, the others judgments/JUDGE.jsonl. The same
    question to the same judge is asked once, however many answers it is about. The same command again resumes.

    Example: cts judge runs/sample-local-k1 --judge ernie

    Example: cts judge --gold gold_public_hard518.jsonl --candidates 'candidates/*.jsonl' --out judged --judge ernie

    On a Ray cluster, with 64 workers: cts judge runs/sample-local-k1 --judge ernie --ray ray://head:10001 --workers 64
    """
    from cts_async.protocol.run_files import has_no_answers, run_folders, without

    words = runs or []
    # The shell expands an unquoted pattern: its first file goes to --candidates, the others arrive as arguments.
    spread = [word for word in words if config.candidates and word.is_file()]
    config = replace(
        config,
        judges=tuple(dict.fromkeys(config.judges)),
        runs=tuple(without(run_folders(word for word in words if word not in spread), has_no_answers)),
        candidates=(*config.candidates, *map(str, spread)),
    )
    if dry_run:
        _forecast(config, as_json=as_json)
    else:
        _judge(config, ray, workers, quiet=quiet, as_json=as_json)


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

    from cts_async.cli.drive import conclude, drive, print_closing, summarise
    from cts_async.llm.catalog import load_catalogue
    from cts_async.protocol.rejudge import plan_judging, run_judging
    from cts_async.report.results import print_judged

    plan = plan_judging(
        config, load_catalogue(config.config_file), os.environ, keys_elsewhere=ray is not None
    )
    groups = [_group(plan, judge) for judge in plan.judges]
    used = [*plan.specs.values()]
    stopped = drive(run_judging, plan, groups, used, quiet=quiet, ray=ray, workers=workers)
    summaries, rows = summarise(plan.directories())
    if stopped and not summaries:
        raise stopped
    if as_json:
        print_json(rows if len(plan.targets) > 1 else rows[0])
    else:
        print_judged(Console(), summaries, plan.judges)
        repeats, embedded = plan.repeats, any(summary.manifest.get("embedded") for summary in summaries)
        saved = f"{repeats.n_repeated:,} of {repeats.n_asked:,} answers repeat others and took no calls."
        print_closing(
            [saved] if plan.specs and repeats.n_repeated else [], embedded=plan.embedded or embedded
        )
    failed = any(
        summary.failures or any(scores.summary.n_failed for scores in summary.judges) for summary in summaries
    )
    conclude(stopped, failed=failed)


def _group(plan: JudgePlan, judge: str) -> RunGroup:
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
