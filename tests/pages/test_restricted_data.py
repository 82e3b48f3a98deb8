"""Runs over data whose text must not be published: every export says so, and a masked report has none of it."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest
from interactcomp_runs import N, run_tasks
from made_interactcomp import made_tasks
from written_files import read_lines

from cts_async.cli.report import report
from cts_async.cli.view import view
from cts_async.pages.contents import MASKED
from cts_async.tables.export import export_runs
from cts_async.viewer.library import Library
from cts_async.viewer.pages import Endpoints

WARNING = "InteractComp is for non-commercial research, and its text must not be published in plain form"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs over tasks in both languages, one of whose instances failed with its reply in the message."""
    folder = tmp_path_factory.mktemp("restricted")
    runs, _ = run_tasks(folder)
    path = runs["gold"] / "results.jsonl"
    first, *others = read_lines(path)
    quoted = f"expected one line, got {first['answer']}"
    failed = {name: first[name] for name in ("id", "system", "fused_query", "blurred_query")}
    failed["error"] = {"step": "search", "kind": "unusable_output", "message": quoted}
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in [failed, *others]))
    return folder / "runs"


def texts_of(runs: Path) -> Iterator[str]:
    """Every text of the data, and every one that was made of it."""
    for task in made_tasks(N):
        yield from (
            task["question"],
            task["context"],
            task["answer"],
            f"Ondrej{task['id']}",
            f"Varn{task['id']}",
        )
    for path in runs.glob("*/results.jsonl"):
        for line in read_lines(path):
            for name in ("fused_query", "blurred_query", "rewritten_query", "answer"):
                # A short beginning, too: a text may be cut.
                text = line.get(name) or ""
                yield from filter(None, (text, text[:20]))
            yield from line.get("questions") or ()
            yield from line.get("answers") or ()


def written(folder: Path) -> str:
    contents = [unescape(path.read_bytes().decode()) for path in sorted(folder.rglob("*")) if path.is_file()]
    return "\n".join(contents)


def test_masked_report_has_no_text_in_any_file(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown, hidden = tmp_path / "shown", tmp_path / "hidden"
    for target, mask in ((shown, False), (hidden, True)):
        target.mkdir()
        report([str(folder)], out=target / "report.html", tables=target / "tables", mask=mask)
        assert WARNING in capsys.readouterr().out
        assert WARNING in (target / "report.html").read_text()
    unmasked, masked = written(shown), written(hidden)
    texts = set(texts_of(folder))
    assert len(texts) > 8 * N
    # The test can fail: the same report without --mask has most of them.
    assert sum(text in unmasked for text in texts) > 4 * N
    assert "expected one line, got" in unmasked
    assert f"The answer is {made_tasks(1)[0]['answer']}" in unmasked
    assert [text for text in texts if text in masked] == []
    assert MASKED in masked
    assert MASKED not in unmasked
    # Numbers stay: the same tables with the same systems.
    names = [path.name for path in sorted((hidden / "tables").iterdir())]
    assert names == [path.name for path in sorted((shown / "tables").iterdir())]


@pytest.mark.parametrize("layout", ["release", "hf", "csv"])
def test_export_warns(folder: Path, tmp_path: Path, layout: str) -> None:
    exported = export_runs([str(folder)], layout, tmp_path / "out")
    assert exported.remarks[0].startswith(f"{WARNING}. ")
    if layout == "hf":
        assert "**Not to be published.**" in (tmp_path / "out" / "README.md").read_text()


def test_exported_pages_warn_on_the_command_line_and_in_each_page(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    view(folder, export=tmp_path / "site")
    assert WARNING in " ".join(capsys.readouterr().out.split())
    data = [path.read_text() for path in (tmp_path / "site" / "data").iterdir()]
    n_runs = len(list(folder.iterdir()))
    # Each run's page and each instance's.
    assert sum("restriction" in text for text in data) >= n_runs * (1 + N)


def test_lists_of_instances_warn_as_pages_and_as_csv(folder: Path) -> None:
    names = sorted(path.name for path in folder.iterdir() if path.is_dir())[:2]
    pages = Endpoints(Library(folder))
    columns = pages.matrix({"runs": ",".join(names)})["runs"]
    assert [column["restriction"].startswith(WARNING) for column in columns] == [True, True]
    for parameters in ({"run": names[0]}, {"runs": ",".join(names)}):
        answer = pages.csv(parameters)
        assert answer is not None
        rows = list(csv.DictReader(b"".join(answer[1]).decode().splitlines()))
        assert {row["id"] for row in rows} == {"1", "2", "3", "4"}
        assert all(row["caveat"].startswith(WARNING) for row in rows)
