"""The Python API: wrong arguments are named in one line, before anything is written."""

from __future__ import annotations

import asyncio
import functools
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import cts_async
from cts_async.errors import Interrupted, RunStopped, UsageError


def ask(view: Any) -> list[str]:
    return ["What?", "Where?"][: view.k]


@pytest.mark.parametrize(
    ("model", "options", "problem"),
    [
        (42, {}, "42: name a model or a role of yours, or give a function"),
        ([], {}, "name at least one model"),
        (functools.partial(ask), {}, "is a partial, not a function"),
        (ask, {"k": "2"}, "k: must be a number from 1 to 3"),
        (ask, {"k": [1, 0]}, "k: must be a number from 1 to 3"),
        (ask, {"limit": "few"}, "limit: should be a valid integer"),
        (ask, {"limit": 0}, "limit: must be at least 1, not 0"),
        (ask, {"limits": 3}, "limits: no such option; did you mean 'limit'?"),
        (ask, {"ks": (1,)}, "ks: no such option"),
        (ask, {"gold": 5}, "gold: is not a valid path, not 5"),
        (ask, {"stop_after": "clarify"}, "stop_after: should be 'questions', 'answers' or 'rewrite'"),
    ],
)
def test_wrong_argument_is_named_and_starts_nothing(
    tmp_path: Path, model: Any, options: dict[str, Any], problem: str
) -> None:
    runs = tmp_path / "runs"
    with pytest.raises(UsageError) as caught:
        cts_async.run(model, runs_dir=runs, **{"every_role": "baseline", **options})
    assert problem in str(caught.value)
    assert not runs.exists()


def test_named_configuration_may_say_where_keys_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-made-up")
    file = tmp_path / "cts.toml"
    file.write_text(
        '[models.mine]\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "m"\nkey_env = "OPENAI_API_KEY"\n'
    )
    options: dict[str, Any] = {"limit": 1, "max_outage_s": 0, "runs_dir": tmp_path, "quiet": True}
    with pytest.raises(RunStopped):  # as nobody listens on that port
        cts_async.run("mine", every_role="mine", config_file=file, **options)


TABLE = '[models.mine]\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "m"\n'


@pytest.mark.parametrize(("key", "stopped"), [("", RunStopped), ('key_env = "OPENAI_API_KEY"\n', UsageError)])
def test_configuration_of_the_folder_is_read_under_the_rules_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, stopped: type[Exception]
) -> None:
    """A model of ./cts.toml plays; a shipped model's key goes to its address with consent only."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-made-up")
    monkeypatch.chdir(tmp_path)
    Path("cts.toml").write_text(TABLE + key)
    with pytest.raises(stopped) as caught:
        cts_async.run("mine", every_role="mine", limit=1, max_outage_s=0, quiet=True)
    if key:
        assert "would send OPENAI_API_KEY to http://127.0.0.1:9" in str(caught.value)
        assert 'add config_consent="remember" (' in str(caught.value)
        assert 'or config_file="cts.toml"' in str(caught.value)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"every_role": "gpt"}, 'or try without any key: every_role="baseline"'),
        (
            {"modes": ("select",)},
            'modes="select": baseline asks questions, and offers no queries; use modes="respond"',
        ),
        ({"verbose": True, "quiet": True}, "quiet and verbose contradict each other; use log_file=FILE"),
        ({"name": "a/b"}, 'name="a/b": must be the name of a'),
    ],
)
def test_error_names_parameters_instead_of_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], problem: str
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as caught:
        cts_async.run("baseline", **{"every_role": "baseline", **options})
    assert problem in str(caught.value)


async def interrupt_twice(view: Any) -> list[str]:
    """Ctrl-C in a notebook, twice: its main thread gets the signals."""
    main = threading.main_thread().ident
    assert main
    for _ in range(2):
        signal.pthread_kill(main, signal.SIGINT)
        await asyncio.sleep(0.1)
    await asyncio.sleep(60)
    return []


def test_second_interrupt_stops_a_run_in_a_notebook(tmp_path: Path) -> None:
    async def cell() -> None:
        cts_async.run(interrupt_twice, every_role="baseline", limit=1, runs_dir=tmp_path, quiet=True)

    loop = asyncio.new_event_loop()  # asyncio.run() has a handler of its own, notebooks have none
    began = time.monotonic()
    with pytest.raises(Interrupted):
        loop.run_until_complete(cell())
    loop.close()
    assert time.monotonic() - began < 50
