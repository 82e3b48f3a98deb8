"""Each peer's released package in an environment of its own, made on demand and kept in a cache directory.

CTS_BENCH_CACHE names the directory, else it is ~/.cache/cts-bench. Nothing is installed into ours.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Peer:
    """A script of this folder, and the packages it needs, the peer's own first."""

    script: str
    packages: tuple[str, ...]

    @property
    def package(self) -> str:
        return self.packages[0].partition("[")[0]


PEERS = (
    Peer("async_batch_llm_prompts", ("async-batch-llm[openai]",)),
    Peer("curator_llm", ("bespokelabs-curator",)),
    Peer("openai_sdk", ("openai",)),
    Peer("litellm_completion", ("litellm",)),
    Peer("litellm_router", ("litellm",)),
    Peer("inspect_task", ("inspect_ai", "openai")),
)

QUIET = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "TELEMETRY_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "CURATOR_DISABLE_RICH_DISPLAY": "1",
}
"""Nothing is fetched from elsewhere or told to anybody, and no bars are drawn."""


class NotInstalled(Exception):
    """A peer's environment could not be made; the message says why."""


def python_of(peer: Peer) -> Path:
    """The interpreter of the peer's environment, made now if need be. Raises NotInstalled."""
    folder = cache() / peer.package
    python = folder / "bin" / "python"
    ready = folder / ".ready"
    if not ready.exists() or ready.read_text() != " ".join(peer.packages):
        _run([sys.executable, "-m", "venv", str(folder)])
        _run([str(python), "-m", "pip", "install", "--quiet", *peer.packages])
        ready.write_text(" ".join(peer.packages))
    return python


def version_of(peer: Peer) -> str:
    """The installed version of the peer's package."""
    code = f"import importlib.metadata as m; print(m.version({peer.package!r}))"
    return _run([str(python_of(peer)), "-c", code]).strip()


def environ() -> dict[str, str]:
    """What a peer's process sees: this environment without our source tree and without anybody's keys."""
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    kept.pop("PYTHONPATH", None)
    return {**kept, **QUIET}


def cache() -> Path:
    return Path(os.environ.get("CTS_BENCH_CACHE") or Path.home() / ".cache" / "cts-bench")


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=True)
    except subprocess.CalledProcessError as error:
        said = error.stderr.strip().splitlines() or ["no reason given"]
        raise NotInstalled(said[-1]) from None
    except subprocess.TimeoutExpired:
        raise NotInstalled("took longer than 20 minutes") from None
    return done.stdout
