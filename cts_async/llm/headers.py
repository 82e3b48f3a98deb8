"""What every request says in its head, whichever API it is for."""

from __future__ import annotations

from typing import Final

from cts_async import __version__
from cts_async.errors import ProviderRefused
from cts_async.llm.catalog import ModelSpec
from cts_async.llm.exchange import ENCODINGS

_COMMON: Final = {
    "Content-Type": "application/json",
    "Accept": "application/json",
    "Accept-Encoding": ENCODINGS,
    "User-Agent": f"cts-async/{__version__}",
}


def common_headers(spec: ModelSpec, key: str | None) -> dict[str, str]:
    """The headers without the key; ProviderRefused if `key` could not be sent in one."""
    if key and not key.isprintable():
        raise ProviderRefused(f"{spec.name}: {spec.key_env} is no key: it has line breaks or the like inside")
    return dict(_COMMON)
