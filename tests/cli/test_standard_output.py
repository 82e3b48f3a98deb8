"""What is printed where standard output's encoding, or a file's name, is not UTF-8."""

from __future__ import annotations

import io
import json
import os
import sys

import pytest

from cts_async.cli.main import main
from cts_async.report.standard_output import print_json


def in_latin_1(monkeypatch: pytest.MonkeyPatch) -> io.BytesIO:
    """The bytes that reach a standard output in Latin-1, from here to the end of the test."""
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="latin-1", write_through=True))
    return written


def test_a_table_has_a_question_mark_for_what_the_terminal_cannot_show(
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


def test_json_is_utf_8_whatever_the_terminal_has(monkeypatch: pytest.MonkeyPatch) -> None:
    written = in_latin_1(monkeypatch)
    print_json({"text": "\u6c49 \u2260 \xe9"})
    assert json.loads(written.getvalue().decode()) == {"text": "\u6c49 \u2260 \xe9"}


def test_a_file_s_name_that_is_not_utf_8_is_printed_as_json_all_the_same(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    name = os.fsdecode(b"\xff.jsonl")
    print_json({"files": [name], name: {"lines": 3}})
    assert json.loads(capfdbinary.readouterr().out) == {"files": ["?.jsonl"], "?.jsonl": {"lines": 3}}
