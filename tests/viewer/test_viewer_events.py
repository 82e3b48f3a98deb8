"""A page that listens hears of every change, and a server that ends lets it go."""

from __future__ import annotations

import http.client
import json
import logging
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from aiohttp.web import BaseRequest, StreamResponse
from made_runs import Row, made_run
from test_viewer_library import write_made_live
from viewer_server import viewer

from cts_async.viewer.library import Changes


def add_line(run: Path, id: str) -> None:
    with (run / "results.jsonl").open("a") as file:
        file.write(json.dumps({"id": id, "restore_score_100": 10.0, "judge": "ernie"}) + "\n")


def test_run_sends_changed_events_until_removed(tmp_path: Path) -> None:
    run = made_run(tmp_path, label="orig", rows=[Row("a", score=50.0)])
    other = made_run(tmp_path, label="gpt-k1", rows=[Row("a", score=50.0)])
    with viewer(tmp_path) as asker, asker.listening(run=run.name) as stream:
        kind, row = next(stream)
        assert (kind, row["name"], row["n_done"], row["running"]) == ("changed", run.name, 1, False)
        add_line(other, "b")
        add_line(run, "b")
        write_made_live(run)
        kind, row = next(stream)
        assert (kind, row["name"], row["n_done"], row["running"]) == ("changed", run.name, 2, True)
        shutil.rmtree(run)
        told = next(stream)
        while told[0] == "changed":  # a look while only some of its files are gone
            told = next(stream)
        assert told == ("gone", {"name": run.name})


def test_listener_to_all_runs_receives_a_new_run(tmp_path: Path) -> None:
    made_run(tmp_path, label="orig", rows=[Row("a")])
    with viewer(tmp_path) as asker, asker.listening() as stream:
        assert next(stream)[1]["name"] == "made-orig"
        made_run(tmp_path, label="gpt-k1", rows=[Row("a"), Row("b")])
        told = next(stream)
        while told[1]["n_done"] != 2:
            told = next(stream)
        assert (told[0], told[1]["name"]) == ("changed", "made-gpt-k1")


def test_failed_look_does_not_end_the_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = made_run(tmp_path, label="orig", rows=[Row("a")])
    looks: list[object] = []

    def failing(self: Changes) -> bytes:
        looks.append(self)
        if len(looks) == 2:
            raise OSError("gone")
        return usual(self)

    usual = Changes.next
    monkeypatch.setattr(Changes, "next", failing)
    with viewer(tmp_path) as asker, asker.listening() as stream:
        assert next(stream)[1]["n_done"] == 1
        add_line(run, "b")
        assert next(stream)[1]["n_done"] == 2


def test_listeners_are_limited_and_leaving_frees_a_place(tmp_path: Path) -> None:
    with viewer(tmp_path) as asker:
        with ExitStack() as stack:
            for _ in range(32):
                stack.enter_context(asker.listening())
            assert asker.api("events").status == 503
        for _ in range(200):
            if asker.send("HEAD", "/api/events").status == 200:
                break
        else:
            raise AssertionError("no room was made")


def test_shutdown_ends_event_streams(tmp_path: Path) -> None:
    made_run(tmp_path, label="orig", rows=[Row("a")])
    with viewer(tmp_path) as asker:
        listening = asker.listening()
        stream = listening.__enter__()
        assert next(stream)[0] == "changed"
    assert list(stream) == []
    listening.__exit__(None, None, None)


@pytest.mark.parametrize("path", ["events", "runs"])
def test_page_that_is_left_before_the_answer_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    made_run(tmp_path, label="orig", rows=[Row("a")])
    usual, n_left = StreamResponse.prepare, 0

    async def prepare(self: StreamResponse, request: BaseRequest) -> Any:
        nonlocal n_left
        if request.path == f"/api/{path}" and request.transport is not None:
            request.transport.close()  # as it is from when the page is left until the handler is cancelled
            n_left += 1
        return await usual(self, request)

    with viewer(tmp_path) as asker:
        with monkeypatch.context() as patched:
            patched.setattr(StreamResponse, "prepare", prepare)
            with pytest.raises(http.client.RemoteDisconnected):
                asker.api(path)
        assert n_left > 0
        assert asker.get("runs")
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
