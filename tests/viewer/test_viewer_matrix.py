"""The table of instances by runs, from three runs whose numbers stand below."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from made_runs import Row, changed_manifest, made_run
from viewer_server import Asker, viewer

DATA = "sha of made.sha of made gold"
ORIG, ONE, TWO = "made-orig", "made-gpt-k1", "with, comma"
#        a    b    c       d
# orig   10   50   failed  -
# one    60   40   30      -
# two    100  -    failed  20


@pytest.fixture(scope="module")
def asker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asker]:
    folder = tmp_path_factory.mktemp("matrix")
    failed = Row("c", error="search/turn/2")
    made_run(folder, label="orig", rows=[Row("a", score=10), Row("b", score=50), failed])
    made_run(folder, label="gpt-k1", rows=[Row("a", score=60), Row("b", score=40), Row("c", score=30)])
    rows = [Row("d", score=20, answer="A zeppelin."), failed, Row("a", labels={"ernie": "f", "gpt": "n"})]
    made_run(folder, label="gpt-k2", rows=rows, name=TWO)
    made_run(folder, label="orig", rows=[Row("a", score=0)], data="other")
    talk = made_run(folder, label="gpt-k1", rows=[Row("a")], data="talk") / "run.json"
    talk.write_text(talk.read_text().replace('"identity": {', '"identity": {"task": "talk", '))
    with viewer(folder) as asker:
        yield asker


def cells(page: Any) -> dict[str, list[Any]]:
    """By instance: the values of the cells, in words where there is none."""
    return {
        row["id"]: [state or value for state, value in zip(row["states"], row["values"], strict=True)]
        for row in page["rows"]
    }


def ids(asker: Asker, **asked: object) -> str:
    return "".join(row["id"] for row in asker.get("matrix", data=DATA, **asked)["rows"])


def test_every_instance_of_any_run_is_a_row_and_no_failure_is_a_score(asker: Asker) -> None:
    page = asker.get("matrix", data=DATA)
    assert [run["name"] for run in page["runs"]] == [ORIG, ONE, TWO]
    assert cells(page) == {
        "a": [10, 60, 100],
        "b": [50, 40, "missing"],
        "c": ["failed", 30, "failed"],
        "d": ["missing", "missing", 20],
    }
    assert [row["spread"] for row in page["rows"]] == [90, 10, None, None]
    assert [row["gap"] for row in page["rows"]] == [-50, 10, None, None]
    assert (page["means"], page["n_common"]) == ([10, 60, 100], 1)
    assert (page["total"], page["n"], page["next"], page["ready"]) == (4, 4, None, 1.0)
    assert (page["judges"], page["judge"], page["baseline"]) == (["ernie", "gpt"], "ernie", ORIG)


def test_csv_has_a_column_for_each_run_in_the_order_of_the_table(asker: Asker) -> None:
    csv = asker.api("csv", runs=f"{ONE},with%2C comma", sort="-value", max=60)
    assert csv.headers["Content-Disposition"] == 'attachment; filename="matrix.csv"'
    head, *rows = csv.body.decode().splitlines()
    assert head == (
        'id,blurred_query,fused_query,made-gpt-k1 (score),"with, comma (score)",judge,failed,caveat'
    )
    assert [row.partition(",the intent of")[2] for row in rows] == [
        " a,60.0,100.0,ernie,,",
        " b,40.0,,ernie,,",
        ' c,30.0,,ernie,"with, comma",',
        " d,,20.0,ernie,,",
    ]
    assert len(asker.api("csv", data=DATA, runs=ORIG, text="query of b").body.splitlines()) == 2
    assert asker.api("csv", runs=ORIG, judge="nobody").status == 400
    assert asker.api("csv", runs="nobody").status == 404


def test_the_judge_that_most_runs_have_is_shown_first(tmp_path: Path) -> None:
    """ernie scores two of three runs; gpt has judged all three, and scores one."""
    made_run(tmp_path, label="orig", rows=[Row("a", labels={"ernie": "f", "gpt": "n"})])
    made_run(tmp_path, label="gpt-k1", rows=[Row("a", labels={"ernie": "f", "gpt": "n"})])
    third = made_run(tmp_path, label="gpt-k2", rows=[Row("a", score=20)])
    for name in ("run.json", "results.jsonl"):
        (third / name).write_text((third / name).read_text().replace("ernie", "gpt"))
    with viewer(tmp_path) as asker:
        assert asker.get("matrix", data=DATA)["judges"] == ["gpt", "ernie"]


def test_cells_may_hold_gains_and_scores_of_another_judge(asker: Asker) -> None:
    gains = asker.get("matrix", data=DATA, show="gain")
    assert cells(gains) == {
        "a": [0, 50, 90],
        "b": [0, -10, "missing"],
        "c": ["failed", None, "failed"],
        "d": ["missing", "missing", None],
    }
    assert cells(asker.get("matrix", data=DATA, judge="gpt"))["a"] == [None, None, 0]
    without = asker.get("matrix", runs=f"{ONE},with%2C comma", show="gain")
    assert (without["baseline"], cells(without)["a"]) == (None, [None, None])
    assert without["shows"] == ["score", "turns", "seconds", "cost"]


def test_gain_is_over_the_orig_of_the_same_agent(tmp_path: Path) -> None:
    for agent, label, score in (("a", "orig", 10), ("a", "x-k1", 40), ("b", "orig", 50), ("b", "y-k1", 90)):
        players, name = {"agent": agent}, f"{agent} {label}"
        made_run(tmp_path, label=label, rows=[Row("i", score=score)], players=players, name=name)
    made_run(tmp_path, label="z-k1", rows=[Row("i", score=70)], players={"agent": "c"}, name="c z-k1")
    with viewer(tmp_path) as asker:
        page = asker.get("matrix", data=DATA, show="gain")
        of_one = asker.get("matrix", runs="b orig,a x-k1", show="gain")
    names = [run["name"] for run in page["runs"]]
    assert dict(zip(names, cells(page)["i"], strict=True)) == {
        "a orig": 0,
        "b orig": 0,
        "a x-k1": 30,
        "b y-k1": 40,
        "c z-k1": None,
    }
    assert page["baseline"] is None
    assert "gain" in page["shows"]
    assert (of_one["baseline"], cells(of_one)["i"]) == ("b orig", [0, -10])


def test_cells_may_hold_what_the_calls_of_an_instance_took(tmp_path: Path) -> None:
    """Two calls of m (2 and 10 dollars per million tokens) on a, one with a failed attempt; on b one of an unpriced
    model. A tool and a damaged line take nothing."""
    run = made_run(tmp_path, label="gpt-k1", rows=[Row(id, score=50) for id in "abc"])
    with changed_manifest(run) as manifest:
        manifest["prices"] = {"m": {"input": 2.0, "output": 10.0}}
    call = {
        "model": "m",
        "response": {"text": "x"},
        "latency_s": 0.5,
        "usage": {"input": 1000, "output": 100},
    }
    steps: list[dict[str, Any]] = [
        {"instance": "a", **call},
        {"instance": "a", **call, "failed_attempts": [{"latency_s": 2.0}]},
        {"instance": "a", "response": {"text": '"model":'}, "latency_s": 9.0},
        {"instance": "a", **call, "latency_s": "long"},
        {"instance": "b", **call, "model": "free?"},
    ]
    (run / "steps.jsonl").write_text("".join(json.dumps(step) + "\n" for step in steps) + '{"model":\n')
    with viewer(tmp_path) as asker:
        seconds, cost = (cells(asker.get("matrix", runs=run.name, show=show)) for show in ("seconds", "cost"))
    assert seconds == {"a": [3.0], "b": [0.5], "c": [None]}
    assert cost == {"a": [pytest.approx(2 * (1000 * 2 + 100 * 10) / 1e6)], "b": [None], "c": [None]}


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({"sort": "value", "by": ONE}, "cbad"),
        ({"sort": "-value", "by": TWO}, "adbc"),
        ({"sort": "-spread"}, "abcd"),
        ({"sort": "spread"}, "bacd"),
        ({"sort": "gap"}, "abcd"),
        ({"sort": "-gap"}, "bacd"),
        ({"sort": "value", "by": ONE, "show": "gain"}, "bacd"),
        ({"failed": "1"}, "c"),
        ({"failed": "1", "of": ONE}, ""),
        ({"failed": "0"}, "abd"),
        ({"max": "20"}, "ad"),
        ({"max": "20", "of": ORIG}, "a"),
        ({"min": "35", "max": "55"}, "b"),
        ({"text": "ZEPPELIN"}, "d"),
        ({"text": "the query of b"}, "b"),
    ],
)
def test_orders_and_filters(asker: Asker, asked: dict[str, str], found: str) -> None:
    assert ids(asker, **asked) == found


def test_pages_of_one_show_every_instance_once(asker: Asker) -> None:
    seen, after = "", ""
    while after is not None:
        page = asker.get("matrix", data=DATA, sort="-gap", limit=1, after=after)
        seen += "".join(row["id"] for row in page["rows"])
        after = page["next"]
    assert seen == "bacd"


@pytest.mark.parametrize(
    ("asked", "status", "problem"),
    [
        ({}, 404, "no runs over these data"),
        ({"data": "sha of talk.sha of talk gold"}, 404, "runs without an agent have no scores"),
        ({"runs": "nobody"}, 404, "no such run"),
        ({"runs": f"{ORIG},other-orig"}, 400, "runs: these are over different data"),
        ({"runs": ",".join("abcdefghijklm")}, 400, "runs: at most 12 at once"),
        (
            {"data": DATA, "sort": "score"},
            400,
            "sort: must be one of file, value, -value, spread, -spread, gap, -gap",
        ),
        ({"data": DATA, "by": "x", "sort": "value"}, 400, f"by: must be one of {ORIG}, {ONE}, {TWO}"),
        ({"data": DATA, "show": "rank"}, 400, "show: must be one of score, gain, turns, seconds, cost"),
    ],
)
def test_invalid_parameter_is_refused_in_one_line(
    asker: Asker, asked: dict[str, str], status: int, problem: str
) -> None:
    answer = asker.api("matrix", **asked)
    assert (answer.status, answer.json) == (status, {"error": problem})
