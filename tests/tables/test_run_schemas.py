"""The JSON Schemas of a run's files describe every field of real runs, and refuse files that are wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from asking_runs import ANSWER, SEARCH, Models, asked_run, asking
from custom_roles import played
from fake_provider import FakeProvider, Settings
from golden_world import unpack
from jsonschema import Draft202012Validator
from typed_commands import cts_in
from written_files import write_lines

from cts_async.analysis.summary import summarise_run
from cts_async.engine.journal import read_records
from cts_async.runs import manifest
from cts_async.tables.schemas import run_schemas
from cts_async.tables.summary import write_summary

SCHEMAS = {name.removesuffix(".schema.json"): json.loads(text) for name, text in run_schemas().items()}
KINDS = {
    "run.json": "run",
    "summary.json": "summary",
    "steps.jsonl": "steps",
    "results.jsonl": "results",
    "per_item.jsonl": "judgments",
}


def closed(schema: Any) -> Any:
    """The schema with no other fields allowed than those it describes."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: closed(one) for name, one in schema.items()}
    return (
        {**found, "additionalProperties": False}
        if found.get("type") == "object" and "properties" in found
        else found
    )


STRICT = {name: Draft202012Validator(closed(deepcopy(schema))) for name, schema in SCHEMAS.items()}


def files_of_runs(folder: Path) -> Iterator[tuple[Path, str]]:
    for path in sorted(folder.rglob("*.json*")):
        if (path.parent.parent / "run.json").exists() and path.parent.name == "judgments":
            yield path, "judgments"
        elif (path.parent / "run.json").exists() and path.name in KINDS:
            yield path, KINDS[path.name]


def problems(folder: Path) -> tuple[set[str], list[str]]:
    """Return the kinds of files that were found, and what is wrong with them."""
    kinds, found = set[str](), list[str]()
    for path, kind in files_of_runs(folder):
        lines = read_records(path) if path.suffix == ".jsonl" else [json.loads(path.read_text("utf-8"))]
        for line in lines:
            kinds.add(kind)
            found += [
                f"{path}: {one.json_path}: {one.message[:300]}" for one in STRICT[kind].iter_errors(line)
            ]
    return kinds, found


def described_fields(part: type) -> set[str]:
    return {field.alias or name for name, field in vars(part)["__pydantic_fields__"].items()}


def test_files_of_runs_that_ask_are_described(tmp_path: Path) -> None:
    (questions := tmp_path / "gpt.jsonl").write_text('{"id": "1", "questions": ["Which season?"]}\n')
    turns = [ANSWER, SEARCH, asking("Which season?", "For whom?"), asking("More?"), ANSWER]
    models = Models(turns, lambda question: "winter" if "season" in question else "unknown")
    run = asked_run(
        tmp_path,
        models,
        ask=("before", "during", "both"),
        models=("local",),
        given_questions=(questions,),
        inject_at=(0.0, 0.5),
        max_asks=2,
        min_asks=1,
    )
    write_summary(summarise_run(run))
    summary = json.loads((run / "summary.json").read_text())
    # An answer whose judge failed keeps what was asked.
    (line,) = read_records(run / "results.jsonl")
    failed = {name: line[name] for name in line if name not in ("nuggets", "restore_score_100")}
    error = {"step": "judge/lexical", "kind": "http", "message": "500"}
    write_lines(run / "results.jsonl", line, failed | {"id": "2", "error": error})
    kinds, found = problems(tmp_path / "runs")
    assert found == []
    assert kinds == {"run", "summary", "steps", "results"}
    assert summary["asks"] == {
        "n": 2,
        "per_instance": 2.0,
        "unknown_share": 0.5,
        "without_question": 0,
        "refused": 1,
        "early_answers": 1,
    }
    assert summary["ua_unknown_rate"] is None, "nobody was asked before the search"


def test_schema_of_the_manifest_describes_what_its_reader_reads() -> None:
    properties = SCHEMAS["run"]["properties"]
    definitions = SCHEMAS["run"]["$defs"]
    assert described_fields(manifest.Manifest) - {"directory", "raw"} <= properties.keys()
    for part in (manifest.Identity, manifest.DataIdentity, manifest.DataFiles, manifest.Session):
        assert described_fields(part) <= definitions[f"{part.__name__}Json"]["properties"].keys()


def test_schemas_are_valid() -> None:
    assert set(SCHEMAS) == {"run", "steps", "results", "judgments", "summary"}
    for schema in SCHEMAS.values():
        Draft202012Validator.check_schema(schema)


def test_baseline_runs_and_judged_candidates(tmp_path: Path) -> None:
    run = cts_in(
        tmp_path, "run", "--all", "baseline", "-m", "baseline", "-k", "2", "--gold-query", "--limit", "3"
    )
    assert run.returncode == 0, run.stderr
    judged = "judge --gold gold.jsonl --candidates a.jsonl --out judged --judge lexical"
    nuggets = [{"id": "N1", "text": "nine", "weight": 3}]
    write_lines(tmp_path / "gold.jsonl", *[{"id": id, "gold": {"nuggets": nuggets}} for id in ("q1", "q2")])
    (tmp_path / "a.jsonl").write_text('{"id":"q1","answer":"at nine"}\n{"id":"q2","answer":null}\n')
    assert cts_in(tmp_path, *judged.split()).returncode == 1
    assert problems(tmp_path) == ({"run", "steps", "results", "judgments", "summary"}, [])


def test_runs_with_a_provider_that_fails(tmp_path: Path) -> None:
    """Retried, refused and answered calls; some instances fail."""
    faults = {"429": 0.1, "500": 0.1, "reset": 0.1}
    lines = played(
        tmp_path, "fake", FakeProvider(Settings(faults=faults, refuses="rewrite")), every_role="fake", limit=4
    )
    assert any("error" in line for line in lines)
    kinds, found = problems(tmp_path)
    assert kinds >= {"run", "steps", "results"}
    assert found == []


def test_conversations_built_gold_failures_and_interrupted_runs(tmp_path: Path) -> None:
    """The kept campaign has runs of every command."""
    unpack("0.7.0", tmp_path)
    kinds, found = problems(tmp_path)
    assert kinds == {"run", "steps", "results", "judgments", "summary"}
    assert found == []


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        ("results", {"id": "a", "system": "s", "fused_query": "f", "blurred_query": "b"}),
        ("results", {"id": 1, "system": "s", "fused_query": "f", "blurred_query": "b", "error": {}}),
        ("judgments", {"id": "a", "judge": "j", "nuggets": [{"id": "N1", "weight": 0, "coverage": "full"}]}),
        ("steps", {"key": "0" * 32, "ok": True, "instance": "a", "step": "clarify", "time": 1.0}),
        ("summary", {"n": 1}),
        ("run", {"identity": {"k": -1}, "n_expected": 1, "version": "0", "sessions": []}),
    ],
)
def test_wrong_lines_are_refused(kind: str, wrong: dict[str, Any]) -> None:
    assert not Draft202012Validator(SCHEMAS[kind]).is_valid(wrong)
