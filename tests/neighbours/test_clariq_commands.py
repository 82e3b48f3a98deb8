"""`cts data clariq` on hand-made files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from made_clariq import REWORDED, ROWS, clariq_file
from typer.testing import CliRunner

from cts_async.errors import InputError, UsageError
from cts_async.neighbours.clariq import app


def ran(*arguments: str | Path) -> str:
    """What a command prints; in this process, since a process of its own takes half a second."""
    result = CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def dev(tmp_path: Path) -> Path:
    return clariq_file(tmp_path / "dev.tsv")


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_question_relevance_is_printed_and_written_as_officially(dev: Path, tmp_path: Path) -> None:
    run = write(tmp_path / "run", "7 Q0 Q00010 0 2.0 mine\n7 Q0 Q00099 1 1.0 mine\n")
    out = tmp_path / "out.json"
    rows = json.loads(ran("questions", dev, run, "--out", out, "--json"))["questions"]
    assert rows[0] == {"metric": "Recall5", "value": pytest.approx(1 / 6), "topics": 2}
    written = json.loads(out.read_text())
    assert list(written) == ["Recall5", "Recall10", "Recall20", "Recall30"]
    assert written["Recall30"] == {"7": pytest.approx(1 / 3), "9": 0.0}
    assert "1 of them are not in the run" in ran("questions", dev, run)
    with pytest.raises(UsageError, match="is an input file of this command; choose another name"):
        ran("questions", dev, run, "--out", run)


def test_second_request_text_is_noted_once_by_every_command(tmp_path: Path) -> None:
    tsv = clariq_file(tmp_path / "test_with_labels.tsv", REWORDED)
    run = write(tmp_path / "run", "7 Q0 Q00010 0 2.0 mine\n")
    facets = {"F01": {"Q00010": {"with_answer": 0.5}, "MIN": {"with_answer": 0.25}}}
    evaluation = write(tmp_path / "eval.json", json.dumps({"P1": facets}))
    labels = write(tmp_path / "labels", "7 4\n")
    for words in (
        ("figures", tmp_path),
        ("questions", tsv, run),
        ("documents", tsv, run, "--evaluation", evaluation),
        ("need", tsv, labels),
    ):
        notes = json.loads(ran(*words, "--json"))["notes"]
        assert notes == [f"{tsv}:6: topic '7' has a second request text; the first is used"]
    need = json.loads(ran("need", tsv, labels, "--json"))["need"]
    assert [(row["metric"], row["value"]) for row in need] == [
        ("precision", 0.5),
        ("recall", 0.5),
        ("F1", 0.5),
    ]


def test_document_relevance_is_that_of_the_question_on_top(dev: Path, tmp_path: Path) -> None:
    facets = {
        "F01": {"Q00010": {"with_answer": 0.5}, "MIN": {"with_answer": 0.25}},
        "F03": {"Q00012": {"with_answer": 1.0}, "MIN": {"with_answer": 0.5}},
    }
    evaluation = write(tmp_path / "eval.json", json.dumps({"NDCG20": facets, "MRR100": facets}))
    run = write(tmp_path / "run", "7 Q0 Q00011 0 1.0 mine\n7 Q0 Q00010 1 2.0 mine\n9 Q0 Q00001 0 1 mine\n")
    rows = json.loads(ran("documents", dev, run, "--evaluation", evaluation, "--json"))["documents"]
    assert rows == [{"metric": metric, "value": 0.5, "facets": 2} for metric in ("MRR100", "NDCG20")]
    other = clariq_file(tmp_path / "other.tsv", ROWS[4:6])
    with pytest.raises(InputError, match=r"eval.json: evaluates none of the facets of .*other.tsv"):
        ran("documents", other, run, "--evaluation", evaluation)


def test_list_of_topics_is_refused_where_labels_are_needed(tmp_path: Path) -> None:
    topics = clariq_file(tmp_path / "test.tsv", ("1\ta",), "topic_id\tinitial request")
    with pytest.raises(
        InputError, match="has topics without labels; train.tsv, dev.tsv, test_with_labels.tsv"
    ):
        ran("need", topics, write(tmp_path / "need", "1 1\n"))


def test_run_of_other_topics_is_refused_and_never_a_score_of_0(dev: Path, tmp_path: Path) -> None:
    run = write(tmp_path / "run", "99 Q0 Q00010 0 2.0 mine\n")
    labels = write(tmp_path / "labels", "99 3\n")
    judged = write(tmp_path / "eval.json", json.dumps({"P1": {"F01": {"MIN": {"with_answer": 0.5}}}}))
    message = (
        "none of its topics is in .*dev.tsv: its first is '99', the ids there are like '7'; is it of another"
    )
    for words in (
        ("questions", dev, run),
        ("need", dev, labels),
        ("documents", dev, run, "--evaluation", judged),
    ):
        with pytest.raises(InputError, match=message):
            ran(*words)


def test_multi_turn_document_relevance_by_hand(tmp_path: Path) -> None:
    """As the official tool counts: "" is no question (Q00001), a text outside of the bank the worst, no line 0."""
    bank = write(
        tmp_path / "question_bank.tsv", "question_id\tquestion\nQ00001\t\nQ00010\tdo you mean the animal\n"
    )
    run = write(
        tmp_path / "run",
        '968 0 "do you mean the animal" 0 5 mine\n969 0 "" 0 5 mine\n970 0 "something else" 0 5 mine\n',
    )

    def context(question: str, value: float) -> dict[str, dict[str, float]]:
        return {question: {"no_answer": 0.0, "with_answer": value}, "MIN": {"with_answer": 0.125}}

    judged = {
        "968": context("Q00010", 1.0),
        "969": context("Q00001", 0.5),
        "970": context("Q00010", 1.0),
        "971": context("Q00010", 1.0),
    }
    evaluation = write(tmp_path / "eval.json", json.dumps({"P1": judged}))
    words = ("documents", bank, run, "--evaluation", evaluation, "--conversations")
    (row,) = json.loads(ran(*words, "--json"))["documents"]
    assert (row["value"], row["facets"]) == ((1.0 + 0.5 + 0.125 + 0.0) / 4, 4)
    assert "without a question, counting 0: 1; with one that" in " ".join(ran(*words).split())
