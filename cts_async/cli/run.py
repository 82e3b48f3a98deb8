"""`cts run`: clarify, search, judge; the same command again resumes."""

from __future__ import annotations

import os
from itertools import chain
from shlex import quote
from typing import TYPE_CHECKING

from cts_async.cli import options
from cts_async.config import RunConfig
from cts_async.tables.output import counted, print_json, unbroken

if TYPE_CHECKING:
    from cts_async.protocol.config_trust import Spec
    from cts_async.protocol.forecast import PastUsage
    from cts_async.protocol.plan import Plan, SearchPlan
    from cts_async.protocol.systems import System


@options.with_options(options.RunOptions, RunConfig)
def run(
    config: RunConfig,
    ray: options.Ray = None,
    workers: options.Workers = None,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Run systems over a dataset: clarify, answer, rewrite, search, judge.

    Example: cts run --all gpt -k 3 --limit 5 --max-usd 2

    Example: cts run -m gpt -m claude -k 1 -k 3 --data hard518:release --search serper

    Without any model, as a lower bound: cts run --all baseline -k 1 -k 2 -k 3

    Run the same command again to resume: finished steps are never repeated. Without options, the embedded model (no key,
    no server) runs the first 8 instances of the sample world.

    A Clarifier of your own (FILE.py:FUNCTION, exec:COMMAND, a URL, a plug-in): cts run -m my_lab.py:ask --all gpt

    Two prompts side by side: cts run -m gpt -m gpt@short --prompts short=prompts/short -k 3

    Reuse the questions of an earlier run: cts run --questions runs/hard518-gpt-k3 -k 3 --support kimi

    Other ways to clarify (AT-CoT): cts run --all gpt --scheme at-cot --mode respond --mode select -k 3

    Asking before the search beside asking during it: cts run --all gpt -k 3 --ask never,before,during --gold-query

    In 4 processes: cts run --model gpt -k 3 --workers 4
    """
    from rich.console import Console

    from cts_async.cli.drive import conclude, drive, print_closing, reuse_lines, summarise
    from cts_async.llm.catalog import load_catalogue
    from cts_async.protocol.plan import make_plan
    from cts_async.protocol.run import run_plan
    from cts_async.runs.files import RESULTS
    from cts_async.tables.results import caveats_of, print_results, print_unsearched
    from cts_async.watch.progress import RunGroup

    # On a Ray cluster keys are needed only where calls are made.
    plan = make_plan(config, load_catalogue(*config.config_files), os.environ, keys_elsewhere=ray is not None)
    groups: list[RunGroup] = []
    for directory in plan.systems.values():
        results = directory / RESULTS
        groups.append(RunGroup(directory.name, plan.n_instances, (directory,), results, plan.embedded))
    # Search engines and page readers have keys, too: it is said of each where it is sent.
    used: list[Spec] = list(plan.specs.values())
    used += plan.search.opened
    stopped = drive(
        run_plan,
        plan,
        groups,
        used,
        _introduction(plan),
        chain(plan.dataset.notes, plan.remarks),
        quiet=quiet,
        ray=ray,
        workers=workers,
    )
    summaries, rows = summarise(plan.systems.values())
    # Also after an early stop: what was done is shown, and its exit code follows.
    if as_json:
        print_json(rows)
    elif summaries:
        if plan.searches:
            print_results(Console(emoji=False), summaries)
        else:
            print_unsearched(Console(emoji=False), summaries)
        folders = ", ".join(f"{directory}/" for directory in plan.systems.values())
        lines = [f"Files: {folders} (results.jsonl, judgments/, steps.jsonl, summary.json)"]
        lines += reuse_lines(plan.versions.values(), summaries)
        if not stopped:
            lines += _next_steps(plan)
        print_closing(lines, caveats_of(summaries))
    conclude(stopped, failed=any(any(summary.own_failures) for summary in summaries))


def _introduction(plan: Plan) -> str:
    """Say in one line what is run: systems, data, tools and roles."""
    labels = ", ".join(system.label for system in plan.systems)
    text = f"{labels} over {counted(plan.n_instances, 'instance')} of {plan.dataset.name}"
    if plan.given:
        rows = list(plan.given.values())
        sources = ", ".join(str(row.source) for row in rows)
        text += f"; {rows[0].kind} from {sources}"  # a run is given either questions or rewrites
    support = f"support {plan.roles.support}"
    if plan.human_answers is not None:
        support += f", answers of people ({plan.config.answers})"
    if not plan.searches:
        if plan.config.stop_after != "questions":
            text += f"; {support}, no search"
        else:
            text += "; no search"
        return f"{text}: stops after {plan.config.stop_after}"
    tools = _tools(plan.search)
    if not plan.toolbox.tools:
        tools = "no search, no pages"
    text += f"; {tools}; agent {plan.roles.agent}"
    if not plan.config.given_rewrites:
        text += f", {support}"
    if not plan.config.no_judge:
        judges = list(plan.roles.judges)
        # It is free, and labels every run: how far the others agree with it stands in every result.
        if "lexical" not in judges:
            judges.append("lexical")
        text += f", judges {', '.join(judges)}"
    return text


def _tools(search: SearchPlan) -> str:
    """What is searched and visited, in a few words."""
    if search.replayed:
        return f"tools: replayed from {', '.join(str(run) for run in search.replayed)}"
    if search.corpus and search.engine.kind == search.reader.kind:  # both work on the user's documents
        return f"documents: {search.corpus.name}"
    return f"search: {search.engine.name}, pages: {search.reader.name}"


def _next_steps(plan: Plan) -> list[str]:
    """What to do next, and in one line what was planned beside what it took."""
    from cts_async.protocol.custom.sources import BASELINE
    from cts_async.protocol.forecast import read_past_usage
    from cts_async.tables.forecast import comparison_line

    # The systems that ask come last, behind orig and gold.
    *_, latest = plan.systems.values()
    view = unbroken(f"cts view {quote(str(plan.config.runs_dir))}")
    lines = [f"To look at it: {view}"]
    if plan.config.data == "sample" and plan.limit and plan.embedded:
        whole_sample = unbroken("cts run --limit 28")
        real_model = unbroken("cts run --all gpt -k 3")
        lines.append(f"Next: the whole sample: {whole_sample}; a real model: {real_model}")
    elif not plan.searches:
        option = "--questions"
        if plan.config.stop_after == "rewrite":
            option = "--rewrites"
        run = quote(str(latest))
        diagnose, search = unbroken(f"cts diagnose {run}"), unbroken(f"cts run {option} {run} ...")
        lines.append(f"Next: {diagnose}, or the search: {search}")
    elif not plan.config.no_judge:
        judge = unbroken(f"cts judge {quote(str(latest))} --judge NAME")
        lines.append(f"Next: another judge on the same answers: {judge}")
    usage: dict[System, PastUsage] = {}
    for system, directory in plan.systems.items():
        usage[system] = read_past_usage(directory, plan.roles.judges)
    comparison = comparison_line(plan, usage)
    if comparison:
        lines.append(comparison)
    if "clarifier" in plan.custom.get(BASELINE, {}):
        lines.append(
            "The baseline is a lower bound: templates and BM25, no model. A Clarifier below it adds nothing."
        )
    return lines
