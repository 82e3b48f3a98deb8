"""What every request says in its head, whichever API it is for, and how a key in it could come back."""

from __future__ import annotations

import re
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


SECRET_CHARS: Final = 8
"""A shorter key is a dummy, such as servers of one's own are given."""
_ESCAPED: Final = re.compile(r"[^\w.~-]", re.ASCII)


def spellings(key: str) -> tuple[bytes, ...]:
    """`key` as JSON may have it, none for a dummy: encoders escape slashes (PHP's) or whatever is no letter (.NET's)."""
    if len(key) < SECRET_CHARS:
        return ()
    upper = _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04X}", key)
    lower = _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", key)
    return tuple(text.encode() for text in dict.fromkeys((key, key.replace("/", "\\/"), upper, lower)))
