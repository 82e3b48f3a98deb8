"""Runs over data whose text must not be published: every export says so, and a masked report has none of it."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest
from fake_provider import provider_process
from interactcomp_runs import N, config_file, run_tasks
from made_interactcomp import made_tasks
from typed_commands import Cts, typed
from written_files import read_lines

from cts_async.cli.report import report
from cts_async.cli.view import view
from cts_async.datasets import open_dataset
from cts_async.pages.contents import MASKED
from cts_async.runs.manifest import manifest_of
from cts_async.tables.export import export_runs
from cts_async.viewer.library import Library
from cts_async.viewer.pages import Endpoints

WARNING = "InteractComp is for non-commercial research, and its text must not be published in plain form"


@pytest.fixture
def cts(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Cts]:
    with typed(monkeypatch, capsys) as cts:
        yield cts


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


def test_candidates_and_gold_carry_the_warning_into_what_is_made_of_them(
    folder: Path, tmp_path: Path, cts: Cts
) -> None:
    export_runs([str(folder)], "release", tmp_path / "release")
    candidates = next((tmp_path / "release" / "candidates").glob("orig__*.jsonl"))
    lines = list(read_lines(candidates))
    assert all(line["not_to_be_published"] == WARNING for line in lines)
    gold, clean = tmp_path / "gold.jsonl", tmp_path / "clean.jsonl"
    nuggets = [{"id": "N1", "text": "It is at the lake.", "weight": 1}]
    rows = [{"id": line["id"], "fused_query": line["fused_query"], "nuggets": nuggets} for line in lines]
    gold.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = cts(
        "judge",
        "--gold",
        gold,
        "--candidates",
        candidates,
        "--judge",
        "lexical",
        "--out",
        tmp_path / "judged",
    )
    assert WARNING in " ".join(done.out.split())
    assert manifest_of(tmp_path / "judged").restriction.startswith(WARNING)
    # A run's directory in the place of a file of candidates says it, too; other answers do not.
    run = next(path for path in folder.iterdir() if "orig" in path.name)
    for answers, warned in ((run, True), (clean, False)):
        clean.write_text(
            "".join(json.dumps({"id": row["id"], "answer": "At the lake."}) + "\n" for row in rows)
        )
        out = tmp_path / f"judged-{answers.name}"
        done = cts("judge", "--gold", gold, "--candidates", answers, "--judge", "lexical", "--out", out)
        assert bool(manifest_of(out).restriction) == warned
        assert (WARNING in " ".join(done.out.split())) == warned
    # Gold that says it makes a run over whatever queries restricted.
    queries = tmp_path / "queries.jsonl"
    queries.write_text("".join(json.dumps(row | {"blurred_query": "lake"}) + "\n" for row in rows))
    assert open_dataset(str(queries), gold).restriction == ""
    gold.write_text("".join(json.dumps(row | {"not_to_be_published": "Keep\nit"}) + "\n" for row in rows))
    assert open_dataset(str(queries), gold).restriction == "Keep it"


def test_gold_of_restricted_data_says_so_in_each_line(tmp_path: Path, cts: Cts) -> None:
    run_tasks(tmp_path, references=("orig",))
    with provider_process(unknown_share=0.0) as provider:
        config = config_file(tmp_path, provider.url)
        words = ("--data", f"interactcomp:{tmp_path / 'tasks.jsonl'}", "--corpus", tmp_path / "corpus.jsonl")
        out, runs = tmp_path / "gold.jsonl", tmp_path / "gold-runs"
        done = cts(
            "gold",
            *words,
            "--limit",
            2,
            "--all",
            "fake",
            "--config",
            config,
            "--out",
            out,
            "--runs-dir",
            runs,
        )
    assert done.code == 0, done.err
    assert WARNING in " ".join(done.out.split())
    lines = list(read_lines(out))
    assert [line["not_to_be_published"] for line in lines] == [WARNING] * 2
    # What gold is extracted from is no answer that is right or wrong: nobody asks how sure it is.
    assert not any("Confidence" in path.read_text() for path in runs.glob("*/prompts/agent.*"))


def test_pages_say_how_sure_the_agent_was(folder: Path, tmp_path: Path) -> None:
    run = next(path for path in folder.iterdir() if "orig" in path.name)
    library = Library(folder)
    stated = {}
    for line in read_lines(run / "results.jsonl"):
        page = Endpoints(library).instance({"run": run.name, "id": line["id"]})
        stated[line["id"]] = page["confidence"]
        assert page["confidence"] == line["confidence"]
    assert any(confidence is not None for confidence in stated.values())
    report([str(folder)], out=tmp_path / "report.html")
    html = (tmp_path / "report.html").read_text()
    assert "<dt>Stated confidence</dt>" in html


def test_dataset_card_describes_domain_and_confidence_where_there_are_any(
    folder: Path, tmp_path: Path
) -> None:
    export_runs([str(folder)], "hf", tmp_path / "out")
    card = (tmp_path / "out" / "README.md").read_text()
    rows = list(read_lines(tmp_path / "out" / "instances.jsonl"))
    assert "| instances | domain |" in card
    assert {"domain", "confidence"} <= rows[0].keys()
    assert {row["domain"] for row in rows} - {None} == {task["domain"] for task in made_tasks(N)}
