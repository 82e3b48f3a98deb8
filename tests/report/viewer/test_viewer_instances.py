"""Lists of instances and single ones, over HTTP: filtered, sorted, searched, and while their files change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from made_runs import Row, made_run
from viewer_server import Asker, viewer

ROWS = [
    Row("a", ["q?", "r?"], ["yes", "no"], labels={"ernie": "ff", "gpt": "nn"}, rewritten_query="Tide Tables"),
    Row("b", ["q?", "r?"], ["unknown", "no"], labels={"ernie": "fn", "gpt": "ff"}, answer="潮汐表在港口。"),
    Row("c", ["q?", "r?"], ["unknown", "unknown"], labels={"ernie": "nn"}, answer='he said "TIDE"\n'),
    Row("d", error="search/turn/2"),
    Row("e", labels={"ernie": "ff", "gpt": "fn"}, fused_query="straße"),
]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return made_run(tmp_path, label="gpt-k2", rows=ROWS)


def ids(asker: Asker, run: Path, **asked: object) -> str:
    return "".join(row["id"] for row in asker.get("instances", run=run.name, **asked)["rows"])


def test_a_page_has_the_numbers_of_each_instance(run: Path) -> None:
    with viewer(run.parent) as asker:
        page = asker.get("instances", run=run.name)
    assert [row["score"] for row in page["rows"]] == [100.0, 50.0, 0.0, None, 100.0]
    assert [(row["asked"], row["unknown"]) for row in page["rows"]] == [
        (2, 0),
        (2, 1),
        (2, 2),
        (0, 0),
        (0, 0),
    ]
    assert [row["failed"] for row in page["rows"]] == ["", "", "", "rejected", ""]
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
def test_filters_and_orders(run: Path, asked: dict[str, str], found: str) -> None:
    with viewer(run.parent) as asker:
        assert ids(asker, run, **asked) == found


@pytest.mark.parametrize("asked", [{}, {"sort": "score"}, {"text": "the"}, {"sort": "-score", "text": "the"}])
def test_pages_of_two_show_every_instance_once(run: Path, asked: dict[str, str]) -> None:
    with viewer(run.parent) as asker:
        whole = ids(asker, run, **asked)
        seen, after = "", ""
        while after is not None:
            page = asker.get("instances", run=run.name, limit=2, after=after, **asked)
            seen += "".join(row["id"] for row in page["rows"])
            after = page["next"]
    assert seen == whole


def test_a_total_is_told_unless_only_the_whole_search_would_tell(run: Path) -> None:
    with viewer(run.parent) as asker:
        assert asker.get("instances", run=run.name, unknown="some", limit=1)["total"] == 2
        assert asker.get("instances", run=run.name, text="tide", limit=1)["total"] is None
        assert asker.get("instances", run=run.name, text="tide")["total"] == 2


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
def test_what_cannot_be_understood_is_refused_in_a_line(
    run: Path, asked: dict[str, str], problem: str
) -> None:
    with viewer(run.parent) as asker:
        answer = asker.api("instances", run=run.name, **asked)
    assert (answer.status, answer.json) == (400, {"error": problem})


def test_a_run_that_grows_shows_what_came(run: Path) -> None:
    results = run / "results.jsonl"
    with viewer(run.parent) as asker:
        assert asker.get("instances", run=run.name)["n"] == 5
        line = json.dumps({"id": "f", "restore_score_100": 30.0, "judge": "ernie", "blurred_query": "new"})
        with results.open("a") as file:
            file.write(line[:20])
            file.flush()
            assert ids(asker, run) == "abcde"
            file.write(line[20:] + "\n")
        assert ids(asker, run) == "abcdef"
        assert ids(asker, run, min=30, max=30) == "f"


def test_a_later_line_takes_the_place_of_an_earlier_one(run: Path) -> None:
    with viewer(run.parent) as asker:
        assert ids(asker, run, failed=1) == "d"
        with (run / "results.jsonl").open("a") as file:
            file.write(
                json.dumps({"id": "d", "restore_score_100": 70.0, "judge": "ernie", "answer": "now"}) + "\n"
            )
        assert ids(asker, run) == "abcde"
        assert ids(asker, run, failed=1) == ""
        assert asker.get("instance", run=run.name, id="d")["answer"] == "now"


def test_damaged_lines_are_passed_over(run: Path) -> None:
    results = run / "results.jsonl"
    lines = results.read_bytes().splitlines(keepends=True)
    lines[1] = b'{"id": "b", \xff\xfe torn\n'
    lines[2] = b'["c"]\n'
    results.write_bytes(b"".join(lines))
    with viewer(run.parent) as asker:
        assert ids(asker, run) == "ade"
        assert asker.get("instance", run=run.name, id="a")["next"] == "d"


def test_a_file_that_was_written_anew_is_read_anew(run: Path) -> None:
    results = run / "results.jsonl"
    with viewer(run.parent) as asker:
        assert ids(asker, run) == "abcde"
        results.write_text('{"id": "z", "answer": "other"}\n')
        assert ids(asker, run) == "z"
        results.unlink()
        assert ids(asker, run) == ""


def test_an_instance_has_its_conversation_nuggets_and_neighbours(run: Path) -> None:
    with viewer(run.parent) as asker:
        page = asker.get("instance", run=run.name, id="b")
    assert [(turn["offered"], turn["answers"]) for turn in page["turns"]] == [
        (["q?"], ["unknown"]),
        (["r?"], ["no"]),
    ]
    assert page["scores"] == [
        {"judge": "ernie", "score": 50.0, "smoke_test": False},
        {"judge": "gpt", "score": 100.0, "smoke_test": False},
    ]
    assert [(one["id"], one["weight"], one["text"], one["coverage"]) for one in page["nuggets"]] == [
        ("N1", 1.0, None, {"ernie": "full", "gpt": "full"}),
        ("N2", 1.0, None, {"ernie": "none", "gpt": "full"}),
    ]
    assert (page["previous"], page["next"], page["error"], page["trace_turns"], page["steps"]) == (
        *("a", "c", None),
        *(0, 0),
    )


def test_a_failed_instance_says_why_and_has_no_score(run: Path) -> None:
    with viewer(run.parent) as asker:
        page = asker.get("instance", run=run.name, id="d")
    assert page["error"] == {"step": "search/turn/2", "kind": "rejected", "message": "refused"}
    assert (page["scores"], page["nuggets"], page["answer"], page["turns"]) == ([], [], None, [])


def test_what_the_rewritten_query_added_is_marked(run: Path) -> None:
    with viewer(run.parent) as asker:
        page = asker.get("instance", run=run.name, id="a")
    assert page["rewritten"] == [{"text": "Tide Tables", "added": True}]


HOSTILE = [
    "../../etc/passwd",
    "%2e%2e%2f",
    "a\x00b",
    "'\"><script>alert(1)</script>",
    "x" * 3000,
    "",
    "\u202e",
]


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
