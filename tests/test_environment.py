"""What the environment may lack, and the table of its variables in docs/configuration.md."""

from __future__ import annotations

import pwd
import re
from pathlib import Path

import pytest

import cts_async
from cts_async.cli.init import init
from cts_async.config import config_home, home_folder, user_config_file
from cts_async.engine.processes import PASSED_ON
from cts_async.errors import UsageError
from cts_async.pages.plots.image_files import BROWSER_VARIABLES
from cts_async.protocol.config_trust import is_trusted, remember
from cts_async.search.backends.corpus import default_cache_dir

PACKAGE = Path(cts_async.__file__).parent
NO_VARIABLES = {
    *("HOST_OR_NET", "JUDGE_PROMPTS", "MAX_DEPTH", "MIN_CALLS", "QUESTION_TYPES", "TAG_NAMES"),
    *("O_BINARY", "O_NONBLOCK", "O_PATH", "SC_CLK_TCK"),
    *("EXTRACTOR_PROMPT", "SYSTEM_PROMPT", "SYSTEM_PROMPT_TEMPLATE"),  # constants of a clone
}
"""Texts that only look like one."""


def test_every_environment_variable_is_in_the_table() -> None:
    docs = (PACKAGE.parent / "docs/configuration.md").read_text("utf-8")
    rows = docs.partition("## Environment variables")[2].splitlines()
    listed = [
        name for row in rows if row.startswith("| `") for name in re.findall(r"`(\w+)`", row.split("|")[1])
    ]
    code = "".join(path.read_text("utf-8") for path in PACKAGE.rglob("*.py"))
    read = {
        *re.findall(r'(?<!_env = )"(_?[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)"', code),
        *PASSED_ON,
        *BROWSER_VARIABLES,
    }
    for catalogue in ("llm/models.toml", "search/web.toml"):
        read |= {*re.findall(r'^\w+_env = "(\w+)"', (PACKAGE / catalogue).read_text("utf-8"), re.MULTILINE)}
    assert len(listed) == len({*listed})
    set_by_us = {name for name in read if name.startswith("RAY_")} - {"RAY_ADDRESS", "RAY_AUTH_TOKEN"}
    assert {*listed} == read - NO_VARIABLES - set_by_us


def nobody(uid: int) -> pwd.struct_passwd:
    raise KeyError(uid)


@pytest.mark.parametrize("home", [None, "", "relative/home"])
def test_user_without_a_home_directory_is_told_what_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str | None
) -> None:
    """A container that runs as a uid without an entry in passwd: one line, and no folder that is called ~."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    if home is not None:
        monkeypatch.setenv("HOME", home)
    assert (home_folder(), config_home({}), user_config_file({}), default_cache_dir()) == (None,) * 4
    config = tmp_path / "cts.toml"
    config.write_text("")
    assert not is_trusted(config, {})
    with pytest.raises(UsageError, match="no home directory: set HOME or XDG_CONFIG_HOME"):
        init(user=True)
    with pytest.raises(UsageError, match=r"without a home directory: set HOME .*, or use --config"):
        remember(config, {})
    assert [path.name for path in tmp_path.iterdir()] == ["cts.toml"]
    remember(config, {"XDG_CONFIG_HOME": str(tmp_path.parent / f"{tmp_path.name}-config")})


def test_home_of_the_user_database_serves_where_home_is_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = pwd.getpwuid(0)
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: pwd.struct_passwd([*entry[:5], str(tmp_path), entry[6]]))
    monkeypatch.setenv("HOME", "")
    assert home_folder() == tmp_path


def test_unwritable_home_is_one_line_that_says_what_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HOME", str(tmp_path / "file"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    assert user_config_file({}) is None
    with pytest.raises(UsageError, match=r"cannot write \(.*\): set HOME or XDG_CONFIG_HOME"):
        init(user=True)
