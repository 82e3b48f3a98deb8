"""Whether a Ray address is good, found out by a process of its own, and what to tell whoever typed it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Final

from cts_async.cluster.ray_address import Address
from cts_async.engine.processes import child_environment, python_command
from cts_async.errors import UsageError

PROBE: Final = Path(__file__).with_name("ray_probe.py")
RAY_PREFIXES: Final = ("RAY_", "GRPC_")
"""Environment variables that determine how Ray connects, its token among them."""
JOIN_S: Final = 14.0
"""How long joining may take: nobody waits longer for an error."""

NO_TOKEN: Final = (
    "it wants its token: RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN=... or the ~/.ray/auth_token of the machine where "
    "ray start --head was"
)
OTHER_VERSIONS: Final = "Version mismatch: "
NONE_HERE: Final = "no Ray runs on this machine: ray start --head, or give a cluster's address (HOST:6379)"
NO_NODE: Final = (
    "this machine is no node of that cluster: ray start --address HOST:6379 makes it one, "
    "and ray://HOST:10001 does without"
)
NO_ANSWER: Final = (
    f"not joined within {JOIN_S:g} s: is that its address (ray status) and this machine a node of it? "
    "Others take ray://HOST:10001"
)
NO_CLIENT: Final = (
    f"not joined within {JOIN_S:g} s: is that the port of its client server (10001), and have you the cluster's token, "
    "if it has one (RAY_AUTH_MODE=token RAY_AUTH_TOKEN=...)? With some versions of grpcio its ray start needs "
    "GRPC_ENABLE_FORK_SUPPORT=0"
)
MEANINGS: Final = (
    ("InvalidAuthToken", NO_TOKEN),
    ("AuthenticationError", NO_TOKEN),
    ("Could not find any running Ray instance", NONE_HERE),
    ("Failed to connect to socket", NO_NODE),
    ("node_ip_address.json", NO_NODE),
    ("no answer within", NO_CLIENT),
    ("ray client connection timeout", NO_CLIENT),
)
"""What Ray says, and what that means to a person; anything else is told as Ray puts it."""


def check_cluster(address: Address) -> None:
    """Raises UsageError, within 15 s, where Ray cannot join the cluster at `address`.

    Not for Ray's client: it does nothing that a run would not survive, and its server is better left in peace.
    """
    if address.client:
        return
    ray_names = [name for name in os.environ if name.startswith(RAY_PREFIXES)]
    try:
        done = subprocess.run(
            python_command(str(PROBE), address.text),
            env=child_environment(*ray_names),
            capture_output=True,
            text=True,
            timeout=JOIN_S,
            errors="replace",
        )
    except subprocess.TimeoutExpired as late:
        raise UsageError(explained(address, _text(late.stderr), NO_ANSWER)) from None
    try:
        found = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        raise UsageError(explained(address, done.stderr, NO_ANSWER)) from None
    if found:
        raise UsageError(explained(address, f"{found['error']}: {' '.join(found['text'].split())}"))


def explained(address: Address, said: str, otherwise: str = "") -> str:
    """What it means that Ray has said this of `address`; what it says itself where nobody knows."""
    meaning = next((meaning for words, meaning in MEANINGS if words in said), otherwise or said[:300])
    _, mismatch, versions = said.partition(OTHER_VERSIONS)
    if mismatch:
        meaning = f"all machines need the same Ray and Python. {versions[:300]}"
    return f"--ray {address.text}: {meaning}"


def _text(output: bytes | str | None) -> str:
    """What was heard of a process until its time was up: bytes, whatever was asked for."""
    return output.decode(errors="replace") if isinstance(output, bytes) else output or ""
