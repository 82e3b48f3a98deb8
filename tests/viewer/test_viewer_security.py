"""Requests and files that must not harm: foreign pages, hostile files."""

from __future__ import annotations

import http.client
import json
import os
import random
import shutil
import socket
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_runs import Row, made_run
from test_viewer_library import write_made_live
from viewer_server import Asker, viewer

from cts_async.runs.index import Refused
from cts_async.viewer import app, library, pages
from cts_async.viewer.leaderboards import leaderboards_of
from cts_async.viewer.library import Library
from cts_async.viewer.pages import Endpoints

ADDRESSES = [
    "/",
    "/static/nothing.js",
    "/api/runs",
    "/api/instances?run=made-orig",
    "/nothing",
    "/api/nothing",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("security") / "runs"
    made_run(folder, label="orig", rows=[Row("a", answer="<script>alert(1)</script>")])
    return folder


@pytest.fixture(scope="module")
def asker(folder: Path) -> Iterator[Asker]:
    with viewer(folder) as asker:
        yield asker


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "[::1]", "LOCALHOST", "localhost:9000", "[::1]:9000", "127.0.0.1:80"]
)
def test_loopback_names_are_answered_at_any_port(asker: Asker, host: str) -> None:
    """Behind `ssh -L 9000:127.0.0.1:8518` or a mapped port the browser sends another port than the server's."""
    for address in ("/", "/static/main.js", "/api/runs"):
        assert asker.send("GET", address, Host=host).status == 200, address
        same_origin = {"Origin": f"http://{host}", "Sec_Fetch_Site": "same-origin"}
        assert asker.send("GET", address, Host=host, **same_origin).status == 200, address


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example",
        "evil.example:{port}",
        "hub.uni.example",
        "host.docker.internal:{port}",
        "localhost.evil.example:{port}",
        "localhost.:{port}",
        "127.0.0.1.nip.io:{port}",
        "127.0.0.1.:{port}",
        "127.1:{port}",
        "2130706433:{port}",
        "0x7f000001:{port}",
        "0.0.0.0:{port}",
        "127.0.0.2:{port}",
        "::1",
        "[::]:{port}",
        "[::ffff:127.0.0.1]:{port}",
        "[::1].evil.example:{port}",
        "localhost:{port}@evil.example",
        "evil.example@localhost:{port}",
        "localhost, evil.example",
        "localhost evil.example",
        "localhost:",
        "localhost:１２３",
        "localhost:123456",
        "localhost:80:80",
        "ｌocalhost",
        "<script>alert(1)</script>",
    ],
)
def test_other_host_names_get_a_page_that_says_what_to_do(asker: Asker, host: str) -> None:
    host = host.format(port=asker.port)
    for address in ADDRESSES:
        answer = asker.raw(f"GET {address} HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\n\r\n")
        assert answer.status == 403, address
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
        assert "no-referrer" in answer.headers["Referrer-Policy"]
        text = answer.body.decode()
        assert "answers only to the names localhost, 127.0.0.1 and [::1], at any port" in text
        assert f"ssh -L {asker.port}:127.0.0.1:{asker.port} NAME" in text
        assert "made-orig" not in text
        assert "script" not in text


@pytest.mark.parametrize(
    ("head", "status"),
    [
        ("GET /api/runs HTTP/1.0", 403),
        ("GET /api/runs HTTP/1.1\r\nHost: localhost\r\nHost: evil.example", 400),
        ("GET /api/runs HTTP/1.1\r\nHost: evil.example\r\nHost: localhost", 400),
        ("GET http://localhost:9000/api/runs HTTP/1.1\r\nHost: localhost:9000", 200),
        ("GET http://evil.example/api/runs HTTP/1.1\r\nHost: localhost", 403),
        ("GET http://localhost/api/runs HTTP/1.1\r\nHost: evil.example", 403),
        ("GET http://evil.example@localhost/api/runs HTTP/1.1\r\nHost: localhost", 403),
        ("GET http://localhost@evil.example/api/runs HTTP/1.1\r\nHost: localhost", 403),
        ("GET http://localhost#@evil.example/api/runs HTTP/1.1\r\nHost: localhost", 400),
        ("GET evil.example/api/runs HTTP/1.1\r\nHost: localhost", 400),
        ("GET file:///api/runs HTTP/1.1\r\nHost: localhost", 400),
    ],
)
def test_one_host_header_and_the_address_must_name_this_machine(asker: Asker, head: str, status: int) -> None:
    answer = asker.raw(f"{head}\r\n\r\n")
    assert answer.status == status
    assert (b"made-orig" in answer.body) == (status == 200)


def test_what_a_person_opens_fails_with_a_page_and_not_with_json(asker: Asker) -> None:
    answer = asker.send("GET", "/nothing")
    assert (answer.status, answer.headers["Content-Type"]) == (404, "text/html; charset=utf-8")
    assert b"<p>Not found.</p>" in answer.body
    assert asker.send("GET", "/static/nothing.js").headers["Content-Type"] == "text/html; charset=utf-8"
    assert asker.send("GET", "/api/nothing").headers["Content-Type"] == "application/json"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND"])
def test_nothing_but_reading_is_allowed(asker: Asker, method: str) -> None:
    for address in ADDRESSES:
        answer = asker.send(method, address)
        assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD"), address


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Sec_Fetch_Site": "same-site"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://localhost:1"}, 403),
        ({"Origin": "https://127.0.0.1:{port}"}, 403),
        ({"Origin": "http://127.0.0.1"}, 403),
        ({"Origin": "http://127.0.0.1:{port}", "Sec_Fetch_Site": "same-origin"}, 200),
        # Another name or port is another origin, such as that of another server of this machine.
        ({"Origin": "http://localhost:{port}"}, 403),
        ({"Host": "localhost:9000", "Origin": "http://localhost:9000"}, 200),
        ({"Host": "localhost:9000", "Origin": "http://localhost:{port}"}, 403),
        ({"Host": "localhost:9000", "Origin": "http://127.0.0.1:9000"}, 403),
    ],
)
def test_cross_origin_request_is_refused(asker: Asker, headers: dict[str, str], status: int) -> None:
    given = {name: value.format(port=asker.port) for name, value in headers.items()}
    for address in ("/api/runs", "/api/download?run=made-orig&id=a"):
        assert asker.send("GET", address, **given).status == status
    assert asker.send("HEAD", "/api/events", **given).status == status


def test_every_answer_has_the_headers_that_keep_a_page_in(asker: Asker) -> None:
    for address in ADDRESSES:
        headers = asker.send("GET", address).headers
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert not [word for word in ("unsafe", "data:", "blob:", "*") if word in policy]
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert "Server" not in headers
        assert "/api/" not in address or headers["Cache-Control"] == "no-store"


def test_answers_are_json_and_errors_one_line_of_it(asker: Asker) -> None:
    page = asker.api("instance", run="made-orig", id="a")
    assert page.headers["Content-Type"] == "application/json"
    assert page.json["answer"] == "<script>alert(1)</script>"
    wrong = asker.api("instance", run="made-orig", id="<script>")
    assert wrong.headers["Content-Type"] == "application/json"
    assert wrong.json == {"error": "no such instance in this run"}
    assert asker.send("GET", "/api/nothing").json == {"error": "not found"}
    twice = asker.send("GET", "/api/instances?run=made-orig&run=other")
    assert (twice.status, twice.json) == (400, {"error": "run: is given twice"})
    assert asker.send("GET", "/api/instances?run=" + "x" * 70_000).status == 400


def test_no_address_leads_out_of_the_pages_folder(asker: Asker) -> None:
    outside = [
        "../app.py",
        "%2e%2e/app.py",
        "..%2fapp.py",
        "/etc/passwd",
        "index.html%00.js",
        "%5c..%5capp.py",
    ]
    for target in ("/../../etc/passwd", "//etc/passwd", "/static/", *(f"/static/{name}" for name in outside)):
        answer = asker.send("GET", target)
        assert answer.status in (400, 404), target
        assert b"import" not in answer.body


def test_a_run_is_one_of_those_found_or_none(asker: Asker) -> None:
    for run in ("..", "../..", "/etc", "made-orig/..", "made-orig/../made-orig", ".", "", "made-orig\0"):
        for path in ("run", "instances", "instance", "trace", "steps", "step", "text", "download", "csv"):
            assert asker.api(path, run=run, id="a").status == 404, (path, run)


def test_too_many_requests_are_refused_with_503(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "MAX_REQUESTS", 1)
    with viewer(folder) as asker:
        with asker.listening() as events:
            next(events)
            answer = asker.api("runs")
            assert (answer.status, answer.json) == (503, {"error": "too many requests: try again"})
        while asker.api("runs").status != 200:
            pass


def test_page_is_sent_once_and_then_known_by_its_tag(
    asker: Asker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "index.html").write_text("<!doctype html>")
    (tmp_path / "main.js").write_text("1")
    (tmp_path / "secret.py").write_text("no")
    monkeypatch.setattr(app, "STATIC", tmp_path)
    page = asker.send("GET", "/")
    assert (page.status, page.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert page.body == b"<!doctype html>"
    script = asker.send("GET", "/static/main.js")
    assert script.headers["Content-Type"] == "text/javascript; charset=utf-8"
    assert asker.send("GET", "/static/secret.py").status == 404
    assert asker.send("GET", "/", If_None_Match=page.headers["Etag"]).status == 304
    (tmp_path / "index.html").write_text("<!doctype html>new")
    assert asker.send("GET", "/", If_None_Match=page.headers["Etag"]).status == 200


def test_malformed_request_is_refused_and_not_logged(
    asker: Asker, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_connection(("127.0.0.1", asker.port)) as client:
        client.sendall(b"\x16\x03\x01 hello\r\n\r\n")
        assert client.recv(1 << 16).startswith(b"HTTP/1.0 400")
    assert (caplog.records, capfd.readouterr().err) == ([], "")


def step(instance: str, text: str) -> str:
    record = {"key": "0" * 32, "ok": True, "instance": instance, "step": "search/turn/1"}
    return json.dumps({**record, "response": {"text": text}}) + "\n"


def test_one_word_that_cannot_be_passed_on_hides_no_other_run(tmp_path: Path) -> None:
    write_made_live(made_run(tmp_path, label="orig", rows=[Row("a")]), more=json.loads("[" * 300 + "]" * 300))
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


def test_an_answer_that_breaks_off_does_not_look_whole(tmp_path: Path) -> None:
    run = made_run(tmp_path, label="orig", rows=[Row("a")])
    (run / "steps.jsonl").write_text(step("a", "one") + step("a", "two"))

    def broken(*asked: object) -> object:
        yield b"one\n"
        raise OSError("the disk is gone")

    with (
        viewer(tmp_path) as asker,
        patch("cts_async.viewer.trace._downloaded_lines", broken),
        pytest.raises(http.client.IncompleteRead) as caught,
    ):
        asker.api("download", run=run.name, id="a")
    assert caught.value.partial == b"one\n"


def test_download_is_complete_before_the_journal_is_indexed(tmp_path: Path) -> None:
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


def test_recreated_run_shows_nothing_of_its_predecessor(tmp_path: Path) -> None:
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


def test_large_answers_to_slow_clients_are_limited(tmp_path: Path) -> None:
    """The kernel holds some of what is sent on; 16 MB are more than that."""
    run = made_run(tmp_path, label="orig", rows=[Row("a")])
    text = "long" * (4 << 20)
    (run / "steps.jsonl").write_text(step("a", f"<answer>{text}</answer>"))
    asked = f"/api/text?run={run.name}&id=a&n=1"
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
        with patch("cts_async.runs.trace.opened", side_effect=FileNotFoundError):
            answer = asker.api("steps", run=run.name, id="a")
        assert (answer.status, "was replaced" in answer.json["error"]) == (409, True)


IDS = ("a", "b", "汉")
CALLS = (
    '<think>a</think><tool_call>{"name":"search","arguments":{"query":["x"]}}</tool_call>'
    '<tool_call>{"name":"visit","arguments":{"url":["http://a/"],"goal":"g"}}</tool_call>'
)
NAMES = ("id", "text", "error", "nuggets", "step", "kind", "url", "coverage", "weight", "identity")
DEEP: Any = json.loads('{"a":' * 300 + "1" + "}" * 300)
STEPS = (
    *("search/turn/{}", "search/tool/{}.1/query/1", "search/tool/{}.2/page/1", "visit/{}.2/1"),
    *("search/told/{}", "search/tool/{}.1", "clarify"),
)


class Mess:
    """Files that look like a run's, but for what stands in about half of their fields."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def value(self, depth: int = 0) -> Any:
        plain = [None, True, 1, -5, 1e300, 2**60, "x", "unknown", "汉字<b>\0", DEEP]
        if depth < 3 and self.rng.random() < 0.4:
            inner = [self.value(depth + 1) for _ in range(3)]
            return (
                inner if self.rng.random() < 0.5 else dict(zip(self.rng.sample(NAMES, 3), inner, strict=True))
            )
        return self.rng.choice(plain)

    def object(self, usual: dict[str, Any]) -> dict[str, Any]:
        return {
            name: self.value() if self.rng.random() < 0.4 else value
            for name, value in usual.items()
            if self.rng.random() < 0.9
        }

    def manifest(self) -> Any:
        data = self.object({"name": "d", "sha256": "a" * 64, "gold_sha256": "b" * 64})
        identity = {"system": "s", "k": 1, "data": data, "judges": ["e"], "task": "talk", "candidates": "c"}
        sessions = [self.object({"start": "s", "end": "e", "wall_s": 1.0})]
        where = self.object({"path": "p", "gold": "g\0", "fields": {"id": "x"}})
        usual = {"n_expected": 3, "sessions": sessions, "embedded": True, "data": where}
        more = {"journal": "../steps.jsonl", "command": "cts judge --gold x"}
        return self.object({**usual, **more, "identity": self.object(identity)})

    def line(self) -> Any:
        turns = [self.object({"offered": ["x"], "answers": ["y"], "query": "z", "chosen": 0})]
        queries = {"fused_query": "q", "blurred_query": "b", "rewritten_query": "汉字 b c"}
        talk = {"questions": ["a"], "answers": ["unknown"], "turns": turns}
        judged = {"judge": "e", "nuggets": [self.object({"id": "N1", "weight": 1, "coverage": "full"})]}
        found = {"answer": "ans", "search": {"model_calls": 1}, "error": None, "answer_digest": "ab" * 8}
        usual = {"id": self.rng.choice(IDS), **queries, **talk, **judged, **found}
        return self.object({**usual, "restore_score_100": 50})

    def step(self) -> Any:
        usual = {"key": "0" * 32, "ok": True, "instance": self.rng.choice(IDS)}
        request = self.object({"query": "x", "url": "http://a/", "demand": "d", "dropped": ["search/turn/1"]})
        texts = {"text": CALLS, "hits": [["u", "t", "s"]], "title": "t", "url": "u", "reasoning": "r"}
        response = self.object({**texts, "evidence": "e", "summary": "s", "1/query/1": {"error": "e"}})
        usage = {"input": 1, "output": self.value()}
        numbers = {"usage": usage, "latency_s": 1.0, "attempts": 1, "time": 1.0, "error": None}
        step = self.rng.choice(STEPS).format(self.rng.randrange(1, 4))
        return self.object({**usual, "step": step, "request": request, "response": response, **numbers})

    def write(self, run: Path) -> None:
        (run / "judgments").mkdir(parents=True)
        (run / "run.json").write_text(json.dumps(self.manifest()))
        results = self.rng.choice(("results.jsonl", "per_item.jsonl"))
        _written(run / results, [*(self.line() for _ in range(6)), self.value()])
        _written(run / "judgments" / "j.jsonl", [self.line() for _ in range(4)])
        _written(run / "steps.jsonl", [self.step() for _ in range(25)])
        scores = {"e": self.object({"n_scored": 1, "mean": 1.0, "p50": 1.0, "p90": 1.0})}
        summary = {"judges": scores, "judge": "e", "n_scored": 1, "n_unjudged": 0, "n_failed": 0}
        (run / "summary.json").write_text(
            json.dumps(self.object({**summary, "cost_usd": 1.0, "x": self.value()}))
        )


def _written(path: Path, lines: Sequence[Any]) -> None:
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 1 << 32))
def test_a_run_of_nonsense_is_answered_or_refused(seed: int) -> None:
    with TemporaryDirectory() as folder:
        Mess(seed).write(Path(folder) / "r")
        answers = Endpoints(Library(Path(folder)))
        orjson.dumps(answers.runs({}))
        for name, answer in answers.by_name().items():
            for more in ({}, {"text": "汉"}, {"sort": "-score", "min": "1"}, {"unknown": "some", "at": "0"}):
                for id in IDS:
                    with suppress(Refused):
                        said = answer({"run": "r", "id": id, **more})
                        assert isinstance(said, bytes) or orjson.dumps(said), name
        for n in range(1, 9):
            with suppress(Refused):
                assert isinstance(answers.text({"run": "r", "id": "a", "n": str(n)}), str)
        with suppress(Refused):
            assert all(line.endswith(b"\n") for line in answers.download({"run": "r", "id": "a"})[1])
