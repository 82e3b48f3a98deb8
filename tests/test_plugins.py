"""What can be added: files of the package and plug-ins of other packages pass the same door."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from installed_plugins import forget, install

from cts_async import plugins
from cts_async.plugins import APIS, DATASETS, STATISTICS, Broken

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
