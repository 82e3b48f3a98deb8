"""Whether Ray is still there. Of its own end Ray tells nobody: it tries again for a minute, then ends this process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import anyio
import ray
import ray.util.client

_RAY: Any = ray
"""Without what Ray says of types, which it does for half of its functions."""
BEAT_S: Final = 2.0
"""How often it is looked."""
GONE_S: Final = 15.0
"""What has taken no connection for so long is gone: Ray ends this process after 60 s without its directory."""

Port = tuple[str, int]


async def until_gone(ports: Mapping[str, Port]) -> str:
    """Wait until one of Ray's processes, by what to call it, takes no connections any more; give its name."""
    if not ports:
        await anyio.sleep_forever()
    heard_at = dict.fromkeys(ports, anyio.current_time())
    while True:
        for name, port in ports.items():
            if await _listens(port):
                heard_at[name] = anyio.current_time()
            elif anyio.current_time() - heard_at[name] >= GONE_S:
                return name
        await anyio.sleep(BEAT_S)


async def _listens(port: Port) -> bool:
    try:
        with anyio.fail_after(BEAT_S):
            connection = await anyio.connect_tcp(*port)
    except (OSError, TimeoutError):
        return False
    await anyio.aclose_forcefully(connection)
    return True


def vital_ports() -> dict[str, Port]:
    """What a driver on a node cannot do without: the cluster's directory, and its own node.

    Empty through Ray's client: they are out of reach then, and the client's calls fail by themselves.
    """
    if _RAY.util.client.ray.is_connected():
        return {}
    context = _RAY.get_runtime_context()
    host, _, port = context.gcs_address.rpartition(":")
    ports = {"its directory (gcs_server)": (host.strip("[]"), int(port))}
    for node in _RAY.nodes():
        if node["NodeID"] == context.get_node_id():
            ports["its daemon on this machine (raylet)"] = (
                node["NodeManagerAddress"],
                node["NodeManagerPort"],
            )
    return ports
