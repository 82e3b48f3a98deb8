"""`cts gold`: the static golden reference, built once; the same command again resumes."""

from __future__ import annotations

import os
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cts_async.cli import options
from cts_async.cli.streams import print_notes
from cts_async.config import RunConfig
from cts_async.report.output import print_json

if TYPE_CHECKING:
    from rich.console import Console

    from cts_async.protocol.gold import GoldPlan
    from cts_async.report.gold import GoldSummary

HELP = """Build the static gold: search each intent once, then extract weighted nuggets from what was found.

Every nugget cites sources of its search and is checked against them; what the check suspects is listed. The same
command again resumes; what is done so far stands in --out after every stop. Traces are archived in the run's folder.

Without --agent and --extractor: the paper's webdancer and ernie. --all local tries it without any key.

Example: cts gold --data hard518:release --corpus docs.jsonl --out gold.jsonl
"""

NOT_FOR_GOLD = frozenset(
    {
        *("model", "k", "scheme", "mode", "gold", "skip_bad_gold", "answers", "support", "judge"),
        *("empty_answers", "orig", "with_gold", "no_judge", "name", "extractor"),
    }
)
"""Options of a run that do not apply to a search of the intent, or have another meaning here."""

NEEDS_ALL = (
    "cts run needs gold for every instance: remove the failed ones from its data, or use --retry-failed."
)


def gold(
    run: RunConfig,
    *,
    out: Annotated[Path, typer.Option(help="The gold file (JSONL) to write.")],
    extractor: Annotated[
        str | None, typer.Option(help="Model that extracts the nuggets [paper: ernie].")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the build [default: DATA-goldbuild].")] = None,
    max_sources: Annotated[
        int | None, typer.Option(min=1, help="Sources shown to the extractor; least used go first [60].")
    ] = None,
    source_chars: Annotated[
        int | None, typer.Option(min=1, help="Characters shown of each source [4000].")
    ] = None,
    total_chars: Annotated[
        int | None, typer.Option(min=1, help="Characters shown of all sources together [60000].")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace --out even if it holds what this build did not write.")
    ] = False,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    from rich.console import Console

    from cts_async.cli.drive import conclude, drive
    from cts_async.config import GoldConfig
    from cts_async.llm.catalog import load_catalogue
    from cts_async.protocol.gold import build_gold, plan_gold
    from cts_async.report.gold import summarise_gold, write_gold_summary
    from cts_async.report.progress import RunGroup

    config = GoldConfig(
        **{field.name: getattr(run, field.name) for field in fields(run)}
        | {"name": name, "extractor": extractor},
        out=out,
        force=force,
        max_sources=max_sources,
        source_chars=source_chars,
        total_chars=total_chars,
    )
    plan = plan_gold(config, load_catalogue(config.config_file), os.environ)
    used = [*plan.specs.values(), *plan.search.opened]
    options.check_keys(config.config_file, config.config_consent, used)
    if not quiet:
        _introduce(Console(stderr=True), plan)
        print_notes(plan.dataset.notes)
    works = [RunGroup(plan.directory.name, len(plan.intents), (plan.directory,))]
    stopped = drive(build_gold, plan, works, quiet=quiet)
    if stopped and not (plan.directory / "run.json").exists():
        raise stopped
    summary = summarise_gold(plan.directory)
    written = write_gold_summary(summary)
    if as_json:
        failures = [{"id": line["id"], **line["error"]} for line in summary.run.failures]
        print_json({"run": str(plan.directory), "out": str(config.out), **written, "failures": failures})
    else:
        _print_results(Console(), plan, summary)
    conclude(stopped, failed=bool(summary.run.failures))


gold.__doc__ = HELP


def _introduce(err: Console, plan: GoldPlan) -> None:
    from cts_async.cli.drive import print_plainly

    limits, n = plan.limits, len(plan.intents)
    print_plainly(
        err,
        f"gold for {n} intents of {plan.n_instances} instances of {plan.dataset.name}; "
        f"agent {plan.roles.agent}, extractor {plan.extractor}; evidence: at most {limits.max_sources} sources, "
        f"{limits.chars_per_source:,} characters of each, {limits.total_chars:,} in all",
    )


def _print_results(out: Console, plan: GoldPlan, summary: GoldSummary) -> None:
    from cts_async.report.gold import SMOKE_TEST, print_gold

    print_gold(out, summary)
    if plan.embedded:
        out.print(SMOKE_TEST, style="yellow", soft_wrap=True)
    lines = [f"Files: {plan.directory}/ (results.jsonl, traces.jsonl, steps.jsonl, summary.json)"]
    if summary.values["n_done"]:
        lines = [f"Gold: {plan.config.out}", *lines]
        lines.append(f"Next: {_next(plan)}" if not summary.run.failures else NEEDS_ALL)
    for line in lines:
        out.print(line, markup=False, highlight=False, soft_wrap=True)


def _next(plan: GoldPlan) -> str:
    """The command of a run that is scored by this gold."""
    import shlex

    config = plan.config
    words = ["cts", "run", "--data", config.data, "--gold", str(config.out)]
    if config.corpus:
        words += ["--corpus", str(config.corpus)]
    if plan.limit:
        words += ["--limit", str(plan.limit)]
    return shlex.join(words)
