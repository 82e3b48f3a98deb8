"""ClariQ (Aliannejadi, Kiseleva, Chuklin, Dalton and Burtsev, EMNLP 2021): when and what to ask, in three tasks.

What the program sees of it: a kind of dataset, and the commands `cts data clariq`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from cts_async.datasets.kinds import RUN_COMMANDS, Kind, imported_on_call
from cts_async.errors import InputError
from cts_async.neighbours.inputs import AsJson, check_out, write_json_file

if TYPE_CHECKING:
    from cts_async.neighbours.clariq.collection import Clariq

KIND: Final = Kind(
    name="clariq",
    title="ClariQ",
    what="requests with facets, clarifying questions, answers and how much each needs clarification (1 to 4)",
    paper="Aliannejadi et al., EMNLP 2021: Building and Evaluating Open-Domain Dialogue Corpora ...",
    licence="no licence named in its repository",
    source="https://github.com/aliannejadi/ClariQ",
    spec="clariq:PATH, clariq:PATH,need=3-4",
    expects="the folder with train.tsv and dev.tsv, or one of them; need= keeps these clarification needs",
    uses=(RUN_COMMANDS, "cts run --answers clariq", "cts gold", "cts data clariq"),
    open=imported_on_call("cts_async.neighbours.clariq.collection", "open_clariq"),
    contents=imported_on_call("cts_async.neighbours.clariq.collection", "clariq_contents"),
    folder_files=("train.tsv", "dev.tsv", "test_with_labels.tsv"),
    suffix=".tsv",
    position=3,
)

# Each command imports what it needs when it runs: starting `cts` must not load numpy or pydantic.
app: Final = typer.Typer(rich_markup_mode=None)

Tsv = Annotated[Path, typer.Argument(metavar="TSV", help="train.tsv, dev.tsv or test_with_labels.tsv.")]
Run = Annotated[
    Path, typer.Argument(metavar="RUN", help="Run file: lines of `topic Q0 question rank score tag`.")
]
Out = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Also write each topic's values, in the official tool's JSON."),
]


@app.command("figures", short_help="Counts of its files beside the published ones.")
def show_clariq_figures(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A TSV file, or the folder of the release.")],
    as_json: AsJson = False,
) -> None:
    """Count topics, facets, questions and answers, beside what is published.

    Example: cts data clariq figures ClariQ/data
    """
    from cts_async.neighbours.clariq.collection import clariq_figures, clariq_files, read_collection
    from cts_async.tables.table import show_tables

    paths = clariq_files(path)
    collections = {file.stem: read_collection([file]) for file in paths}
    # Read together once more: a topic in two of the files is an error.
    everything = read_collection(paths)
    notes = list(everything.reworded.values())
    show_tables([clariq_figures(collections, everything)], notes=notes, as_json=as_json)


@app.command("questions", short_help="Recall of human questions by a run.")
def show_questions(tsv: Tsv, run: Run, out: Out = None, as_json: AsJson = False) -> None:
    """Recall@5, 10, 20 and 30 of a run's questions, among those that people wrote for each topic.

    Example: cts data clariq questions ClariQ/data/dev.tsv ClariQ/sample_runs/dev_bm25
    """
    from cts_async.neighbours.clariq import tasks
    from cts_async.tables.table import show_tables

    collection = _read_labelled(tsv)
    lines, notes = tasks.read_clariq_run(run)
    relevant = {topic.id: frozenset(topic.questions) for topic in collection.topics.values()}
    _check_joined(run, [line.topic for line in lines], relevant, tsv)
    recall, unranked = tasks.question_relevance(relevant, lines)
    # Under the names that the official tool gives to its measures.
    recall_by_name = {f"Recall{k}": recall_by_topic for k, recall_by_topic in recall.items()}
    _write(out, recall_by_name, (tsv, run))
    table = tasks.question_relevance_table(recall, unranked)
    show_tables([table], notes=list(collection.reworded.values()) + notes, as_json=as_json)


@app.command("documents", short_help="Retrieval gain of a run's top question.")
def show_documents(
    tsv: Tsv,
    run: Run,
    evaluation: Annotated[Path, typer.Option(metavar="FILE", help="The evaluation dictionary (JSON).")],
    conversations: Annotated[
        bool,
        typer.Option(
            "--conversations",
            help="RUN is of conversations (the official tool's --multi_turn); TSV is question_bank.tsv.",
        ),
    ] = False,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Show how much a run's top question, once answered, improves retrieval: the official tool's document_relevance.

    The evaluation dictionary is the release's, converted to JSON; a pickle is refused, with a way to convert it. With
    --conversations the run is of conversations, as in the official tool's last task: the first cell is a context's
    number, the third the text of a question ("" for none), and TSV is question_bank.tsv.

    Example: cts data clariq documents dev.tsv my_run --evaluation single_turn_train_eval.json

    Example: cts data clariq documents question_bank.tsv my_run --conversations --evaluation multi_turn_dev_eval.json
    """
    from cts_async.neighbours.clariq import tasks
    from cts_async.neighbours.clariq.collection import read_question_bank
    from cts_async.tables.table import show_tables

    values = tasks.read_clariq_evaluation(evaluation)
    lines, notes = tasks.read_clariq_run(run)
    topic_by_facet: Mapping[str, str] | None = None
    if conversations:
        # A run of conversations has the questions' texts, the evaluation their ids.
        id_by_text = {question: id for id, question in read_question_bank(tsv).items()}
        lines = [line._replace(question=id_by_text.get(line.question, "")) for line in lines]
    else:
        collection = _read_labelled(tsv)
        notes = list(collection.reworded.values()) + notes
        topic_by_facet = {facet.id: facet.topic_id for facet in collection.facets.values()}
        _check_joined(run, [line.topic for line in lines], frozenset(topic_by_facet.values()), tsv)
    relevance = tasks.document_relevance(values, tasks.top_questions(lines), topic_by_facet)
    if relevance is None:
        raise InputError(
            evaluation, f"evaluates none of the facets of {tsv}; is it of another part of the data?"
        )
    _write(out, relevance.values, (tsv, run, evaluation))
    show_tables([tasks.document_relevance_table(relevance)], notes=notes, as_json=as_json)


@app.command("need", short_help="F1 of predicted clarification needs.")
def show_need(
    tsv: Tsv,
    predictions: Annotated[Path, typer.Argument(metavar="FILE", help="Lines of `topic label`.")],
    as_json: AsJson = False,
) -> None:
    """Weighted precision, recall and F1 of predicted clarification needs: lines `topic label`.

    Example: cts data clariq need ClariQ/data/dev.tsv my_labels
    """
    from cts_async.neighbours.clariq.tasks import need_table, read_predictions
    from cts_async.tables.table import show_tables

    collection = _read_labelled(tsv)
    truth: dict[str, int] = {}
    for topic in collection.topics.values():
        if topic.need is not None:
            truth[topic.id] = topic.need
    predicted = read_predictions(predictions)
    _check_joined(predictions, list(predicted), truth, tsv)
    show_tables([need_table(truth, predicted)], notes=list(collection.reworded.values()), as_json=as_json)


def _read_labelled(tsv: Path) -> Clariq:
    """The topics and facets of a file; InputError if it has no labels."""
    from cts_async.neighbours.clariq.collection import FILES, read_collection

    collection = read_collection([tsv])
    if not collection.facets:
        raise InputError(tsv, f"has topics without labels; {', '.join(FILES)} have some", field="facet_id")
    return collection


def _check_joined(path: Path, ids: Sequence[str], topics: Collection[str], tsv: Path) -> None:
    """Raise InputError if no topic is known: zeros for all topics would look like a measurement."""
    if set(topics).isdisjoint(ids):
        ids_of_both = f"its first is {ids[0][:40]!r}, the ids there are like {min(topics)!r}"
        raise InputError(
            path, f"none of its topics is in {tsv}: {ids_of_both}; is it of another part of the data?"
        )


def _write(out: Path | None, value: Any, inputs: Sequence[Path]) -> None:
    """Write JSON, but not over an input file."""
    if out is not None:
        check_out(out, inputs, force=True)
        write_json_file(out, value, option=0)
