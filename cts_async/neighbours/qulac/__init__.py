"""Qulac (Aliannejadi, Zamani, Crestani and Croft, SIGIR 2019): questions and answers about TREC's Web Track topics.

What the program sees of it: a kind of dataset, and the commands `cts data qulac`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from cts_async.datasets.kinds import RUN_COMMANDS, Kind, imported_on_call
from cts_async.errors import InputError, Interrupted, UsageError
from cts_async.neighbours.inputs import AsJson, Csv, Force, Out, check_out, write_records

if TYPE_CHECKING:
    from cts_async.analysis.retrieval import Qrels
    from cts_async.neighbours.qulac.collection import Facet, Qulac, Topic

KIND: Final = Kind(
    name="qulac",
    title="Qulac",
    what="198 topics, 762 facets and 10,277 pairs of a clarifying question and a human answer; no nuggets",
    paper="Aliannejadi et al., SIGIR 2019: Asking Clarifying Questions in Open-Domain ...",
    licence="MIT",
    source="https://github.com/aliannejadi/qulac",
    spec="qulac:PATH",
    expects="the file data/qulac/qulac.json",
    uses=(RUN_COMMANDS, "cts run --answers qulac", "cts gold", "cts data qulac"),
    open=imported_on_call("cts_async.neighbours.qulac.collection", "open_qulac"),
    contents=imported_on_call("cts_async.neighbours.qulac.collection", "qulac_contents"),
    file_readers={
        "evaluations": imported_on_call("cts_async.neighbours.qulac.conversations", "evaluations_contents")
    },
    suffix=".json",
    position=2,
)

# Each command imports what it needs when it runs: starting `cts` must not load numpy or pydantic.
app: Final = typer.Typer(rich_markup_mode=None)

QulacPath = Annotated[Path, typer.Argument(metavar="FILE", help="The file qulac.json.")]
_FLAGS: Final = {"both": (False, True), "with": (True,), "without": (False,)}


@app.command("figures", short_help="Recount the published figures.")
def show_qulac_figures(path: QulacPath, csv: Csv = None, as_json: AsJson = False) -> None:
    """Count what Qulac's README publishes about the collection, beside the published figures.

    Example: cts data qulac figures qulac.json
    """
    from cts_async.neighbours.qulac.collection import qulac_figures, read_qulac
    from cts_async.tables.table import show_tables

    collection = read_qulac(path)
    show_tables([qulac_figures(collection.topics)], notes=_oddities(collection), as_json=as_json, csv=csv)


@app.command("conversations", short_help="Generate artificial conversations of 1-3 turns.")
def write_conversations(
    path: QulacPath,
    turns: Annotated[str, typer.Option(metavar="LENGTHS", help="How many turns: some of 1,2,3.")] = "1,2,3",
    topic: Annotated[
        list[int] | None, typer.Option(metavar="ID", help="Only these topics, by number [default: all].")
    ] = None,
    out: Out = "-",
    force: Force = False,
    count: Annotated[bool, typer.Option("--count", help="Print only their number.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --count: print as JSON.")] = False,
) -> None:
    """Make the artificial conversations of one to three turns, as JSON Lines.

    Each has a current question and a history of none, one or two other questions of the same facet, in the order
    of their numbers: {"id", "history_id", "history_list": [{"question", "answer"}], "query", "question", "answer"}.
    The published file gives 922,114 of them. They are streamed: memory does not grow with their number.

    Example: cts data qulac conversations qulac.json --turns 1,2 --topic 18 --out conversations.jsonl

    Example: cts data qulac conversations qulac.json --count
    """
    from cts_async.neighbours.qulac.collection import read_qulac
    from cts_async.neighbours.qulac.conversations import conversations, counts_table
    from cts_async.tables.table import show_tables

    lengths = read_lengths(turns)
    collection = read_qulac(path)
    topics = _topics_with_ids(collection.topics, topic or [])
    if count:
        show_tables([counts_table(topics, lengths)], notes=_oddities(collection), as_json=as_json)
        return
    records = (conversation.as_record() for conversation in conversations(topics, lengths))
    write_records(out, records, "conversations", [path], force=force)


@app.command("gains", short_help="Gain of each question over asking none.")
def show_gains(
    evaluations: Annotated[Path, typer.Argument(metavar="FILE", help="Evaluation dictionary (JSON).")],
    metric: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this metric, e.g. NDCG20. Repeatable [default: all]."),
    ] = None,
    test: Annotated[bool, typer.Option("--test", help="Paired t-tests of best against none.")] = False,
    csv: Csv = None,
    as_json: AsJson = False,
) -> None:
    """Show the gain of each question over asking none, and that of the best and the worst question.

    FILE is an evaluation dictionary in JSON, {metric: {record id: value}}. Record ids are
    topic-facet-history-question-answerflag; the original query alone is TOPIC-FACET-0-0. Where that is missing,
    gains are over the same question without its answer. Best, mean and worst are taken among the questions of
    a facet after a history, then averaged over histories and facets.

    Example: cts data qulac gains evaluations.json --metric NDCG20 --test
    """
    from cts_async.datasets.io import listed
    from cts_async.neighbours.qulac import conversations as qulac
    from cts_async.tables.table import show_tables

    values_by_metric = qulac.read_evaluations(evaluations)
    for name in metric or ():
        if name not in values_by_metric:
            raise UsageError(f"--metric {name}: {evaluations} has only {listed(values_by_metric)}")
    metrics = list(dict.fromkeys(metric or ())) or sorted(values_by_metric, key=qulac.metric_order)
    gains_by_metric: dict[str, qulac.Gains] = {}
    for name in metrics:
        gains = qulac.question_gains(values_by_metric[name], test=test)
        if not gains.oracle:
            problem = "holds no question with its answer (no record id ends in -1)"
            raise InputError(evaluations, problem, field=name)
        gains_by_metric[name] = gains
    tables = [qulac.oracle_table(gains_by_metric)]
    for name, gains in gains_by_metric.items():
        tables.append(qulac.question_gains_table(name, gains))
    notes = qulac.read_notes(evaluations) + qulac.gain_notes(gains_by_metric)
    show_tables(tables, notes=notes, as_json=as_json, csv=csv)


@app.command("retrieve", short_help="Retrieve after each conversation and evaluate.")
def retrieve(
    path: QulacPath,
    corpus: Annotated[
        Path, typer.Option(metavar="FILE", help="Documents: JSON Lines of id, url, title, text.")
    ],
    qrels: Annotated[str, typer.Option(metavar="FILE|intent:N", help="Relevance judgments; see above.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The evaluation dictionary to write (JSON).")],
    turns: Annotated[str, typer.Option(metavar="LENGTHS", help="How many turns: some of 1,2,3.")] = "1",
    answers: Annotated[
        str, typer.Option(metavar="FLAGS", help="Retrieve with the last answer, without it, or both.")
    ] = "both",
    topics: Annotated[int | None, typer.Option(min=1, help="Use only the first N topics, by number.")] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Use only the first N facets with judgments.")
    ] = None,
    mu: Annotated[float, typer.Option(min=0, metavar="WORDS", help="Dirichlet smoothing.")] = 1500.0,
    alpha: Annotated[float, typer.Option(min=0, max=1, metavar="SHARE", help="Weight of the query.")] = 0.5,
    answer_weight: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            metavar="SHARE",
            help="Weight of the answers; the questions have the rest [default: by number of words].",
        ),
    ] = None,
    relevance_level: Annotated[
        int,
        typer.Option(
            min=1,
            max=4,
            metavar="N",
            help="Lowest grade that counts as relevant for P, RR, AP and R (TREC Deep Learning: 2); nDCG uses all.",
        ),
    ] = 1,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Only this metric, e.g. NDCG20. Repeatable [default: Qulac's eleven]."
        ),
    ] = None,
    force: Force = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    as_json: AsJson = False,
) -> None:
    """Retrieve with query, questions and answers after every conversation, and evaluate.

    Uses query likelihood with Dirichlet smoothing; the query has weight --alpha, questions and answers the rest. Every
    conversation gives a record with its last answer (flag 1) and one without (flag 0); TOPIC-FACET-0-0 is the query
    alone. --out is an evaluation dictionary, {metric: {record id: value}}, which cts data qulac gains reads.

    --qrels are judgments by facet: diversity qrels of the TREC Web Track (topic facet document grade), or qrels whose
    topics are called 12-3. intent:N takes the N documents ranked best for a facet's description as relevant: these are
    pseudo-judgments, for a corpus without relevance judgments.

    Example: cts data qulac retrieve qulac.json --corpus wiki.jsonl --qrels intent:10 --out eval.json
    """
    from rich.console import Console
    from rich.progress import track

    from cts_async.analysis.retrieval import PSEUDO_JUDGMENTS
    from cts_async.neighbours.qulac import conversations as qulac
    from cts_async.neighbours.qulac.collection import read_qulac
    from cts_async.safe_files import check_writable
    from cts_async.search.backends.corpus import Corpus
    from cts_async.search.rankers import QueryLikelihoodRanker, Weights
    from cts_async.tables.table import show_tables

    if answers not in _FLAGS:
        raise UsageError(f"--answers {answers}: must be one of {', '.join(_FLAGS)}")
    check_out(out, [path, corpus, Path(qrels)], force=force)
    for name in metric or ():
        if name not in qulac.METRICS:
            raise UsageError(f"--metric {name}: must be one of {', '.join(qulac.METRICS)}")
    metrics = list(dict.fromkeys(metric or qulac.METRICS))
    lengths, weights = read_lengths(turns), Weights(alpha, answer_weight)
    out = out.expanduser()
    # Before anything is retrieved.
    check_writable(out)
    first_topics = sorted(read_qulac(path).topics, key=attrgetter("id"))[:topics]
    evaluations: dict[str, dict[str, float]] = {name: {} for name in metrics}
    console = Console(stderr=True, emoji=False)
    try:
        ranker = QueryLikelihoodRanker(Corpus.open(corpus).documents(), mu=mu, weights=weights)
        judged, notes = qulac.judgments(qrels, ranker, ranker.ids, first_topics, relevance_level)
        facets = _judged_facets(first_topics, judged)[:limit]
        hidden = quiet or not console.is_terminal
        for topic, facet in track(facets, "facets", console=console, transient=True, disable=hidden):
            conversations = qulac.facet_records(topic, facet, lengths, _FLAGS[answers])
            grades = judged[facet.id]
            values = qulac.evaluate_records(ranker, grades, conversations, metrics, level=relevance_level)
            for name in metrics:
                evaluations[name] |= values[name]
    except KeyboardInterrupt:
        # A dictionary of some facets would look like one of all.
        raise Interrupted(f"interrupted; {out} is not written, and the same command starts over") from None
    about = {
        "qulac": str(path),
        "corpus": str(corpus),
        "documents": len(ranker.ids),
        "qrels": qrels,
        "relevance_level": relevance_level,
        "mu": mu,
        "alpha": alpha,
        "answer_weight": answer_weight,
        "turns": lengths,
        "notes": notes,
    }
    qulac.write_evaluations(out, evaluations, about)
    typer.echo(f"{len(evaluations[metrics[0]]):,} records of {len(metrics)} metrics in {out}", err=True)
    table = qulac.oracle_table({name: qulac.question_gains(evaluations[name]) for name in metrics})
    for note in notes:
        # A table is copied without its notes: it has to say by itself what it rests on.
        if PSEUDO_JUDGMENTS in note:
            table = replace(table, caption=f"{PSEUDO_JUDGMENTS}\n{table.caption}")
    show_tables([table], notes=notes, as_json=as_json)


def _judged_facets(topics: Sequence[Topic], qrels: Qrels) -> list[tuple[Topic, Facet]]:
    """Return the facets with judgments, by number, each with its topic."""
    judged: list[tuple[Topic, Facet]] = []
    for topic in topics:
        for facet in topic.facets:
            if qrels.get(facet.id):
                judged.append((topic, facet))
    return sorted(judged, key=_facet_numbers)


def _facet_numbers(topic_and_facet: tuple[Topic, Facet]) -> tuple[int, int]:
    _, facet = topic_and_facet
    return facet.numbers


def _oddities(collection: Qulac) -> list[str]:
    """Notes on the oddities of the file."""
    notes = []
    for id, rows in collection.repeated.items():
        notes.append(
            f"{id} stands on the rows {', '.join(rows)} with different answers: each is a pair, "
            "conversations have the first"
        )
    for id in collection.slips:
        notes.append(f"facet {id}: its type is misspelt, taken as informational")
    return notes


def read_lengths(turns: str) -> list[int]:
    """Return "1,3" as numbers, rising. Raises UsageError for others than 1, 2 and 3."""
    words = {word.strip() for word in turns.split(",")}
    unknown = sorted(words - {"1", "2", "3"})
    if unknown:
        raise UsageError(f"--turns {turns}: {unknown[0]!r} is not one of 1, 2, 3")
    return sorted(map(int, words))


def _topics_with_ids(topics: Sequence[Topic], ids: Sequence[int]) -> list[Topic]:
    """Return the topics with these ids, all without any. Raises UsageError for an id that there is not."""
    if not ids:
        return list(topics)
    by_id = {topic.id: topic for topic in topics}
    for id in ids:
        if id not in by_id:
            numbers = f"{len(by_id)} from {min(by_id)} to {max(by_id)}"
            raise UsageError(f"--topic {id}: no such topic; there are {numbers}")
    return [topic for topic in topics if topic.id in ids]
