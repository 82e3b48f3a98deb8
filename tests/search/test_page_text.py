"""What is read of a page: its charset, its main text, and nothing that harms."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest
from fake_web import article
from hypothesis import given, settings
from hypothesis import strategies as st

from cts_async.search.backends import page_text as module
from cts_async.search.backends.page_text import answer_to, decoded, page_text

ZH = "渡轮每天早上九点从旧码头开往小岛,星期一除外。成人票价为四欧元,儿童半价。" * 5


def test_process_goes_on_where_the_system_has_no_limit_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on macOS."""
    limited = []

    def set_limit(kind: int, limit: tuple[int, int]) -> None:
        if kind == resource.RLIMIT_AS:
            raise ValueError("current limit exceeds maximum limit")
        limited.append(kind)

    monkeypatch.setattr(resource, "setrlimit", set_limit)
    module.limit_memory()
    assert limited == [resource.RLIMIT_CORE]


@pytest.mark.parametrize(
    ("data", "charset", "text"),
    [
        ("渡轮".encode("gbk"), "gbk", "渡轮"),
        ("渡轮㐀".encode("gb18030"), "gb2312", "渡轮㐀"),
        ("渡輪".encode("big5"), "big5", "渡輪"),
        ("フェリー".encode("shift_jis"), "Shift_JIS", "フェリー"),
        ("Fähre “x”".encode("cp1252"), "iso-8859-1", "Fähre “x”"),
        ("Fähre".encode(), "", "Fähre"),
        ("Fähre".encode("utf-8-sig"), "gbk", "Fähre"),
        ("渡轮".encode("utf-16"), "utf-8", "渡轮"),
        (b"plain", "nonsense", "plain"),
        (b"\xff\xfe\x00", "utf-8", "\ufffd"),
        (b"ok \xff", "utf-8", "ok \ufffd"),
    ],
)
def test_bytes_are_decoded_by_declared_charset(data: bytes, charset: str, text: str) -> None:
    assert decoded(data, charset) == text


@pytest.mark.parametrize(
    "head",
    [
        '<meta charset="gbk">',
        "<meta charset=gb2312>",
        '<meta http-equiv="Content-Type" content="text/html; charset=gbk">',
        '<?xml version="1.0" encoding="GBK"?>',
    ],
)
@pytest.mark.parametrize("charset", ["", "iso-8859-1", "ascii", "utf-8"])
def test_charset_of_the_page_wins_over_a_vague_or_wrong_header(head: str, charset: str) -> None:
    page = f"<html><head>{head}</head><body>{ZH}</body></html>"
    assert ZH in decoded(page.encode("gbk"), charset)


def test_undeclared_chinese_charset_is_detected() -> None:
    assert decoded(ZH.encode("gb18030"), "") == ZH


@pytest.mark.parametrize(
    "charset", ["zip", "hex", "rot13", "unicode_escape", "punycode", "undefined", "utf-7"]
)
def test_python_codecs_that_are_no_charsets_are_not_used(charset: str) -> None:
    assert decoded(b"plain \\u0041 +AGE-", charset) == "plain \\u0041 +AGE-"


@given(st.binary(max_size=200), st.text(max_size=20))
@settings(max_examples=2 * settings.default.max_examples)
def test_any_bytes_decode_under_any_label(data: bytes, charset: str) -> None:
    decoded(data, charset).encode("utf-8")


def test_main_text_is_extracted_with_tables_and_without_navigation() -> None:
    rows = "".join(f"<tr><td>Pier {i}</td><td>{i}:30</td></tr>" for i in range(20))
    page = article().replace(
        "<article>", "<nav>Home | About | Imprint</nav><script>alert(1)</script><article>"
    )
    page = page.replace("</article>", f"<table>{rows}</table></article>")
    title, text = page_text(page.encode(), "html", "utf-8")
    assert "Pier 7" in text
    assert title == "Ferries"
    assert "Sentence number 3 says that the ferry leaves at 3 o'clock from pier 3." in text
    assert "alert" not in text
    assert "Imprint" not in text


@pytest.mark.parametrize("data", [b"", b" ", b"<html></html>", b"<!-- x -->", b"<script>x</script>"])
def test_empty_page_has_no_text(data: bytes) -> None:
    assert page_text(data, "html", "")[1].strip() == ""


def test_feed_is_read_without_expanding_entities() -> None:
    feed = b"<?xml version='1.0'?><rss><title>News</title><item><title>A</title>B &amp; C</item></rss>"
    assert page_text(feed, "xml", "") == ("News", "News\nA\nB & C")
    secret = b'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>before &x; after</a>'
    assert "root:" not in page_text(secret, "xml", "")[1]
    laughs = b'<!DOCTYPE a [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]><a>&b;</a>'
    assert "haha" not in page_text(laughs, "xml", "")[1]
    assert page_text(b"no xml", "xml", "") == ("", "")


def test_exhausted_process_answers_with_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (MemoryError, RecursionError):

        def fail(*_: object, error: type[Exception] = error) -> tuple[str, str]:
            raise error

        monkeypatch.setattr(module, "page_text", fail)
        assert answer_to(b"x", "plain", "", 4) == {}


def test_program_imports_nothing_of_this_package() -> None:
    code = (
        f"import runpy, sys; runpy.run_path({str(Path(module.__file__))!r}); "
        "print([name for name in sys.modules if name.startswith('cts_async')])"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
