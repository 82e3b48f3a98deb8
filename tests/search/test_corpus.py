"""A corpus file: what it finds, what it refuses, and its index on disk."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cts_async.errors import InputError, ToolError
from cts_async.search.backends import Hit
from cts_async.search.backends.corpus import Corpus, CorpusBackend, read_documents

WIKI = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "wiki_en.jsonl"

DOCUMENTS = [
    ("d0", "https://a.org/wall", "长城", "长城是中国古代的军事防御工程。始建于春秋战国时期。"),
    ("d1", "https://a.org/relativity", "相对论", "相对论由爱因斯坦创立，分为狭义相对论和广义相对论。"),
    ("d2", "https://a.org/cats", "Cats", "Cats are small animals. They sleep most of the day and hunt mice."),
    ("d3", "https://a.org/dogs/", "Dogs", "Dogs bark. Some dogs chase cats, others herd sheep."),
    ("d4", "http://a.org/twin1", "Twin", "The very same text on ferries."),
    ("d5", "http://a.org/twin2", "Twin", "The very same text on ferries."),
    ("d6", "https://A.org/wiki/%E9%95%BF#top", "Mixed", "The Great Wall 长城 is mentioned in English text."),
]


def write(path: Path, documents: list[tuple[str, str, str, str]] = DOCUMENTS) -> Path:
    rows = [dict(zip(("id", "url", "title", "text"), row, strict=True)) for row in documents]
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    return Corpus.open(write(tmp_path / "docs.jsonl"), tmp_path / "cache")


def ids(hits: list[Hit]) -> list[str]:
    return [hit.id for hit in hits]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("长城是什么时候建的？", ["d0", "d6"]),
        ("谁创立了广义相对论", ["d1"]),
        ("cat", ["d2", "d3"]),
        ("herding dogs", ["d3"]),
        ("ferry", ["d4", "d5"]),
        ("the great wall", ["d6"]),
        ("zebra", []),
        ("", []),
        ("？！", []),
    ],
)
def test_ranking_in_both_languages(corpus: Corpus, query: str, expected: list[str]):
    assert ids(corpus.search(query, 10)) == expected


def test_score_is_bm25_by_hand(tmp_path: Path):
    """One document in two holds the term: idf = ln(1 + 1.5 / 1.5); tf = 1, both documents 4 words long."""
    path = write(tmp_path / "d", [("1", "u1", "x", "red fox"), ("2", "u2", "y", "blue whale")])
    (hit,) = Corpus.open(path, tmp_path).search("fox", 5)
    assert hit.score == pytest.approx(0.6931472 * 1 / (1 + 1.2), rel=1e-6)


def test_limits_ties_and_snippets(corpus: Corpus):
    assert ids(corpus.search("ferry", 1)) == ["d4"]
    assert corpus.search("ferry", 0) == []
    (hit,) = corpus.search("mice", 3, snippet_chars=60)
    assert hit.snippet == "They sleep most of the day and hunt mice."
    assert corpus.search("春秋", 1)[0].snippet == DOCUMENTS[0][3]


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://a.org/cats", "d2"),
        ("http://a.org/cats/", "d2"),
        (" a.org/cats#part ", "d2"),
        ("https://a.org/dogs", "d3"),
        ("https://a.org/wiki/长", "d6"),
        ("https://a.org/Cats", None),
        ("", None),
        ("http://[", None),
    ],
)
def test_page_is_found_by_url(corpus: Corpus, url: str, expected: str | None):
    page = corpus.page(url)
    assert (page and page.id) == expected


def test_exact_url_is_preferred_over_similar_ones(tmp_path: Path):
    path = write(tmp_path / "d", [("1", "http://x/a", "", "one"), ("2", "https://x/a", "", "two")])
    corpus = Corpus.open(path, tmp_path)
    found = [corpus.page(url) for url in ("https://x/a", "http://x/a", "x/a")]
    assert [page and page.id for page in found] == ["2", "1", "1"]


GOOD = b'{"id": "1", "url": "u1", "title": "t", "text": "x"}\n'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "docs.jsonl: contains no document"),
        (b"\n \n", "docs.jsonl: contains no document"),
        (GOOD + b"{oops\n", "docs.jsonl:2: not JSON"),
        (GOOD + b"[]\n", "docs.jsonl:2: a document must be a JSON object"),
        (
            GOOD + b"\n" + GOOD.replace(b"u1", b"u2"),
            "docs.jsonl:3: field 'id': '1' is already used on line 1",
        ),
        (GOOD + GOOD.replace(b'"1"', b'"2"'), "docs.jsonl:2: field 'url': 'u1' is already used on line 1"),
        (GOOD.replace(b'"title": "t", ', b""), "docs.jsonl:1: field 'title': is missing"),
        (GOOD.replace(b'"x"', b"null"), "docs.jsonl:1: field 'text': must be a string"),
        (GOOD.replace(b'"u1"', b'" "'), "docs.jsonl:1: field 'url': must not be empty"),
        (GOOD + GOOD.replace(b'"x"', b'"\xff"'), "docs.jsonl:2: not UTF-8 (byte 49 of the line)"),
        (GOOD + GOOD.replace(b'"x"', b'"x"\0'), "docs.jsonl:2: contains a NUL byte"),
        (GOOD + GOOD[:-3], "docs.jsonl:2: not JSON: unexpected end of data at column 50"),
        (b'{"id": ' + b"[" * 200 + b"]" * 200 + b"}\n", "docs.jsonl:1: the JSON is nested deeper than 100"),
    ],
)
def test_invalid_document_is_located(tmp_path: Path, content: bytes, message: str):
    path = tmp_path / "docs.jsonl"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        Corpus.open(path, tmp_path / "cache")
    assert message in str(caught.value)
    assert not (tmp_path / "cache").exists()


def test_missing_file_is_an_input_error(tmp_path: Path):
    with pytest.raises(InputError, match="is a directory: name the JSON Lines file in it"):
        Corpus.open(tmp_path)
    with pytest.raises(InputError, match="No such file"):
        Corpus.open(tmp_path / "none.jsonl")


def test_pipes_and_devices_are_refused_at_once(tmp_path: Path):
    """A pipe may never have a writer, and a device never ends."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/zero")
    for name in ("pipe", "device"):
        with pytest.raises(InputError, match=f"{name}: is not a regular file"):
            Corpus.open(tmp_path / name, tmp_path / "cache")


def test_endless_line_is_not_held_in_memory(tmp_path: Path):
    path = tmp_path / "docs.jsonl"
    path.write_bytes(GOOD + b"x" * 200)
    with (
        path.open("rb") as stream,
        pytest.raises(InputError, match=r"docs\.jsonl:2: is longer than 100 bytes"),
    ):
        list(read_documents(stream, path, max_line_bytes=100))


def test_odd_but_valid_files_are_read(tmp_path: Path):
    path = tmp_path / "d"
    path.write_bytes(
        b"\xef\xbb\xbf" + GOOD + b"\r\n" + GOOD.replace(b"1", b"2").replace(b'"x"', b'""').strip()
    )
    corpus = Corpus.open(path, tmp_path / "cache")
    assert len(corpus) == 2
    assert [page and page.id for page in (corpus.page("u1"), corpus.page("u2"))] == ["1", "2"]


def test_second_open_loads_the_cached_index(tmp_path: Path):
    path, cache = write(tmp_path / "d"), tmp_path / "cache"
    first = Corpus.open(path, cache)
    (folder,) = cache.iterdir()
    stamp = folder.stat().st_mtime_ns
    second = Corpus.open(path, cache)
    assert (first.from_cache, second.from_cache) == (False, True)
    assert folder.stat().st_mtime_ns == stamp
    for query in ("长城", "cats", "ferry", "广义"):
        assert first.search(query, 5) == second.search(query, 5)
    path.write_text(path.read_text(encoding="utf-8").replace("herd", "hold"), encoding="utf-8")
    assert not Corpus.open(path, cache).from_cache


@pytest.mark.parametrize("damage", ["cut", "flip", "remove", "no digests"])
def test_damaged_index_is_rebuilt(tmp_path: Path, damage: str):
    path, cache = write(tmp_path / "d"), tmp_path / "cache"
    expected = Corpus.open(path, cache).search("cats", 5)
    (folder,) = cache.iterdir()
    victim = folder / ("manifest.json" if damage == "no digests" else "data.csc.index.npy")
    content = victim.read_bytes()
    if damage == "cut":
        victim.write_bytes(content[:-3])
    elif damage == "flip":
        victim.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    else:
        victim.unlink()
    again = Corpus.open(path, cache)
    assert (again.from_cache, again.search("cats", 5)) == (False, expected)
    assert Corpus.open(path, cache).from_cache
    assert list(cache.iterdir()) == [folder]


def test_default_cache_follows_xdg_and_need_not_be_writable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    Corpus.open(write(tmp_path / "d"))
    assert len(list((tmp_path / "xdg" / "cts_async" / "corpus").iterdir())) == 1
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "d"))
    assert ids(Corpus.open(tmp_path / "d").search("cats", 1)) == ["d2"]


OPEN_AND_SEARCH = """
import sys
from pathlib import Path
from cts_async.search.backends.corpus import Corpus

corpus = Corpus.open(*map(Path, sys.argv[1:]))
print(*(hit.id for hit in corpus.search("长城", 5)))
"""


def test_two_processes_may_build_at_once(tmp_path: Path):
    path, cache = write(tmp_path / "d"), tmp_path / "cache"
    command = [sys.executable, "-c", OPEN_AND_SEARCH, path, cache]
    building = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate(timeout=60)[0] for process in building] == ["d0 d6\n"] * 2
    assert len(list(cache.iterdir())) == 1


def test_file_changed_in_use_is_an_error(tmp_path: Path, corpus: Corpus):
    os.truncate(tmp_path / "docs.jsonl", 10)
    with pytest.raises(InputError):
        corpus.page("https://a.org/cats")


async def test_backend_searches_and_fetches(tmp_path: Path):
    backend = CorpusBackend(write(tmp_path / "d"), tmp_path / "cache")
    assert (backend.name, backend.engine) == ("corpus", "")
    assert ids(await backend.search("cats", 1)) == ["d2"]
    assert (await backend.fetch("https://a.org/cats")).title == "Cats"
    assert await backend.load() is await backend.load()
    with pytest.raises(ToolError, match="no page at https://nowhere"):
        await backend.fetch("https://nowhere")


@pytest.fixture(scope="module")
def wiki(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    if not WIKI.exists():
        pytest.skip(f"{WIKI} is not here: the ten thousand Wikipedia leads are not part of this project")
    return Corpus.open(WIKI, tmp_path_factory.mktemp("wiki"))


@pytest.mark.parametrize(
    ("query", "title"),
    [
        ("who wrote the theory of general relativity", "General relativity"),
        ("who painted the Mona Lisa", "Mona Lisa"),
        ("inventor of the telephone", "Alexander Graham Bell"),
        ("Who discovered penicillin?", "Alexander Fleming"),
        ("first emperor of the Roman Empire", "Augustus"),
        ("how do vaccines against smallpox work", "Smallpox vaccine"),
    ],
)
def test_questions_find_their_article(wiki: Corpus, query: str, title: str):
    assert title in [hit.title for hit in wiki.search(query, 3)]
