"""`cts converse`: clarifying conversations by scheme and mode, evaluated by what their queries retrieve."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Annotated, Any

from cts_async.cli import options
from cts_async.cli.options import DATA, EVALUATION, RESULTS, TALKS, one_of, option
from cts_async.config import ConverseConfig, EvaluationConfig
from cts_async.records import MODES, SCHEMES


class ConverseOptions(options.DataOptions):
    """Options of `cts converse` that define its runs."""

    models: options.Clarifiers
    # Without the first, the benchmark's own, which asks all its questions at once.
    schemes: Annotated[
        list[str] | None,
        option(
            DATA,
            "--scheme",
            metavar="SCHEME",
            callback=one_of("--scheme", SCHEMES[1:]),
            help="Prompting scheme: standard, at-standard, cot or at-cot. Repeatable [default: all four].",
        ),
    ] = None
    modes: Annotated[
        list[str] | None,
        option(
            DATA,
            "--mode",
            metavar="MODE",
            callback=one_of("--mode", MODES),
            help="respond, select or at-once. Repeatable [default: respond, select].",
        ),
    ] = None
    support: options.Support
    turns: Annotated[int, option(TALKS, min=1, max=10, help="Turns per conversation.")] = 3
    questions: Annotated[int, option(TALKS, min=1, max=10, help="Questions per instance in mode at-once.")]
    topics: Annotated[
        int | None, option(TALKS, min=1, help="Use only the first N distinct underspecified queries.")
    ]
    intents: Annotated[int | None, option(TALKS, min=1, help="Use at most N intents of each query.")]
    name: Annotated[
        str | None, option(RESULTS, metavar="NAME", help="Name of the runs [default: DATASET-talk-SYSTEM].")
    ]


@options.with_options(ConverseOptions, ConverseConfig)
def converse(
    config: ConverseConfig,
    corpus: options.Documents = None,
    qrels: options.Qrels = "intent:10",
    relevance_level: options.RelevanceLevel = 1,
    measure: Annotated[
        list[str] | None,
        option(
            EVALUATION,
            metavar="NAME",
            help="Retrieval measure, e.g. MAP@100. Repeatable [default: nDCG@10, MRR@10].",
        ),
    ] = None,
    reranker: Annotated[
        str | None,
        option(
            EVALUATION,
            metavar="MODEL",
            help="Re-rank BM25's first 100 documents with this cross-encoder or MonoT5 (folder or hub name).",
        ),
    ] = None,
    encoder: Annotated[
        str | None,
        option(EVALUATION, metavar="MODEL", help="Encoder for BERTScore [default: none, token F1 instead]."),
    ] = None,
    published: options.Published = "",
    csv: options.CsvFolder = None,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Hold clarifying conversations and evaluate them turn by turn (AT-CoT, SIGIR 2025).

    For each scheme and mode, a Clarifier talks with a simulated user: it asks one question per turn (respond), offers
    reformulated queries to pick from (select), or asks several questions that nobody answers (at-once; they are compared
    with people's questions). No agent searches and no judge scores. The query after each turn is searched in --corpus.

    Run the same command again to resume; with another corpus, qrels or encoder only the evaluation is repeated.

    Example: cts converse --data qulac:qulac.json --topics 20 --corpus wiki.jsonl --model gpt

    A Clarifier of your own: cts converse --model my_lab.py:ask --mode respond --support gpt
    """
    from rich.console import Console

    from cts_async.cli.drive import conclude, drive, print_closing, reuse_lines, summarise
    from cts_async.llm.catalog import load_catalogue
    from cts_async.neighbours.at_cot.evaluation import evaluate_conversations, open_judgments
    from cts_async.neighbours.at_cot.generation import open_scorer
    from cts_async.protocol.converse import plan_conversations, run_conversations
    from cts_async.tables.results import caveats_of, conversations_table, print_failures
    from cts_async.tables.summary import caveats_json
    from cts_async.tables.table import make_table_folder, show_tables
    from cts_async.watch.progress import RunGroup

    measures = tuple(dict.fromkeys(measure or EvaluationConfig().measures))
    evaluation = EvaluationConfig(corpus, qrels, relevance_level, reranker, measures, encoder, published)
    plan = plan_conversations(config, load_catalogue(*config.config_files), os.environ)
    # Whatever may be wrong with the evaluation is refused before the conversations are paid for.
    instances = list(plan.instances())
    judgments = open_judgments(evaluation, plan.dataset, instances)
    scorer = open_scorer(encoder)
    if csv is not None:
        make_table_folder(csv)
    labels = ", ".join(system.label for system in plan.systems)
    retrieval = "no --corpus, so no retrieval"
    if judgments:
        retrieval = judgments.caption
    introduction = (
        f"{labels} over {plan.n_instances} intents of {plan.n_queries} queries of {plan.dataset.name}; "
        f"user {plan.support}; {retrieval}"
    )
    groups = []
    for system, directory in plan.systems.items():
        groups.append(RunGroup(directory.name, plan.n_expected(system), (directory,)))
    models = list(plan.specs.values())
    notes = chain(plan.dataset.notes, plan.remarks)
    stopped = drive(run_conversations, plan, groups, models, introduction, notes, quiet=quiet)
    summaries, _ = summarise(plan.directories())
    # Also after an early stop: how far each system got, and what it cost.
    tables = [conversations_table(summaries)]
    remarks: Sequence[str] = ()
    if not stopped:  # an evaluation of some conversations only would look like one of all
        with _progress_bars(quiet=quiet) as progress:
            report = evaluate_conversations(
                plan.dataset, instances, plan.directories(), judgments, scorer, evaluation, progress
            )
        tables += report.tables
        remarks = report.notes
    result: dict[str, Any] = {"tables": {}, "notes": list(remarks)}
    for table in tables:
        result["tables"][table.name] = {"title": table.title, "caption": table.caption, "rows": table.rows}
    result |= caveats_json(caveats_of(summaries))
    show_tables(tables, notes=remarks, as_json=as_json and result, csv=csv)
    if not as_json:
        print_failures(Console(emoji=False), summaries)
        lines = ["Files (results.jsonl, steps.jsonl) in:"]
        for directory in plan.directories():
            lines.append(f"  {directory}/")
        lines += reuse_lines(plan.versions.values(), summaries)
        print_closing(lines, caveats_of(summaries))
    conclude(stopped, failed=any(summary.failures for summary in summaries))


@contextmanager
def _progress_bars(*, quiet: bool) -> Iterator[Callable[[str, int, int], None]]:
    """A bar for each part of the evaluation, on a terminal."""
    from rich.console import Console
    from rich.progress import Progress, TaskID

    err = Console(stderr=True, emoji=False)
    tasks: dict[str, TaskID] = {}
    with Progress(console=err, transient=True, disable=quiet or not err.is_terminal) as progress:

        def show(part: str, n_done: int, total: int) -> None:
            if part not in tasks:
                tasks[part] = progress.add_task(part, total=total)
            progress.update(tasks[part], completed=n_done)

        yield show
