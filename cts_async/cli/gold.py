"""`cts gold`: the static golden reference, built once; the same command again resumes."""

from __future__ import annotations

import os
import shlex
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cts_async.cli import options
from cts_async.cli.options import EVIDENCE, MODELS, RESULTS, option
from cts_async.config import GoldConfig
from cts_async.tables.output import print_json, unbroken

if TYPE_CHECKING:
    from cts_async.protocol.config_trust import Spec
    from cts_async.protocol.gold import GoldPlan


class GoldOptions(options.SearchOptions):
    """Options of `cts gold`."""

    out: Annotated[Path, option(RESULTS, metavar="FILE", help="The gold file (JSONL) to write.")]
    force: Annotated[
        bool, option(RESULTS, "--force", help="Overwrite --out even if this build did not write it.")
    ]
    name: Annotated[
        str | None, option(RESULTS, metavar="NAME", help="Name of the build [default: DATASET-goldbuild].")
    ]
    extractor: Annotated[
        str | None,
        option(
            MODELS,
            metavar="MODEL",
            help="Model that extracts the nuggets [default: ernie, as in the paper].",
            **options.PLAYER,
        ),
    ]
    batch: options.Batch
    submit: options.Submit
    batch_fallback: options.BatchFallbackOption
    max_sources: Annotated[
        int | None,
        option(
            EVIDENCE,
            min=1,
            help="Show the extractor at most N sources; the least used are left out [default: 60].",
        ),
    ]
    source_chars: Annotated[
        int | None, option(EVIDENCE, min=1, help="Characters shown of each source [default: 4000].")
    ]
    total_chars: Annotated[
        int | None, option(EVIDENCE, min=1, help="Characters shown of all sources together [default: 60000].")
    ]


@options.with_options(GoldOptions, GoldConfig)
def gold(config: GoldConfig, quiet: options.Quiet = False, as_json: options.AsJson = False) -> None:
    """Build gold for a dataset: search each intent once, then extract weighted nuggets from the sources found.

    Every nugget cites its sources and is checked against them; suspicious nuggets are listed. Run the same command again
    to resume; after every stop --out has the gold built so far. Search traces are kept in the run directory.

    Example: cts gold --data hard518:release --corpus docs.jsonl --out gold.jsonl

    To try it without a key: cts gold --all local --limit 1 --out gold.jsonl
    """
    from rich.console import Console

    from cts_async.cli.drive import conclude, drive, print_closing, reuse_lines
    from cts_async.llm.catalog import load_catalogue
    from cts_async.protocol.gold import build_gold, plan_gold
    from cts_async.runs.directory import write_json
    from cts_async.runs.files import SUMMARY
    from cts_async.tables.gold import print_gold, summarise_gold
    from cts_async.tables.results import caveats_of
    from cts_async.watch.progress import RunGroup

    plan = plan_gold(config, load_catalogue(*config.config_files), os.environ)
    introduction = (
        f"gold for {len(plan.intents)} intents of {plan.n_instances} instances of {plan.dataset.name}; "
        f"agent {plan.roles.agent}, extractor {plan.extractor}"
    )
    groups = [RunGroup(plan.directory.name, len(plan.intents), (plan.directory,))]
    # Search engines and page readers have keys, too: it is said of each where it is sent.
    used: list[Spec] = list(plan.specs.values())
    used += plan.search.opened
    notes = chain(plan.dataset.notes, plan.remarks)
    stopped = drive(build_gold, plan, groups, used, introduction, notes, quiet=quiet)
    if stopped and not (plan.directory / "run.json").exists():  # it stopped before anything was written
        raise stopped
    # Also after an early stop: --out has the gold built so far.
    summary = summarise_gold(plan.directory)
    write_json(plan.directory / SUMMARY, summary.values)
    if as_json:
        result: dict[str, Any] = {"run": str(plan.directory), "out": str(config.out)}
        result |= summary.values
        result["failures"] = [{"id": line["id"]} | line["error"] for line in summary.run.failures]
        print_json(result)
    else:
        print_gold(Console(emoji=False), summary)
        lines = []
        if summary.values["n_done"]:
            lines.append(f"Gold: {config.out}")
        if summary.run.manifest.restriction:
            lines.append(summary.run.manifest.restriction)
        lines.append(f"Files: {plan.directory}/ (results.jsonl, traces.jsonl, steps.jsonl, summary.json)")
        lines += reuse_lines(plan.versions.values(), [summary.run])
        # The run that would be the next step refuses such gold.
        if summary.run.failures and summary.values["n_done"]:
            lines.append(NEEDS_ALL)
        elif summary.values["n_done"] and not plan.dataset.has_right_answers:  # such data take no other gold
            lines.append(f"Next: {unbroken(_run_command(plan))}")
        print_closing(lines, caveats_of([summary.run]))
    conclude(stopped, failed=bool(summary.run.failures))


NEEDS_ALL = (
    "cts run needs gold for every instance: use --retry-failed, or remove the failed instances from the data."
)


def _run_command(plan: GoldPlan) -> str:
    """The command of a run that is scored by this gold."""
    config = plan.build
    words = ["cts", "run", "--data", config.data, "--gold", str(config.out)]
    if config.corpus:
        words += ["--corpus", str(config.corpus)]
    if plan.limit:
        words += ["--limit", str(plan.limit)]
    return shlex.join(words)
