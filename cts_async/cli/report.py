"""`cts report`: one self-contained HTML page about runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cts_async.cli import options
from cts_async.cli.options import EVALUATION, MODELS, RESULTS, option

if TYPE_CHECKING:
    from cts_async.analysis.summary import RunSummary
    from cts_async.tables.results import ConversationReport


def report(
    runs: options.RunWords = None,
    judge: Annotated[
        str | None,
        option(
            MODELS, metavar="NAME", help="Report this judge only [default: all, the scoring judge first]."
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        option(EVALUATION, metavar="SYSTEM", help="Show differences to this system [default: orig]."),
    ] = None,
    out: Annotated[
        Path | None,
        option(
            RESULTS,
            metavar="FILE",
            help="The HTML file to write [default: report.html in the run or in the folder of runs].",
        ),
    ] = None,
    tables: Annotated[
        Path | None, option(RESULTS, metavar="DIR", help="Also write every table as NAME.md, .tex and .csv.")
    ] = None,
    plots: Annotated[
        Path | None, option(RESULTS, metavar="DIR", help="Also write every figure, for print.")
    ] = None,
    plot_format: Annotated[
        str, option(RESULTS, metavar="LIST", help="Formats of the figures: svg, png, pdf.")
    ] = "svg,png",
    mask: Annotated[
        bool,
        option(
            RESULTS,
            "--mask",
            help="Leave out all texts: queries, questions, answers, nuggets, errors' messages.",
        ),
    ] = False,
    corpus: options.Documents = None,
    qrels: options.Qrels = "intent:10",
    relevance_level: options.RelevanceLevel = 1,
    published: options.Published = "",
    all_versions: options.AllVersions = False,
    seed: options.Seed = 0,
    config_file: options.ConfigFile = None,
) -> None:
    """Write one HTML file about runs: figures, tables, tests, the best and the worst instances.

    RUN is what cts compare takes, a single run, or runs of cts converse, which --corpus and --qrels evaluate. The file
    needs no network and sends nothing. Figures and tables can also be written as files for papers. [names] in cts.toml
    says what to call models and systems. Runs of several agents, or over different data or gold, have sections of
    their own.

    Example: cts report runs

    Example: cts report runs/hard518-* --out report.html --tables tables --plots figures --plot-format svg,pdf
    """
    from datetime import UTC, datetime

    from rich.console import Console

    from cts_async.config import EvaluationConfig, display_names
    from cts_async.pages.report import Origin
    from cts_async.pages.report_files import make_report
    from cts_async.tables.output import print_line

    # Passed as a function: pages know nothing of the neighbouring studies (tests/test_layering.py).
    def evaluate_talks(runs: Sequence[RunSummary]) -> ConversationReport:
        from cts_async.neighbours.at_cot.evaluation import evaluate_finished

        return evaluate_finished(
            runs,
            EvaluationConfig(
                corpus=corpus, qrels=qrels, relevance_level=relevance_level, published=published
            ),
        )

    formats = tuple(dict.fromkeys(part for part in plot_format.lower().replace(" ", "").split(",") if part))
    lines = make_report(
        [str(run) for run in options.runs_or_default(runs, "report")],
        Origin(options.command_line(), datetime.now(UTC)),
        out=out,
        tables=tables,
        plots=plots,
        formats=formats,
        mask=mask,
        judges=[judge] if judge else [],
        baseline=baseline,
        evaluate_talks=evaluate_talks,
        seed=seed,
        all_versions=all_versions,
        names=display_names(options.config_files(config_file)),
    )
    messages: list[str] = []
    try:
        with Console(stderr=True, emoji=False).status("making the report"):
            messages.extend(lines)
    finally:  # also name the files that were written before an error
        for line in messages:
            print_line(line)
