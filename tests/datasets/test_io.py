"""Rows of JSON Lines, CSV and TSV files, and JSON files: bounded, every error located; fields under other names."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async.datasets import io
from cts_async.datasets.io import (
    Fields,
    byte_lines,
    decode,
    parse_json,
    read_bytes,
    read_jsonl,
    read_rows,
    read_table,
    short,
)
from cts_async.errors import InputError, UsageError

# --- Rows of JSON Lines, CSV and TSV files, and JSON files: bounded, and every error located

Write = Callable[..., Path]


def refusal(path: Path, read: Callable[[Path], Iterable[Any]] = read_rows) -> InputError:
    with pytest.raises(InputError) as caught:
        list(read(path))
    assert str(caught.value).startswith(str(path))
    return caught.value


# -- JSON Lines ---------------------------------------------------------------------------------------


def test_rows_have_line_numbers_of_an_editor(write: Write) -> None:
    path = write("a.jsonl", '{"a": 1}\n\n  \t\r\n{"a": "二"}\r\n{"a": null}')
    assert list(read_jsonl(path)) == [(1, {"a": 1}), (4, {"a": "二"}), (5, {"a": None})]


def test_byte_order_mark_is_skipped(write: Write) -> None:
    assert list(read_jsonl(write("a.jsonl", b'\xef\xbb\xbf{"a": 1}\n'))) == [(1, {"a": 1})]
    assert list(read_table(write("a.csv", b"\xef\xbb\xbfa,b\n1,2\n"))) == [(2, {"a": "1", "b": "2"})]


@pytest.mark.parametrize(
    ("content", "line", "says"),
    [
        (b'{"a": 1}\n{"a": 1,}\n', 2, "not valid JSON: trailing comma is not allowed at column 8"),
        (b'{"a": 1}\n\n{"a": "torn', 3, "not valid JSON"),
        (b'{"a":\n{"a": 2}\n', 1, "not valid JSON: unexpected end of data at column 6"),
        (b'{"a": NaN}\n', 1, "not valid JSON"),
        (b'[\n{"a": 1}\n]\n', 1, "one {...} per line is expected"),
        (b'{"a": 1}\n[1, 2]\n', 2, "not a JSON object"),
        (b'"text"\n', 1, "not a JSON object"),
        (b'{"a": 1}\n\x00\x00\x00\x00\n', 2, "NUL byte at byte 9"),
        (b'{"a": 1}\n{"a": "\xb5\xe7"}\n', 2, "not UTF-8: byte 0xb5 at byte 16"),
        (b'\xef\xbb\xbf{"\xff": 1}\n', 1, "not UTF-8: byte 0xff at byte 5"),
        ('{"a": 1}\n'.encode("utf-16"), 1, "UTF-16"),
        ('{"a": 1}\n'.encode("utf-32"), 1, "UTF-32"),
        (b"\x1f\x8b\x08\x00", 1, "is a gzip archive, not text; unpack it first"),
        (b"PK\x03\x04", 1, "is a zip archive, not text; unpack it first"),
        (b"\x80\x04\x95", 1, "is a pickle, not text; none is opened here"),
    ],
)
def test_broken_line_is_located(write: Write, content: bytes, line: int, says: str) -> None:
    error = refusal(write("a.jsonl", content))
    assert error.line == line
    assert says in str(error)


def test_endless_line_is_refused_in_bounded_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(io, "MAX_LINE_BYTES", 1 << 20)
    path = tmp_path / "a.jsonl"
    with path.open("wb") as file:
        file.write(b'{"a": 1}\n{"a": "')
        file.truncate(1 << 30)  # sparse: a gigabyte on one line
    tracemalloc.start()
    error = refusal(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (error.line, peak < 8 << 20) == (2, True)
    assert "longer than 1048576 bytes" in str(error)


def test_missing_file_and_directory_are_refused_with_advice(tmp_path: Path) -> None:
    assert "no such file; check the path" in str(refusal(tmp_path / "none.jsonl"))
    assert "is a directory; name the file in it" in str(refusal(tmp_path))


# -- CSV ----------------------------------------------------------------------------------------------


def test_csv_cells_may_contain_commas_quotes_and_lines(write: Write) -> None:
    """The column without a name is the index that pandas writes."""
    path = write("a.csv", ',id, query\r\n0,1,"a, ""b"""\r\n\r\n1,2,"one\r\n\r\ntwo"\r\n2,3,三\r\n')
    assert list(read_table(path)) == [
        (2, {"id": "1", "query": 'a, "b"'}),
        (4, {"id": "2", "query": "one\r\n\r\ntwo"}),
        (7, {"id": "3", "query": "三"}),
    ]
    assert list(read_table(write("b.csv", 'q\n\n""\n'))) == [(3, {"q": ""})]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_delimiter_of_a_csv_file_is_that_of_its_header(write: Write, delimiter: str) -> None:
    """Spreadsheets write semicolons where the comma is the decimal mark; quoted delimiters do not count."""
    lines = ['"id, ours; theirs\tall"', "query", "weight"], ["q1", '"a, b; c\td"', '"1,5"']
    text = "\n" + "".join(delimiter.join(cells) + "\n" for cells in lines)
    row = {"id, ours; theirs\tall": "q1", "query": "a, b; c\td", "weight": "1,5"}
    assert list(read_table(write("a.csv", text))) == [(3, row)]


@pytest.mark.parametrize(
    ("content", "line", "says"),
    [
        ("", 1, "no header"),
        ("\n\n", 1, "no header"),
        (",,\n1,2,3\n", 1, "no header"),
        ("a,b,a\n", 1, "field 'a': occurs twice in the header"),
        ("a,b\n1,2\n3\n", 3, "has 1 cells where the header names 2"),
        ("a,b\n1,2,3\n", 2, "has 3 cells where the header names 2"),
        ("a,b\r1,2\r", 1, "carriage return"),
        ("a,b\n1,\x00\n", 2, "NUL byte at byte 6"),
        (b"a,b\n1,\xb5\xe7\n", 2, "not UTF-8: byte 0xb5 at byte 6"),
    ],
)
@pytest.mark.parametrize("quoting", [True, False, None])
def test_broken_record_is_located(
    write: Write, content: str | bytes, line: int, says: str, quoting: bool | None
) -> None:
    data = content if isinstance(content, bytes) else content.encode()
    if quoting is None:
        error = refusal(write("a.csv", data))
    else:
        path = write("a.tsv", data.replace(b",", b"\t"))
        error = refusal(path, partial(read_table, format="TSV", quoting=quoting))
    assert error.line == line
    assert says in str(error)


@pytest.mark.parametrize(
    ("content", "line", "says"),
    [
        ('a,b\n"x\ny",2\n1,2,3\n', 4, "has 3 cells where the header names 2"),
        ('a,b\n1,2\n3,"open\n4,5\n', 3, "never closed"),
        ('a,b\n1,2\n"x"y,2\n', 3, "not valid CSV"),
    ],
)
def test_broken_quoted_record_is_located_by_its_first_line(
    write: Write, content: str, line: int, says: str
) -> None:
    error = refusal(write("a.csv", content))
    assert error.line == line
    assert says in str(error)


def test_open_quote_is_reported_within_the_limit(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(io, "MAX_LINE_BYTES", 100)
    error = refusal(write("a.csv", 'a,b\n1,"open\n' + "2,x\n" * 1000))
    assert error.line == 2
    assert "longer than 100 bytes; is a quote left open?" in str(error)


# -- TSV ----------------------------------------------------------------------------------------------


def test_quoted_tsv_cells_may_contain_tabs_quotes_and_lines(write: Write) -> None:
    path = write("a.tsv", 'id\t query\r\n1\t"a\t""b"""\r\n\r\n2\t"one\ntwo, three"\r\n3\tfive 5" disks\r\n')
    assert list(read_table(path, "TSV", quoting=True)) == [
        (2, {"id": "1", "query": 'a\t"b"'}),
        (4, {"id": "2", "query": "one\ntwo, three"}),
        (6, {"id": "3", "query": 'five 5" disks'}),
    ]


def test_without_quoting_a_quote_is_a_character(write: Write) -> None:
    path = write("a.tsv", 'id\tquery\n1\twhat is ""aco""\n2\t"open')
    assert list(read_table(path, "TSV", quoting=False)) == [
        (2, {"id": "1", "query": 'what is ""aco""'}),
        (3, {"id": "2", "query": '"open'}),
    ]


def test_unnamed_columns_at_the_end_may_be_absent(write: Write) -> None:
    path = write("a.tsv", "a\t\tb\t\t\t\n1\tx\t2\t\t\t\n3\ty\t4\n")
    assert list(read_table(path, "TSV", quoting=False)) == [
        (2, {"a": "1", "b": "2"}),
        (3, {"a": "3", "b": "4"}),
    ]
    error = refusal(write("b.tsv", "a\t\t\n1\t\t\n2\t\tx\n"), partial(read_table, format="TSV"))
    assert (error.line, error.problem) == (3, "has 3 cells where the header names 1")


# -- lines --------------------------------------------------------------------------------------------


@given(st.lists(st.text(st.characters(exclude_characters="\n\x00", exclude_categories=["Cs"]))))
def test_lines_and_offsets_add_up_to_the_file(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str]
) -> None:
    data = "\n".join(["first", *texts]).encode()
    path = tmp_path_factory.mktemp("lines") / "a.txt"
    path.write_bytes(data)
    lines = list(byte_lines(path))
    assert "".join(decode(path, line) for line in lines).encode() == data
    assert all(data[line.offset :].startswith(line.raw) for line in lines)
    assert [line.number for line in lines] == list(range(1, len(lines) + 1))


def test_lines_on_the_seam_of_two_reads_are_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(io, "_READ_AT_ONCE", 8)
    path = tmp_path / "a.txt"
    path.write_bytes(b"1234567\n12345678\n123456789\n\nlast")
    lines = [(line.offset, line.raw) for line in byte_lines(path)]
    assert lines == [(0, b"1234567\n"), (8, b"12345678\n"), (17, b"123456789\n"), (27, b"\n"), (28, b"last")]


def json_file_refusal(path: Path) -> InputError:
    return refusal(path, lambda path: parse_json(path, read_bytes(path)))


def test_too_large_file_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "huge.json"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    assert "is larger than 268,435,456 bytes" in str(json_file_refusal(path))


@pytest.mark.parametrize(
    ("content", "line", "says"),
    [
        (b'{"a":\n 1,}', 2, "is not valid JSON"),
        (b'{"a": "1', 1, "is not valid JSON"),
        (b"", 1, "is not valid JSON"),
        (b'{"a": NaN}', 1, "is not valid JSON"),
        (b"[" * 2000, 1, "is not valid JSON"),
        (b'{"a":\n"\xff"}', 2, "is not UTF-8: byte 0xff at byte 7"),
        (b'{"a": "\0"}', 1, "contains a NUL byte"),
        ('{"a": 1}'.encode("utf-16"), 1, "is UTF-16, not UTF-8"),
    ],
)
def test_invalid_json_is_located(write: Write, content: bytes, line: int, says: str) -> None:
    error = json_file_refusal(write("a.json", content))
    assert error.line == line
    assert says in str(error)


def test_repeated_key_is_located(write: Write) -> None:
    error = json_file_refusal(
        write("a.json", '{"x": {"a": 1},\n "y": {"b": "\\"b\\":", "c": {"b": 1},\n "b": 2}}')
    )
    assert (error.line, error.field) == (None, "b")
    assert json_file_refusal(write("a.json", '{"a":1,\n"\\u0061":2}')).field == "a"


JSON = st.recursive(
    st.none() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_any_value_without_repeated_keys_is_parsed(value: Any) -> None:
    assert parse_json(Path("a.json"), json.dumps(value, ensure_ascii=False).encode()) == value


# --- The same field under many names, and a mapping for what no alias covers

FILE = Path("some.jsonl")


@pytest.mark.parametrize(
    ("field", "theirs"),
    [
        ("id", "ID"),
        ("id", "idx"),
        ("fused_query", "Fused Query"),
        ("fused_query", "clear_query"),
        ("fused_query", "OQ"),
        ("blurred_query", "query_blurred"),
        ("blurred_query", "BQ"),
        ("answer", "candidate_answer"),
        ("answer", "response"),
    ],
)
def test_common_names_are_understood(field: str, theirs: str) -> None:
    assert Fields(FILE).value({"other": 1, theirs: "x"}, field, 1) == "x"


def test_preferred_alias_wins_regardless_of_position() -> None:
    fields = Fields(FILE)
    assert fields.text({"output": "raw", "answer": "final"}, "answer", 1) == "final"
    assert fields.text({"output": "raw"}, "answer", 2) == "raw"


def test_missing_field_is_reported_with_existing_ones() -> None:
    with pytest.raises(InputError) as caught:
        Fields(FILE).text({"topic": "a", "facet": "b"}, "fused_query", 7)
    assert (caught.value.line, caught.value.field) == (7, "fused_query")
    assert "'topic', 'facet'" in str(caught.value)
    assert "--field fused_query=NAME" in str(caught.value)


def test_mapped_name_wins_may_be_a_path_and_must_be_there() -> None:
    fields = Fields.of_data(FILE, {"fused_query": "facet", "answer": "result.text"})
    assert fields.text({"fused_query": "not this", "Facet": "this"}, "fused_query", 1) == "this"
    assert fields.text({"result": {"text": "42"}}, "answer", 1) == "42"
    with pytest.raises(InputError, match=r"result\.text.*is null"):
        fields.text({"result": {"other": "42"}}, "answer", 1)
    with pytest.raises(InputError, match=r"there is no 'facet', which is mapped to it.*'query'"):
        fields.text({"query": "x"}, "fused_query", 1)


def test_gold_file_follows_a_mapping_if_it_has_the_field() -> None:
    fields = Fields.of_gold(FILE, {"fused_query": "Q1"})
    assert fields.text({"Q1": "a", "fused_query": "b"}, "fused_query", 1) == "a"
    assert fields.text({"fused_query": "b"}, "fused_query", 1) == "b"


def test_gold_mapping_binds_the_gold_file_only() -> None:
    mapping = {"gold.fused_query": "Q1"}
    assert Fields.of_data(FILE, mapping).text({"fused_query": "b"}, "fused_query", 1) == "b"
    with pytest.raises(InputError, match="Q1"):
        Fields.of_gold(FILE, mapping).text({"fused_query": "b"}, "fused_query", 1)


def test_invalid_mapping_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match=r"fused_quary=OQ.*fused_query"):
        Fields.of_data(FILE, {"fused_quary": "OQ"})
    with pytest.raises(UsageError, match="name is missing"):
        Fields.of_data(FILE, {"id": " "})


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("  ", "is empty"),
        (3, "is a number"),
        (["x"], "is a list"),
        (True, "is true or false"),
        (None, "is null"),
    ],
)
def test_query_must_be_text(value: object, says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        Fields(FILE).text({"OQ": value}, "fused_query", 3)
    assert (caught.value.line, caught.value.field) == (3, "OQ")


def test_ids_are_text_or_whole_numbers() -> None:
    fields = Fields(FILE)
    assert [fields.identifier({"id": i}, 1) for i in (7, " a7 ", "", None)] == ["7", "a7", None, None]
    for wrong in (1.5, True, ["7"]):
        with pytest.raises(InputError, match="must be text or a whole number"):
            fields.identifier({"id": wrong}, 1)


def test_value_is_quoted_and_cut() -> None:
    assert short("a\x1bb") == r"'a\x1bb'"
    assert short(1.5) == "1.5"
    assert short("x" * 60) == repr("x" * 60)
    assert short("x" * 61) == repr("x" * 59 + "…")
    assert short([1] * 1000, 8) == "[1, 1, …"
