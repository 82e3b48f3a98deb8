"""`cts data qulac`: conversations, evaluations and published figures (SIGIR 2019)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from cts_async.cli import options
from cts_async.cli.data.group import SETTINGS, Force, check_free
from cts_async.cli.data.qulac_retrieve import retrieve

if TYPE_CHECKING:
    from cts_async.datasets.qulac_table import Qulac, Topic

qulac: Final = typer.Typer(
    name="qulac", help="Qulac (SIGIR 2019): conversations, gains, published figures.", **SETTINGS
)

QulacPath = Annotated[Path, typer.Argument(metavar="PATH", help="The file qulac.json.")]
Csv = Annotated[Path | None, typer.Option(metavar="DIR", help="Also write every table there, unrounded.")]

FIGURES_HELP = """Count what Qulac's README publishes about the collection, beside the published figures.

Example: cts data qulac figures qulac.json
"""

CONVERSATIONS_HELP = """Make the artificial conversations of one to three turns, as JSON Lines.

Each has a current question and a history of none, one or two other questions of the same facet, in the order
of their numbers: {"id", "history_id", "history_list": [{"question", "answer"}], "query", "question", "answer"}.
The published file gives 922,114 of them. They are streamed: memory does not grow with their number.

Example: cts data qulac conversations qulac.json --turns 1,2 --topic 18 --out conversations.jsonl

Example: cts data qulac conversations qulac.json --count
"""

GAINS_HELP = """What each question gains over no question, and what the best and the worst one would.

EVAL is an evaluation dictionary in JSON, {metric: {record id: value}}. Record ids are
topic-facet-history-question-answerflag; the original query alone is TOPIC-FACET-0-0. Where that is missing,
gains are over the same question without its answer. Best, mean and worst are taken among the questions of
a facet after a history, then averaged over histories and facets.

Example: cts data qulac gains evaluations.json --metric NDCG20 --test
"""


def figures(path: QulacPath, csv: Csv = None, as_json: options.AsJson = False) -> None:
    from cts_async.analysis.qulac_figures import qulac_figures
    from cts_async.cli.data.shown import show
    from cts_async.datasets.qulac_table import read_qulac
    from cts_async.report.qulac_tables import collection_of, figures_table

    found = read_qulac(path)
    table = figures_table(qulac_figures(collection_of(found.topics)))
    show([table], notes=_oddities(found), as_json=as_json, csv=csv)


def conversations(
    path: QulacPath,
    turns: Annotated[str, typer.Option(metavar="LENGTHS", help="How many turns: some of 1,2,3.")] = "1,2,3",
    topic: Annotated[
        list[int] | None, typer.Option(metavar="ID", help="Only these topics, by number [default: all].")
    ] = None,
    out: Annotated[str, typer.Option(metavar="FILE", help="Where to, - for standard output.")] = "-",
    force: Force = False,
    count: Annotated[bool, typer.Option("--count", help="Only say how many there are.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --count: as JSON.")] = False,
) -> None:
    from cts_async.cli.data.shown import show
    from cts_async.cli.data.streamed import STDOUT, write_jsonl
    from cts_async.datasets import qulac_conversations
    from cts_async.datasets.qulac_table import read_qulac
    from cts_async.errors import UsageError
    from cts_async.report.qulac_tables import counts_table

    lengths = read_lengths(turns, qulac_conversations.TURNS)
    found = read_qulac(path)
    topics = _chosen(found.topics, topic or [])
    if count:
        counted = counts_table(qulac_conversations.count_conversations(topics, lengths))
        show([counted], notes=_oddities(found), as_json=as_json)
        return
    if out != STDOUT and Path(out).expanduser().resolve() == path.resolve():
        raise UsageError(f"--out {out}: that is the file to read; choose another")
    if out != STDOUT:
        check_free(Path(out), force=force)
    made = qulac_conversations.conversations(topics, lengths)
    n = write_jsonl(out, (conversation.as_record() for conversation in made))
    if out != STDOUT:
        typer.echo(f"{n:,} conversations in {out}", err=True)


def gains(
    evaluations: Annotated[Path, typer.Argument(metavar="EVAL.json", help="An evaluation dictionary.")],
    metric: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only these, e.g. NDCG20 [default: all there are]."),
    ] = None,
    test: Annotated[bool, typer.Option("--test", help="Paired t-tests of best against none.")] = False,
    csv: Csv = None,
    as_json: options.AsJson = False,
) -> None:
    from cts_async.analysis.question_gain import question_gains
    from cts_async.cli.data.shown import show
    from cts_async.datasets.evaluation_about import read_notes
    from cts_async.datasets.evaluations import metric_order, read_evaluations
    from cts_async.errors import InputError
    from cts_async.report.qulac_tables import evaluated, gain_notes, oracle_table, questions_table

    table = read_evaluations(evaluations)
    wanted = _metrics(evaluations, table, metric) or sorted(table, key=metric_order)
    found = {name: question_gains(evaluated(table[name]), test=test) for name in wanted}
    for name, one in found.items():
        if not one.oracle:
            problem = "holds no question with its answer (no record id ends in -1)"
            raise InputError(evaluations, problem, field=name)
    tables = [oracle_table(found), *(questions_table(name, one) for name, one in found.items())]
    show(tables, notes=[*read_notes(evaluations), *gain_notes(found)], as_json=as_json, csv=csv)


figures.__doc__, conversations.__doc__, gains.__doc__ = FIGURES_HELP, CONVERSATIONS_HELP, GAINS_HELP
qulac.command("figures", short_help="The published figures, counted again.")(figures)
qulac.command("conversations", short_help="Artificial conversations of 1-3 turns.")(conversations)
qulac.command("gains", short_help="What each question gains over none.")(gains)
qulac.command("retrieve", short_help="Retrieval after every conversation, evaluated.")(retrieve)


def _oddities(found: Qulac) -> list[str]:
    """What is odd about the file, for a person."""
    notes = [
        f"{one.id} stands on the rows {', '.join(one.rows)} with different answers: each is a pair, "
        "conversations have the first"
        for one in found.repeated
    ]
    return notes + [f"facet {id}: its type is misspelt, taken as informational" for id in found.slips]


def read_lengths(text: str, allowed: Collection[int]) -> list[int]:
    """ "1,3" as numbers, rising. Raises UsageError for one that is not allowed."""
    from cts_async.errors import UsageError

    names = {str(length): length for length in allowed}
    said = [one.strip() for one in text.split(",")]
    if unknown := [one for one in said if one not in names]:
        raise UsageError(f"--turns {text}: {unknown[0]!r} is not one of {', '.join(names)}")
    return sorted({names[one] for one in said})


def _chosen(topics: Sequence[Topic], wanted: Sequence[int]) -> list[Topic]:
    from cts_async.errors import UsageError

    there = {topic.id for topic in topics}
    if unknown := [id for id in wanted if id not in there]:
        raise UsageError(
            f"--topic {unknown[0]}: no such topic; there are {len(there)} from {min(there)} to {max(there)}"
        )
    return [topic for topic in topics if not wanted or topic.id in wanted]


def _metrics(path: Path, table: Mapping[str, object], wanted: list[str] | None) -> list[str]:
    from cts_async.datasets.fields import listed
    from cts_async.errors import UsageError

    for name in wanted or ():
        if name not in table:
            raise UsageError(f"--metric {name}: {path} has only {listed(table)}")
    return list(dict.fromkeys(wanted or ()))
