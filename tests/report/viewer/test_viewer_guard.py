"""Who is answered: this machine's own pages, for reading."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from made_runs import Row, made_run
from viewer_server import Asker, viewer

from cts_async.report.viewer.guard import own_names

ADDRESSES = [
    "/",
    "/static/nothing.js",
    "/api/runs",
    "/api/instances?run=made-orig",
    "/nothing",
    "/api/nothing",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made_run(tmp_path, label="orig", rows=[Row("a", answer="<script>alert(1)</script>")])
    return tmp_path


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "[::1]", "LOCALHOST"])
def test_this_machines_names_are_answered(folder: Path, name: str) -> None:
    with viewer(folder) as asker:
        assert asker.send("GET", "/api/runs", Host=f"{name}:{asker.port}").status == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "localhost:1", "", "127.0.0.1.nip.io:{port}"]
)
def test_another_host_is_refused_everywhere(folder: Path, host: str) -> None:
    with viewer(folder) as asker:
        for address in ADDRESSES:
            answer = asker.send("GET", address, Host=host.format(port=asker.port))
            assert answer.status == 403, address
            assert "no-referrer" in answer.headers["Referrer-Policy"]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND"])
def test_nothing_but_reading_is_allowed(folder: Path, method: str) -> None:
    with viewer(folder) as asker:
        for address in ADDRESSES:
            answer = asker.send(method, address)
            assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD"), address


def test_the_head_of_an_answer_is_that_of_the_whole(folder: Path) -> None:
    with viewer(folder) as asker:
        head, whole = (asker.send(method, "/api/runs") for method in ("HEAD", "GET"))
    assert (head.status, head.body, head.headers["Content-Length"]) == (200, b"", str(len(whole.body)))


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:1"},
    ],
)
def test_what_another_page_asks_for_is_refused(folder: Path, headers: dict[str, str]) -> None:
    with viewer(folder) as asker:
        for address in ("/api/runs", "/api/events", "/api/download?run=made-orig&id=a"):
            assert asker.send("GET", address, **headers).status == 403


def test_our_own_page_is_answered(folder: Path) -> None:
    with viewer(folder) as asker:
        own = {"Sec_Fetch_Site": "same-origin", "Origin": f"http://127.0.0.1:{asker.port}"}
        assert asker.send("GET", "/api/runs", **own).status == 200
        assert asker.send("GET", "/api/runs", Sec_Fetch_Site="none").status == 200


def test_every_answer_has_the_headers_that_keep_a_page_in(folder: Path) -> None:
    with viewer(folder) as asker:
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


def test_answers_are_json_and_errors_one_line_of_it(folder: Path) -> None:
    with viewer(folder) as asker:
        page = asker.api("instance", run="made-orig", id="a")
        assert page.headers["Content-Type"] == "application/json"
        assert page.json["answer"] == "<script>alert(1)</script>"
        wrong = asker.api("instance", run="made-orig", id="<script>")
        assert wrong.headers["Content-Type"] == "application/json"
        assert wrong.json == {"error": "no such instance in this run"}
        assert asker.send("GET", "/api/nothing").json == {"error": "not found"}


@pytest.mark.parametrize(
    "target",
    [
        *(
            "/static/../app.py",
            "/static/%2e%2e/app.py",
            "/static/..%2fapp.py",
            "/../../etc/passwd",
            "//etc/passwd",
        ),
        *("/static/", "/static//etc/passwd", "/static/index.html%00.js", "/static/%5c..%5capp.py"),
    ],
)
def test_no_address_leads_out_of_the_pages_folder(folder: Path, target: str) -> None:
    with viewer(folder) as asker:
        answer = asker.send("GET", target)
    assert answer.status in (400, 404)
    assert b"import" not in answer.body


@pytest.mark.parametrize(
    "run", ["..", "../..", "/etc", "made-orig/..", "made-orig/../made-orig", ".", "", "made-orig\0"]
)
def test_a_run_is_one_of_those_found_or_none(folder: Path, run: str) -> None:
    with viewer(folder) as asker:
        for path in ("run", "instances", "instance", "trace", "steps", "step", "text", "download"):
            assert asker.api(path, run=run, id="a").status == 404, path


def test_who_asks_too_much_at_once_is_told_to_come_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cts_async.report.viewer.guard.MAX_REQUESTS", 1)
    with viewer(folder) as asker:
        with asker.listening() as events:
            next(events)
            answer = asker.api("runs")
            assert (answer.status, answer.json) == (503, {"error": "too many requests: try again"})
        while asker.api("runs").status != 200:
            pass


def test_a_parameter_given_twice_is_refused(folder: Path) -> None:
    with viewer(folder) as asker:
        answer = asker.send("GET", "/api/instances?run=made-orig&run=other")
    assert (answer.status, answer.json) == (400, {"error": "run: is given twice"})


def test_an_address_without_end_is_refused(folder: Path) -> None:
    with viewer(folder) as asker:
        assert asker.send("GET", "/api/instances?run=" + "x" * 70_000).status == 400
        assert asker.get("runs")["runs"]


def test_the_page_is_sent_once_and_then_known_by_its_tag(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    static = folder.parent / f"{folder.name}-static"
    static.mkdir()
    (static / "index.html").write_text("<!doctype html>")
    (static / "main.js").write_text("1")
    (static / "secret.py").write_text("no")
    monkeypatch.setattr("cts_async.report.viewer.app.STATIC", static)

    def again(asker: Asker, tag: str) -> int:
        return asker.send("GET", "/", If_None_Match=tag).status

    with viewer(folder) as asker:
        page = asker.send("GET", "/")
        assert (page.status, page.headers["Content-Type"], page.body) == (
            *(200, "text/html; charset=utf-8"),
            b"<!doctype html>",
        )
        assert (
            asker.send("GET", "/static/main.js").headers["Content-Type"] == "text/javascript; charset=utf-8"
        )
        assert asker.send("GET", "/static/secret.py").status == 404
        assert again(asker, page.headers["ETag"]) == 304
        (static / "index.html").write_text("<!doctype html>new")
        assert again(asker, page.headers["ETag"]) == 200


def test_the_usual_port_is_in_nobodys_address(folder: Path) -> None:
    assert {"localhost", "127.0.0.1", "[::1]", "localhost:80"} <= own_names(80)
    assert "localhost" not in own_names(8518)


def test_what_is_no_http_is_refused_and_fills_no_terminal(
    folder: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with viewer(folder) as asker, socket.create_connection(("127.0.0.1", asker.port)) as client:
        client.sendall(b"\x16\x03\x01 hello\r\n\r\n")
        assert client.recv(1 << 16).startswith(b"HTTP/1.0 400")
    assert (caplog.records, capfd.readouterr().err) == ([], "")


def test_a_part_with_a_long_name_can_be_asked_for(folder: Path) -> None:
    (folder / "made-orig" / "steps.jsonl").write_text('{"instance": "a"}\n')
    with viewer(folder) as asker:
        answer = asker.api("text", run="made-orig", at=0, part=f"lexical/9/{'想' * 5_900}")
    assert (answer.status, answer.json) == (404, {"error": "this journal line has no such text"})
