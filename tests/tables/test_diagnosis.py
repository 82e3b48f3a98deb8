"""Diagnoses of runs, boards and question files."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from installed_plugins import forget, install
from made_runs import SCORING, Row, changed_manifest, made_run
from made_talks import made_talk

from cts_async.analysis.board import Board, make_board
from cts_async.analysis.stats import wilson
from cts_async.errors import UsageError
from cts_async.runs.finished import read_path, read_run
from cts_async.runs.gold_texts import GoldTexts
from cts_async.tables import diagnosis, statistics
from cts_async.tables.diagnosis import (
    DiagnosisReport,
    diagnose_board,
    diagnose_named,
    printed_notes,
    report_json,
)
from cts_async.tables.statistics import diagnosis_tables, run_rows
from cts_async.tables.table import show_tables

CITY, YEAR, BOTH, PART = "您想查哪个城市？", "您想查哪一年？", "您想查哪个城市、哪一年？", "Which part of it?"
U = "unknown"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """orig scores 10 everywhere; gpt and kimi ask one question, gpt also two. Tests only read them."""
    folder = tmp_path_factory.mktemp("runs")
    made_run(folder, label="orig", rows=[Row(id, score=10.0) for id in "abcde"])
    rows = [
        Row("a", [CITY], [U], score=10.0),
        Row("b", [CITY], ["北京"], score=30.0),
        Row("c", [BOTH], [U], score=12.0),
        Row("d", [YEAR], ["2024"], score=40.0),
        Row("e", error="search"),
    ]
    made_run(folder, label="gpt-k1", rows=rows)
    rows = [
        Row("a", [PART], [U], score=11.0),
        Row("b", [YEAR], [U], score=9.0),
        Row("c", [CITY], [U], score=10.0),
        Row("d", [PART], [U], score=10.0),
        Row("e", [PART], [U]),  # judged by nobody
    ]
    made_run(folder, label="kimi-k1", rows=rows)
    rows = [
        Row("a", [CITY, YEAR], [U, U], score=10.0),
        Row("b", [YEAR, CITY], ["2024", U], score=30.0),
        Row("c", [YEAR, PART], ["2024", "x"], score=50.0),
    ]
    made_run(folder, label="gpt-k2", rows=rows)
    return folder


@pytest.fixture(scope="module")
def found(runs: Path) -> dict[str, Any]:
    return report_json(diagnose_named([str(runs)]))


def column(rows: list[dict[str, Any]], *keys: str) -> list[tuple[Any, ...]]:
    return [tuple(row[key] for key in keys) for row in rows]


def test_tables_of_the_paper_match_hand_calculation(found: dict[str, Any]) -> None:
    assert column(found["runs"], "model", "k", "n", "failed", "missing", "scored") == [
        ("gpt", 1, 4, 1, 0, 4),
        ("kimi", 1, 5, 0, 0, 4),
        ("gpt", 2, 3, 0, 0, 3),
    ]
    # gpt, k = 1: two of four unknown, three ask about a city; k = 2: three of six unknown, two about a city.
    assert column(found["table_4"], "model", "k", "ua_unknown_rate", "cq_region_rate") == [
        ("gpt", 1, 2 / 4, 3 / 4),
        ("kimi", 1, 5 / 5, 1 / 5),
        ("gpt", 2, 3 / 6, 2 / 6),
    ]
    # The question for a city and a year is not region-only.
    assert column(found["table_5"], "model", "region_only", "region_only_unknown_rate") == [
        ("gpt", 2, 1 / 2),
        ("kimi", 1, 1.0),
    ]
    assert column(found["table_7"], "model", "k", "all_unknown", "known_cnt_1", "known_cnt_2") == [
        ("gpt", 1, 2 / 4, 2 / 4, None),
        ("kimi", 1, 1.0, 0.0, None),
        ("gpt", 2, 1 / 3, 1 / 3, 1 / 3),
    ]
    assert column(found["table_8"], "k", "low", "high", "lowest", "highest") == [
        (1, 0.5, 1.0, "gpt-k1, turn 1", "kimi-k1, turn 1"),
        (2, 1.0, 1.0, "gpt-k2, turn 1", "gpt-k2, turn 1"),
    ]
    assert column(found["table_10"], "model", "k", "turn", "region_only", "region_only_unknown_rate") == [
        ("gpt", 1, 1, 2, 0.5),
        ("kimi", 1, 1, 1, 1.0),
        ("gpt", 2, 1, 1, 1.0),
        ("gpt", 2, 2, 1, 1.0),
    ]


def test_question_types(found: dict[str, Any]) -> None:
    """At k = 1, of nine questions: region a b c of gpt, c of kimi (gains 0, 20, 2, 0); time d and b (30, -1)."""
    rows = {(row["k"], row["type"]): row for row in found["question_types"]}
    region, time, scope = rows[1, "region"], rows[1, "time"], rows[1, "scope"]
    assert (region["questions"], region["share"], region["answerability"]) == (4, 4 / 9, 1 / 4)
    assert (region["answerability_low"], region["answerability_high"]) == wilson(1, 4)
    assert region["gain"] == pytest.approx(22 / 4)
    assert (time["questions"], time["answerability"], time["gain"]) == (2, 1 / 2, pytest.approx(29 / 2))
    # one of the three is not judged: it is asked, and has no gain
    assert (scope["questions"], scope["gain_questions"], scope["gain"]) == (3, 2, pytest.approx(0.5))
    assert (rows[1, "entity"]["answerability"], rows[1, "entity"]["gain"]) == (None, None)


def test_gain_at_two_questions_is_least_squares(found: dict[str, Any]) -> None:
    """region + time gains 0 and 20, time + scope gains 40: region + time = 10 fits best, with scope = 40 - time.

    Least squares leaves the split open; of all equal fits the shortest is taken: time = 50/3, region = -20/3,
    scope = 70/3.
    """
    gains = {row["type"]: row["gain"] for row in found["question_types"] if row["k"] == 2}
    assert gains["time"] + gains["region"] == pytest.approx(10)
    assert gains["time"] + gains["scope"] == pytest.approx(40)
    assert gains["time"] == pytest.approx(50 / 3)


def test_answerability_by_turn(found: dict[str, Any]) -> None:
    rows = {row["type"]: row for row in found["question_types_by_turn"]}
    assert (rows["time"]["questions_1"], rows["time"]["answerability_1"]) == (2, 1.0)
    assert (rows["time"]["questions_2"], rows["time"]["answerability_2"]) == (1, 0.0)
    assert (rows["other"]["questions_1"], rows["other"]["answerability_1"]) == (0, None)


def test_shares(found: dict[str, Any]) -> None:
    """The question for a city and a year counts as what it asks first."""
    assert column(found["question_type_shares"], "model", "k", "region", "time", "scope") == [
        ("gpt", 1, 3 / 4, 1 / 4, 0.0),
        ("kimi", 1, 1 / 5, 1 / 5, 3 / 5),
        ("gpt", 2, 2 / 6, 3 / 6, 1 / 6),
    ]


def test_score_by_known_count(found: dict[str, Any]) -> None:
    assert column(found["known_count"], "model", "k", "known_cnt", "n", "score", "gain", "gain_n") == [
        ("gpt", 1, 0, 2, 11.0, 1.0, 2),
        ("gpt", 1, 1, 2, 35.0, 25.0, 2),
        ("kimi", 1, 0, 5, 10.0, 0.0, 4),
        ("kimi", 1, 1, 0, None, None, 0),
        ("gpt", 2, 0, 1, 10.0, 0.0, 1),
        ("gpt", 2, 1, 1, 30.0, 20.0, 1),
        ("gpt", 2, 2, 1, 50.0, 40.0, 1),
    ]


def test_ask_or_not_runs_from_orig_to_the_run(found: dict[str, Any]) -> None:
    assert column(found["ask_or_not"], "model", "k", "n", "never", "always") == [
        ("gpt", 1, 4, 10.0, 23.0),
        ("kimi", 1, 4, 10.0, 10.0),
        ("gpt", 2, 3, 10.0, 30.0),
    ]
    shares = [row["share_asked"] for row in found["frontier"] if row["system"] == "gpt-k1"]
    assert (shares[0], shares[-1]) == (0.0, 1.0)


def test_diagnosis_without_orig_has_no_gains(tmp_path: Path) -> None:
    rows = [Row("a", [CITY], [U], score=10.0)]
    run = made_run(tmp_path, label="local-k1", rows=rows, embedded=True)
    found = report_json(diagnose_named([str(run)]))
    assert found["table_4"][0]["ua_unknown_rate"] == 1.0
    assert (found["known_count"][0]["score"], found["known_count"][0]["gain"]) == (10.0, None)
    assert (found["ask_or_not"], found["smoke_test"]) == ([], True)
    assert "Smoke test" in printed([str(run)])
    assert any("no gains" in note for note in found["notes"])


def test_judge_can_be_chosen(tmp_path: Path) -> None:
    made_run(tmp_path, label="orig", rows=[Row("a", labels={"ernie": "n", "gpt": "p"})])
    rows = [Row("a", [CITY], [U], labels={"ernie": "p", "gpt": "f"})]
    run = str(made_run(tmp_path, label="kimi-k1", rows=rows))
    by_ernie, by_gpt = (report_json(diagnose_named([run], judge=judge)) for judge in (None, "gpt"))
    assert (by_ernie["judge"], by_ernie["known_count"][0]["score"]) == ("ernie", 50.0)
    assert (by_gpt["judge"], by_gpt["known_count"][0]["score"], by_gpt["known_count"][0]["gain"]) == (
        "gpt",
        100.0,
        50.0,
    )


def printed(paths: list[str]) -> str:
    out, found = io.StringIO(), diagnose_named(paths)
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out):
        patch.setenv("COLUMNS", "80")
        show_tables(diagnosis_tables(found.diagnosis), notes=printed_notes(found))
    return out.getvalue()


def cells(text: str, title: str) -> list[list[str]]:
    """The rows printed under a title."""
    table = text.split(title)[1].split("─\n", 1)[1].split("\n\n")[0]
    return [line.split() for line in table.splitlines() if line.strip()]


def test_printed_digits_are_three_as_in_the_paper(tmp_path: Path) -> None:
    """1/16 = 0.0625 and 3/16 = 0.1875 lie halfway: they are printed with an even last digit."""
    rows = [Row(f"q{i}", [CITY if i < 3 else YEAR], ["x" if i else U]) for i in range(16)]
    text = printed([str(made_run(tmp_path, label="gpt-k1", rows=rows))])
    assert cells(text, "Table 4.")[-1] == ["1", "gpt", "16", "0.062", "0.188"]
    assert cells(text, "Table 5.")[-1] == ["gpt", "3", "0.333"]
    assert cells(text, "Table 7.")[-1] == ["1", "gpt", "0.062", "0.938"]
    assert "0.333–0.333" in text
    assert cells(text, "Table 10.")[-1] == ["1", "(gpt,", "1)", "3", "0.333"]


def test_printed_tables_are_complete(runs: Path) -> None:
    text = printed([str(runs)])
    tables = [line for line in text.splitlines() if not line.startswith(("gains are", "scores:"))]
    assert all(len(line.rstrip()) <= 80 for line in tables)
    assert "…" not in text
    for title in ("Table 4.", "Table 5.", "Table 7.", "Table 8.", "Table 10.", "Ask or not"):
        assert title in text


# --- Files of questions and answers


def test_question_file_is_diagnosed_without_scores(tmp_path: Path) -> None:
    path = tmp_path / "gpt_k1.csv"
    path.write_text(
        f"blurred_query,question,answer\nferry,{CITY},Unknown.\nbus,{YEAR},2024\ntrain,{CITY},\n", "utf-8"
    )
    found = report_json(diagnose_named([str(path)]))
    assert column(found["runs"], "model", "k", "n", "failed", "scored") == [("gpt_k1", 1, 2, 1, 0)]
    assert column(found["table_4"], "ua_unknown_rate", "cq_region_rate") == [(1 / 2, 1 / 2)]
    assert column(found["table_5"], "region_only", "region_only_unknown") == [(1, 1)]
    assert (found["known_count"], found["ask_or_not"], found["judge"]) == ([], [], None)


def test_own_labels_replace_rules(runs: Path, tmp_path: Path) -> None:
    labels = tmp_path / "types.csv"
    labels.write_text(f"question,type\n{YEAR},region\n", "utf-8")
    found = report_json(diagnose_named([str(runs / "made-gpt-k1")], types_file=labels))
    assert column(found["table_5"], "region_only") == [(3,)]
    assert found["notes"][-1] == "types: 1 of 3 distinct questions by label, the others by the rules"


def board_of(*paths: Path) -> Board:
    return make_board(map(read_path, paths))


def test_board_diagnosis_equals_diagnosis_of_its_runs(tmp_path: Path) -> None:
    paths = [
        made_run(tmp_path, label="orig", rows=[Row(id, score=40) for id in "abc"]),
        made_run(
            tmp_path, label="gpt-k1", rows=[Row(id, ["Which year?"], ["2024"], score=60) for id in "abc"]
        ),
        made_run(tmp_path, label="kimi-k1", rows=[Row(id, ["Where?"], ["unknown"], score=30) for id in "ab"]),
    ]
    assert diagnose_board(board_of(paths[0]), "orig", SCORING) is None
    one_by_one = diagnose_board(board_of(*paths), "orig", SCORING)
    assert one_by_one == diagnose_named([str(path) for path in paths])


@pytest.fixture
def clarifier_runs(tmp_path: Path) -> Path:
    """Three instances: the benchmark's Clarifier, the same model by another scheme, mode, and supporting model."""
    ids = ("a", "b", "c")
    asked = [Row(id, ["when?"], ["unknown"], score=10.0) for id in ids]
    talked = [Row(id, ["when?"], ["in May"], score=20.0) for id in ids]
    picked = [Row(id, score=30.0) for id in ids]
    made_run(tmp_path, label="orig", rows=[Row(id, score=5.0) for id in ids])
    made_run(tmp_path, label="gpt-k1", rows=asked)
    at_cot, respond, select = "gpt-at-cot-k1", "gpt-at-cot-respond-k1", "gpt-cot-select-k1"
    made_run(tmp_path, label=at_cot, rows=talked, scheme="at-cot")
    made_run(tmp_path, label=respond, rows=talked, scheme="at-cot", mode="respond")
    made_run(
        tmp_path,
        label=respond,
        rows=talked,
        scheme="at-cot",
        mode="respond",
        players={"support": "kimi"},
        name=f"made-{respond}+support-kimi",
    )
    made_run(tmp_path, label=select, rows=picked, scheme="cot", mode="select")
    return tmp_path


def test_clarifier_name_includes_scheme_and_mode(clarifier_runs: Path) -> None:
    found = {path.name: read_run(path) for path in sorted(clarifier_runs.iterdir())}
    assert {name: run.clarifier for name, run in found.items()} == {
        "made-orig": "",
        "made-gpt-k1": "gpt",
        "made-gpt-at-cot-k1": "gpt-at-cot",
        "made-gpt-at-cot-respond-k1": "gpt-at-cot-respond",
        "made-gpt-at-cot-respond-k1+support-kimi": "gpt-at-cot-respond",
        "made-gpt-cot-select-k1": "gpt-cot-select",
    }
    report = diagnose_named([str(clarifier_runs)])
    assert any("answered no questions, left out" in note for note in report.notes)
    rates = {fields["model"]: one.unknowns.ua_unknown_rate for fields, one in run_rows(report.diagnosis)}
    assert (rates["gpt"], rates["gpt-at-cot"], len(rates)) == (1.0, 0.0, 4)


def test_runs_without_answers_alone_are_refused(clarifier_runs: Path, tmp_path: Path) -> None:
    """`cts converse --mode at-once` asks no user, so there is no rate of unknown answers."""
    with pytest.raises(UsageError, match=r"no Clarifier's run with answers.*answered no questions, left out"):
        diagnose_named([str(clarifier_runs / "made-gpt-cot-select-k1")])
    offered = [{"offered": ["when?", "where?"]}]
    alone = made_talk(tmp_path / "talks", scheme="cot", mode="at-once", rows={"a": offered}, k=2)
    with pytest.raises(UsageError, match="no user answered its questions, left out"):
        diagnose_named([str(alone)])
    made_talk(tmp_path / "talks", scheme="cot", rows={"a": offered})
    found = diagnose_named([str(tmp_path / "talks")])
    assert [one.system.clarifier for one in found.diagnosis.systems] == ["gpt-cot-respond"]


LENGTHS = """
from cts_async.tables.table import Column, DataTable, text
ORDER = 1000
def tables(diagnosis):
    rows = [{"system": run.system.label, "n": run.system.n_turns} for run in diagnosis.systems]
    yield DataTable("question_lengths", "Lengths", "", [Column("n", text("n"))], rows)
"""


def test_statistic_of_another_package_is_part_of_a_diagnosis(
    runs: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    broken = "ORDER = 0\ndef tables(diagnosis):\n    yield diagnosis.nothing\n"
    install(
        tmp_path_factory.mktemp("more"),
        monkeypatch,
        {"cts_async.statistics": {"lengths": "lab_lengths", "broken": "lab_broken", "again": "lab_lengths"}},
        {"lab_lengths": LENGTHS, "lab_broken": broken},
    )
    statistics.statistics.cache_clear()
    try:
        tables = report_json(diagnose_named([str(runs)]))
    finally:
        statistics.statistics.cache_clear()
        forget()
    assert {row["system"] for row in tables["question_lengths"]} >= {"gpt-k1"}
    assert capsys.readouterr().err.splitlines() == [
        "warning: statistic 'broken' of my-lab 1.0: AttributeError: 'Diagnosis' object has no attribute 'nothing'",
        "warning: statistic 'lengths': its table 'question_lengths' is left out: there is another",
    ]


# Which runs are diagnosed

ASKED = Row("a", ["when?"], ["unknown"], score=20.0)


def labels(report: DiagnosisReport) -> list[str]:
    return [one.system.label for one in report.diagnosis.systems]


def made(folder: Path, *labels: str, data: str = "made") -> list[Path]:
    orig = Row("a", score=10.0)
    return [
        made_run(folder, label=label, data=data, rows=[orig if label == "orig" else ASKED])
        for label in labels
    ]


def test_orig_is_found_next_to_runs_or_named(tmp_path: Path) -> None:
    gpt, orig = made(tmp_path / "runs", "gpt-k1", "orig")
    made(tmp_path / "runs", "orig", data="other")
    (tmp_path / "runs" / "broken").mkdir()
    (tmp_path / "runs" / "broken" / "run.json").write_text('{"identity":')
    found = diagnose_named([str(gpt)])
    assert (found.orig, found.notes) == (orig, [f"gains are over {orig}"])
    [alone] = made(tmp_path / "alone", "gpt-k1")
    found = diagnose_named([str(alone)])
    assert found.orig is None
    assert found.notes[0] == "no single orig run was found next to these; name one with --orig DIR"
    found = diagnose_named([str(alone)], orig=orig)
    assert (found.orig, found.notes) == (orig, [])


def test_newest_of_several_origs_is_what_gains_are_over(tmp_path: Path) -> None:
    """Scores 10 of one orig, 40 of the other, which was worked on last; gpt's 60 is 20 more than that."""
    (gpt,) = made(tmp_path, "gpt-k1")
    earlier, later = (
        made_run(tmp_path, label="orig", rows=[Row("a", score=score, answer=name)], name=name)
        for name, score in (("x-orig", 10.0), ("orig", 40.0))
    )
    for path, day in ((earlier, 1), (later, 2)):
        with changed_manifest(path) as manifest:
            manifest["sessions"] = [{"start": f"2026-01-0{day}"}]
    found = diagnose_named([str(tmp_path)])
    assert found.orig == later
    assert found.notes == [
        "Several runs are orig: differences are to orig, the newest; its answers are not those of x-orig on 1 of the 1 "
        "instances that both have."
    ]
    beside = diagnose_named([str(gpt)])
    assert (beside.orig, beside.notes) == (later, [f"gains are over {later}"])
    with pytest.raises(UsageError, match=r"gpt-k1: a Clarifier's run \(gpt-k1\)"):
        diagnose_named([str(gpt)], orig=gpt)


def test_unfinished_run_is_read_only_when_named(tmp_path: Path) -> None:
    made(tmp_path, "orig")
    failed = made_run(tmp_path, label="gpt-k1", rows=[ASKED, Row("b", error="search")])
    part = made_run(tmp_path, label="kimi-k1", rows=[ASKED], n_expected=5)
    named = diagnose_named([str(failed), str(part)])
    assert [(one.system.label, one.system.n_failed) for one in named.diagnosis.systems] == [
        ("gpt-k1", 1),
        ("kimi-k1", 0),
    ]
    assert f"{part}: not finished (1 of 5 instances)" in named.notes
    folder = diagnose_named([str(tmp_path)])
    assert labels(folder) == ["gpt-k1"]
    assert f"{part}: not finished, left out (1 of 5 instances)" in folder.notes


def test_run_set_without_answers_is_refused_with_reasons(tmp_path: Path) -> None:
    [orig] = made(tmp_path / "orig", "orig")
    empty = made_run(tmp_path / "empty", label="gpt-k1", rows=[])
    part = made_run(tmp_path / "part", label="gpt-k1", rows=[ASKED], n_expected=5)
    for word, reason in ((orig, ""), (empty, ""), (part.parent, r".*left out \(1 of 5 instances\)")):
        with pytest.raises(UsageError, match=f"no Clarifier's run with answers; name one{reason}"):
            diagnose_named([str(word)])


@pytest.mark.parametrize(("most", "taken"), [(5, 5), (4, 3), (2, 2), (1, 1)])
def test_losses_of_a_large_run_are_those_of_instances_evenly_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, taken: int
) -> None:
    run = made_run(tmp_path, label="orig", rows=[Row(id, score=10.0) for id in "abcde"])
    monkeypatch.setattr(diagnosis, "MOST_ATTRIBUTED", most)
    assert len(list(diagnosis.run_losses(run, read_run(run).judges[0], GoldTexts()))) == taken
    assert list(diagnosis.run_losses(made_run(tmp_path, label="empty", rows=[]), "gpt", GoldTexts())) == []


def test_answers_that_give_away_the_intent_are_counted(tmp_path: Path) -> None:
    """Hidden beyond query and question: winter, weekday, north, quay. Told: all and recited, one of four, unknown."""
    q_star, q = "winter weekday ferry from North Quay", "ferry"
    aloud = f"analysisThe query is {q_star}.assistantfinalunknown"  # as version 0.11 passed it on
    said = {"a": aloud, "b": "in winter", "c": U, "e": U}
    rows = [
        Row(id, ["Which season?"], [answer], score=10.0, fused_query=q_star, blurred_query=q)
        for id, answer in said.items()
    ]
    run = made_run(tmp_path, label="gpt-k1", rows=rows)
    replies = {**said, "c": "Not specified.", "d": "unknown", "e": "<think>Not said.</think>\n\nunknown"}
    records = [
        {"key": "", "ok": True, "instance": id, "step": "answer/1", "response": {"text": text}}
        for id, text in replies.items()
    ]
    text = "".join(json.dumps(record) + "\n" for record in records)
    (run / "steps.jsonl").write_text(text, encoding="utf-8")
    found = report_json(diagnose_named([str(run)]))
    (row,) = found["given_away"]
    assert (row["known"], row["over_informing"], row["named"]) == (2, 1, 1)
    assert (row["told"], row["over_informing_rate"]) == ((1 + 1 / 4) / 2, 1 / 2)
    (row,) = found["unknown_wording"]
    assert (row["exact"], row["paraphrased"]) == (1, 1), "d has no outcome, and a was taken for an answer"
    with changed_manifest(run) as manifest:
        manifest["identity"]["answers"] = {"of": "qulac", "similarity": 0.85}
    (row,) = report_json(diagnose_named([str(run)]))["given_away"]
    assert (row["over_informing"], row["named"]) == (1, 0), "people's answers are counted, not named"
