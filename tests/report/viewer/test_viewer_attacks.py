"""What a folder of somebody else's may hold to break the viewer, or to have it show what is not in there."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
from pathlib import Path
from unittest.mock import patch

import pytest
from made_runs import Row, made_run
from test_viewer_runs import made_live
from viewer_server import viewer

from cts_async.report.viewer import app, library, pages
from cts_async.report.viewer.leaderboards import leaderboards_of
from cts_async.report.viewer.run import judgment_files


def step(instance: str, text: str) -> str:
    record = {"key": "0" * 32, "ok": True, "instance": instance, "step": "search/turn/1"}
    return json.dumps({**record, "response": {"text": text}}) + "\n"


def test_one_word_that_cannot_be_passed_on_hides_no_other_run(tmp_path: Path) -> None:
    made_live(made_run(tmp_path, label="orig", rows=[Row("a")]), more=json.loads("[" * 300 + "]" * 300))
    made_run(tmp_path, label="gpt-k1", rows=[Row("a")])
    with viewer(tmp_path) as asker:
        assert {row["name"]: row["live"] for row in asker.get("runs")["runs"]} == {
            "made-orig": None,
            "made-gpt-k1": None,
        }


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/etc/passwd", path)])
def test_results_that_are_no_file_are_none(tmp_path: Path, make: object) -> None:
    run = made_run(tmp_path, label="orig", rows=[Row("a")])
    (run / "results.jsonl").unlink()
    make(run / "results.jsonl")  # type: ignore[operator]
    with viewer(tmp_path) as asker:
        assert asker.get("instances", run=run.name)["rows"] == []


def test_an_instance_without_a_journal_is_downloaded_as_nothing(tmp_path: Path) -> None:
    run = made_run(tmp_path, label="orig", rows=[Row("a")])
    with viewer(tmp_path) as asker:
        answer = asker.api("download", run=run.name, id="a")
    assert (answer.status, answer.body) == (200, b"")


def test_an_answer_that_breaks_off_does_not_look_whole(tmp_path: Path) -> None:
    run = made_run(tmp_path, label="orig", rows=[Row("a")])
    (run / "steps.jsonl").write_text(step("a", "one") + step("a", "two"))

    def broken(*asked: object) -> object:
        yield b"one\n"
        raise OSError("the disk is gone")

    with (
        viewer(tmp_path) as asker,
        patch("cts_async.report.viewer.instance.journal_lines", broken),
        pytest.raises(http.client.IncompleteRead) as caught,
    ):
        asker.api("download", run=run.name, id="a")
    assert caught.value.partial == b"one\n"


def test_what_is_downloaded_is_all_there_is_however_far_the_journal_was_read(tmp_path: Path) -> None:
    run = made_run(tmp_path, label="orig", rows=[Row("a")])
    lines = [step("a", str(n) * (1 << 20)) for n in range(3)]
    (run / "steps.jsonl").write_text("".join(lines))
    with viewer(tmp_path) as asker, patch.object(pages, "FIRST_S", 0.0):
        assert asker.api("download", run=run.name, id="a").body == "".join(lines).encode()


def test_a_folder_that_became_a_link_leads_nowhere(tmp_path: Path) -> None:
    runs, outside = tmp_path / "runs", tmp_path / "outside"
    run = made_run(runs, label="orig", rows=[Row("a", labels={"ernie": "f", "gpt": "f"})])
    shutil.copytree(run, outside)
    with viewer(runs) as asker, patch.object(library, "FOUND_S", 3600.0):
        judges = [one["judge"] for one in asker.get("runs")["runs"][0]["scores"]]
        assert judges == ["ernie", "gpt"]
        assert asker.get("instance", run=run.name, id="a")["answer"] == "an answer"
        shutil.rmtree(run / "judgments")
        (run / "judgments").symlink_to(outside / "judgments")
        assert len(asker.get("instance", run=run.name, id="a")["scores"]) == 1
        shutil.rmtree(run)
        run.symlink_to(outside)
        assert asker.api("instance", run=run.name, id="a").status == 404


def test_a_leaderboard_reads_nothing_behind_a_link(tmp_path: Path) -> None:
    run = made_run(tmp_path, label="orig", rows=[Row("a", labels={"ernie": "f"})])
    link = tmp_path / "link"
    link.symlink_to(run)
    assert len(leaderboards_of({"run": run})["boards"]) == 1
    assert leaderboards_of({"link": link})["boards"] == []


def test_a_run_that_was_made_anew_shows_nothing_of_the_old_one(tmp_path: Path) -> None:
    run = made_run(tmp_path, label="orig", rows=[Row("a")])
    (run / "steps.jsonl").write_text(step("a", "<answer>old</answer>"))
    with viewer(tmp_path) as asker:
        assert [one["text"] for one in asker.get("trace", run=run.name, id="a")["turns"]] == ["old"]
        (run / "new.jsonl").write_text(step("a", "<think>new</think><answer>" + "new" * 9))
        (run / "new.jsonl").replace(run / "steps.jsonl")
        assert [one["text"] for one in asker.get("trace", run=run.name, id="a")["turns"]] == [
            "new",
            "new" * 9,
        ]


def test_a_judge_whose_file_is_gone_is_no_judge(tmp_path: Path) -> None:
    run = made_run(tmp_path, label="orig", rows=[Row("a", labels={"ernie": "f", "gpt": "f"})])
    with viewer(tmp_path) as asker:
        assert [one["judge"] for one in asker.get("runs")["runs"][0]["scores"]] == ["ernie", "gpt"]
        shutil.rmtree(run / "judgments")
        asker.until("runs", lambda found: len(found["runs"][0]["scores"]) == 1)


def test_a_damaged_line_of_the_journal_is_said_to_be_one(tmp_path: Path) -> None:
    run = made_run(tmp_path, label="orig", rows=[Row("a")])
    (run / "steps.jsonl").write_text("{torn\n")
    with viewer(tmp_path) as asker:
        answer = asker.api("step", run=run.name, at=0)
    assert (answer.status, answer.json) == (404, {"error": "this line is damaged"})


def test_long_texts_that_nobody_takes_are_few(tmp_path: Path) -> None:
    """The kernel holds some of what is sent on; 16 MB are more than that."""
    run = made_run(tmp_path, label="orig", rows=[Row("a")])
    text = "long" * (4 << 20)
    (run / "steps.jsonl").write_text(step("a", text))
    asked = f"/api/text?run={run.name}&at=0&part=text"
    with viewer(tmp_path) as asker, patch.object(app, "MAX_LARGE", 1):
        assert asker.send("HEAD", asked).headers["Content-Length"] == str(len(text))
        with socket.create_connection(("127.0.0.1", asker.port)) as slow:
            slow.sendall(f"GET {asked} HTTP/1.1\r\nHost: 127.0.0.1:{asker.port}\r\n\r\n".encode())
            assert slow.recv(8).startswith(b"HTTP/1.1")
            answer = asker.send("GET", asked)
            assert (answer.status, answer.json["error"]) == (503, "too many large answers at once: try again")
            assert asker.get("runs")["runs"]
        while (answer := asker.send("GET", asked)).status == 503:
            pass
        assert answer.body.decode() == text


def test_a_file_that_vanishes_while_it_is_read_is_another_one_by_now(tmp_path: Path) -> None:
    run = made_run(tmp_path, label="orig", rows=[Row("a")])
    (run / "steps.jsonl").write_text(step("a", "one"))
    with viewer(tmp_path) as asker:
        assert asker.get("steps", run=run.name, id="a")["total"] == 1
        with patch("cts_async.report.viewer.trace.opened", side_effect=FileNotFoundError):
            answer = asker.api("steps", run=run.name, id="a")
        assert (answer.status, "was replaced" in answer.json["error"]) == (409, True)


def test_a_folder_of_judgments_may_vanish_while_it_is_read(tmp_path: Path) -> None:
    run = made_run(tmp_path, label="orig", rows=[Row("a", labels={"ernie": "f", "gpt": "f"})])
    with patch.object(Path, "glob", side_effect=FileNotFoundError):
        assert judgment_files(run) == []
    assert [path.name for path in judgment_files(run)] == ["gpt.jsonl"]
