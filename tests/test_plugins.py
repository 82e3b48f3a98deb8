"""What can be added: files of the package and plug-ins of other packages pass the same door."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from golden_world import cts
from installed_plugins import forget, install

from cts_async import plugins
from cts_async.errors import RejectedError
from cts_async.llm.apis import ChatRequest
from cts_async.llm.catalog import ModelSpec
from cts_async.llm.model import Client
from cts_async.plugins import APIS, DATASETS, STATISTICS, Broken
from cts_async.tables.statistics import statistics

EXAMPLES = Path(__file__).with_name("examples") / "cts_async"

FORMAT = """
PATH = "/x"
def headers(key): return {}
def body(spec, request): return b"{}"
def reply(parsed, quotas): return None
"""


@pytest.fixture(autouse=True)
def searched_again() -> Iterator[None]:
    yield
    forget()
    statistics.cache_clear()


def test_the_files_of_the_package_are_found_without_importing_them() -> None:
    assert {"anthropic", "openai"} <= set(plugins.built_in_names(APIS))
    assert {"hard518", "sample", "qulac", "mimics_duo"} <= set(plugins.built_in_names(DATASETS))
    assert "paper_tables" in plugins.built_in_names(STATISTICS)
    code = "import sys; from cts_async.plugins import *; all_names(APIS), all_names(STATISTICS); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "cts_async.llm" not in done.stdout


def test_a_plugin_is_loaded_like_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(
        tmp_path, monkeypatch, {"cts_async.apis": {"my-format": "my_lab_format"}}, {"my_lab_format": FORMAT}
    )
    assert plugins.load(APIS, "my-format").PATH == "/x"
    assert plugins.load(APIS, "openai").PATH == "/chat/completions"
    names = [*plugins.built_in_names(APIS), "my_format"]
    assert list(plugins.all_names(APIS)) == names
    assert [name for name, _ in plugins.load_all(APIS)] == names
    assert plugins.package_of(APIS, "my-format") == "my-lab 1.0"
    assert plugins.package_of(APIS, "openai") == ""
    with pytest.raises(LookupError, match="no wire format is called 'other'"):
        plugins.load(APIS, "other")


def test_a_broken_plugin_is_one_line_and_harms_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    entries = {"ends": "my_lab_ends", "half": "my_lab_half", "none": "my_lab_none", "whole": "my_lab_whole"}
    modules = {"my_lab_ends": "raise SystemExit(3)", "my_lab_half": "PATH = 1", "my_lab_whole": FORMAT}
    install(tmp_path, monkeypatch, {"cts_async.apis": entries}, modules)
    loaded = [name for name, _ in plugins.load_all(APIS)]
    assert loaded == [*plugins.built_in_names(APIS), "whole"]
    assert capsys.readouterr().err.splitlines() == [
        "warning: wire format 'ends' of my-lab 1.0 (my_lab_ends): SystemExit: 3",
        "warning: wire format 'half' of my-lab 1.0 (my_lab_half): is no wire format: it defines no headers, body, "
        "reply",
        "warning: wire format 'none' of my-lab 1.0 (my_lab_none): ModuleNotFoundError: No module named 'my_lab_none'",
    ]
    with pytest.raises(Broken, match=r"'ends' of my-lab 1\.0 \(my_lab_ends\): SystemExit: 3"):
        plugins.load(APIS, "ends")
    list(plugins.load_all(APIS))
    assert capsys.readouterr().err == ""  # said once


def test_a_plugin_never_takes_a_name_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    entries = {
        "cts_async.apis": {"openai": "my_lab_format"},
        "cts_async.datasets": {"mimics-duo": "my_lab_format"},
    }
    install(tmp_path, monkeypatch, entries, {"my_lab_format": FORMAT})
    own = {"cts_async.apis": {"twice": "my_lab_format"}}
    install(tmp_path, monkeypatch, own, {}, package="a-lab")
    install(tmp_path, monkeypatch, {"cts_async.apis": {"twice": "b_lab_format"}}, {}, package="b-lab")
    assert plugins.load(APIS, "openai").PATH == "/chat/completions"
    assert plugins.load(APIS, "twice").PATH == "/x"
    assert plugins.load(DATASETS, "mimics-duo").title == "MIMICS-Duo"
    plugins.all_names(DATASETS)
    assert capsys.readouterr().err.splitlines() == [
        "warning: wire format 'openai' of my-lab 1.0 is not used: cts_async has one of this name; its entry point "
        "(cts_async.apis) needs another",
        "warning: wire format 'twice' of b-lab 1.0 is not used: a-lab 1.0 has one of this name; its entry point "
        "(cts_async.apis) needs another",
        "warning: dataset 'mimics-duo' of my-lab 1.0 is not used: cts_async has one of this name; its entry point "
        "(cts_async.datasets) needs another",
    ]


@pytest.mark.skipif(not EXAMPLES.is_dir(), reason="the examples are files of the package here")
def test_the_examples_are_plugins_as_they_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "lab_api": "llm/apis/ollama.py",
        "lab_pairs": "datasets/kinds/pairs.py",
        "lab_words": "tables/statistics/question_words.py",
    }
    groups = {
        "cts_async.apis": {"my-ollama": "lab_api"},
        "cts_async.datasets": {"pairs": "lab_pairs:KIND"},
        "cts_async.statistics": {"my-words": "lab_words"},
    }
    texts = {module: (EXAMPLES / path).read_text("utf-8") for module, path in files.items()}
    install(tmp_path, monkeypatch, groups, texts)
    statistics.cache_clear()
    monkeypatch.chdir(tmp_path)
    Path("cts.toml").write_text(
        '[models.mine]\napi = "my-ollama"\nbase_url = "http://127.0.0.1:9"\nmodel = "llama3"\n', "utf-8"
    )
    Path("pairs.tsv").write_text("ferry to Skye in May\tferry\n", "utf-8")
    Path("asked.csv").write_text("id,question,answer\na,Which year?,2024\n", "utf-8")
    assert "(api = my-ollama)" in cts("models", "mine").stdout
    assert "ferry to Skye in May" in cts("data", "show", "pairs:pairs.tsv").stdout
    assert "pairs:PATH" in cts("data", "list").stdout
    assert "Words per question" in cts("diagnose", "asked.csv").stdout


def test_a_format_that_cannot_write_a_request_fails_the_step_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = FORMAT.replace('return b"{}"', "return request.nothing")
    install(tmp_path, monkeypatch, {"cts_async.apis": {"mine": "lab_broken"}}, {"lab_broken": broken})

    async def ask() -> None:
        async with Client({}) as client:
            spec = ModelSpec("m", "mine", "http://127.0.0.1:9", "m-1", None, "m", 1)
            await client.chat(spec, ChatRequest(({"role": "user", "content": "hi"},)))

    problem = r"m: the request cannot be written \(api = 'mine'\): AttributeError: .* no attribute 'nothing'"
    with pytest.raises(RejectedError, match=problem):
        asyncio.run(ask())
