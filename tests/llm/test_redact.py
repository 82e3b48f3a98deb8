"""Keys are taken out of what servers send, however they spell them, and nothing else is changed."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import orjson
import pytest
from fake_web import raw
from hypothesis import given, settings
from hypothesis import strategies as st
from llm_calls import chat, search, spec_at

from cts_async.errors import CTSError
from cts_async.llm.redact import WITHHELD, Redactor

KEY = "bce-v3/ALTAK-9fK2/ab+cd==Zq7"


def redactor(*secrets: str) -> Redactor:
    made = Redactor()
    for secret in secrets or (KEY,):
        made.add(secret)
    return made


SPELLINGS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "upper case": str.upper,
    "lower case": str.lower,
    "JSON, every character": lambda key: "".join(f"\\u{ord(c):04x}" for c in key),
    "JSON, capital digits": lambda key: "".join(f"\\u{ord(c):04X}" for c in key),
    "JSON, slashes": lambda key: key.replace("/", "\\/"),
    "JSON, every other": lambda key: "".join(f"\\u{ord(c):04x}" if i % 2 else c for i, c in enumerate(key)),
    "Python": lambda key: "".join(f"\\x{ord(c):02x}" for c in key),
    "URL": lambda key: quote(key, safe=""),
    "URL, every character": lambda key: "".join(f"%{ord(c):02X}" for c in key),
    "URL, twice": lambda key: quote(quote(key, safe=""), safe=""),
    "HTML": lambda key: "".join(f"&#{ord(c)};" if c in "/+=" else c for c in key),
    "HTML, hexadecimal": lambda key: "".join(f"&#x{ord(c):X};" for c in key),
    "Base64": lambda key: base64.b64encode(key.encode()).decode(),
    "folded": lambda key: f"{key[:9]}\r\n {key[9:]}",
    "folded twice": lambda key: f"{key[:5]}\n\t{key[5:20]}\r\n {key[20:]}",
    "spaced": lambda key: f"{key[:12]} {key[12:]}",
}


ONLY_IN_ERRORS = {"Python", "folded twice"}
"""What no server does to a key in a good answer, which are too many to be looked through for everything."""


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_key_is_found_in_each_spelling(spelling: str) -> None:
    found = redactor().text(f"Incorrect key {SPELLINGS[spelling](KEY)} given")
    assert found in ("Incorrect key (key) given", WITHHELD) or found.startswith("Incorrect key (key)")
    assert "9fK2" not in found


@pytest.mark.parametrize(
    ("spelling", "good"),
    [(name, good) for name in SPELLINGS for good in (True, False) if not good or name not in ONLY_IN_ERRORS],
)
def test_a_json_answer_keeps_its_form_without_the_key(spelling: str, good: bool) -> None:
    said = SPELLINGS[spelling](KEY)
    if spelling.startswith("JSON"):
        data = f'{{"a": ["x {said} y"], "n": 1.5, "{said}": null}}'.encode()
    else:
        data = json.dumps({"a": [f"x {said} y"], "n": 1.5, said: None}).encode()
    answer = orjson.loads(redactor().body(data, good=good))
    assert [*answer] == ["a", "n", *([*answer][2:])]
    assert answer["n"] == 1.5
    assert answer["a"][0].startswith("x (key)") or answer["a"][0] == WITHHELD
    assert "9fk2" not in json.dumps(answer).lower()


@pytest.mark.parametrize(
    "data",
    [
        f'{{"cut": "{KEY}'.encode(),
        b"\xff\xfe " + KEY.encode() + b" \xff",
        b"[" * 2000 + KEY.encode() + b"]" * 2000,
        b"[" * 300 + orjson.dumps(KEY) + b"]" * 300,
    ],
)
def test_a_body_that_is_no_json_loses_the_key_and_nothing_else(data: bytes) -> None:
    assert redactor().body(data) == data.replace(KEY.encode(), b"(key)")


def test_text_without_a_key_is_returned_unchanged() -> None:
    text = 'The \\u00e9 in "caf\\u00e9" costs 25 %, at https://a.org/%E6%B8%A1?a=%2F &#228; \\/ ' * 20
    data = text.encode()
    assert redactor().body(data, good=True) is data
    assert redactor().body(data) is data
    assert redactor().text(text) is text
    assert Redactor().body(data) is data


def test_a_key_with_a_percent_sign_is_found_before_it_is_unquoted() -> None:
    assert redactor("00000%00").text("00000%0\\u0030") == WITHHELD


@pytest.mark.parametrize("dummy", ["", "x", "EMPTY", "no-key"])
def test_a_dummy_is_no_secret(dummy: str) -> None:
    assert redactor(dummy).text("EMPTY x no-key") == "EMPTY x no-key"


def test_words_with_spaces_between_them_are_no_short_key() -> None:
    assert redactor("passphrase").text("pass phrase, PASSPHRASE") == "pass phrase, (key)"


def test_several_secrets_are_all_found_the_longer_one_whole() -> None:
    made = redactor("sk-0123456789", "sk-0123456789-and-more", "other-secret")
    assert made.text("a sk-0123456789-and-more b OTHER-secret c") in ("a (key) b (key) c", WITHHELD)


_ENCODERS: list[Callable[[str], str]] = [
    str,
    str.upper,
    lambda c: f"\\u{ord(c):04x}",
    lambda c: f"%{ord(c):02X}",
    lambda c: f"&#{ord(c)};",
]
_secrets = st.text(
    st.characters(min_codepoint=33, max_codepoint=126, exclude_characters='"\\%'), min_size=8, max_size=40
)


@settings(deadline=None)
@given(st.data(), _secrets, st.text(max_size=30), st.text(max_size=30))
def test_no_mixture_of_spellings_gets_through(data: Any, secret: str, before: str, after: str) -> None:
    ways = data.draw(st.lists(st.sampled_from(_ENCODERS), min_size=len(secret), max_size=len(secret)))
    said = "".join(way(char) for way, char in zip(ways, secret, strict=True))
    made = redactor(secret)
    text = made.text(f"{before} {said} {after}")
    assert made.text(text) == text
    assert secret.lower() not in text.lower()
    assert said not in text
    body = made.body(json.dumps({"x": f"{before} {said} {after}"}).encode(), good=True)
    assert secret.lower() not in str(orjson.loads(body)["x"]).lower()


MALFORMED = {
    "a header without a colon": "HTTP/1.1 200 OK\r\nBearer {key}\r\n\r\n",
    "a header's name": "HTTP/1.1 200 OK\r\nAuthorization Bearer {key}: x\r\n\r\n",
    "the status": "HTTP/1.1 {key} OK\r\n\r\n",
    "the reason": "HTTP/1.1 200 {key}\x00\r\n\r\n",
    "the version": "{key} 200 OK\r\n\r\n",
    "the length": "HTTP/1.1 200 OK\r\nContent-Length: {key}\r\n\r\n{{}}",
    "a length of digits": "HTTP/1.1 200 OK\r\nContent-Length: " + "9" * 5000 + "\r\n\r\n{key}",
    "a chunk's size": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{key}\r\nabc\r\n",
    "a coding": "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 40\r\n\r\n{key}{key}",
    "a coding's name": "HTTP/1.1 200 OK\r\nContent-Encoding: {key}\r\nContent-Length: 2\r\n\r\nxx",
    "a coding's name, long": "HTTP/1.1 200 OK\r\nContent-Encoding: Bearer of the very key {key}\r\n\r\n",
    "a head cut off": "HTTP/1.1 200 OK\r\nX-Echo: Bearer {key}\r\n",
    "a body cut off": "HTTP/1.1 200 OK\r\nX-Echo: {key}\r\nContent-Length: 400\r\n\r\n{key}",
    "no HTTP at all": "220 {key} ESMTP\r\n\r\n",
    "an unauthorized answer, folded": "HTTP/1.1 401 No\r\nConnection: close\r\n\r\nBearer {key}".replace(
        "{key}", f"{KEY[:11]}\r\n {KEY[11:]}"
    ),
    "an unauthorized answer, shouted": f"HTTP/1.1 401 No\r\nConnection: close\r\n\r\nBEARER {KEY.upper()}",
}


def unharmed(error: BaseException) -> None:
    """Assert that nothing of the key stands in an error or in what it says that it came from."""
    said = html.unescape(f"{error} {error!r} {error.args} {error.__cause__!r} {vars(error)}").lower()
    assert not any(KEY[i : i + 6].lower() in said for i in range(len(KEY) - 5)), said
    assert "\n" not in str(error)


@pytest.mark.parametrize("what", MALFORMED)
async def test_no_malformed_response_brings_the_key_into_an_error(what: str) -> None:
    async with raw(MALFORMED[what].replace("{key}", KEY).replace("{{}}", "{}").encode("latin-1")) as url:
        with pytest.raises(CTSError) as of_chat:
            await chat(spec_at(url), KEY)
        unharmed(of_chat.value)
        try:
            assert KEY not in await search(url, KEY)
        except CTSError as error:
            unharmed(error)


async def test_response_in_another_charset_loses_the_key_too() -> None:
    body = f"Bearer {KEY}".encode("utf-16")
    head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-16\r\n"
    async with raw(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body) as url:
        assert await search(url, KEY) == "Bearer (key)"


@pytest.mark.parametrize("form", ["&#00{0};", "&#x00{0:x};"])
def test_a_key_is_found_in_entities_with_leading_zeros(form: str) -> None:
    said = "".join(form.format(ord(character)) for character in KEY)
    assert redactor(KEY).text(f"no {said} here") == WITHHELD
