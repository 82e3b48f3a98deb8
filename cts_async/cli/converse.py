"""`cts converse`: clarifying conversations by scheme and mode, evaluated by what their queries retrieve."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cts_async.cli import options
from cts_async.cli.streams import print_notes
from cts_async.report.output import print_json

if TYPE_CHECKING:
    from rich.console import Console

    from cts_async.neighbours.at_cot.evaluation import Judgments
    from cts_async.protocol.converse import ConversePlan
    from cts_async.report.summary import RunSummary
    from cts_async.report.tables import DataTable

MEASURES = ("nDCG@10", "MRR@10")

HELP = """Hold clarifying conversations and evaluate them, turn by turn (AT-CoT, SIGIR 2025).

A Clarifier talks with a simulated user by each scheme and mode: it asks a question a turn (respond), offers
reformulated queries to pick from (select), or asks several questions of nobody (at-once, to compare them with
people's). Nothing is searched by an agent and nothing judged. What stands after each turn is searched in --corpus.

The same command again resumes; with another corpus, qrels or encoder it only repeats the evaluation.

Example: cts converse --data qulac:qulac.json --topics 20 --corpus wiki.jsonl --model gpt
"""


def converse(
    common: dict[str, Any],
    model: Annotated[
        list[str], typer.Option("--model", "-m", metavar="NAME", help="Clarifier; may be repeated.")
    ] = ["local"],
    scheme: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SCHEME",
            help="standard, at-standard, cot or at-cot; may be repeated [default: these four].",
        ),
    ] = None,
    mode: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODE", help="respond, select or at-once; may be repeated [default: respond, select]."
        ),
    ] = None,
    turns: Annotated[int, typer.Option(min=1, max=10, help="Turns of a conversation.")] = 3,
    questions: Annotated[int, typer.Option(min=1, max=10, help="Questions asked at once.")] = 5,
    data: Annotated[
        str, typer.Option(help="sample, hard518:PATH, qulac:PATH, clariq:PATH, or a .csv or .jsonl file.")
    ] = "sample",
    topics: Annotated[
        int | None, typer.Option(min=1, help="Only the first N distinct underspecified queries.")
    ] = None,
    intents: Annotated[int | None, typer.Option(min=1, help="At most N intents of each query.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N instances of these.")] = None,
    support: Annotated[
        str | None, typer.Option(help="Plays the user and reformulates [paper: ernie].")
    ] = None,
    every_role: Annotated[
        str | None, typer.Option("--all", metavar="NAME", help="One model for every role.")
    ] = None,
    corpus: Annotated[
        Path | None, typer.Option(help="Documents {id,url,title,text} (JSONL) to retrieve from.")
    ] = None,
    qrels: Annotated[
        str,
        typer.Option(
            metavar="FILE|intent:N",
            help="Judgments by facet; intent:N: the N documents that the intent's own words rank best.",
        ),
    ] = "intent:10",
    relevance_level: options.RelevanceLevel = 1,
    measure: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="nDCG@10, MRR@10, ...; may be repeated [default: these two]."),
    ] = None,
    reranker: Annotated[
        str | None, typer.Option(metavar="PATH", help="Cross-encoder that re-ranks BM25's first 100.")
    ] = None,
    encoder: Annotated[
        str | None, typer.Option(metavar="PATH", help="Encoder of BERTScore [default: token F1 instead].")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the runs [default: DATA-talk-SYSTEM].")] = None,
    runs_dir: Annotated[Path, typer.Option(help="Where runs are kept.")] = Path("runs"),
    csv: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Also write every table there, unrounded.")
    ] = None,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    from rich.console import Console

    from cts_async.cli.drive import conclude, drive
    from cts_async.config import ConverseConfig, EvaluationConfig
    from cts_async.llm.catalog import load_catalogue
    from cts_async.neighbours.at_cot.evaluation import evaluate_talks, open_judgments
    from cts_async.neighbours.at_cot.generation import open_scorer
    from cts_async.protocol.converse import plan_conversations, run_conversations
    from cts_async.records import MODES, SCHEMES
    from cts_async.report.conversations import conversations_table
    from cts_async.report.progress import RunGroup
    from cts_async.report.tables import make_folder, write_csv

    config = ConverseConfig(
        models=(every_role,) if every_role and model == ["local"] else tuple(model),
        ks=(turns,),
        schemes=options.read_names("--scheme", scheme or SCHEMES[1:], SCHEMES[1:]),
        modes=options.read_names("--mode", mode or ("respond", "select"), MODES),
        data=data,
        support=support,
        every_role=every_role,
        limit=limit,
        name=name,
        runs_dir=runs_dir,
        questions=questions,
        topics=topics,
        intents=intents,
        **common,
    )
    evaluation = EvaluationConfig(
        corpus=corpus,
        qrels=qrels,
        relevance_level=relevance_level,
        reranker=reranker,
        measures=tuple(dict.fromkeys(measure or MEASURES)),
        encoder=encoder,
    )
    plan = plan_conversations(config, load_catalogue(config.config_file), os.environ)
    options.check_keys(config.config_file, config.config_consent, plan.specs.values())
    instances = list(plan.instances())
    judgments = open_judgments(evaluation, plan.dataset, instances)
    scorer = open_scorer(evaluation.encoder)
    if csv is not None:
        make_folder(csv)
    err = Console(stderr=True)
    if not quiet:
        _introduce(err, plan, judgments)
        print_notes(plan.dataset.notes)
    works = [
        RunGroup(directory.name, plan.n_expected(system), (directory,))
        for system, directory in plan.systems.items()
    ]
    stopped = drive(run_conversations, plan, works, quiet=quiet)
    summaries = _summaries(plan)
    tables, notes = [conversations_table(summaries)], []
    if not stopped:
        with _progress_bars(err, quiet=quiet) as progress:
            report = evaluate_talks(
                plan.dataset,
                instances,
                plan.directories(),
                judgments,
                scorer,
                evaluation.measures,
                progress,
            )
        tables, notes = [*tables, *report.tables], list(report.notes)
    if csv is not None:
        for table in tables:
            write_csv(csv, table)
    if as_json:
        _print_json(tables, notes, smoke_test=plan.embedded)
    else:
        _print_results(Console(), plan, summaries, tables, notes)
    conclude(stopped, failed=any(summary.failures for summary in summaries))


converse.__doc__ = HELP


def _introduce(err: Console, plan: ConversePlan, judgments: Judgments | None) -> None:
    from cts_async.cli.drive import print_plainly

    labels = ", ".join(system.label for system in plan.systems)
    where = judgments.caption if judgments else "no --corpus, so no retrieval"
    print_plainly(
        err,
        f"{labels} over {plan.n_instances} intents of {plan.n_queries} queries of {plan.dataset.name}; "
        f"user {plan.support}; {where}",
    )


def _summaries(plan: ConversePlan) -> list[RunSummary]:
    from cts_async.report.summary import summarise_run, write_summary

    begun = [directory for directory in plan.systems.values() if (directory / "run.json").exists()]
    summaries = [summarise_run(directory) for directory in begun]
    for summary in summaries:
        write_summary(summary)
    return summaries


@contextmanager
def _progress_bars(err: Console, *, quiet: bool) -> Iterator[Callable[[str, int, int], None]]:
    """A bar for each part of the evaluation, on a terminal."""
    from rich.progress import Progress, TaskID

    tasks: dict[str, TaskID] = {}
    with Progress(console=err, transient=True, disable=quiet or not err.is_terminal) as progress:

        def show(what: str, done: int, of: int) -> None:
            if what not in tasks:
                tasks[what] = progress.add_task(what, total=of)
            progress.update(tasks[what], completed=done)

        yield show


def _print_results(
    out: Console,
    plan: ConversePlan,
    summaries: Sequence[RunSummary],
    tables: Sequence[DataTable],
    notes: Sequence[str],
) -> None:
    from cts_async.report.results import SMOKE_TEST, print_failures
    from cts_async.report.tables import print_table, printable

    for table in tables:
        print_table(out, table)
    for note in notes:
        out.print(printable(note), markup=False, highlight=False)
    print_failures(out, summaries)
    if plan.embedded:
        out.print(SMOKE_TEST, style="yellow", soft_wrap=True)
    out.print("Files (results.jsonl, steps.jsonl) in:", markup=False, highlight=False)
    for directory in plan.systems.values():
        out.print(f"  {directory}/", markup=False, highlight=False, soft_wrap=True)


def _print_json(tables: Sequence[DataTable], notes: Sequence[str], *, smoke_test: bool) -> None:
    shown = {
        table.name: {"title": table.title, "caption": table.caption, "rows": table.rows} for table in tables
    }
    print_json({"tables": shown, "notes": notes, "smoke_test": smoke_test})
