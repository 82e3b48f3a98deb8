"""The catalogue of engines and readers: what is shipped, what a user may change, how each mistake is reported."""

from __future__ import annotations

import pickle
from pathlib import Path

import aiohttp
import pytest
from written_files import write_config

from cts_async.errors import InputError, UsageError
from cts_async.llm.catalog import load_catalogue
from cts_async.search.backends.services import HttpEngine, open_reader
from cts_async.search.catalog import SearchCatalogue, load_search

MINE = """
[search.searx]
url = "http://127.0.0.1:8888/search?q={query}&format=json"
engine = "SearXNG"
fields = { snippet = "content" }

[search.brave]
url = "https://api.search.brave.com/res/v1/web/search?q={query}&count={limit}"
key_env = "BRAVE_API_KEY"
key_header = "X-Subscription-Token"
key_format = "{key}"
results = "web.results"

[search.old_tavily]
url = "https://api.tavily.com/search"
key_env = "TAVILY_API_KEY"
body = { api_key = "{key}", query = "{query}" }

[search.here]
kind = "corpus"
path = "documents.jsonl"

[visit.direct]
allow = ["wiki.lan", "10.1.0.0/16"]
max_bytes = 1_000_000

[visit.mine]
url = "http://127.0.0.1:9000/read?url={url}"
text = "page.text"
"""


@pytest.fixture(scope="module")
def shipped() -> SearchCatalogue:
    return load_search()


def test_shipped_catalogue_has_webdancer_tools_and_keyless_ones(shipped: SearchCatalogue) -> None:
    assert set(shipped.engines) == {"serper", "corpus"}
    assert set(shipped.readers) == {"jina", "direct", "corpus"}
    serper, jina = shipped.engine("serper"), shipped.reader("jina")
    assert (serper.url, serper.key_env) == ("https://google.serper.dev/search", "SERPER_API_KEY")
    assert (serper.kind, serper.engine) == ("serper", "Google")
    assert (jina.kind, jina.url, jina.key_env) == ("jina", "https://r.jina.ai", "JINA_API_KEY")
    assert shipped.reader("direct").allow == ()


def test_unknown_name_lists_known_ones(shipped: SearchCatalogue) -> None:
    with pytest.raises(
        UsageError, match="unknown search engine 'sreper'; did you mean 'serper'. known: corpus, serper"
    ):
        shipped.engine("sreper")
    with pytest.raises(UsageError, match="unknown page reader 'x'; known: corpus, direct, jina"):
        shipped.reader("x")


def test_user_tables_are_read(tmp_path: Path) -> None:
    catalogue = load_search(write_config(tmp_path, MINE))
    searx, brave = catalogue.engine("searx"), catalogue.engine("brave")
    assert (searx.kind, searx.method, searx.key_header) == ("http", "GET", "")
    assert searx.account == "127.0.0.1:8888"
    assert (searx.hit_fields.title, searx.hit_fields.snippet) == ("title", "content")
    assert (brave.key_header, brave.account) == ("X-Subscription-Token", "BRAVE_API_KEY")
    tavily = catalogue.engine("old_tavily")
    assert (tavily.method, tavily.key_header) == ("POST", "")
    assert catalogue.engine("here").path == tmp_path / "documents.jsonl"
    assert catalogue.reader("mine").text == "page.text"


def test_user_table_overrides_shipped_one_by_field(tmp_path: Path) -> None:
    direct = load_search(write_config(tmp_path, MINE)).reader("direct")
    assert (direct.allow, direct.max_bytes) == (("wiki.lan", "10.1.0.0/16"), 1_000_000)
    assert (direct.kind, direct.timeout_s, direct.max_redirects) == ("direct", 20, 5)


def test_empty_key_env_means_no_key(tmp_path: Path) -> None:
    text = '[visit.jina]\nkey_env = ""\nrequests_per_min = 20\n'
    jina = load_search(write_config(tmp_path, text)).reader("jina")
    assert (jina.key_env, jina.requests_per_min, jina.account) == ("", 20, "r.jina.ai")


def test_missing_key_is_named(tmp_path: Path) -> None:
    catalogue = load_search(write_config(tmp_path, MINE))
    serper = catalogue.engine("serper")
    assert serper.missing_key({"SERPER_API_KEY": " "}) == "SERPER_API_KEY"
    assert serper.missing_key({"SERPER_API_KEY": "k"}) == catalogue.engine("searx").missing_key({}) == ""


HTTP = '[search.m]\nurl = "http://h/?q={query}"\n'
READ = '[visit.m]\nurl = "http://h/{url}"\n'


@pytest.mark.parametrize(
    ("text", "line", "field", "message"),
    [
        (HTTP + "max_concurency = 3", 3, "search.m.max_concurency", "did you mean 'max_concurrency'?"),
        (HTTP + "feilds = {}", 3, "search.m.feilds", "did you mean 'fields'?"),
        (HTTP + 'fields = { link = "a" }', 3, "search.m.fields.link", "unknown field"),
        (HTTP + 'fields = { url = "" }', 3, "search.m.fields.url", "at least 1 character"),
        (HTTP + "[search.m.fields]\ntitle = 3", 3, "search.m.fields.title", "valid string"),
        (HTTP + 'kind = "https"', 3, "search.m.kind", "'serper', 'http' or 'corpus'"),
        (HTTP + 'method = "PUT"', 3, "search.m.method", "'GET' or 'POST'"),
        (HTTP + "requests_per_min = 0", 3, "search.m.requests_per_min", "greater than 0"),
        (HTTP + 'api_key = "sk-1"', 3, "search.m.api_key", "use key_env"),
        (HTTP + 'key_env = "sk-1"', 3, "search.m.key_env", "the NAME of an environment variable"),
        (HTTP + 'headers = { X-API-Key = "sk-1" }', 3, "search.m.headers.X-API-Key", "use key_env"),
        (HTTP + 'body = { a = [{ api_key = "sk-1" }] }', 3, "search.m.body.a.api_key", "write {key} here"),
        *(
            (HTTP + f'headers = {{ {name} = "sk-1" }}', 3, f"search.m.headers.{name}", "write {key} here")
            for name in ("X-Token", "X-Auth-User", "X-Subscription-Token", "Cookie")
        ),
        (HTTP + 'body = { a = "Bearer 0123456789abcdefg" }', 3, "search.m.body.a", "looks like a key"),
        (HTTP + 'body = { access_token = "sk-1" }', 3, "search.m.body.access_token", "write {key} here"),
        (HTTP + 'zh_params = { apiKey = "sk-1" }', 3, "search.m.zh_params.apiKey", "write {key} here"),
        (HTTP + 'key_format = "Bearer sk-1"', 3, "search.m.key_format", "has no {key}"),
        *(
            (HTTP + f'headers = {{ "{name}" = "x" }}', 3, f"search.m.headers.{name}", "of the connection")
            for name in ("Host", "hOST", "Content-Length", "Transfer-Encoding", "TE", "Proxy-Connection")
        ),
        *(
            (HTTP + f'headers = {{ "{name}" = "x" }}', 3, f"search.m.headers.{name}", "name of a header")
            for name in ("X A", "X:A", "Xé", "")
        ),
        *(
            (HTTP + f'headers = {{ X-A = "{value}" }}', 3, "search.m.headers.X-A", "one line of ASCII")
            for value in (r"a\r\nHost: evil", r"a\nb", r"a\u0000", " a", "a ", "é", r"a\u2028b")
        ),
        (HTTP + 'headers = { X-A = "1", x-a = "2" }', 3, "search.m.headers.x-a", "is given twice"),
        (HTTP + r'key_header = "X-Key\r\nHost"', 3, "search.m.key_header", "name of a header"),
        (HTTP + 'key_header = "Host"', 3, "search.m.key_header", "of the connection"),
        (HTTP + r'key_format = "{key}\r\nHost: evil"', 3, "search.m.key_format", "one line of ASCII"),
        (READ + r'user_agent = "a\r\nHost: evil"', 3, "visit.m.user_agent", "one line of ASCII"),
        ('[search.serper]\nheaders = { Host = "e" }', 2, "search.serper.headers.Host", "of the connection"),
        *(
            (f'[search.m]\nurl = "http://h/?q={{query}}&{name}=sk-1"', 2, "search.m.url", f"after {name}=")
            for name in ("api_key", "auth", "sig", "bearer_token", "X-Amz-Signature")
        ),
        (
            '[search.m]\nurl = "http://{key}.h/?q={query}"',
            2,
            "search.m.url",
            "must not contain a {placeholder}",
        ),
        ('[search.m]\nurl = "http://h/?q=x"', 2, "search.m.url", "has no {query}"),
        ('[search.m]\nurl = "http://h/{query}/{page}"', 2, "search.m.url", "unknown placeholder {page}"),
        ('[search.m]\nurl = "https://sk-1@h/{query}"', 2, "search.m.url", "use key_env"),
        ('[search.m]\nurl = "h/{query}"', 2, "search.m.url", "not an http(s) address"),
        ("[search.m]\n", 1, "search.m.url", "is missing"),
        ('[search.serper]\nurl = ""', 2, "search.serper.url", "is missing"),
        ("[search]\nm = 3", None, "search.m", "expected a table"),
        ('[search."a b"]\nurl = "http://h/{query}"', None, "a b", "letters, digits"),
        (READ + "max_redirects = 21", 3, "visit.m.max_redirects", "less than or equal to 20"),
        ('[visit.m]\nurl = "http://h/{query}"', 2, "visit.m.url", "unknown placeholder {query}"),
        ('[visit.m]\nurl = "http://h/"', 2, "visit.m.url", "has no {url}"),
        ('[visit.direct]\nallow = ["10.0.0.1/8"]', 2, "visit.direct.allow", "'10.0.0.1/8' is neither"),
        ("visit = 3", None, "visit", "expected a table"),
        ("[vist.m]", None, "vist", "did you mean 'visit'?"),
    ],
)
def test_mistake_is_reported_with_file_line_and_field(
    tmp_path: Path, text: str, line: int | None, field: str, message: str
) -> None:
    path = write_config(tmp_path, text)
    with pytest.raises(InputError) as caught:
        load_search(path)
    error = caught.value
    assert (error.path, error.line, error.field) == (str(path), line, field)
    assert message in error.problem
    assert "sk-" not in str(error)
    assert "\n" not in str(error)


def test_models_and_tools_share_one_file(tmp_path: Path) -> None:
    path = write_config(tmp_path, MINE + '[models.m]\nbase_url = "http://h/v1"\nmodel = "x"\n')
    assert "m" in load_catalogue(path).models
    assert "searx" in load_search(path).engines


def test_spec_is_picklable_and_has_an_identity(tmp_path: Path) -> None:
    catalogue = load_search(write_config(tmp_path, MINE))
    for spec in (*catalogue.engines.values(), *catalogue.readers.values()):
        assert pickle.loads(pickle.dumps(spec)) == spec
        assert spec.model_copy(update={"max_concurrency": 99, "timeout_s": 1.0}).identity == spec.identity
        assert (
            spec.kind == "corpus"
            or spec.model_copy(update={"url": "http://other/"}).identity != spec.identity
        )


async def test_each_kind_opens_its_reader(tmp_path: Path) -> None:
    catalogue = load_search(write_config(tmp_path, MINE))
    async with aiohttp.ClientSession() as session:
        kinds = {
            name: type(open_reader(catalogue.reader(name), {"JINA_API_KEY": "k"}, session)).__name__
            for name in ("jina", "direct", "mine")
        }
    assert kinds == {"jina": "JinaReader", "direct": "DirectReader", "mine": "HttpReader"}


async def test_missing_or_broken_key_is_a_usage_error(shipped: SearchCatalogue) -> None:
    async with aiohttp.ClientSession() as session:
        with pytest.raises(UsageError, match="serper needs a key: set SERPER_API_KEY"):
            HttpEngine(shipped.engine("serper"), {}, session)
        with pytest.raises(UsageError, match="JINA_API_KEY is not a valid key") as caught:
            open_reader(shipped.reader("jina"), {"JINA_API_KEY": "secret\nline"}, session)
        assert "secret" not in str(caught.value)
