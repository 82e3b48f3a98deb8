"""What a stranger installs: the wheel alone, run far from the repository."""

from __future__ import annotations

import configparser
import json
import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name
from test_lock_file import run_lock

REPOSITORY = Path(__file__).resolve().parents[1]

FROM_THE_WHEEL = """
import json, cts_async
from cts_async.datasets import open_dataset
from cts_async.protocol.prompts import load_prompts
from cts_async.search.catalog import load_search
load_search().engine("serper")
sample = open_dataset("sample")
print(json.dumps({
    "package": cts_async.__file__,
    "prompts": str(load_prompts().directory),
    "queries": str(sample.path), "gold": str(sample.gold_path), "corpus": str(sample.corpus),
    "instances": sum(1 for _ in sample.instances()),
}))
"""


WITHOUT_PACKAGES = """
import importlib.machinery, json, sys
absent = set(json.loads(sys.argv[1]))
commands = json.loads(sys.argv[2])
class Present(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.partition(".")[0] in absent:
            return None
        return super().find_spec(name, path, target)
builtin, frozen, *_ = (finder for finder in sys.meta_path if getattr(finder, "__module__", "").startswith("_frozen"))
sys.meta_path[:] = [builtin, frozen, Present]
from cts_async.cli.main import main
exit_codes = []
for words in commands:
    sys.argv[1:] = words
    try:
        main()
        exit_codes.append(0)
    except SystemExit as ended:
        exit_codes.append(ended.code or 0)
print()
print(json.dumps(exit_codes))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), "."]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target"]
    environ = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    subprocess.run([*command, str(target), str(wheel)], check=True, timeout=100, env=environ)
    return target


def python(installed: Path, cwd: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """Python with the wheel before everything else: PYTHONPATH precedes the editable install."""
    path = os.pathsep.join([str(installed), sysconfig.get_path("purelib")])
    environ = {"PATH": os.environ["PATH"], "HOME": str(cwd), "PYTHONPATH": path, "PYTHONUTF8": "1"}
    command = [sys.executable, "-P", *args]
    return subprocess.run(
        command, cwd=cwd, env=environ, capture_output=True, text=True, timeout=120, check=False
    )


def test_wheel_holds_package_prompts_and_sample_and_nothing_else(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-any.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"cts_async"}
    for folder, packed in (("prompts", "_prompts"), ("data/sample", "_sample")):
        prefix = f"cts_async/{packed}/"
        root = REPOSITORY / folder
        here = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
        assert here == {name.removeprefix(prefix) for name in names if name.startswith(prefix)}
    exported = [f"tables/{name}" for name in ("columns.toml", "dataset_card.md")]
    data = ("llm/models.toml", "search/web.toml", "pages/plots/style.json", "py.typed", *exported)
    assert {f"cts_async/{name}" for name in data} <= set(names)
    page = {f"cts_async/viewer/static/{name}" for name in ("index.html", "main.js", "theme.css", "icon.svg")}
    assert page <= set(names)
    assert any(name.endswith("LICENSE") for name in names)


def test_metadata_has_every_extra_and_two_scripts_for_one_command(wheel: Path) -> None:
    packed = zipfile.ZipFile(wheel)
    info = {
        Path(name).name: packed.read(name).decode() for name in packed.namelist() if ".dist-info/" in name
    }
    extras = re.findall(r"^Provides-Extra: (.+)$", info["METADATA"], re.MULTILINE)
    assert set(extras) == {
        "agents",
        "bertscore",
        "dev",
        "local",
        "ltr",
        "plots",
        "ray",
        "retrieval",
        "tokenizer",
    }
    scripts = configparser.ConfigParser()
    scripts.read_string(info["entry_points.txt"])
    started = dict(scripts["console_scripts"])
    assert started.keys() == {"cts", "cts-async"}
    assert len(set(started.values())) == 1


def test_prompts_and_sample_come_from_inside_the_wheel(installed: Path, tmp_path: Path) -> None:
    done = python(installed, tmp_path, "-c", FROM_THE_WHEEL)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found.pop("instances") == 28
    for what, path in found.items():
        assert Path(path).is_relative_to(installed), f"{what} is {path}"


def test_package_runs_as_a_module(installed: Path, tmp_path: Path) -> None:
    done = python(installed, tmp_path, "-m", "cts_async", "--help")
    assert done.returncode == 0, done.stderr
    assert "cts run" in done.stdout


def test_everything_but_extras_works_where_only_the_run_lock_is_installed(
    installed: Path, tmp_path: Path
) -> None:
    """What `make run` installs: the other packages of this environment are hidden from the process."""
    absent: list[str] = []
    for module, distributions in packages_distributions().items():
        if not {canonicalize_name(name) for name in distributions} & set(run_lock()):
            absent.append(module)
    assert {"kaleido", "playwright", "ray", "xllamacpp"} <= set(absent)
    commands = [
        ["run", "--all", "baseline", "-k", "1", "--limit", "2", "--seed", "1"],
        ["compare", "runs"],
        ["diagnose", "runs"],
        ["report", "runs"],
        ["view", "runs", "--export", "pages"],
        # These need an extra, and say so in one line.
        ["run"],
        ["run", "--all", "baseline", "-k", "1", "--workers", "2"],
        ["report", "runs", "--plots", "figures"],
    ]
    words = (json.dumps(absent), json.dumps(commands))
    done = python(installed, tmp_path, "-c", WITHOUT_PACKAGES, *words)
    assert done.returncode == 0, done.stderr
    *_, exit_codes = done.stdout.splitlines()
    assert json.loads(exit_codes) == [0, 0, 0, 0, 0, 2, 2, 2]
    refusals = [line for line in done.stderr.splitlines() if line.startswith("cts: ")]
    extras = [re.findall(r"pip install 'cts-async\[(\w+)\]'", line) for line in refusals]
    assert extras == [["local"], ["ray"], ["plots"]]


def test_judging_and_scoring_need_no_model_and_no_repository(installed: Path, tmp_path: Path) -> None:
    """A whole run through engine, journal and report that asks no model."""
    gold = {"id": "q1", "gold": {"nuggets": [{"id": "N1", "text": "the ferry leaves at nine", "weight": 3}]}}
    (tmp_path / "gold.jsonl").write_text(json.dumps(gold) + "\n")
    candidate = {"id": "q1", "answer": "The ferry leaves at nine."}
    (tmp_path / "answers.jsonl").write_text(json.dumps(candidate) + "\n")
    options = ["--gold", "gold.jsonl", "--candidates", "answers.jsonl", "--out", "out", "-q", "--json"]
    done = python(installed, tmp_path, "-m", "cts_async.cli.main", "judge", "--judge", "lexical", *options)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["mean"] == 100.0
    assert (tmp_path / "out" / "per_item.jsonl").exists()
    done = python(installed, tmp_path, "-m", "cts_async.cli.main", "score", "out", "--json")
    assert json.loads(done.stdout)[0]["mean"] == 100.0
