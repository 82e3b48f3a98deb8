"""The Python API: its parameters are those of the configurations, and wrong ones are named in one line at once."""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import re
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from made_runs import Row, changed_manifest, made_run

import cts_async
from cts_async.config import CommandConfig, JudgeConfig, RunConfig
from cts_async.errors import BudgetSpent, InputError, Interrupted, RunStopped, UsageError


def ask(view: Any) -> list[str]:
    return ["What?", "Where?"][: view.k]


@pytest.mark.parametrize(
    ("model", "options", "problem"),
    [
        (42, {}, "model=42: name a model or a role of yours, or give a function"),
        ([], {}, "model: name at least one model"),
        (ask, {"agent": 7}, "agent=7: name a model or a role of yours, or give a function"),
        (functools.partial(ask), {}, "is a partial, not a function"),
        (ask, {"k": "2"}, "k: must be a number from 1 to 3"),
        (ask, {"k": [1, 0]}, "k: must be a number from 1 to 3"),
        (ask, {"limit": "few"}, "limit: should be a valid integer"),
        (ask, {"limit": 0}, "limit: must be at least 1, not 0"),
        (ask, {"limits": 3}, "limits: no such parameter; did you mean 'limit'?"),
        (ask, {"ks": (1,)}, "ks: no such parameter"),
        (ask, {"date": "2031-5-1"}, 'date="2031-5-1": not a date'),
        (ask, {"budget": {"max_us": 3}}, "budget: there is no limit 'max_us'; did you mean 'max_usd'?"),
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


def test_error_of_a_file_names_parameters_and_keeps_the_text_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("q.csv").write_text("id,--limit 3\n1,a\n")
    with pytest.raises(InputError) as caught:
        cts_async.run("baseline", every_role="baseline", data="q.csv")
    assert str(caught.value) == f"q.csv:2: field 'fused_query': {caught.value.problem}"
    assert caught.value.problem == (
        "is missing; the fields here are 'id', '--limit 3' (map one with fields={\"fused_query\": \"NAME\"})"
    )


def test_stopped_run_names_parameters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("cts.toml").write_text(TABLE)
    with pytest.raises(BudgetSpent) as caught:
        cts_async.run("mine", every_role="mine", limit=1, quiet=True, budget={"max_calls": 0})
    assert str(caught.value) == (
        "the budget is spent: 0 of budget.max_calls=0; the same call with a higher budget.max_calls resumes"
    )


def test_file_that_cannot_be_made_is_one_error_and_no_group(tmp_path: Path) -> None:
    """Inside a run's task group, as for a name that is too long for the file system."""
    options: dict[str, Any] = {"references": (), "limit": 1, "runs_dir": tmp_path, "quiet": True}
    with pytest.raises(UsageError, match=": File name too long$") as caught:
        cts_async.run("baseline", every_role="baseline", name="x" * 300, **options)
    assert isinstance(caught.value.__cause__, OSError)


def test_loading_and_comparing_name_parameters(tmp_path: Path) -> None:
    made_run(tmp_path, label="orig", rows=(Row("a", score=1),))
    made_run(tmp_path, label="gpt-k1", rows=(Row("a", score=2),))
    with pytest.raises(
        UsageError, match="no such run, folder or file; cts_async.run and cts demo make runs$"
    ):
        cts_async.load(tmp_path / "nowhere")
    with pytest.raises(UsageError, match='^baseline="kimi": no such system here; there are orig, gpt-k1$'):
        cts_async.compare(tmp_path, baseline="kimi")
    with pytest.raises(UsageError, match="^baselines: no such parameter; did you mean 'baseline'\\?$"):
        cts_async.compare(tmp_path, baselines="orig")  # type: ignore[call-arg]


def test_model_of_every_role_is_the_clarifier_where_none_is_named(tmp_path: Path) -> None:
    runs = cts_async.run(every_role="baseline", limit=1, references=(), runs_dir=tmp_path, quiet=True)
    assert [(row["clarifier"], row["support"]) for row in runs.systems] == [("baseline", "baseline")]


def test_newest_version_is_loaded_and_compared_unless_all_are(tmp_path: Path) -> None:
    made_run(tmp_path, label="orig", rows=(Row("a", score=1),))
    older = made_run(tmp_path, label="gpt-k1", rows=(Row("a", score=2),))
    newer = made_run(tmp_path, label="gpt-k1", name=f"{older.name}.v2", rows=(Row("a", score=3),))
    with changed_manifest(newer) as manifest:
        manifest["run_version"] = 2
    loaded = cts_async.load(tmp_path)
    assert [(row["system"], row["version"], row["mean"]) for row in loaded.systems] == [
        ("gpt-k1", 2, 3),
        ("orig", 1, 1),
    ]
    assert loaded.remarks == ("1 older version left out (all_versions=True shows it)",)
    assert {row["version"] for row in cts_async.load(tmp_path, all_versions=True).instances} == {1, 2}
    assert [row["version"] for row in cts_async.load(older).instances] == [1]
    compared = cts_async.compare(tmp_path)
    assert "1 older version left out (all_versions=True shows it)" in compared["notes"]
    assert len(compared["systems"]) == 2
    assert len(cts_async.compare(tmp_path, all_versions=True)["systems"]) == 3


def test_candidates_are_judged_and_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    nuggets = [{"id": "N1", "text": "at nine", "weight": 3}]
    Path("gold.jsonl").write_text(json.dumps({"id": "q1", "query": "ferry", "nuggets": nuggets}) + "\n")
    Path("answers.jsonl").write_text('{"id": "q1", "answer": "at nine"}\n')
    with pytest.raises(UsageError) as caught:
        cts_async.judge()
    assert str(caught.value) == (
        'nothing to judge: name runs (cts_async.judge("runs/NAME")), or use gold=G candidates=C out=DIR'
    )
    judged = cts_async.judge(
        judge="lexical", candidates="answers.jsonl", gold="gold.jsonl", out="judged", quiet=True
    )
    assert [(row["judge"], row["score"]) for row in judged.judges] == [("lexical", 100)]


# --- Signatures


@pytest.mark.parametrize(
    ("function", "config", "renamed"),
    [
        (cts_async.run, RunConfig, {"model": "models", "k": "ks"}),
        (cts_async.judge, JudgeConfig, {"judge": "judges"}),
    ],
)
def test_parameters_are_the_fields_of_the_configuration(
    function: Callable[..., Any],
    config: type[CommandConfig],
    renamed: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each with the field's default, but for what decides which cts.toml is read; and help() explains each."""
    settings = {}
    parameters = inspect.signature(function).parameters
    for name, parameter in parameters.items():
        settings[renamed.get(name, name)] = parameter.default
        assert re.search(rf"^ +(\w+, )*{name}(, \w+)*: |\b{name}\b", function.__doc__ or ""), name
        assert "Any" not in str(parameter.annotation)
    assert settings.pop("quiet") is False
    named = {field.name: getattr(config(), field.name) for field in fields(config)}
    assert settings.keys() == named.keys()
    assert (settings.pop("user_config"), settings.pop("config_consent"), settings.pop("budget")) == (
        True,
        None,
        None,
    )
    for name, default in settings.items():
        if name == "fields":
            default = default or {}
        elif name == "models":  # with every_role its player
            default = ("local",) if default is None else default
        elif name == "ks":
            default = (default,)
        elif name == "runs_dir":
            default = Path(default)
        assert default == named[name], name


SCRIPT = """
from pathlib import Path

import cts_async
from cts_async import role


@role("clarifier", version="1")
def ask(view: object) -> list[str]:
    return ["What?"]


tables = cts_async.run([ask, "gpt"], k=(1, 2), every_role="baseline", limit=5, gold=Path("g"), budget={"max_usd": 1})
mean: float = tables.to_pandas("systems")["mean"].mean()
cts_async.judge(tables.paths, "ernie", nuggets_per_call=3)
cts_async.load("runs").to_pandas().groupby("system")
compared = cts_async.compare("runs", baseline="orig")["judges"]
cts_async.run("gpt", limits=5)
cts_async.run("gpt", limit="5")
cts_async.run("gpt", stop_after="clarify")
tables.to_pandas("runs")
"""


MYPY = """
[mypy]
strict = true
follow_imports = skip
follow_imports_for_stubs = true
"""
"""The modules that the API's types are in; of the others nothing is read, which takes a tenth of the time."""


def test_strict_type_checker_takes_a_users_script(tmp_path: Path) -> None:
    api = pytest.importorskip("mypy.api")
    (tmp_path / "script.py").write_text(SCRIPT)
    config = MYPY
    for module in (
        "cts_async",
        "cts_async.api",
        "cts_async.api_messages",
        "cts_async.config",
        "cts_async.custom",
    ):
        config += f"[mypy-{module}]\nfollow_imports = silent\n"
    for module in ("cts_async.records", "cts_async.tables.rows"):
        config += f"[mypy-{module}]\nfollow_imports = silent\n"
    (tmp_path / "mypy.ini").write_text(config)
    words = [
        "--config-file",
        str(tmp_path / "mypy.ini"),
        "--cache-dir",
        str(tmp_path),
        str(tmp_path / "script.py"),
    ]
    found, _, _ = api.run(words)
    errors = [line.partition("error: ")[2] for line in found.splitlines() if "error: " in line]
    assert [re.sub(r"; .*|  .*", "", error) for error in errors] == [
        'Unexpected keyword argument "limits" for "run"',
        'Argument "limit" to "run" has incompatible type "str"',
        'Argument "stop_after" to "run" has incompatible type "Literal[\'clarify\']"',
        'Argument 1 to "to_pandas" of "Tables" has incompatible type "Literal[\'runs\']"',
    ], found


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
