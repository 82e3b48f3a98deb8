"""Versions of runs in the viewer: the newest by default, others when they are chosen, and what changed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from made_runs import Row, changed_manifest, made_run
from viewer_server import Asker, viewer

from cts_async.cli.view import view
from cts_async.viewer.app import viewed

DATA = "sha of made.sha of made gold"
FIRST, SECOND, THIRD = "ask", "ask.v2", "ask.v3"


def made_version(folder: Path, name: str, *, day: int, score: float, gold: str = "", **notes: Any) -> Path:
    """A run of `gpt-k1` or orig with two instances of this score, last worked on on that day; `gold` is another gold."""
    label = "orig" if "orig" in name else "gpt-k1"
    run = made_run(folder, label=label, name=name, rows=[Row("a", score=score), Row("b", score=score)])
    with changed_manifest(run) as manifest:
        manifest |= {"sessions": [{"start": f"2030-01-{day:02}T10:00:00+00:00"}], **notes}
        if gold:
            manifest["identity"]["data"]["gold_sha256"] = gold
    return run


def made_versions(folder: Path) -> None:
    """Three versions of one run, of which the last has another gold, as orig has, and a prompt of its own."""
    made_version(folder, "made-orig", day=1, score=10)
    made_version(folder, "made-orig.v2", day=4, score=20, gold="new", run_version=2, changed=["gold"])
    first = made_version(folder, FIRST, day=1, score=30)
    second = made_version(
        folder, SECOND, day=2, score=50, run_version=2, changed=["prompt ask"], changed_from="ask"
    )
    made_version(
        folder, THIRD, day=4, score=80, gold="new", run_version=3, changed=["gold"], changed_from=SECOND
    )
    for run, text in ((first, "Ask.\n<b>Be brief.</b>\n"), (second, "Ask.\n<b>Be long.</b>\n")):
        (run / "prompts").mkdir()
        (run / "prompts" / "clarify.en.txt").write_text(text)


def write_steps(run: Path, origin: str) -> None:
    """Instance a: two steps of another run, 3 s, 2 dollars each, and one of this run, 1 s and 2 dollars; b: one step."""
    steps = [
        ("a", "clarify", origin),
        ("a", "search/turn/1", origin),
        ("a", "judge", ""),
        ("b", "clarify", origin),
    ]
    lines: list[str] = []
    for number, (instance, step, reused) in enumerate(steps):
        record: dict[str, Any] = {"key": f"{number:032x}", "ok": True, "instance": instance, "step": step}
        record |= {"model": "gpt", "response": {"text": "<answer>It is.</answer>"}}
        record |= {"usage": {"input": 2_000_000, "output": 0}, "latency_s": 3.0 if reused else 1.0}
        if reused:
            record["reused"] = reused
        lines.append(json.dumps(record, separators=(",", ":")) + "\n")
    (run / "steps.jsonl").write_text("".join(lines))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("versions")
    made_versions(folder)
    return folder


@pytest.fixture(scope="module")
def asker(folder: Path) -> Iterator[Asker]:
    with viewer(folder, computes_here=True) as asker:
        yield asker


def gains(asker: Asker, **asked: str) -> list[dict[str, float | None]]:
    """By group, the gain of each run over the orig of the group."""
    board = asker.until("leaderboard", lambda said: not said["computing"], **asked)
    assert board["problem"] == ""
    return [{row["run"]: row["gain"] for row in group["standings"]} for group in board["boards"]]


def test_rows_say_which_version_a_run_is(asker: Asker) -> None:
    rows = {row["name"]: row for row in asker.get("runs")["runs"]}
    assert {name for name, row in rows.items() if row["older"]} == {FIRST, SECOND, "made-orig"}
    assert {name: (row["series"], row["version"]) for name, row in rows.items() if "ask" in name} == {
        FIRST: (FIRST, 1),
        SECOND: (FIRST, 2),
        THIRD: (FIRST, 3),
    }
    assert rows[SECOND]["versions"] == [THIRD, SECOND, FIRST]
    assert (rows[SECOND]["changed"], rows[SECOND]["changed_from"]) == (["prompt ask"], FIRST)


def test_leaderboard_has_the_newest_versions_or_those_chosen(asker: Asker) -> None:
    """The newest gain 80 - 20 over the orig of their gold; the second 50 - 10 over that of its own, which is shown."""
    newest = {"made-orig.v2": None, THIRD: 60}
    assert gains(asker) == [newest]
    assert gains(asker, data="sha of made.new") == [newest]
    assert gains(asker, versions=SECOND) == [{"made-orig.v2": None}, {"made-orig": None, SECOND: 40}]
    assert gains(asker, data=DATA) == [{"made-orig": None, SECOND: 40}], "as when it was noted"
    assert gains(asker, data=DATA, versions=SECOND) == [{"made-orig": None, SECOND: 40}]
    assert gains(asker, data="sha of made.new", all="1") == [
        newest,
        {"made-orig": None, FIRST: 20, SECOND: 40},
    ]
    assert asker.api("leaderboard", versions="ask.v9").status == 404


def test_pages_list_the_versions_of_their_runs(asker: Asker) -> None:
    board = asker.until("leaderboard", lambda said: not said["computing"])
    assert set(board["versions"]) == {THIRD, "made-orig.v2"}
    versions = board["versions"][THIRD]
    assert [(row["name"], row["version"], row["older"]) for row in versions] == [
        (THIRD, 3, False),
        (SECOND, 2, True),
        (FIRST, 1, True),
    ]
    assert [row["scores"][0]["mean"] for row in versions] == [80, 50, 30]
    for page in (asker.get("run", run=SECOND), asker.get("instance", run=SECOND, id="a")):
        assert page["versions"] == versions
        assert page["beside"] == [FIRST]


def test_matrix_has_older_versions_only_when_they_are_asked_for(asker: Asker) -> None:
    newest = asker.get("matrix", data="sha of made.new")
    assert [run["name"] for run in newest["runs"]] == ["made-orig.v2", THIRD]
    assert set(newest["versions"]) == {"made-orig.v2", THIRD}
    older = asker.get("matrix", data=DATA, all="1", show="gain")
    assert [run["name"] for run in older["runs"]] == ["made-orig", FIRST, SECOND]
    assert older["rows"][0]["values"] == [0, 20, 40]
    chosen = asker.get("matrix", runs=FIRST)
    assert [run["name"] for run in chosen["known"]] == ["made-orig", FIRST, SECOND]


def test_changes_of_a_version_are_settings_and_lines(asker: Asker) -> None:
    changes = asker.get("changes", run=SECOND)
    assert (changes["before"], changes["changed"], changes["problem"]) == (FIRST, ["prompt ask"], "")
    assert changes["settings"] == []
    assert changes["texts"] == [
        {
            "file": "prompts/clarify.en.txt",
            "status": "changed",
            "lines": ["@@ -1,2 +1,2 @@", " Ask.", "-<b>Be brief.</b>", "+<b>Be long.</b>"],
            "n_lines": 4,
        }
    ]
    gold = {"name": "data.gold_sha256", "before": "sha of made gold", "after": "new"}
    assert asker.get("changes", run=THIRD)["settings"] == [gold]
    first = asker.get("changes", run=FIRST)
    assert (first["before"], first["texts"]) == ("", [])


def test_changes_are_never_read_outside_of_the_folder(tmp_path: Path) -> None:
    secret = made_version(tmp_path / "elsewhere", "secret", day=1, score=1)
    runs = tmp_path / "runs"
    for number, origin in ((2, str(secret)), (3, "../elsewhere/secret"), (4, "link")):
        made_version(runs, f"ask.v{number}", day=1, score=1, run_version=number, changed_from=origin)
    (runs / "link").symlink_to(secret)
    with viewer(runs) as asker:
        for number in (2, 3, 4):
            changes = asker.get("changes", run=f"ask.v{number}")
            assert (changes["settings"], changes["texts"], changes["problem"]) == ([], [], "")


def test_an_older_version_named_by_path_is_shown(folder: Path) -> None:
    assert viewed([folder / FIRST]).rows()[0]["older"] is False
    both = viewed([folder / FIRST, folder / THIRD])
    assert {row["name"]: row["older"] for row in both.rows()} == {FIRST: False, THIRD: False}
    newest = viewed([folder], newest_only=True)
    assert [row["name"] for row in newest.rows()] == [THIRD, "made-orig.v2"]
    assert newest.rows()[0]["versions"] == [THIRD]
    place, manifest = newest.find().runs[THIRD]
    origin = newest.origin(place, manifest)
    assert origin is not None
    assert origin.directory == folder / SECOND


def test_a_new_version_becomes_the_newest_by_itself(tmp_path: Path) -> None:
    made_version(tmp_path, FIRST, day=1, score=30)
    with viewer(tmp_path) as asker, asker.listening() as events:
        assert next(events)[1]["older"] is False
        made_version(tmp_path, SECOND, day=2, score=50, run_version=2)
        seen: dict[str, Any] = {}
        while not (seen.get(FIRST) and SECOND in seen):
            _, row = next(events)
            seen[row["name"]] = row["older"]
        assert seen == {FIRST: True, SECOND: False}


def test_reused_steps_are_named_and_count_apart(tmp_path: Path) -> None:
    run = made_version(
        tmp_path / "runs", SECOND, day=1, score=30, prices={"gpt": {"input": 1.0, "output": 1.0}}
    )
    origin = "/home/ann/secret/ask"
    write_steps(run, origin)
    with viewer(tmp_path / "runs") as asker:
        asker.until("instance", lambda said: said["spending"] is not None, run=SECOND, id="a")
        page = asker.get("instance", run=SECOND, id="a")
        (answer,) = asker.get("trace", run=SECOND, id="a")["turns"]
        steps = asker.get("steps", run=SECOND, id="a")["steps"]
        taken = {}
        for show in ("seconds", "cost"):
            rows = asker.get("matrix", runs=SECOND, show=show)["rows"]
            taken[show] = {row["id"]: row["values"][0] for row in rows}
    reused = {"steps": 2, "seconds": 6.0, "cost": 4.0, "runs": [origin]}
    assert page["spending"] == {"seconds": 1.0, "cost": 2.0, "reused": reused}
    assert (answer["kind"], answer["reused"]) == ("answer", origin)
    assert [step["reused"] for step in steps] == [origin, origin, ""]
    assert taken == {"seconds": {"a": 1.0, "b": 0.0}, "cost": {"a": 2.0, "b": 0.0}}
    view(tmp_path / "runs", export=tmp_path / "out")
    written = b"".join(path.read_bytes() for path in (tmp_path / "out" / "data").iterdir())
    assert b"secret" not in written
