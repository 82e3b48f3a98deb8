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
from cts_async.tables.output import print_json, print_notes

if TYPE_CHECKING:
    from cts_async.analysis.summary import RunSummary
    from cts_async.protocol.rejudge import JudgePlan
    from cts_async.watch.progress import RunGroup


class JudgeOptions(options.CommandOptions):
    """Options of `cts judge` that define what is judged."""

    # --gold_a, --gold_b and --out_dir are the spellings of the release's judge.
    gold: Annotated[
        Path | None, option(DATA, "--gold", "--gold_a", metavar="FILE", help="Gold nuggets (JSONL).")
    ]
    candidates: Annotated[
        list[str] | None,
        option(
            DATA,
            "--candidates",
            "--gold_b",
            metavar="FILE",
            help="Candidates, i.e. answers to judge (JSONL): a file, pattern, directory or run. Repeatable.",
        ),
    ]
    join: Annotated[
        str,
        option(
            DATA,
            metavar="BY",
            callback=one_of("--join", get_args(Join)),
            help="Match candidates with gold by id-and-query, or by id alone.",
        ),
    ]
    skip_bad_gold: options.SkipBadGold
    limit: Annotated[
        int | None, option(DATA, min=1, help="Judge only the first N answers of each file or run.")
    ]
    judges: options.Judges
    judge_form: options.JudgeFormOption
    lexical: Annotated[
        bool,
        option(MODELS, "--lexical", help="Add the lexical judge, to see how far judges agree."),
    ]
    nuggets_per_call: Annotated[
        int | None,
        option(
            MODELS,
            min=1,
            help="Put at most N nuggets into one call [default: the judge's judge_nuggets, 20].",
        ),
    ]
    empty_answers: options.EmptyAnswersOption
    batch: options.Batch
    submit: options.Submit
    batch_fallback: options.BatchFallbackOption
    out: Annotated[
        Path | None,
        option(
            RESULTS,
            "--out",
            "--out_dir",
            metavar="DIR",
            help="Write the judgments of candidates to this folder.",
        ),
    ]


@options.with_options(JudgeOptions, JudgeConfig)
def judge(
    config: JudgeConfig,
    runs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="RUN", help="Run directories, or folders of runs.", **options.RUNS),
    ] = None,
    dry_run: Annotated[
        bool,
        option(
            BUDGETS, "--dry-run", help="Estimate calls, tokens, dollars and time; make no call. Needs no key."
        ),
    ] = False,
    ray: options.Ray = None,
    workers: options.Workers = None,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Judge existing answers: those of finished runs, or candidates from any system against a gold file.

    Example: cts judge runs/sample-local-k1 --judge ernie

    Answers are never changed. For a run, the labels are written to judgments/JUDGE.jsonl in it; of a folder or a quoted
    pattern the newest version of each run is judged. For candidates, they are
    written to --out (with several files, one folder for each): the first judge's to per_item.jsonl, the others' to
    judgments/JUDGE.jsonl. Equal questions to a judge are asked once. Run the same command again to resume.

    Candidates and gold of your own need at least these fields:

    \b
    gold.jsonl
    {"id":"q1","query":"ferry","nuggets":[{"id":"N1","text":"at 9","weight":3}]}
    {"id":"q2","query":"bikes","nuggets":[{"id":"N1","text":"free","weight":1}]}
    answers.jsonl
    {"id":"q1","answer":"In winter it leaves at 9."}
    {"id":"q2","answer":"Nobody knows."}

    Example: cts judge --gold gold.jsonl --candidates answers.jsonl --judge lexical --out judged

    Example: cts judge --gold gold_public_hard518.jsonl --candidates 'candidates/*.jsonl' --out judged --judge ernie

    On a Ray cluster: cts judge runs/sample-local-k1 --judge ernie --ray ray://head:10001 --workers 64
    """
    from cts_async.runs.files import has_no_answers, without
    from cts_async.runs.selection import JUDGE_OLDER, run_folders

    candidates = list(config.candidates)
    folders: list[Path] = []
    for path in runs or ():
        # The shell expands an unquoted pattern: its first file goes to --candidates, the others arrive as arguments.
        if config.candidates and path.is_file():
            candidates.append(str(path))
        else:
            folders.append(path)
    notes: list[str] = []
    config = replace(
        config,
        judges=tuple(dict.fromkeys(config.judges)),
        # A pattern such as runs/* matches runs that searched nothing, too: there is nothing to judge.
        runs=tuple(without(run_folders(folders, notes.append, remedy=JUDGE_OLDER), has_no_answers)),
        candidates=tuple(candidates),
    )
    print_notes(notes)
    if dry_run:
        _forecast(config, as_json=as_json)
    else:
        _judge(config, ray, workers, quiet=quiet, as_json=as_json)


def _forecast(config: JudgeConfig, *, as_json: bool) -> None:
    from rich.console import Console

    from cts_async.llm.catalog import load_catalogue
    from cts_async.protocol.dry_walk import look_up, walk_judging
    from cts_async.protocol.rejudge import forecast_judging, plan_judging
    from cts_async.tables.forecast import judging_forecast_json, print_judging_forecast

    # Nothing is sent, so no key is needed: what judging will take can be known before one is bought.
    plan = plan_judging(config, load_catalogue(*config.config_files), os.environ, keyless=True)
    found, notices = look_up(walk_judging, plan, os.environ)
    foreseen = forecast_judging(plan, found)
    if as_json:
        print_json(judging_forecast_json(plan, foreseen))
    else:
        print_judging_forecast(Console(emoji=False), plan, foreseen)
        print_notes(notices)


def _judge(config: JudgeConfig, ray: str | None, workers: int | None, *, quiet: bool, as_json: bool) -> None:
    from rich.console import Console

    from cts_async.cli.drive import conclude, drive, print_closing, reuse_lines, summarise
    from cts_async.llm.catalog import load_catalogue
    from cts_async.protocol.rejudge import plan_judging, run_judging
    from cts_async.tables.results import caveats_of, print_judged

    # On a Ray cluster keys are needed only where calls are made.
    plan = plan_judging(
        config, load_catalogue(*config.config_files), os.environ, keys_elsewhere=ray is not None
    )
    groups = [_group(plan, judge) for judge in plan.judges]
    used = list(plan.specs.values())
    stopped = drive(run_judging, plan, groups, used, quiet=quiet, ray=ray, workers=workers)
    summaries, rows = summarise(plan.directories(), plan.written)
    if stopped and not summaries:  # it stopped before the first file was made
        raise stopped
    if as_json and len(plan.targets) > 1:
        print_json(rows)
    elif as_json:
        print_json(rows[0])
    else:
        print_judged(Console(emoji=False), summaries, plan.judges)
        lines = []
        repeats = plan.repeats
        if plan.specs and repeats.n_repeated:  # the lexical judge makes no calls that could be saved
            lines.append(
                f"{repeats.n_repeated:,} of {repeats.n_asked:,} answers are duplicates and needed no calls."
            )
        lines += reuse_lines([plan.version], summaries)
        restrictions = dict.fromkeys(summary.manifest.restriction for summary in summaries)
        lines += [restriction for restriction in restrictions if restriction]
        print_closing(lines, caveats_of(summaries))
    conclude(stopped, failed=any(_has_failures(summary) for summary in summaries))


def _has_failures(summary: RunSummary) -> bool:
    """True if an answer failed, or a judge failed to label one."""
    return bool(summary.failures) or any(scores.summary.n_failed for scores in summary.judges)


def _group(plan: JudgePlan, judge: str) -> RunGroup:
    """One judge's progress; its mean is shown for a single target only, a mean over several systems means nothing."""
    from cts_async.runs.files import PER_ITEM, judgments_path
    from cts_async.watch.progress import RunGroup

    directories = [plan.out]
    directories += plan.directories()
    scores = None
    if len(plan.targets) == 1:
        (target,) = plan.targets
        if target.scoring == judge:
            scores = target.directory / PER_ITEM
        else:
            scores = judgments_path(target.directory, judge)
    # A single target's directory is that of --out.
    distinct = tuple(dict.fromkeys(directories))
    return RunGroup(plan.group(judge), plan.n_answers, distinct, scores, plan.embedded)
