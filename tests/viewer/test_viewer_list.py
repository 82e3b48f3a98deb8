"""Lists of instances, judged answers, and search for text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_runs import Row, made_run
from viewer_server import Asker, viewer

from cts_async.runs.results import answer_digest
from cts_async.viewer.instances import line_has

ROWS = [
    Row("a", ["q?", "r?"], ["yes", "no"], labels={"ernie": "ff", "gpt": "nn"}, rewritten_query="Tide Tables"),
    Row("b", ["q?", "r?"], ["unknown", "no"], labels={"ernie": "fn", "gpt": "ff"}, answer="潮汐表在港口。"),
    Row("c", ["q?", "r?"], ["unknown", "unknown"], labels={"ernie": "nn"}, answer='he said "TIDE"\n'),
    Row("d", error="search/turn/2", blurred_query="=1+1"),
    Row("e", labels={"ernie": "ff", "gpt": "fn"}, fused_query="straße"),
]


RUN = "made-gpt-k2"


@pytest.fixture(scope="module")
def asker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asker]:
    folder = tmp_path_factory.mktemp("list")
    made_run(folder, label="gpt-k2", rows=ROWS)
    with viewer(folder) as asker:
        yield asker


def ids(asker: Asker, **asked: object) -> str:
    return "".join(row["id"] for row in asker.get("instances", run=RUN, **asked)["rows"])


def test_a_page_has_the_numbers_of_each_instance(asker: Asker) -> None:
    page = asker.get("instances", run=RUN)
    rows = [(row["score"], row["asked"], row["unknown"], row["failed"]) for row in page["rows"]]
    assert rows == [(100, 2, 0, ""), (50, 2, 1, ""), (0, 2, 2, ""), (None, 0, 0, "rejected"), (100, 0, 0, "")]
    assert page["rows"][0]["blurred_query"] == "the query of a"
    assert (page["next"], page["total"], page["n"], page["ready"]) == (None, 5, 5, 1.0)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({}, "abcde"),
        ({"sort": "score"}, "cbaed"),
        ({"sort": "-score"}, "aebcd"),
        ({"sort": "-unknown"}, "cbade"),
        ({"judge": "gpt", "sort": "score"}, "aebcd"),
        ({"min": "50"}, "abe"),
        ({"max": "50"}, "bc"),
        ({"min": "1", "max": "99.5"}, "b"),
        ({"judge": "gpt", "min": "50"}, "be"),
        ({"unknown": "none"}, "a"),
        ({"unknown": "some"}, "bc"),
        ({"unknown": "all"}, "c"),
        ({"failed": "1"}, "d"),
        ({"failed": "0"}, "abce"),
        ({"text": "tide"}, "ac"),
        ({"text": '"tide"'}, "c"),
        ({"text": "汐表"}, "b"),
        ({"text": "STRAßE"}, "e"),
        ({"text": "rejected"}, "d"),
        ({"text": "tide", "max": "50"}, "c"),
        ({"text": "restore_score"}, ""),
    ],
)
def test_filters_and_orders(asker: Asker, asked: dict[str, str], found: str) -> None:
    assert ids(asker, **asked) == found


def test_csv_has_the_filtered_instances_in_order_and_no_formulas(asker: Asker) -> None:
    csv = asker.api("csv", run=RUN, max=50, sort="score")
    assert csv.headers["Content-Disposition"] == 'attachment; filename="made-gpt-k2-instances.csv"'
    head, *rows = csv.body.decode().splitlines()
    assert head == "run,id,blurred_query,fused_query,judge,score,n_unknown,n_answers,error_kind,caveat"
    assert rows == [
        "made-gpt-k2,c,the query of c,the intent of c,ernie,0.0,2,2,,",
        "made-gpt-k2,b,the query of b,the intent of b,ernie,50.0,1,2,,",
    ]
    failed = asker.api("csv", run=RUN, failed=1).body.decode().splitlines()
    assert failed == [head, "made-gpt-k2,d,'=1+1,the intent of d,,,,,rejected,"]
    assert len(asker.api("csv", run=RUN, text="the").body.splitlines()) == 1 + len(ids(asker, text="the"))
    assert asker.api("csv", run=RUN, judge="nobody").status == 400
    assert asker.api("csv", run=RUN, text="x" * 1001).status == 400


def test_histogram_counts_the_scores_of_the_judge_whatever_the_filter(asker: Asker) -> None:
    """By ernie 100, 50, 0, 100, by gpt 0, 100, 50."""
    by_ernie = asker.get("instances", run=RUN, failed=1)["histogram"]
    assert by_ernie == [1, *[0] * 9, 1, *[0] * 8, 2]
    assert asker.get("instances", run=RUN, judge="gpt")["histogram"] == [1, *[0] * 9, 1, *[0] * 8, 1]


@pytest.mark.parametrize("asked", [{}, {"sort": "score"}, {"text": "the"}, {"sort": "-score", "text": "the"}])
def test_pages_of_two_show_every_instance_once(asker: Asker, asked: dict[str, str]) -> None:
    seen, after = "", ""
    while after is not None:
        page = asker.get("instances", run=RUN, limit=2, after=after, **asked)
        seen += "".join(row["id"] for row in page["rows"])
        after = page["next"]
    assert seen == ids(asker, **asked)


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({"sort": "name"}, "sort: must be one of score, -score, -unknown"),
        ({"min": "nan"}, "min: must be a number from 0 to 100"),
        ({"max": "all"}, "max: must be a number from 0 to 100"),
        ({"limit": "0"}, "limit: must be an integer from 1 to 200"),
        ({"limit": "1e9"}, "limit: must be an integer from 1 to 200"),
        ({"after": "../x"}, "after: must be the `next` of the previous page"),
        ({"judge": "nobody"}, "judge: must be one of ernie, gpt"),
        ({"failed": "yes"}, "failed: must be one of 0, 1"),
        ({"text": "x" * 1001}, "text: longer than 1000 characters"),
    ],
)
def test_invalid_parameter_is_refused_in_one_line(asker: Asker, asked: dict[str, str], problem: str) -> None:
    answer = asker.api("instances", run=RUN, **asked)
    assert (answer.status, answer.json) == (400, {"error": problem})


def test_a_later_line_takes_the_place_of_an_earlier_one(tmp_path: Path) -> None:
    run = made_run(tmp_path, label="gpt-k2", rows=ROWS)
    with viewer(tmp_path) as asker:
        assert ids(asker, failed=1) == "d"
        line = {"id": "d", "restore_score_100": 70.0, "judge": "ernie", "answer": "now"}
        with (run / "results.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")
        assert (ids(asker), ids(asker, failed=1)) == ("abcde", "")
        assert asker.get("instance", run=RUN, id="d")["answer"] == "now"


def test_an_instance_has_its_conversation_nuggets_and_neighbours(asker: Asker) -> None:
    page = asker.get("instance", run=RUN, id="b")
    talk = [(turn["offered"], turn["answers"]) for turn in page["turns"]]
    assert talk == [(["q?"], ["unknown"]), (["r?"], ["no"])]
    assert page["scores"] == [
        {"judge": "ernie", "score": 50.0},
        {"judge": "gpt", "score": 100.0},
    ]
    assert [(one["id"], one["weight"], one["text"], one["coverage"]) for one in page["nuggets"]] == [
        ("N1", 1.0, None, {"ernie": "full", "gpt": "full"}),
        ("N2", 1.0, None, {"ernie": "none", "gpt": "full"}),
    ]
    assert (page["previous"], page["next"], page["error"]) == ("a", "c", None)
    assert (page["trace_turns"], page["steps"]) == (0, 0)
    failed = asker.get("instance", run=RUN, id="d")
    assert failed["error"] == {"step": "search/turn/2", "kind": "rejected", "message": "refused"}
    assert (failed["scores"], failed["nuggets"], failed["answer"], failed["turns"]) == ([], [], None, [])


SCRIPT = "'\"><script>alert(1)</script>"
HOSTILE = ["../../etc/passwd", "%2e%2e%2f", "a\x00b", SCRIPT, "x" * 3000, "", "\u202e"]


def test_hostile_ids_are_ids_and_nothing_else(tmp_path: Path) -> None:
    run = made_run(tmp_path, label="gpt-k2", rows=[Row(id) for id in HOSTILE])
    steps = [
        {"key": "0" * 32, "ok": True, "instance": id, "step": "clarify", "response": {"text": id}}
        for id in HOSTILE
    ]
    (run / "steps.jsonl").write_text("".join(json.dumps(step) + "\n" for step in steps))
    with viewer(tmp_path) as asker:
        assert [row["id"] for row in asker.get("instances", run=run.name)["rows"]] == HOSTILE
        for id in HOSTILE:
            page: Any = asker.get("instance", run=run.name, id=id)
            assert (page["id"], page["steps"]) == (id, 1)
            download = asker.api("download", run=run.name, id=id)
            assert json.loads(download.body)["instance"] == id
            name = download.headers["Content-Disposition"]
            assert name.startswith('attachment; filename="made-gpt-k2')
            assert not set(name[23:-1]) & set("\"'<>/\\%\x00")
        for name in HOSTILE:
            assert asker.api("instances", run=name).json == {"error": "no such run"}
        assert asker.api("instance", run=run.name, id="etc").status == 404


KEY = "0" * 32


def written(path: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))


def verdict(id: str, label: str, **more: Any) -> dict[str, Any]:
    score = {"full": 100.0, "partial": 50.0, "none": 0.0}[label]
    nuggets = [{"id": "N1", "weight": 1.0, "coverage": label}]
    return {"id": id, "fused_query": f"intent {id}", "judge": "ernie", "nuggets": nuggets, **more} | {
        "restore_score_100": score
    }


def judged(folder: Path, system: str, lines: Sequence[Mapping[str, Any]], **manifest: Any) -> Path:
    directory = folder / system
    written(directory / "per_item.jsonl", lines)
    identity = {
        "system": system,
        "candidates": f"{system}.jsonl",
        "gold_sha256": "g" * 64,
        "judges": ["ernie"],
    }
    (directory / "run.json").write_text(
        json.dumps({"identity": identity, "n_expected": len(lines), **manifest})
    )
    return directory


def test_judged_files_share_the_journal_above_them(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for system in ("ebk1", "ebk2"):
        judged(out, system, [verdict("a", "full", answer="x")], journal="../steps.jsonl")
    (out / "run.json").write_text(json.dumps({"identity": {}, "systems": ["ebk1", "ebk2"]}))
    steps = [
        {"key": KEY, "ok": True, "instance": f"{one}/a", "step": "judge/ernie"} for one in ("ebk1", "ebk2")
    ]
    written(out / "steps.jsonl", steps)
    with viewer(tmp_path) as asker:
        assert [row["name"] for row in asker.get("runs")["runs"]] == ["out/ebk1", "out/ebk2"]
        download = asker.api("download", run="out/ebk2", id="a")
        assert json.loads(download.body) == steps[1]
        assert asker.get("instance", run="out/ebk1", id="a")["steps"] == 1
    with viewer(out / "ebk1") as asker:
        assert asker.get("instance", run="ebk1", id="a")["steps"] == 0


def test_shared_journal_outside_the_folder_is_ignored(tmp_path: Path) -> None:
    written(tmp_path / "secret.jsonl", [{"key": KEY, "ok": True, "instance": "ebk1/a", "step": "x"}])
    judged(tmp_path / "out", "ebk1", [verdict("a", "full")], journal="../../secret.jsonl")
    with viewer(tmp_path / "out") as asker:
        assert asker.get("instance", run="ebk1", id="a")["steps"] == 0
        assert asker.api("step", run="ebk1", at=0).status == 404


def test_a_verdict_on_an_answer_that_changed_does_not_count(tmp_path: Path) -> None:
    run = judged(tmp_path, "ebk1", [verdict("a", "full", answer="new"), verdict("b", "none", answer="same")])
    digests = {"a": answer_digest("intent a", "old"), "b": answer_digest("intent b", "same")}
    written(
        run / "judgments" / "gpt.jsonl",
        [
            {**verdict(id, "partial"), "judge": "gpt", "answer_digest": digest}
            for id, digest in digests.items()
        ],
    )
    with viewer(tmp_path) as asker:
        (row,) = asker.get("runs")["runs"]
        assert [(one["judge"], one["n_scored"], one["mean"]) for one in row["scores"]] == [
            ("ernie", 2, 50.0),
            ("gpt", 1, 50.0),
        ]
        changed, same = (asker.get("instance", run="ebk1", id=id)["scores"] for id in "ab")
    assert [one["judge"] for one in changed] == ["ernie"]
    assert [one["judge"] for one in same] == ["ernie", "gpt"]


def test_results_of_another_program_are_shown(tmp_path: Path) -> None:
    written(tmp_path / "theirs" / "per_item.jsonl", [{"fused_query": "why", "restore_score_100": 40.0}])
    with viewer(tmp_path) as asker:
        (row,) = asker.get("runs")["runs"]
        page = asker.get("instance", run="theirs", id="why")
    assert (row["kind"], row["system"], row["scores"][0]["mean"]) == ("judged", "theirs", 40.0)
    assert (page["fused_query"], page["turns"], page["trace_turns"]) == ("why", [], 0)


letters = st.text(st.sampled_from('aBkKiIİ\u212asſß é汉字"\\/\n\u2028\x00😀'), max_size=8)


@given(letters, letters.filter(bool), st.booleans())
def test_no_line_is_passed_over_that_has_the_text(text: str, needle: str, ascii: bool) -> None:
    line = json.dumps({"id": "1", "answer": text}, ensure_ascii=ascii).encode()
    assert line_has(line, needle) == (needle.lower() in text.lower() or needle == "1")
