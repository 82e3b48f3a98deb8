"""`cts data qulac retrieve`: retrieval after every conversation, evaluated, as Qulac's evaluation dictionaries."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from cts_async.cli import options
from cts_async.cli.data.group import Force, check_free

if TYPE_CHECKING:
    from cts_async.analysis.question_gain import Gains
    from cts_async.analysis.retrieval import Qrels
    from cts_async.datasets.qulac_table import Facet, Topic
    from cts_async.search.rankers import QueryLikelihoodRanker, TermIndex

HELP = """Retrieve with query, questions and answers after every conversation, and evaluate.

Query likelihood with Dirichlet smoothing: the query has the weight --alpha, what was asked and answered the rest.
Every conversation is a record with its last answer (flag 1) and one without (flag 0); TOPIC-FACET-0-0 is the query
alone. EVAL is an evaluation dictionary, {metric: {record id: value}}, that cts data qulac gains reads.

QRELS are judgments by facet: diversity qrels of the TREC Web Track (topic facet document grade), or qrels whose
topics are called 12-3. Without any for the corpus, intent:N takes the N documents that a facet's description ranks
best for relevant: stand-ins, and no relevance judgments.

Example: cts data qulac retrieve qulac.json --corpus wiki.jsonl --qrels intent:10 --out eval.json
"""

INTENT: Final = "intent"
DEPTH: Final = 10
_FLAGS: Final = {"both": (False, True), "with": (True,), "without": (False,)}


def retrieve(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="The file qulac.json.")],
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
    relevance_level: options.RelevanceLevel = 1,
    metric: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only these, e.g. NDCG20 [default: the eleven of Qulac]."),
    ] = None,
    force: Force = False,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    from cts_async.cli.data.qulac import read_lengths
    from cts_async.datasets.evaluation_about import write_about
    from cts_async.datasets.qulac_conversations import TURNS
    from cts_async.datasets.qulac_table import read_qulac
    from cts_async.errors import Interrupted, UsageError
    from cts_async.report.qulac_retrieval import walk_facets
    from cts_async.search.backends.corpus import Corpus
    from cts_async.search.rankers import QueryLikelihoodRanker, TermIndex, Weights

    if answers not in _FLAGS:
        raise UsageError(f"--answers {answers}: must be one of {', '.join(_FLAGS)}")
    if out.expanduser().resolve() in {given.expanduser().resolve() for given in (path, corpus, Path(qrels))}:
        raise UsageError(f"--out {out}: that is a file to read; choose another")
    check_free(out, force=force)
    lengths, metrics, weights = read_lengths(turns, TURNS), _metrics(metric), Weights(alpha, answer_weight)
    chosen = sorted(read_qulac(path).topics, key=lambda topic: topic.id)[:topics]
    try:
        index = TermIndex.build(Corpus.open(corpus).documents())
        ranker = QueryLikelihoodRanker(index, mu=mu, weights=weights)
        judged, notes = _judgments(qrels, ranker, index, chosen, relevance_level)
        facets = list(walk_facets(chosen, judged))[:limit]
        flags = _FLAGS[answers]
        gains = _evaluate(ranker, judged, facets, lengths, flags, metrics, relevance_level, out, quiet)
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted; {out} is not written, and the same command begins anew") from None
    settings = {"qulac": str(path), "corpus": str(corpus), "documents": len(index.ids), "qrels": qrels}
    settings["relevance_level"] = relevance_level
    settings |= {"mu": mu, "alpha": alpha, "answer_weight": answer_weight, "turns": lengths}
    write_about(out, settings, notes)
    _show(gains, out, notes, as_json=as_json)


retrieve.__doc__ = HELP


def _metrics(wanted: Sequence[str] | None) -> list[str]:
    from cts_async.errors import UsageError
    from cts_async.report.qulac_retrieval import METRICS

    for name in wanted or ():
        if name not in METRICS:
            raise UsageError(f"--metric {name}: must be one of {', '.join(METRICS)}")
    return list(dict.fromkeys(wanted or METRICS))


def _judgments(
    qrels: str, ranker: QueryLikelihoodRanker, index: TermIndex, topics: Sequence[Topic], level: int
) -> tuple[Qrels, list[str]]:
    """Judgments of the topics' facets, and what a reader of the numbers has to know of them."""
    from cts_async.analysis.retrieval import (
        STANDIN,
        count_hopeless,
        hopeless_note,
        relevant_from,
        standin_qrels,
        standins_have_one_grade,
    )
    from cts_async.errors import UsageError

    facets = {facet.id: facet.description for topic in topics for facet in topic.facets}
    name, _, depth = qrels.partition(":")
    if name == INTENT:
        if level > 1:
            raise UsageError(standins_have_one_grade(level, qrels))
        judged: Qrels = standin_qrels(ranker, facets, _depth(qrels, depth))
        notes = [f"These numbers rest on {STANDIN}: --qrels {qrels}"]
    else:
        judged, notes = _from_file(Path(qrels), facets, set(index.ids))
    if missing := len(facets) - len(judged):
        notes.append(f"{missing:,} of {len(facets):,} facets have no judgments and are left out")
    if level > 1:
        notes.append(f"--qrels {qrels}{relevant_from(level)}")
    if hopeless := count_hopeless(judged, level=level):
        notes.append(hopeless_note(hopeless, f"{len(facets):,} facets", level))
    return judged, notes


def _depth(qrels: str, depth: str) -> int:
    from cts_async.errors import UsageError

    if not depth:
        return DEPTH
    if not (depth.isascii() and depth.isdigit() and int(depth[:9]) > 0):
        raise UsageError(f"--qrels {qrels}: write {INTENT}:N, with N from 1 on, or the path of a file")
    return int(depth[:9])


def _from_file(path: Path, facets: Collection[str], documents: Collection[str]) -> tuple[Qrels, list[str]]:
    from cts_async.datasets.trec import read_facet_qrels
    from cts_async.errors import InputError

    found = read_facet_qrels(path)
    judged = {facet: found[facet] for facet in facets if facet in found}
    if not judged:
        problem = (
            f"judges no facet of these topics; it has {next(iter(found))!r}, they are called {min(facets)!r}"
        )
        raise InputError(path, problem)
    named = {document for grades in judged.values() for document in grades}
    if absent := len(named.difference(documents)):
        if absent == len(named):
            raise InputError(
                path, f"none of its {absent:,} documents is in the corpus; ids have to be the same"
            )
        return judged, [f"{absent:,} of {len(named):,} judged documents are not in the corpus"]
    return judged, []


def _evaluate(
    ranker: QueryLikelihoodRanker,
    judged: Qrels,
    facets: Sequence[tuple[Topic, Facet]],
    lengths: Sequence[int],
    flags: Collection[bool],
    metrics: Sequence[str],
    level: int,
    out: Path,
    quiet: bool,
) -> dict[str, Gains]:
    """Write the dictionary facet by facet; what asking was worth is all that is kept."""
    from cts_async.analysis.conversation_retrieval import evaluate_conversations
    from cts_async.cli.data.walked import walked
    from cts_async.datasets.evaluation_writer import evaluations_written
    from cts_async.report.qulac_retrieval import FacetMeans, facet_records

    means = FacetMeans()
    with evaluations_written(out.expanduser(), metrics) as writer:
        for topic, facet in walked(facets, len(facets), "facets", quiet=quiet):
            records = facet_records(topic, facet, lengths, flags)
            found = evaluate_conversations(ranker, judged[facet.id], records, metrics, level=level)
            writer.add(found)
            means.add(found)
    typer.echo(f"{writer.records:,} records of {len(metrics)} metrics in {out}", err=True)
    return means.gains()


def _show(gains: dict[str, Gains], out: Path, notes: Sequence[str], *, as_json: bool) -> None:
    from dataclasses import replace

    from cts_async.analysis.retrieval import STANDIN
    from cts_async.cli.data.shown import show
    from cts_async.report.qulac_tables import oracle_table

    table = oracle_table(gains)
    if any(STANDIN in note for note in notes):
        table = replace(table, caption=f"{STANDIN}\n{table.caption}")
    show([table], notes=notes, as_json=as_json)
