"""The start of `cts`: Ctrl-C while importing, and standard streams that are closed, full or of another encoding."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest

from cts_async import __version__
from cts_async.__main__ import start
from cts_async.cli.main import main
from cts_async.cli.streams import drop_unusable_sizes
from cts_async.tables.output import print_json

PREPARED = (
    "import sys; from cts_async.cli.streams import ignore_stderr_failures, occupy_closed_streams\n"
    "occupy_closed_streams(); ignore_stderr_failures()\n"
)


def run_python(program: str, redirected: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-c", PREPARED + program]
    command = ["bash", "-c", f'"$@" {redirected}', "bash", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)


@pytest.mark.parametrize("redirected", ["2>/dev/full", "2>&-", "2> >(exit)"])
def test_unwritable_standard_error_does_not_end_the_program(redirected: str) -> None:
    done = run_python(
        "[print('so far', file=sys.stderr, flush=True) for _ in range(9)]; print('done')", redirected
    )
    assert (done.stdout, done.returncode) == ("done\n", 0)


def test_closed_stream_number_is_not_given_to_a_file_and_readable_standard_error_gets_the_text() -> None:
    done = run_python("print(open('/dev/null').fileno() > 2)", "0<&- 2>&-")
    assert done.stdout == "True\n"
    assert run_python("print('é', file=sys.stderr)", "2>&1").stdout == "é\n"


@pytest.mark.parametrize("size", ["0", "-5", "1", "abc", "", "80x24", "99999999999", "５"])
def test_size_that_is_no_terminals_is_dropped(size: str) -> None:
    environ = {"COLUMNS": size, "LINES": size, "TERMINAL_WIDTH": size, "TERM": "dumb"}
    drop_unusable_sizes(environ)
    assert environ == {"TERM": "dumb"}
    drop_unusable_sizes(usual := {"COLUMNS": "200", "LINES": "24"})
    assert usual == {"COLUMNS": "200", "LINES": "24"}


def test_command_prints_where_the_terminal_has_no_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "0")
    monkeypatch.setattr(sys, "argv", ["cts", "models"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    assert "gpt" in capsys.readouterr().out


def test_reader_that_has_left_does_not_change_the_exit_code(tmp_path: Path) -> None:
    command = f"{sys.executable} -P -m cts_async"
    for words in (
        "models",
        "models --json",
        "run --help",
        "run --all baseline --limit 1",
    ):
        script = f"{command} {words} | true; echo ${{PIPESTATUS[0]}}"
        done = subprocess.run(
            ["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.stdout == "0\n", (words, done.stderr)
        assert "Traceback" not in done.stderr
    full = subprocess.run(
        ["bash", "-c", f"{command} models > /dev/full"], capture_output=True, text=True, check=False
    )
    assert (full.returncode, full.stderr.count("\n")) == (75, 1)


def in_latin_1(monkeypatch: pytest.MonkeyPatch) -> io.BytesIO:
    """The bytes that reach a standard output in Latin-1, from here to the end of the test."""
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="latin-1", write_through=True))
    return written


def test_unencodable_character_is_printed_as_question_mark(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = in_latin_1(monkeypatch)
    monkeypatch.setattr(sys, "argv", ["cts", "data", "show", "sample", "--id", "s03"])
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as left:
        main()
    assert not left.value.code
    assert b"  q*" in written.getvalue()
    assert b"????" in written.getvalue()


def test_json_is_utf_8_on_a_latin_1_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    written = in_latin_1(monkeypatch)
    print_json({"text": "\u6c49 \u2260 \xe9"})
    assert json.loads(written.getvalue().decode()) == {"text": "\u6c49 \u2260 \xe9"}


def test_file_name_that_is_not_utf_8_is_printed_as_json(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    name = os.fsdecode(b"\xff.jsonl")
    print_json({"files": [name], name: {"lines": 3}})
    assert json.loads(capfdbinary.readouterr().out) == {"files": ["?.jsonl"], "?.jsonl": {"lines": 3}}


class _CtrlC:
    """Is pressed while the commands are being imported."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if name == "cts_async.cli.main":
            raise KeyboardInterrupt
        return


def test_ctrl_c_while_commands_are_imported_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "cts_async.cli.main", raising=False)
    monkeypatch.setattr(sys, "meta_path", [_CtrlC(), *sys.meta_path])
    with pytest.raises(SystemExit) as ended:
        start()
    assert (ended.value.code, capsys.readouterr().err) == (
        75,
        "cts: interrupted before anything was started\n",
    )


def test_start_runs_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["cts", "--version"])
    with pytest.raises(SystemExit):
        start()
    assert capsys.readouterr().out == f"cts {__version__}\n"
