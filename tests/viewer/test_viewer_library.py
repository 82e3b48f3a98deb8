"""All runs of a folder, and leaderboards."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from made_asking import asking_runs
from made_live import live, part
from made_runs import Row, made_run
from made_talks import made_talk
from viewer_server import Asker, viewer

from cts_async.analysis.summary import summarise_run
from cts_async.tables.comparison import compare_runs
from cts_async.tables.summary import write_summary
from cts_async.viewer.leaderboards import difference_of, differences_of, leaderboards_of
from cts_async.viewer.library import MAX_OPEN, FolderContents, Library
from cts_async.watch.live import LIVE


def test_only_so_many_runs_are_open_the_latest_used_among_them(tmp_path: Path) -> None:
    names = [
        made_run(tmp_path, label="orig", name=f"r{n:02}", rows=[Row("a")]).name for n in range(MAX_OPEN + 2)
    ]
    library = Library(tmp_path)
    first = library.open(names[0])
    assert library.open(names[0]) is first
    for name in names[1:MAX_OPEN]:
        library.open(name)
    library.open(names[0])
    for name in names[MAX_OPEN:]:
        library.open(name)
    assert library.open(names[0]) is first
    again = [library.open(name) for name in names[1:3]]
    assert all(run is not None and len(run.results.lines()) == 0 for run in again)


def test_a_folder_that_takes_long_to_look_through_is_looked_through_less_often(tmp_path: Path) -> None:
    """Half a second of looking is followed by 0.5 * 9 = 4.5 seconds without."""
    now, looks = 100.0, []
    library = Library(tmp_path)

    def look() -> FolderContents:
        nonlocal now
        looks.append(now)
        now += 0.5
        return FolderContents()

    with patch.object(time, "monotonic", lambda: now), patch.object(library, "_search", look):
        library.find()
        for moment in (104.9, 105.1, 109.0):
            now = moment
            library.find()
    assert looks == [100.0, 105.1]


def test_folder_limit_is_reported(tmp_path: Path) -> None:
    for name in "abc":
        made_run(tmp_path, label="orig", name=name, rows=[])
    assert Library(tmp_path).find().damaged == ()
    with patch("cts_async.runs.open_run.MAX_FOLDERS", 3):
        found = Library(tmp_path).find()
    assert list(found.runs) == ["a", "b"]
    assert "only" in found.damaged[0]


def test_run_younger_than_the_last_search_is_found_by_name(tmp_path: Path) -> None:
    library = Library(tmp_path)
    with patch("cts_async.viewer.library.FOUND_S", 3600.0):
        assert library.find().runs == {}
        made_run(tmp_path, label="orig", rows=[Row("a")])
        assert library.open("made-orig") is not None


def rows(*labels: str) -> list[Row]:
    return [Row(f"i{n}", labels={"ernie": one, "gpt": "ff"}) for n, one in enumerate(labels)]


def board(asker: Asker) -> Any:
    sha = asker.get("runs")["runs"][0]["data_sha"]
    return asker.until("leaderboard", lambda said: not said["computing"], data=sha)


def test_leaderboard_without_data_is_of_the_only_data_or_has_a_group_for_each(tmp_path: Path) -> None:
    with viewer(tmp_path) as asker:
        assert asker.api("leaderboard").json == {"error": "no runs over known data"}
    made_run(tmp_path, label="orig", rows=rows("nn"))
    with viewer(tmp_path, computes_here=True) as asker:
        assert asker.until("leaderboard", lambda said: not said["computing"]) == board(asker)
    made_run(tmp_path, label="orig", rows=rows("fn"), data="other")
    for data in ("made", "other"):
        made_run(tmp_path, label="gpt-k1", rows=rows("ff"), data=data)
    with viewer(tmp_path, computes_here=True) as asker:
        found = asker.until("leaderboard", lambda said: not said["computing"])
        csv = asker.api("csv", data="").body.decode().splitlines()
    assert (found["data"], found["data_sha"], found["problem"]) == ("", "", "")
    groups = [one for one in found["boards"] if one["judge"] == "ernie"]
    assert [(one["facets"][-1], one["baseline"]) for one in groups] == [
        (["data", "made"], "orig"),
        (["data", "other"], "orig"),
    ]
    gains = [{row["run"]: row["gain"] for row in one["standings"]} for one in groups]
    assert gains == [
        {"made-orig": None, "made-gpt-k1": 100.0},
        {"other-orig": None, "other-gpt-k1": 50.0},
    ]
    assert csv[0].endswith(",baseline,caveat,group")
    assert {line.rpartition(",")[2] for line in csv[1:]} == {group["heading"] for group in groups}


def test_leaderboard_orders_systems_with_their_gain_over_orig(tmp_path: Path) -> None:
    orig = made_run(tmp_path, label="orig", rows=[*rows("nn", "fn"), Row("i2", error="search/turn/1")])
    made_run(tmp_path, label="gpt-k1", rows=rows("ff", "ff", "fn"), embedded=True, n_expected=4)
    compared = compare_runs([str(tmp_path)])
    with viewer(tmp_path) as asker:
        found = board(asker)
        csv = asker.api("csv", data=found["data_sha"])
    assert (found["problem"], found["data"]) == ("", "made")
    assert csv.headers["Content-Disposition"] == 'attachment; filename="made-leaderboard.csv"'
    assert csv.body.decode().splitlines()[:3] == [
        "judge,run,system,n_scored,n_expected,n_failed,mean,p50,p90,"
        "gain,gain_pairs,gain_differ,gain_low,gain_high,gain_too_short,baseline,caveat",
        "ernie,made-orig,orig,2,3,1,25.0,25.0,45.0,,,,,,,orig,",
        "ernie,made-gpt-k1,gpt-k1,3,4,0,83.33333333333333,100.0,100.0,75.0,2,2,,,False,orig,smoke test",
    ]
    assert [(one["judge"], one["baseline"]) for one in found["boards"]] == [
        ("ernie", "orig"),
        ("gpt", "orig"),
    ]
    one, other = found["boards"][0]["standings"]
    counts = {"n_scored": 2, "n_expected": 3, "n_failed": 1, "mean": 25.0, "p50": 25.0, "p90": 45.0}
    gain_fields = ("gain", "gain_low", "gain_high", "gain_pairs", "gain_differ", "gain_too_short")
    no_gain = {**dict.fromkeys(gain_fields), "no_difference": False, "recomputed": False}
    common = {"n_common": 2, "common_mean": 25.0, "judge_is": False, "best_or_tied": None, "testable": None}
    assert one == {"run": orig.name, "system": "orig", "caveat": "", **counts, **no_gain, **common}
    assert (found["boards"][0]["best"], other["common_mean"], other["best_or_tied"]) == (
        ["gpt-k1"],
        100.0,
        True,
    )
    assert (other["run"], other["caveat"]) == ("made-gpt-k1", "smoke test")
    assert (other["n_scored"], other["n_expected"]) == (3, 4)
    delta = compared.judged[0].standings[1].gain
    assert delta is not None
    assert (delta.low, delta.high) == (
        50.0,
        100.0,
    )  # in the data, but two pairs are too few to show an interval
    gain = (other["gain"], other["gain_low"], other["gain_high"], other["gain_pairs"])
    assert gain == (75.0, None, None, 2)


def many_rows(*shift: int) -> list[Row]:
    """Thirty instances with uneven scores; each shift makes other ones, and a failure."""
    made = []
    for n in range(30):
        score = float((n * 37 + sum(shift) * n * n) % 101)
        made.append(Row(f"i{n:02}", score=score))
    made[shift[0]] = Row(f"i{shift[0]:02}", error="search")
    return made


def test_difference_of_two_runs_has_the_numbers_of_compare(tmp_path: Path) -> None:
    labels = {"orig": 3, "gpt-k1": 5, "qwen-k1": 11}
    runs = {}
    for label, shift in labels.items():
        made = made_run(tmp_path, label=label, rows=many_rows(shift))
        runs[made.name] = made
    pairs = [("made-gpt-k1", "made-qwen-k1"), ("made-qwen-k1", "made-gpt-k1"), ("made-orig", "made-gpt-k1")]
    # An export computes many pairs at once; they do not depend on each other.
    together = differences_of(runs, pairs)
    for a, b in pairs:
        (judged,) = compare_runs([str(runs[a]), str(runs[b])], baseline=str(runs[b])).judged
        (test,) = judged.pairs
        delta = next(one.gain for one in judged.standings if one.gain)
        assert delta.interval is not None
        low, high = delta.interval
        found = difference_of({a: runs[a], b: runs[b]})
        assert found["problem"] == ""
        assert found["judges"] == [
            {
                "judge": "ernie",
                "n": 28,
                "n_differ": test.n_differ,
                "no_difference": False,
                "difference": delta.mean,
                "low": low,
                "high": high,
                "too_short": delta.too_short,
                "p": test.p,
            }
        ]
        assert together[a, b] == found
    there, back = (together[pair]["judges"][0] for pair in pairs[:2])
    assert (there["difference"], there["p"]) == (-back["difference"], back["p"])
    with viewer(tmp_path) as asker:
        served = asker.until(
            "difference", lambda said: not said["computing"], runs="made-gpt-k1,made-qwen-k1"
        )
        assert served["runs"] == ["made-gpt-k1", "made-qwen-k1"]
        assert served["judges"] == together[pairs[0]]["judges"]


def test_difference_is_refused_or_explained_where_there_is_none(tmp_path: Path) -> None:
    made_run(tmp_path, label="orig", rows=rows("nn"))
    made_run(tmp_path, label="gpt-k1", rows=[Row("other", labels={"ernie": "ff"})])
    made_run(tmp_path, label="qwen-k1", rows=rows("ff"), data="else")
    made_talk(tmp_path, scheme="at-cot", rows={}, queries={"t": "x"})
    with viewer(tmp_path, computes_here=True) as asker:
        for names in ("", "made-orig", "made-orig,made-orig", "made-orig,else-qwen-k1"):
            assert asker.api("difference", runs=names).status in (400, 404), names
        assert asker.api("difference", runs="made-orig,nothing").status == 404
        asked = {"runs": "made-orig,made-gpt-k1"}
        found = asker.until("difference", lambda said: not said["computing"], **asked)
        assert (found["judges"], found["problem"]) == ([], "")


def test_difference_without_an_interval_says_whether_the_scores_are_the_same(tmp_path: Path) -> None:
    """Of two instances orig and same-k1 say nothing, gpt-k1 everything: neither difference varies, and one is none."""
    labels = {"orig": "nn", "same-k1": "nn", "gpt-k1": "ff"}
    runs = {label: made_run(tmp_path, label=label, rows=rows(word, word)) for label, word in labels.items()}
    found = differences_of(runs, [("same-k1", "orig"), ("gpt-k1", "orig")])
    names = ("difference", "n_differ", "no_difference", "low", "high")
    by_judge = {
        pair: {judged["judge"]: tuple(judged[name] for name in names) for judged in difference["judges"]}
        for pair, difference in found.items()
    }
    assert by_judge["same-k1", "orig"]["ernie"] == (0.0, 0, True, None, None)
    assert by_judge["gpt-k1", "orig"]["ernie"] == (100.0, 2, False, None, None)


def test_oldest_differences_are_forgotten(tmp_path: Path) -> None:
    names = [made_run(tmp_path, label=f"gpt-k{k}", rows=rows("ff")).name for k in (1, 2, 3)]
    with patch("cts_async.viewer.leaderboards.MAX_CACHED", 1), viewer(tmp_path, computes_here=True) as asker:
        for a, b in ((0, 1), (1, 2), (0, 1)):
            asked = {"runs": f"{names[a]},{names[b]}"}
            found = asker.until("difference", lambda said: not said["computing"], **asked)
            assert [one["judge"] for one in found["judges"]] == ["ernie", "gpt"]


def test_each_agent_that_played_orig_has_a_leaderboard_of_its_own(tmp_path: Path) -> None:
    """As after `make run`: orig and k = 1 by the baseline's agent, and by a model's; judged candidates name none."""
    runs = {}
    for agent, orig, one in (("a", "nn", "fn"), ("b", "fn", "ff")):
        for label, labels in (("orig", orig), (f"{agent}-k1", one)):
            name = f"{label} by {agent}"
            made = made_run(tmp_path, label=label, rows=rows(labels), players={"agent": agent}, name=name)
            runs[name] = made
    runs["alone"] = made_run(tmp_path, label="c-k1", rows=rows("ff"), players={"agent": "c"}, name="alone")
    runs["given"] = made_run(tmp_path, label="d-k1", rows=rows("ff"), players={"agent": ""}, name="given")
    boards = [one for one in leaderboards_of(runs)["boards"] if one["judge"] == "ernie"]
    by_agent = {one["agent"]: one for one in boards}
    assert {agent: one["baseline"] for agent, one in by_agent.items()} == {
        "a": "orig",
        "b": "orig",
        "c": None,
    }
    gains = {agent: {row["run"]: row["gain"] for row in one["standings"]} for agent, one in by_agent.items()}
    # What names no agent is on one board.
    assert gains == {
        "a": {"orig by a": None, "a-k1 by a": 50.0, "given": 100.0},
        "b": {"orig by b": None, "b-k1 by b": 50.0},
        "c": {"alone": None},
    }
    assert [one["facets"] for one in boards] == [[["agent", one["agent"]]] for one in boards]
    for name in ("b-k1 by b", "orig by b", "alone"):
        del runs[name]
    (only,) = [one for one in leaderboards_of(runs)["boards"] if one["judge"] == "ernie"]
    assert (only["agent"], only["baseline"], len(only["standings"])) == ("", "orig", 3)


def test_runs_of_one_name_in_different_folders_are_named_by_these(tmp_path: Path) -> None:
    names = ("day1/made-gpt-k1", "day2/made-gpt-k1")
    runs = {name: made_run(tmp_path / name[:4], label="gpt-k1", rows=rows("ff")) for name in names}
    (board,) = [one for one in leaderboards_of(runs)["boards"] if one["judge"] == "ernie"]
    assert sorted((one["run"], one["system"]) for one in board["standings"]) == [
        (name, name) for name in names
    ]


@pytest.mark.parametrize("labels", [("ff", "fff"), ()])
def test_incomparable_runs_give_a_reason_without_paths(tmp_path: Path, labels: tuple[str, ...]) -> None:
    runs = {}
    for number, one in enumerate(labels or ("", "")):
        made = [Row("i", labels={"ernie": one})] if one else [Row("i")]
        runs[f"run {number}"] = made_run(tmp_path / str(number), label="gpt-k1", rows=made)
    said = leaderboards_of(runs)
    assert said["boards"] == []
    assert said["problem"]
    assert str(tmp_path) not in said["problem"]


ROWS = [
    Row("a", ["q1?", "q2?"], ["yes", "unknown"], labels={"ernie": "ff", "gpt": "fn"}),
    Row("b", ["q1?", "q2?"], ["unknown", "unknown"], labels={"ernie": "nn", "gpt": "nn"}),
    Row("c", error="search/turn/2"),
]


def write_made_live(directory: Path, **changed: Any) -> None:
    """A `live.json` of this process, which has worked for a minute."""
    now = time.time()
    fields = {"time": now, "started": now - 60, "eta_s": 40.0, "spent_usd": 0.25}
    contents = live([part("a", 3, 5)], **fields | changed)
    (directory / LIVE).write_text(json.dumps(contents))


def test_summary_and_indexed_lines_give_equal_rows(tmp_path: Path) -> None:
    directory = made_run(tmp_path, label="gpt-k2", rows=ROWS, n_expected=5, embedded=True)
    with viewer(tmp_path) as asker:
        (counted,) = asker.get("runs")["runs"]
        write_summary(summarise_run(directory))
        (told,) = asker.get("runs")["runs"]
    assert {**told, "cost_usd": None, "priced_usd": None} == counted
    assert told["cost_usd"] == 0.0
    assert (told["name"], told["kind"], told["system"]) == ("made-gpt-k2", "run", "gpt-k2")
    assert (told["data"], told["k"], told["caveat"]) == ("made", 2, "smoke test")
    assert (told["n_expected"], told["n_done"], told["n_failed"], told["ready"]) == (5, 3, 1, 1.0)
    assert (told["unknown_rate"], told["running"], told["live"]) == (0.75, False, None)
    assert told["scores"] == [
        {"judge": "ernie", "n_scored": 2, "mean": 50.0, "p50": 50.0, "p90": 90.0},
        {"judge": "gpt", "n_scored": 2, "mean": 25.0, "p50": 25.0, "p90": 45.0},
    ]


def test_lines_that_came_after_the_summary_count(tmp_path: Path) -> None:
    directory = made_run(tmp_path, label="gpt-k2", rows=ROWS)
    write_summary(summarise_run(directory))
    os.utime(directory / "summary.json", (1, 1))
    with (directory / "results.jsonl").open("a") as file:
        file.write('{"id":"d","restore_score_100":100.0,"judge":"ernie"}\n')
    with viewer(tmp_path) as asker:
        (row,) = asker.get("runs")["runs"]
    assert (row["n_done"], row["scores"][0]["n_scored"]) == (4, 3)


@pytest.mark.parametrize(
    "said",
    ["[]", "{", '{"judge": "ernie", "n_scored": 1e999}', '{"judges": [1], "judge": "ernie"}', "7" * 5000],
)
def test_a_summary_that_is_none_is_passed_over(tmp_path: Path, said: str) -> None:
    directory = made_run(tmp_path, label="gpt-k2", rows=ROWS)
    (directory / "summary.json").write_text(said)
    with viewer(tmp_path) as asker:
        (row,) = asker.get("runs")["runs"]
        assert asker.get("run", run=row["name"])["row"] == row
    assert (row["n_done"], row["n_failed"]) == (3, 1)


def test_live_json_counts_only_while_its_process_exists(tmp_path: Path) -> None:
    alive = made_run(tmp_path, label="gpt-k2", rows=ROWS)
    dead = made_run(tmp_path, label="gpt-k1", rows=ROWS)
    half = made_run(tmp_path, label="gpt-k3", rows=ROWS)
    write_made_live(alive)
    write_made_live(dead, time=time.time() - 3600)
    (half / LIVE).write_text(json.dumps({"pid": os.getpid(), "time": time.time()}))
    with viewer(tmp_path) as asker:
        rows = {row["name"]: row for row in asker.get("runs")["runs"]}
    assert rows[alive.name]["running"]
    assert rows[alive.name]["live"]["eta_s"] == 40.0
    # What its command has spent is not what this run costs, and it has worked for a minute.
    assert rows[alive.name]["cost_usd"] is None
    assert rows[alive.name]["live"]["spent_usd"] == 0.25
    assert rows[alive.name]["wall_s"] == pytest.approx(60, abs=0.1)
    assert not rows[dead.name]["running"]
    assert not rows[half.name]["running"]


def test_runs_are_found_deep_in_the_folder_and_appear_and_vanish(tmp_path: Path) -> None:
    first = made_run(tmp_path / "a" / "b", label="gpt-k1", rows=ROWS)
    with viewer(tmp_path) as asker:
        assert [row["name"] for row in asker.get("runs")["runs"]] == ["a/b/made-gpt-k1"]
        made_run(tmp_path, label="gpt-k2", rows=ROWS)
        found = asker.until("runs", lambda said: len(said["runs"]) == 2)
        assert {row["name"] for row in found["runs"]} == {"a/b/made-gpt-k1", "made-gpt-k2"}
        shutil.rmtree(first)
        asker.until("runs", lambda said: len(said["runs"]) == 1)
        assert asker.api("instances", run="a/b/made-gpt-k1").json == {"error": "no such run"}


def test_links_are_not_followed_wherever_they_lead(tmp_path: Path) -> None:
    outside = made_run(tmp_path / "outside", label="gpt-k1", rows=ROWS)
    inside = made_run(tmp_path / "runs", label="gpt-k2", rows=ROWS)
    (tmp_path / "runs" / "linked").symlink_to(outside)
    for name in ("results.jsonl", "judgments"):
        target = inside / name
        shutil.rmtree(target) if target.is_dir() else target.unlink()
        target.symlink_to(outside / name)
    (inside / "steps.jsonl").symlink_to("/etc/passwd")
    (inside / "summary.json").symlink_to(outside / "run.json")
    with viewer(tmp_path / "runs") as asker:
        (row,) = asker.get("runs")["runs"]
        page = asker.get("run", run=inside.name)
        step = asker.api("step", run=inside.name, at=0)
        board = asker.get("leaderboard", data=row["data_sha"])
    assert (row["name"], row["n_done"], [one["n_scored"] for one in row["scores"]]) == (inside.name, 0, [0])
    assert page["summary"] is None
    assert step.status == 404
    assert board["boards"] == []


def test_damaged_manifest_is_reported_and_other_runs_are_listed(tmp_path: Path) -> None:
    made_run(tmp_path, label="gpt-k2", rows=ROWS)
    broken = made_run(tmp_path, label="gpt-k1", rows=ROWS)
    (broken / "run.json").write_text('{"identity": ')
    strange = made_run(tmp_path, label="gpt-k3", rows=ROWS)
    (strange / "run.json").write_text('{"identity": [], "sessions": 3, "n_expected": "x", "journal": {}}')
    with viewer(tmp_path) as asker:
        said = asker.get("runs")
    assert sorted(row["name"] for row in said["runs"]) == ["made-gpt-k2", "made-gpt-k3"]
    (damaged,) = said["damaged"]
    assert damaged.startswith("made-gpt-k1: run.json is not a manifest")


def test_the_run_page_has_manifest_summary_and_the_runs_beside_it(tmp_path: Path) -> None:
    made_run(tmp_path, label="gpt-k2", rows=ROWS)
    made_run(tmp_path, label="orig", rows=ROWS)
    made_run(tmp_path, label="gpt-k1", rows=ROWS, data="another")
    with viewer(tmp_path) as asker:
        page = asker.get("run", run="made-gpt-k2")
    assert page["beside"] == ["made-orig"]
    assert page["manifest"]["identity"]["system"] == "gpt-k2"
    assert (page["summary"], page["row"]["name"]) == (None, "made-gpt-k2")


def test_conversations_and_judged_candidates_are_runs_of_other_kinds(tmp_path: Path) -> None:
    turns = [{"offered": ["which?"], "answers": ["that"], "query": "q that"}]
    made_talk(tmp_path, scheme="cot", rows={"t1": turns})
    run = made_run(tmp_path, label="gpt-k2", rows=ROWS)
    judged = tmp_path / "judged" / "ebk1"
    judged.mkdir(parents=True)
    gold = json.loads((run / "run.json").read_text())["identity"]["data"]["gold_sha256"]
    identity = {"system": "ebk1__cand", "candidates": "c.jsonl", "gold_sha256": gold, "judges": ["ernie"]}
    (judged / "run.json").write_text(json.dumps({"identity": identity, "n_expected": 1}))
    (judged / "per_item.jsonl").write_text(
        '{"id":"a","fused_query":"i","answer":"x","restore_score_100":5}\n'
    )
    (judged.parent / "run.json").write_text(json.dumps({"identity": {}, "systems": ["ebk1"]}))
    with viewer(tmp_path) as asker:
        rows = {row["kind"]: row for row in asker.get("runs")["runs"]}
        talk = asker.get("instance", run=rows["talk"]["name"], id="t1")
    assert len(rows) == 3
    assert rows["judged"]["name"] == "judged/ebk1"
    assert rows["judged"]["data_sha"] == rows["run"]["data_sha"]
    assert rows["judged"]["k"] == 1
    assert (talk["mode"], talk["scheme"], talk["turns"][0]["query"]) == ("respond", "cot", "q that")
    assert talk["rewritten_query"] == "q that"


def test_name_that_is_not_utf_8_is_shown_and_can_be_opened(tmp_path: Path) -> None:
    directory = made_run(tmp_path, label="gpt-k2", rows=ROWS)
    strange = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff<b>"))
    directory.rename(strange)
    with viewer(tmp_path) as asker:
        (row,) = asker.get("runs")["runs"]
        assert row["name"] == "\\udcff<b>"
        assert asker.get("instances", run=row["name"])["n"] == 3


def test_asking_during_the_search_stands_beside_its_leaderboard(tmp_path: Path) -> None:
    """The tables of cts diagnose; an interval that is not shown has no ends, and a system no path for a name."""
    folder = asking_runs(tmp_path)
    runs = {path.name: path for path in folder.iterdir()}
    (board,) = leaderboards_of(runs)["boards"]
    worth = {row["system"]: row for row in board["asking"]["tables"]["asking_worth"]}
    assert (worth["orig+ask3"]["gain"], worth["orig+ask3"]["gain_per_question"]) == (18.0, 18.0)
    assert worth["orig+ask3"]["gain_low"] is not None
    # Two instances.
    assert (worth["gpt-k1+ask3"]["gain_low"], worth["gpt-k1+ask3"]["gain_too_short"]) == (None, False)
    assert str(tmp_path) not in str(board)
    never = {name: path for name, path in runs.items() if name in ("made-orig", "made-gpt-k1")}
    assert all("asking" not in board for board in leaderboards_of(never)["boards"])
