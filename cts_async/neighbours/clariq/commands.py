"""`cts data clariq`: published figures, and run files under its three tasks (EMNLP 2021)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from cts_async.errors import InputError, UsageError
from cts_async.neighbours.command_line import AsJson

if TYPE_CHECKING:
    from cts_async.neighbours.clariq.collection import Clariq
    from cts_async.neighbours.clariq.tasks import RunLine

app: Final = typer.Typer(rich_markup_mode=None)

Tsv = Annotated[Path, typer.Argument(metavar="TSV", help="train.tsv, dev.tsv or test_with_labels.tsv.")]
Run = Annotated[
    Path, typer.Argument(metavar="RUN", help="Lines `topic Q0 question rank score tag` between spaces.")
]
Out = Annotated[
    Path | None, typer.Option(help="Also write every topic's values, as the official tool does (JSON).")
]


@app.command("figures", short_help="What its files hold, beside what is published.")
def figures(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A TSV, or the folder of the release.")],
    as_json: AsJson = False,
) -> None:
    """Count topics, facets, questions and answers, beside what is published.

    Example: cts data clariq figures ClariQ/data
    """
    from cts_async.neighbours.clariq.collection import clariq_files, figures_table, read_collection
    from cts_async.report.output import show_tables

    paths = clariq_files(path)
    parts = {one.stem: read_collection([one]) for one in paths}
    found = read_collection(paths)
    show_tables([figures_table(parts, found)], notes=found.notes, as_json=as_json)


@app.command("questions", short_help="Recall of the questions that people wrote.")
def questions(tsv: Tsv, run: Run, out: Out = None, as_json: AsJson = False) -> None:
    """Recall@5, 10, 20 and 30 of a run's questions, among those that people wrote for each topic.

    Example: cts data clariq questions ClariQ/data/dev.tsv ClariQ/sample_runs/dev_bm25
    """
    from cts_async.neighbours.clariq.tasks import question_relevance, questions_table, read_run, recall_json
    from cts_async.report.output import show_tables

    data, repeats = _labelled(tsv), list[int]()
    topics = {topic.id: frozenset(topic.questions) for topic in data.topics.values()}
    found = question_relevance(topics, _joined(run, read_run(run, repeats), topics, tsv))
    _write(out, recall_json(found), spare=(tsv, run))
    show_tables([questions_table(found)], notes=[*data.notes, *_repeated(run, repeats)], as_json=as_json)


@app.command("documents", short_help="What the question on top is worth to retrieval.")
def documents(
    tsv: Tsv,
    run: Run,
    evaluation: Annotated[Path, typer.Option(help="The evaluation dictionary (JSON).")],
    conversations: Annotated[
        bool,
        typer.Option("--conversations", help="The run is one of conversations; TSV is the question bank."),
    ] = False,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """What the question on top of a run is worth to retrieval, once it is answered.

    The evaluation is that of the release as JSON; its pickles are refused, with a way to convert them. A run of
    conversations has contexts in place of topics and the texts of questions: it takes question_bank.tsv as its TSV.

    Example: cts data clariq documents dev.tsv my_run --evaluation single_turn_train_eval.json
    """
    from cts_async.neighbours.clariq.collection import read_question_bank
    from cts_async.neighbours.clariq.tasks import (
        document_relevance,
        documents_table,
        read_clariq_evaluation,
        read_run,
        selected,
        with_ids,
    )
    from cts_async.report.output import show_tables

    judged, repeats = read_clariq_evaluation(evaluation), list[int]()
    notes: tuple[str, ...] = ()
    if conversations:
        lines = with_ids(read_run(run, repeats), read_question_bank(tsv))
        found = document_relevance(judged, selected(lines))
    else:
        data = _labelled(tsv)
        notes = data.notes
        topic_of = {facet.id: facet.topic_id for facet in data.facets.values()}
        lines = _joined(run, read_run(run, repeats), frozenset(topic_of.values()), tsv)
        found = document_relevance(judged, selected(lines), topic_of)
    if found is None:
        raise InputError(
            evaluation, f"evaluates none of the facets of {tsv}; is it of another part of the data?"
        )
    _write(out, found.values, spare=(tsv, run, evaluation))
    show_tables([documents_table(found)], notes=[*notes, *_repeated(run, repeats)], as_json=as_json)


@app.command("need", short_help="F1 of predicted clarification needs.")
def need(
    tsv: Tsv,
    predictions: Annotated[Path, typer.Argument(metavar="PREDICTIONS", help="Lines `topic label`.")],
    as_json: AsJson = False,
) -> None:
    """Weighted precision, recall and F1 of predicted clarification needs: lines `topic label`.

    Example: cts data clariq need ClariQ/data/dev.tsv my_labels
    """
    from cts_async.neighbours.clariq.tasks import label_agreement, need_table, read_predictions
    from cts_async.report.output import show_tables

    data = _labelled(tsv)
    truth = {topic.id: topic.need for topic in data.topics.values() if topic.need is not None}
    predicted = read_predictions(predictions)
    _check_joined(
        predictions, next(iter(predicted)), truth, tsv, known=not predicted.keys().isdisjoint(truth)
    )
    show_tables([need_table(label_agreement(truth, predicted))], notes=data.notes, as_json=as_json)


def _joined(run: Path, lines: Iterable[RunLine], topics: Collection[str], tsv: Path) -> Iterator[RunLine]:
    """Pass the lines on; raise InputError after the last if none was of a known topic."""
    first, known = "", False
    for line in lines:
        first, known = first or line.topic, known or line.topic in topics
        yield line
    _check_joined(run, first, topics, tsv, known=known)


def _check_joined(path: Path, first: str, topics: Collection[str], tsv: Path, *, known: bool) -> None:
    """Refuse files without a known topic: zeros for all topics would look like a measurement."""
    if not known:
        problem = f"none of its topics is in {tsv}: its first is {first[:40]!r}, the ids there are like {min(topics)!r}"
        raise InputError(path, f"{problem}; is it of another part of the data?")


def _repeated(run: Path, repeats: Sequence[int]) -> list[str]:
    """A note on the lines of a run that repeat a question, if any do."""
    if not repeats:
        return []
    lines = "1 line repeats" if len(repeats) == 1 else f"{len(repeats):,} lines repeat"
    return [
        f"{run}:{repeats[0]}: {lines} a question of the same topic (this is the first); "
        "a repeat takes a rank of its own, as in the official program"
    ]


def _labelled(tsv: Path) -> Clariq:
    """The topics and facets of a file; InputError if it has no labels."""
    from cts_async.neighbours.clariq.collection import FILES, read_collection

    found = read_collection([tsv])
    if not found.facets:
        raise InputError(tsv, f"has topics without labels; {', '.join(FILES)} have some", field="facet_id")
    return found


def _write(out: Path | None, value: Any, *, spare: tuple[Path, ...]) -> None:
    """Write JSON, but not over one of the files in `spare`."""
    import orjson

    from cts_async.safe_files import atomic_writer

    if out is None:
        return
    if out.exists() and any(out.samefile(path) for path in spare):
        raise UsageError(f"--out {out}: is an input file of this command; choose another name")
    with atomic_writer(out) as file:
        file.write(orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE))
