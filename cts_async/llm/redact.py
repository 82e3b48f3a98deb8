"""Keys out of everything that is written: journals, manifests, results and messages have text from servers in them.

A server may repeat the key that it was sent, as it came or as encoders spell it. Whoever reads a key adds it to
`SECRETS`, and what comes from a network passes through it before anything else sees it.
"""

from __future__ import annotations

import re
from base64 import b64encode
from typing import Any, Final
from urllib.parse import unquote_to_bytes

import orjson

from cts_async.foreign_json import loads

SECRET_CHARS: Final = 8
"""A shorter key is a dummy, such as servers of one's own are given."""
FOLDED_CHARS: Final = 16
"""A key this long is known again with spaces and line breaks in it; a short one could be words of a sentence."""
PLACE: Final = "(key)"
WITHHELD: Final = "(withheld: it repeats a key)"

_SPACE: Final = b" \t\r\n"
_ESCAPES: Final = ((b"\\n", b" "), (b"\\r", b" "), (b"\\t", b" "), (b"\\/", b"/"))
_HEX = re.compile(rb"\\+(?:u00|x)([0-9a-f]{2})")
_ENTITY = re.compile(rb"&#(?:x0*([0-9a-f]{2})|0*([0-9]{2,3}));")
_ASCII_ESCAPES: Final = tuple(
    (escape[:1], re.compile(escape)) for escape in (rb"\\u00[2-7]", rb"%[2-7][0-9a-f]", rb"&#", rb"\\/")
)
"""Where an ASCII character may be spelled as something else, and the character that this begins with; a slash last.

Asked one by one, that character first, they cost 1.5 us in a reply of 2,000 characters; as one pattern, 36 us."""
_ROUNDS: Final = 3
"""Encodings on top of each other that are looked through."""


class Redactor:
    """Finds secrets in text, in upper or lower case, escaped as JSON, URLs or HTML are, in Base64, or folded."""

    def __init__(self) -> None:
        self._secrets: dict[str, None] = {}
        self._parts: tuple[bytes, ...] = ()
        self._plain: tuple[bytes, ...] = ()
        self._folded: tuple[bytes, ...] = ()
        self._escapes = _ASCII_ESCAPES[:-1]

    def add(self, secret: str) -> None:
        """Remember a secret for as long as this process lives; one of less than SECRET_CHARS is none."""
        if len(secret) < SECRET_CHARS or secret in self._secrets:
            return
        data = secret.encode("utf-8", "surrogatepass")
        in_base64 = b64encode(data[: len(data) // 3 * 3])  # whole groups: the last depends on what follows
        self._secrets |= dict.fromkeys((secret, in_base64.decode()))
        self._plain += (data.lower(), in_base64.lower())
        if len(data) >= FOLDED_CHARS:
            # A long secret is looked for by its halves: a line break within it leaves one of them whole.
            middle = len(data) // 2
            self._parts += (data[:middle].lower(), data[middle:].lower())
        else:
            self._parts += (data.lower(),)
        self._parts += (in_base64.lower(),)
        if "/" in secret:
            # JSON with escaped slashes is common: it is looked through only where a key has one.
            self._escapes = _ASCII_ESCAPES
        for needle in (data.lower(), in_base64.lower()):
            if len(needle) >= FOLDED_CHARS:
                self._folded += (needle.translate(None, _SPACE),)

    def body(self, data: bytes, *, good: bool = False) -> bytes:
        """The body of an answer without secrets. JSON that has one in its strings is JSON again.

        A `good` answer, one of the many that hold no error, is looked through in full only where an ASCII character
        is escaped, or half of a key stands in one piece.
        """
        if not self._parts:
            return data
        if good and not self._is_suspect(data):
            return data
        if not self._holds_secret(data):
            return data
        try:
            return orjson.dumps(self.value(loads(data)))
        except (ValueError, TypeError, RecursionError):  # no JSON, or nested too deeply
            text = data.decode("utf-8", "surrogateescape")
            return self.text(text).encode("utf-8", "surrogateescape")

    def text(self, text: str) -> str:
        """`text` with `(key)` in place of each secret; WITHHELD where one is spelled in another way."""
        if not self._holds_secret(text.encode("utf-8", "surrogatepass")):
            return text
        for secret in sorted(self._secrets, key=len, reverse=True):  # one may begin as another does
            text = re.sub(re.escape(secret), PLACE, text, flags=re.IGNORECASE)
        if self._holds_secret(text.encode("utf-8", "surrogatepass")):
            return WITHHELD
        return text

    def value(self, value: Any) -> Any:
        """A JSON value of bounded depth without secrets in its texts."""
        if not self._plain:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if isinstance(value, dict):
            # Names, too: an echo of the request's headers may have the key anywhere.
            return {self.text(name): self.value(item) for name, item in value.items()}
        return value

    def _is_suspect(self, data: bytes) -> bool:
        """True if `_holds_secret` has to look: this is on the way of every call."""
        data = data.lower()
        for part in self._parts:
            if part in data:
                return True
        for character, escape in self._escapes:
            if character in data and escape.search(data):
                return True
        return False

    def _holds_secret(self, data: bytes) -> bool:
        """True if there is a secret in it, in any of its spellings."""
        if not self._plain:
            return False
        data = data.lower()
        for _ in range(_ROUNDS):
            encoded = data
            for decode in (_unescaped, _unquoted):  # looked at in between: a key may have %xx in it
                for needle in self._plain:
                    if needle in data:
                        return True
                data = decode(data)
            if data == encoded:
                break
        if self._folded:
            data = data.translate(None, _SPACE)
            for needle in self._folded:
                if needle in data:
                    return True
        return False


def _unescaped(data: bytes) -> bytes:
    """Lower-case text without one layer of JSON's, Python's and HTML's escapes."""
    if b"\\" in data:
        for escape, character in _ESCAPES:
            data = data.replace(escape, character)
        if b"\\u00" in data or b"\\x" in data:
            data = _HEX.sub(_character, data)
    if b"&#" in data:
        data = _ENTITY.sub(_character, data)
    return data


def _unquoted(data: bytes) -> bytes:
    """Lower-case text without one layer of URL escapes."""
    if b"%" in data:
        return unquote_to_bytes(data).lower()
    return data


def _character(escape: re.Match[bytes]) -> bytes:
    """The ASCII character that an escape stands for; one of another character as it is."""
    if escape.lastindex == 2:
        code = int(escape[2])
    else:
        code = int(escape[1], 16)
    if code >= 128:
        return escape[0]
    return chr(code).lower().encode()


SECRETS: Final = Redactor()
"""The keys and passwords that this process uses. A process has one environment, and so one of these."""
