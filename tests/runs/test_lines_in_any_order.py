"""Workers write results as they finish: the same results in another order make the same report, byte for byte."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from pathlib import Path

from made_runs import Row, changed_manifest, made_run
from written_files import write_lines

from cts_async.analysis.summary import summarise_run
from cts_async.pages.report import Origin
from cts_async.pages.report_files import make_report
from cts_async.tables.comparison import compare_runs, comparison_json
from cts_async.tables.diagnosis import diagnose_named, report_json
from cts_async.tables.summary import write_summary

ORIGIN = Origin("cts report runs", datetime(2026, 11, 21, 12, 30, tzinfo=UTC))
QUESTIONS = ["Which year do you mean?", "Which city do you mean?", "您想查询哪个城市？", "是给初学者的吗？"]
WORDS = ["rules", "2023", "in Berlin", "北京", "2024", "topic"]
TOOLS = [
    {"tool": tool, "host": host, "reason": "timeout", "n": 1}
    for tool in ("search", "visit")
    for host in "abcdefghijkl"
]


def row(rng: random.Random, i: int, k: int) -> Row:
    id, weights = f"q{i}", [1 + (i + j) % 3 for j in range(1 + i % 7)]
    if rng.random() < 0.1:
        return Row(id, error=rng.choice(["clarify/1", "judge"]))
    labels = {judge: "".join(rng.choice("fpn") for _ in weights) for judge in ("ernie", "gpt", "lexical")}
    questions = rng.sample(QUESTIONS, k)
    answers = [rng.choice(["unknown", "in 2024"]) for _ in questions]
    rewritten = " ".join(rng.choices(WORDS, k=4)) if k else ""
    return Row(id, questions, answers, labels=labels, weights=weights, rewritten_query=rewritten)


def with_steps(directory: Path, rng: random.Random) -> None:
    """Calls of five priced models, and searches of which many failed once each."""
    models = [f"m{i}" for i in range(5)]
    with changed_manifest(directory) as manifest:
        manifest["prices"] = {model: {"input": 0.1 + i / 7, "output": 0.7} for i, model in enumerate(models)}
    steps = [
        {
            "key": f"{i}",
            "instance": f"q{i}",
            "model": models[i % 5],
            "usage": {"input": rng.randint(1, 4000), "output": rng.randint(1, 900)},
            "response": {"text": "", "served_model": rng.choice([models[i % 5], "another"])},
        }
        for i in range(60)
    ]
    write_lines(directory / "steps.jsonl", *steps)
    lines = [json.loads(line) for line in (directory / "results.jsonl").read_text().splitlines()]
    for line in lines:
        line["search"] = {"tools": {"searches": 3, "visits": 3, "failed": [rng.choice(TOOLS)]}}
    write_lines(directory / "results.jsonl", *lines)


def made(folder: Path) -> list[Path]:
    rng = random.Random(7)
    systems = [("orig", 0, ""), ("gpt-k1", 1, ""), ("gpt-k1", 1, "kimi"), ("claude-k2", 2, "")]
    runs = [
        made_run(
            folder,
            label=label,
            rows=[row(rng, i, k) for i in range(40)],
            players={"support": support} if support else {},
            name=f"made-{label}+support-{support}" if support else None,
        )
        for label, k, support in systems
    ]
    for directory in runs:
        with_steps(directory, rng)
    return runs


def compared(words: list[str]) -> dict[str, bytes]:
    """What `cts compare` and `cts diagnose` print with --json."""
    values = {
        "compare": comparison_json(compare_runs(words)),
        "diagnose": report_json(diagnose_named(words)),
    }
    return {name: json.dumps(value).encode() for name, value in values.items()}


def reported(words: list[str], out: Path) -> dict[str, bytes]:
    """The page and all tables of `cts report`, by file name."""
    out.mkdir(exist_ok=True)
    list(make_report(words, ORIGIN, out=out / "page.html", tables=out / "tables"))
    return {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*.*") if path.is_file()}


def everything(folder: Path, runs: list[Path], out: Path) -> dict[str, bytes]:
    """The page, all tables, and what --json has, by name."""
    summaries = {directory.name: write_summary(summarise_run(directory)) for directory in runs}
    words = [str(folder)]
    return {**reported(words, out), **compared(words), "summaries": json.dumps(summaries).encode()}


def shuffled(folder: Path, seed: int) -> None:
    """Put the lines of every file into another order."""
    for path in sorted(folder.rglob("*.jsonl")):
        lines = path.read_text().splitlines(keepends=True)
        random.Random(seed).shuffle(lines)
        path.write_text("".join(lines))


def test_report_does_not_depend_on_order_of_results_or_runs(tmp_path: Path) -> None:
    folder, before, after = (tmp_path / name for name in ("runs", "before", "after"))
    for out in (folder, before, after):
        out.mkdir()
    runs = made(folder)
    expected = everything(folder, runs, before)
    shuffled(folder, 1)
    found = everything(folder, runs, after)
    assert len(expected) > 40
    assert {name for name in expected if found[name] != expected[name]} == set()
    words = [*map(str, runs[::-1])]
    turned = {**reported(words, tmp_path / "turned"), **compared(words)}
    data = {name for name in turned if name.startswith("tables") or name in ("compare", "diagnose")}
    assert {name for name in data if turned[name] != expected[name]} == set()


def test_diagnosis_does_not_depend_on_order_of_files_or_lines(tmp_path: Path) -> None:
    rng = random.Random(2)
    files = [tmp_path / f"{name}.jsonl" for name in ("a", "b")]
    for file in files:
        asked = [(question, rng.choice(["unknown", "in 2024"])) for question in QUESTIONS * 3]
        lines = [
            {"id": f"q{i}", "questions": [question], "answers": [answer]}
            for i, (question, answer) in enumerate(asked)
        ]
        write_lines(file, *lines)
    expected = report_json(diagnose_named([*map(str, files)]))
    shuffled(tmp_path, 1)
    assert report_json(diagnose_named([*map(str, files[::-1])])) == expected
