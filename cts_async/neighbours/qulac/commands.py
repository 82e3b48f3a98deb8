"""`cts data qulac`: published figures, conversations, retrieval after them and what questions gain (SIGIR 2019)."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer

from cts_async.errors import InputError, Interrupted, UsageError
from cts_async.neighbours.command_line import AsJson, Csv, Force, Out, check_free

if TYPE_CHECKING:
    from cts_async.analysis.retrieval import Qrels
    from cts_async.neighbours.qulac.collection import Facet, Qulac, Topic
    from cts_async.neighbours.qulac.gains import Gains
    from cts_async.search.rankers import QueryLikelihoodRanker

T = TypeVar("T")

app: Final = typer.Typer(rich_markup_mode=None)

QulacPath = Annotated[Path, typer.Argument(metavar="PATH", help="The file qulac.json.")]


@app.command("figures", short_help="The published figures, counted again.")
def figures(path: QulacPath, csv: Csv = None, as_json: AsJson = False) -> None:
    """Count what Qulac's README publishes about the collection, beside the published figures.

    Example: cts data qulac figures qulac.json
    """
    from cts_async.neighbours.qulac.collection import figures_table, qulac_figures, read_qulac
    from cts_async.report.output import show_tables

    found = read_qulac(path)
    table = figures_table(qulac_figures(found.topics))
    show_tables([table], notes=_oddities(found), as_json=as_json, csv=csv)


@app.command("conversations", short_help="Artificial conversations of 1-3 turns.")
def conversations(
    path: QulacPath,
    turns: Annotated[str, typer.Option(metavar="LENGTHS", help="How many turns: some of 1,2,3.")] = "1,2,3",
    topic: Annotated[
        list[int] | None, typer.Option(metavar="ID", help="Only these topics, by number [default: all].")
    ] = None,
    out: Out = "-",
    force: Force = False,
    count: Annotated[bool, typer.Option("--count", help="Only say how many there are.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --count: as JSON.")] = False,
) -> None:
    """Make the artificial conversations of one to three turns, as JSON Lines.

    Each has a current question and a history of none, one or two other questions of the same facet, in the order
    of their numbers: {"id", "history_id", "history_list": [{"question", "answer"}], "query", "question", "answer"}.
    The published file gives 922,114 of them. They are streamed: memory does not grow with their number.

    Example: cts data qulac conversations qulac.json --turns 1,2 --topic 18 --out conversations.jsonl

    Example: cts data qulac conversations qulac.json --count
    """
    from cts_async.neighbours.qulac import records
    from cts_async.neighbours.qulac.collection import read_qulac
    from cts_async.report.output import STDOUT, show_tables, write_jsonl

    lengths = read_lengths(turns, records.TURNS)
    found = read_qulac(path)
    topics = _chosen(found.topics, topic or [])
    if count:
        table = records.counts_table(records.count_conversations(topics, lengths))
        show_tables([table], notes=_oddities(found), as_json=as_json)
        return
    if out != STDOUT:
        if Path(out).expanduser().resolve() == path.resolve():
            raise UsageError(f"--out {out}: is an input file of this command; choose another name")
        check_free(Path(out), force=force)
    n = write_jsonl(out, (one.as_record() for one in records.conversations(topics, lengths)))
    if out != STDOUT:
        typer.echo(f"{n:,} conversations in {out}", err=True)


@app.command("gains", short_help="What each question gains over none.")
def gains(
    evaluations: Annotated[Path, typer.Argument(metavar="EVAL.json", help="An evaluation dictionary.")],
    metric: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only these, e.g. NDCG20 [default: all there are]."),
    ] = None,
    test: Annotated[bool, typer.Option("--test", help="Paired t-tests of best against none.")] = False,
    csv: Csv = None,
    as_json: AsJson = False,
) -> None:
    """What each question gains over no question, and what the best and the worst one would.

    EVAL is an evaluation dictionary in JSON, {metric: {record id: value}}. Record ids are
    topic-facet-history-question-answerflag; the original query alone is TOPIC-FACET-0-0. Where that is missing,
    gains are over the same question without its answer. Best, mean and worst are taken among the questions of
    a facet after a history, then averaged over histories and facets.

    Example: cts data qulac gains evaluations.json --metric NDCG20 --test
    """
    from cts_async.datasets.io import listed
    from cts_async.neighbours.qulac.gains import (
        gain_notes,
        oracle_table,
        question_gains,
        questions_table,
    )
    from cts_async.neighbours.qulac.records import metric_order, read_evaluations, read_notes
    from cts_async.report.output import show_tables

    table = read_evaluations(evaluations)
    for name in metric or ():
        if name not in table:
            raise UsageError(f"--metric {name}: {evaluations} has only {listed(table)}")
    wanted = list(dict.fromkeys(metric or ())) or sorted(table, key=metric_order)
    found = {name: question_gains(table[name], test=test) for name in wanted}
    for name, one in found.items():
        if not one.oracle:
            problem = "holds no question with its answer (no record id ends in -1)"
            raise InputError(evaluations, problem, field=name)
    tables = [oracle_table(found), *(questions_table(name, one) for name, one in found.items())]
    show_tables(tables, notes=[*read_notes(evaluations), *gain_notes(found)], as_json=as_json, csv=csv)


@app.command("retrieve", short_help="Retrieval after every conversation, evaluated.")
def retrieve(
    path: QulacPath,
    corpus: Annotated[Path, typer.Option(help="Documents: JSON Lines of id, url, title, text.")],
    qrels: Annotated[str, typer.Option(metavar="QRELS", help="A file of judgments, or intent:N.")],
    out: Annotated[Path, typer.Option(metavar="EVAL", help="Where the evaluation dictionary goes.")],
    turns: Annotated[str, typer.Option(metavar="LENGTHS", help="How many turns: some of 1,2,3.")] = "1",
    answers: Annotated[
        str, typer.Option(metavar="FLAGS", help="The last answer: with, without or both.")
    ] = "both",
    topics: Annotated[int | None, typer.Option(min=1, help="Only the first N topics, by number.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N facets with judgments.")] = None,
    mu: Annotated[float, typer.Option(min=0, help="Smoothing, in words.")] = 1500.0,
    alpha: Annotated[float, typer.Option(min=0, max=1, help="Weight of the query.")] = 0.5,
    answer_weight: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, help="Weight of the answers; the questions have the rest [default: by their words]."
        ),
    ] = None,
    relevance_level: Annotated[
        int,
        typer.Option(
            min=1,
            max=4,
            metavar="N",
            help="The least grade that is relevant to P, RR, AP and R (TREC Deep Learning: 2); nDCG has gains.",
        ),
    ] = 1,
    metric: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only these, e.g. NDCG20 [default: the eleven of Qulac]."),
    ] = None,
    force: Force = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    as_json: AsJson = False,
) -> None:
    """Retrieve with query, questions and answers after every conversation, and evaluate.

    Query likelihood with Dirichlet smoothing: the query has the weight --alpha, what was asked and answered the rest.
    Every conversation is a record with its last answer (flag 1) and one without (flag 0); TOPIC-FACET-0-0 is the query
    alone. EVAL is an evaluation dictionary, {metric: {record id: value}}, that cts data qulac gains reads.

    QRELS are judgments by facet: diversity qrels of the TREC Web Track (topic facet document grade), or qrels whose
    topics are called 12-3. Without any for the corpus, intent:N takes the N documents that a facet's description ranks
    best for relevant: stand-ins, and no relevance judgments.

    Example: cts data qulac retrieve qulac.json --corpus wiki.jsonl --qrels intent:10 --out eval.json
    """
    from dataclasses import replace

    from cts_async.analysis.retrieval import STANDIN
    from cts_async.neighbours.qulac.collection import read_qulac
    from cts_async.neighbours.qulac.gains import oracle_table
    from cts_async.neighbours.qulac.records import TURNS, write_about
    from cts_async.neighbours.qulac.retrieval import METRICS, judgments, walk_facets
    from cts_async.report.output import show_tables
    from cts_async.search.backends.corpus import Corpus
    from cts_async.search.rankers import QueryLikelihoodRanker, TermIndex, Weights

    flags = {"both": (False, True), "with": (True,), "without": (False,)}
    if answers not in flags:
        raise UsageError(f"--answers {answers}: must be one of {', '.join(flags)}")
    if out.expanduser().resolve() in {given.expanduser().resolve() for given in (path, corpus, Path(qrels))}:
        raise UsageError(f"--out {out}: is an input file of this command; choose another name")
    check_free(out, force=force)
    for name in metric or ():
        if name not in METRICS:
            raise UsageError(f"--metric {name}: must be one of {', '.join(METRICS)}")
    metrics = list(dict.fromkeys(metric or METRICS))
    lengths, weights = read_lengths(turns, TURNS), Weights(alpha, answer_weight)
    chosen = sorted(read_qulac(path).topics, key=lambda topic: topic.id)[:topics]
    try:
        index = TermIndex.build(Corpus.open(corpus).documents())
        ranker = QueryLikelihoodRanker(index, mu=mu, weights=weights)
        judged, notes = judgments(qrels, ranker, index.ids, chosen, relevance_level)
        facets = list(walk_facets(chosen, judged))[:limit]
        gains = _evaluate(
            ranker, judged, facets, lengths, flags[answers], metrics, relevance_level, out, quiet=quiet
        )
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted; {out} is not written, and the same command starts over") from None
    settings = {
        "qulac": str(path),
        "corpus": str(corpus),
        "documents": len(index.ids),
        "qrels": qrels,
        "relevance_level": relevance_level,
        "mu": mu,
        "alpha": alpha,
        "answer_weight": answer_weight,
        "turns": lengths,
    }
    write_about(out, settings, notes)
    table = oracle_table(gains)
    if any(STANDIN in note for note in notes):
        table = replace(table, caption=f"{STANDIN}\n{table.caption}")
    show_tables([table], notes=notes, as_json=as_json)


def _evaluate(
    ranker: QueryLikelihoodRanker,
    judged: Qrels,
    facets: Sequence[tuple[Topic, Facet]],
    lengths: Sequence[int],
    flags: Collection[bool],
    metrics: Sequence[str],
    level: int,
    out: Path,
    *,
    quiet: bool,
) -> dict[str, Gains]:
    """Write the evaluation dictionary facet by facet, in bounded memory; returns what asking was worth."""
    from cts_async.neighbours.qulac.gains import FacetMeans
    from cts_async.neighbours.qulac.records import evaluations_written
    from cts_async.neighbours.qulac.retrieval import evaluate_conversations, facet_records

    means = FacetMeans()
    with evaluations_written(out.expanduser(), metrics) as writer:
        for topic, facet in _with_progress(facets, len(facets), "facets", quiet=quiet):
            records = facet_records(topic, facet, lengths, flags)
            found = evaluate_conversations(ranker, judged[facet.id], records, metrics, level=level)
            writer.add(found)
            means.add(found)
    typer.echo(f"{writer.records:,} records of {len(metrics)} metrics in {out}", err=True)
    return means.gains()


PROGRESS_EVERY_S: Final = 5.0


def _with_progress(items: Iterable[T], total: int, what: str, *, quiet: bool = False) -> Iterator[T]:
    """Yield the items; show how many of `total` are done: a bar on a terminal, else a line every few seconds."""
    from rich.console import Console

    console = Console(stderr=True, quiet=quiet)
    if console.is_terminal and not quiet:
        from rich.progress import track

        yield from track(items, what, total=total, console=console, transient=True)
        return
    last = time.monotonic()
    for done, item in enumerate(items):
        if time.monotonic() - last >= PROGRESS_EVERY_S:
            last = time.monotonic()
            console.print(f"{done:,}/{total:,} {what}", markup=False, highlight=False, soft_wrap=True)
        yield item


def _oddities(found: Qulac) -> list[str]:
    """Notes on the oddities of the file."""
    notes = [
        f"{one.id} stands on the rows {', '.join(one.rows)} with different answers: each is a pair, "
        "conversations have the first"
        for one in found.repeated
    ]
    return notes + [f"facet {id}: its type is misspelt, taken as informational" for id in found.slips]


def read_lengths(text: str, allowed: Collection[int]) -> list[int]:
    """ "1,3" as numbers, rising. Raises UsageError for one that is not allowed."""
    names = {str(length): length for length in allowed}
    given = [one.strip() for one in text.split(",")]
    if unknown := [one for one in given if one not in names]:
        raise UsageError(f"--turns {text}: {unknown[0]!r} is not one of {', '.join(names)}")
    return sorted({names[one] for one in given})


def _chosen(topics: Sequence[Topic], wanted: Sequence[int]) -> list[Topic]:
    known = {topic.id for topic in topics}
    if unknown := [id for id in wanted if id not in known]:
        raise UsageError(
            f"--topic {unknown[0]}: no such topic; there are {len(known)} from {min(known)} to {max(known)}"
        )
    return [topic for topic in topics if not wanted or topic.id in wanted]
