"""Run directories that somebody else made: whatever their JSON holds, a command ends with its code and a clear line."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from typed_commands import cts_in

KEPT: Final = 3
"""Instances of the run that is mutated."""
SHORT: Final = 20_000
"""Characters that a command may print, whatever it reads."""


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run with models, its orig, and a run of the baseline; each of a few instances."""
    folder = tmp_path_factory.mktemp("sound")
    assert cts_in(folder, "demo", "--no-view", "--out", "demo").returncode == 0
    for name, kept in (("sample-made-up-a-k3+all-made-up", "m"), ("sample-orig+all-made-up", "orig")):
        (folder / "runs").mkdir(exist_ok=True)
        _shorten((folder / "demo" / name).rename(folder / "runs" / kept))
    shutil.rmtree(folder / "demo")
    assert cts_in(folder, *RESUME).returncode == 0
    return folder


def _shorten(run: Path) -> None:
    """Keep the first instances of a run."""
    results = (run / "results.jsonl").read_bytes().splitlines(keepends=True)[:KEPT]
    ids = {json.loads(line)["id"] for line in results}
    for path in [run / "results.jsonl", run / "steps.jsonl", *(run / "judgments").glob("*.jsonl")]:
        lines = path.read_bytes().splitlines(keepends=True)
        records = [(line, json.loads(line)) for line in lines]
        kept = [line for line, record in records if record.get("instance", record.get("id")) in ids]
        path.write_bytes(b"".join(kept))
    manifest = json.loads((run / "run.json").read_bytes())
    (run / "run.json").write_text(json.dumps({**manifest, "n_expected": KEPT}))


RESUME: Final = ("run", "--all", "baseline", "-k", "2", "--limit", "2", "--name", "b", "--no-orig", "-q")
COMMANDS: Final[Mapping[str, tuple[str, ...]]] = {
    "audit": ("audit", "runs"),
    "report": ("report", "runs", "--out", "report.html"),
    "diagnose": ("diagnose", "runs"),
    "compare": ("compare", "runs"),
    "status": ("status", "runs"),
    "view": ("view", "runs", "--export", "pages"),
    "export": ("export", "runs", "--layout", "csv", "--out", "tables"),
    "runs": ("runs", "runs"),
    "runs --exact": ("runs", "list", "--exact"),
    "runs diff": ("runs", "diff", "runs/orig", "runs/m"),
    "runs rm": ("runs", "rm", "m", "--yes"),
    "judge": ("judge", "runs/m", "--judge", "lexical"),
    "run": RESUME,
    "plan": ("plan", *RESUME[1:-1]),
    "replay": (*RESUME[:-4], "r", "--no-orig", "-q", "--replay", "runs/m"),
}


def ended_well(folder: Path, command: str) -> str:
    """Run a command over a folder's runs; what it printed to standard error. Its exit code is one that is documented."""
    done = cts_in(folder, *COMMANDS[command])
    assert done.returncode in (0, 1, 2, 75), done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stdout) + len(done.stderr) < SHORT
    assert "\x1b" not in done.stdout + done.stderr
    if done.returncode == 2:
        assert done.stderr.startswith("cts: ")
    return done.stderr


# --- Known cases

NESTED: Final = {levels: json.loads("[" * levels + "]" * levels) for levels in (90, 300)}
MANIFESTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "models": {"identity": {"models": None}},
    "spec": {"data": {"spec": ["a"]}},
    "tools": {"tools": 5},
    "deep": {"identity": {"models": {"agent": NESTED[300]}}},
    "identity": {"identity": "absent"},
    "players": {"players": {"agent": "x" * 500_000}},
    "keys": {"identity": {f"key-{n}": n for n in range(5_000)}},
    "price": {"prices": {"made-up": {"input": -5.0, "output": -5.0}}},
}


@pytest.mark.parametrize("command", ["audit", "report", "diagnose", "view", "run", "runs", "runs diff"])
@pytest.mark.parametrize("name", MANIFESTS)
def test_manifest_of_another_form_is_one_clear_line(
    sound: Path, tmp_path: Path, name: str, command: str
) -> None:
    folder = tmp_path / "w"
    shutil.copytree(sound, folder)
    path = folder / "runs" / ("b" if command == "run" else "m") / "run.json"
    manifest = json.loads(path.read_bytes())
    for field, changes in MANIFESTS[name].items():
        if isinstance(changes, dict) and isinstance(manifest.get(field), dict):
            manifest[field].update(changes)
        elif changes == "absent":
            del manifest[field]
        else:
            manifest[field] = changes
    path.write_text(json.dumps(manifest))
    message = ended_well(folder, command)
    if name in ("spec", "tools", "deep") and command in ("audit", "run"):
        assert "run.json" in message


# --- Mutations

VALUES: Final[tuple[Any, ...]] = (
    *(None, [], {}, "", "x", 5, -1, 1.5, -2.5, True, 1e308, 2**60, -(2**60)),
    *([["a"]], {"a": {}}, ["a"], [None], {"a": None}, "\x1b[31mred\n", "y" * 5_000, "\ud83d"),
    *NESTED.values(),
)
FILES: Final = ("run.json",) * 4 + ("results.jsonl",) * 3 + ("steps.jsonl",) * 3 + ("summary.json",)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a JSON value, but the value itself."""
    if path:
        yield path
    inner: Any = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    for key, item in inner:
        yield from places(item, (*path, key))


def mutate(rng: random.Random, value: Any) -> None:
    """Replace or delete what stands at some place."""
    path = rng.choice([*places(value)])
    for key in path[:-1]:
        value = value[key]
    if rng.random() < 0.15 and isinstance(value, dict):
        del value[path[-1]]
    else:
        value[path[-1]] = rng.choice(VALUES)


def mutate_run(rng: random.Random, run: Path) -> None:
    """Mutate one or two JSON values of a run's files."""
    further = [f"judgments/{path.name}" for path in (run / "judgments").glob("*.jsonl")]
    for _ in range(rng.choice((1, 1, 2))):
        path = run / rng.choice([*FILES, *further])
        lines = [path.read_text()] if path.suffix == ".json" else path.read_text().splitlines()
        i = rng.randrange(len(lines))
        record = json.loads(lines[i])
        mutate(rng, record)
        lines[i] = json.dumps(record)
        path.write_text("".join(line + "\n" for line in lines))


@pytest.mark.parametrize("command", COMMANDS)
def test_no_mutation_of_a_run_gives_a_traceback(sound: Path, tmp_path: Path, command: str) -> None:
    """Four runs for each command, another four wherever the test's name or its commands change."""
    rng = random.Random(f"foreign {command}")
    for n in range(4):
        folder = tmp_path / str(n)
        shutil.copytree(sound, folder)
        mutate_run(rng, folder / "runs" / ("b" if command in ("run", "plan") else "m"))
        ended_well(folder, command)
