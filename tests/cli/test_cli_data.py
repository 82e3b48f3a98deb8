"""`cts data list | show | validate | convert` as typed; in this process, as each takes a moment only."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from made_clariq import REWORDED, clariq_file
from typed_commands import Cts, typed


@pytest.fixture
def cts_data(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Cts]:
    """`cts data WORDS`, on 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    with typed(monkeypatch, capsys) as cts:
        yield partial(cts, "data")


def test_the_kinds_are_listed_for_people_and_programs(cts_data: Cts) -> None:
    code, out, _ = cts_data("list")
    assert code == 0
    assert all(name in out for name in ("hard518:PATH", "qulac:PATH", "mimics-duo:DIR", "CC BY 4.0"))
    assert all(len(line.rstrip()) <= 80 for line in out.splitlines())
    names = [about["name"] for about in json.loads(cts_data("list", "--json")[1])]
    assert [*names[:2], names[-1]] == ["sample", "hard518", "file"]


def test_the_sample_is_shown(cts_data: Cts) -> None:
    code, out, _ = cts_data("show", "sample", "-n", "1")
    assert code == 0
    assert "instances" in out
    assert "Brack Island ferry timetable" in out
    found = json.loads(cts_data("show", "sample", "-n", "2", "--json")[1])
    assert (found["instances"], [item["id"] for item in found["items"]]) == (28, ["s01", "s02"])
    # One instance is shown whole.
    code, out, _ = cts_data("show", "sample", "--id", "s01")
    assert (code, "id N5, " in out) == (0, True)
    assert json.loads(cts_data("show", "sample", "--id", "s01", "--json")[1])["nuggets"][0]["weight"] == 3.0
    code, _, err = cts_data("show", "sample", "--id", "nobody")
    assert (code, "--id nobody" in err) == (2, True)


def test_control_characters_and_markup_in_texts_are_harmless(cts_data: Cts, tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text(json.dumps({"id": "a\x1b", "fused_query": "[red]\x1b[2Jf", "blurred_query": "b\rc"}))
    code, out, _ = cts_data("show", path)
    assert code == 0
    assert "[red]?[2Jf" in out
    assert "\x1b" not in out
    assert "\r" not in out


def test_sound_dataset_is_confirmed_and_an_unsound_one_refused_in_one_line(
    cts_data: Cts, tmp_path: Path
) -> None:
    code, out, _ = cts_data("validate", "sample")
    assert code == 0
    assert out.startswith("sample: sound. instances: 28; ")
    assert "documents: 398" in out
    assert len(out.splitlines()) == 1
    assert json.loads(cts_data("validate", "sample", "--json")[1])["sound"] is True
    path = tmp_path / "q.csv"
    path.write_text("fused_query,blurred_query\nf,b\ng,\n")
    code, out, err = cts_data("validate", path, "--json")
    assert (code, out) == (2, "")
    assert err == f"cts: {path}:3: field 'blurred_query': is empty\n"


def test_other_kinds_of_files_are_validated(cts_data: Cts, tmp_path: Path) -> None:
    gold = tmp_path / "gold.jsonl"
    gold.write_text('{"id": "a", "nuggets": [{"text": "x"}]}\n')
    assert "sound. records: 1" in cts_data("validate", gold, "--as", "gold")[1]
    assert "line" not in cts_data("validate", gold, "--as", "gold")[2]
    code, _, err = cts_data("validate", gold, "--as", "corpus")
    assert (code, "gold.jsonl:1: field 'url'" in err) == (2, True)
    assert cts_data("validate", gold, "--as", "gold", "--gold", gold)[0] == 2


def test_converted_dataset_can_be_read(cts_data: Cts, tmp_path: Path) -> None:
    to = tmp_path / "sample.csv"
    code, out, err = cts_data("convert", "sample", "--to", to, "--limit", "3")
    assert (code, out, err) == (0, "", f"{to}: 3 instances from sample\n")
    assert "instances: 3;" in cts_data("validate", to)[1]
    code, _, err = cts_data("convert", "sample", "--to", to)
    assert (code, "--force" in err) == (2, True)


def test_second_request_text_in_clariq_is_noted_once(cts_data: Cts, tmp_path: Path) -> None:
    tsv = clariq_file(tmp_path / "test_with_labels.tsv", REWORDED)
    note = f"{tsv}:6: topic '7' has a second request text; the first is used"
    spec, to = f"clariq:{tmp_path}", tmp_path / "clariq.jsonl"
    for words in (("validate", spec), ("convert", spec, "--to", to)):
        code, _, err = cts_data(*words)
        assert (code, err.count(f"note: {note}\n")) == (0, 1), err
    assert [json.loads(line)["blurred_query"] for line in to.read_text().splitlines()][:2] == ["ferries"] * 2
    assert json.loads(cts_data("show", spec, "--json")[1])["notes"] == [note]


def test_commands_are_listed_in_the_order_of_use(cts_data: Cts) -> None:
    out = cts_data("--help")[1]
    places = [out.index(f"\n  {name} ") for name in ("list", "show", "validate", "convert", "qulac")]
    assert places == sorted(places)


def test_full_disk_behind_standard_output_is_one_line() -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "cts_async.cli.main", "data", "list"], stdout=full, stderr=subprocess.PIPE
        )
    assert done.returncode == 75
    said = b"cannot write (No space left on device); make room and type the same command again"
    assert done.stderr == b"cts: standard output, or a file: " + said + b"\n"
