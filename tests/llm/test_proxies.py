"""Proxies of the environment: which leads where, and real calls through a real one."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import sys
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path

import pytest
from aiohttp import web
from fake_proxy import CA, FakeProxy, server_tls
from fake_web import served
from llm_calls import chat, failures, search, spec_at
from typed_commands import cts_in
from yarl import URL

import cts_async
from cts_async.errors import CTSError, ProviderRefused, TransientError, UsageError
from cts_async.llm.apis import ChatRequest
from cts_async.llm.model import Client
from cts_async.llm.proxies import proxy_for

PROXY, OTHER = "http://proxy.lan:3128", "http://other.lan:8080"


def proxy_of(environ: Mapping[str, str], url: str) -> str | None:
    found = proxy_for(URL(url), environ)
    return str(found.url) if found else None


@pytest.mark.parametrize(
    ("environ", "https", "http"),
    [
        ({}, None, None),
        ({"HTTPS_PROXY": PROXY}, PROXY, None),
        ({"https_proxy": PROXY, "HTTPS_PROXY": OTHER}, PROXY, None),
        ({"https_proxy": "", "HTTPS_PROXY": OTHER}, None, None),
        ({"HTTP_PROXY": PROXY}, None, PROXY),
        ({"http_proxy": PROXY}, None, PROXY),
        ({"HTTP_PROXY": PROXY, "REQUEST_METHOD": "GET"}, None, None),
        ({"http_proxy": PROXY, "REQUEST_METHOD": "GET"}, None, PROXY),
        ({"ALL_PROXY": PROXY}, PROXY, PROXY),
        ({"all_proxy": PROXY, "HTTPS_PROXY": OTHER}, OTHER, PROXY),
        ({"HTTPS_PROXY": "proxy.lan:3128"}, PROXY, None),
        ({"HTTPS_PROXY": "https://proxy.lan"}, "https://proxy.lan", None),
        ({"HTTPS_PROXY": OTHER, "ALL_PROXY": "socks5://s:1"}, OTHER, UsageError),
    ],
)
def test_each_scheme_has_the_proxy_of_its_variable(
    environ: dict[str, str], https: str | None, http: str | type[UsageError] | None
) -> None:
    assert proxy_of(environ, "https://api.example/v1") == https
    if http is UsageError:
        with pytest.raises(UsageError):
            proxy_of(environ, "http://api.example/v1")
    else:
        assert proxy_of(environ, "http://api.example/v1") == http


@pytest.mark.parametrize(
    ("no_proxy", "url", "direct"),
    [
        ("example.com", "https://example.com/v1", True),
        ("example.com", "https://api.example.com/v1", True),
        (".example.com", "https://api.example.com/v1", True),
        ("*.example.com", "https://api.example.com/v1", True),
        ("example.com", "https://notexample.com/v1", False),
        ("Example.COM", "https://api.example.com/v1", True),
        ("a.lan , example.com", "https://api.example.com/v1", True),
        ("example.com:8443", "https://api.example.com:8443/v1", True),
        ("example.com:8443", "https://api.example.com/v1", False),
        ("*", "https://api.example.com/v1", True),
        ("a.lan,*", "https://api.example.com/v1", True),
        ("10.0.0.0/8", "https://10.1.2.3/v1", True),
        ("10.0.0.0/8", "https://11.1.2.3/v1", False),
        ("10.0.0.0/8", "https://api.example.com/v1", False),
        ("10.1.2.3", "https://10.1.2.3/v1", True),
        ("10.1.2.3:443", "https://10.1.2.3/v1", True),
        ("fd00::/8", "https://[fd00::7]:8443/v1", True),
        ("[fd00::7]", "https://[fd00::7]/v1", True),
        ("[fd00::7]:443", "https://[fd00:0::7]/v1", True),
        ("nonsense/77", "https://10.1.2.3/v1", False),
        ("", "https://127.0.0.1:8080/v1", True),
        ("", "https://127.1.2.3/v1", True),
        ("", "https://[::1]:8080/v1", True),
        ("", "https://localhost:8080/v1", True),
    ],
)
def test_no_proxy_names_hosts_domains_ports_and_networks(no_proxy: str, url: str, direct: bool) -> None:
    assert (proxy_of({"HTTPS_PROXY": PROXY, "NO_PROXY": no_proxy}, url) is None) is direct


@pytest.mark.parametrize(
    "value", ["socks5://u:secret@s:1", "socks5h://s", "ftp://u:secret@s", "http://", "http://u:secret@"]
)
def test_a_proxy_that_cannot_be_used_is_an_error_that_names_its_variable(value: str) -> None:
    with pytest.raises(UsageError, match="^ALL_PROXY") as caught:
        proxy_of({"ALL_PROXY": value}, "https://api.example/v1")
    assert "secret" not in str(caught.value)


def test_credentials_are_decoded_and_not_shown() -> None:
    environ = {"HTTPS_PROXY": "http://me:p%40ss:word@proxy.lan:3128"}
    proxy = proxy_for(URL("https://a.b"), environ)
    assert proxy is not None
    assert proxy.headers == {"Proxy-Authorization": f"Basic {b64encode(b'me:p@ss:word').decode()}"}
    assert str(proxy) == "proxy http://proxy.lan:3128 (HTTPS_PROXY)"
    assert "ss:word" not in repr(proxy)


# --- Calls through a proxy ----------------------------------------------------------------------------------


async def answer(request: web.Request) -> web.Response:
    return web.json_response({"choices": [{"message": {"content": f"{request.method} {request.path_qs}"}}]})


@pytest.fixture
def trusting(monkeypatch: pytest.MonkeyPatch) -> None:
    """aiohttp trusts the tests' own CA."""
    monkeypatch.setattr("aiohttp.connector._SSL_CONTEXT_VERIFIED", ssl.create_default_context(cafile=str(CA)))


async def texts(url: str, times: int, **environ: str) -> list[str]:
    """The replies to several calls of one client."""
    request = ChatRequest(({"role": "user", "content": "hello"},))
    async with Client(environ) as client:
        return [(await client.chat(spec_at(url), request)).text for _ in range(times)]


async def test_https_call_uses_a_tunnel(trusting: None) -> None:
    async with served(answer, tls=server_tls()) as url:
        port = URL(url).port or 0
        async with FakeProxy({"api.test": port}, login="me:p@ss") as proxy:
            with_login = proxy.url.replace("//", "//me:p%40ss@")
            replies = await texts(f"https://api.test:{port}/v1", 3, HTTPS_PROXY=with_login)
    assert replies == ["POST /v1/chat/completions"] * 3
    assert proxy.asked == [f"CONNECT api.test:{port} HTTP/1.1"]  # the tunnel is kept alive
    assert "hello" not in "".join(proxy.heads)


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_proxy_may_be_reached_over_tls_itself(scheme: str, trusting: None) -> None:
    of_server = server_tls() if scheme == "https" else None
    async with served(answer, tls=of_server) as url:
        hosts = {"api.test": URL(url).port or 0}
        async with FakeProxy(hosts, tls=server_tls()) as proxy:
            assert await texts(f"{scheme}://api.test/v1", 2, ALL_PROXY=proxy.url)
    assert len(proxy.asked) == 1


async def test_a_proxy_with_a_bad_certificate_is_named(trusting: None) -> None:
    async with FakeProxy({}, tls=server_tls("expired")) as proxy:
        for error in await failures("https://api.test/v1", ALL_PROXY=proxy.url):
            assert type(error) is ProviderRefused
            assert f"the certificate of the proxy {proxy.url} (ALL_PROXY) is refused" in str(error)


async def test_http_call_uses_the_absolute_form() -> None:
    async with served(answer) as url, FakeProxy({"api.test": URL(url).port or 0}, login="me:pass") as proxy:
        with_login = proxy.url.replace("//", "//me:pass@")
        replies = await texts("http://api.test/v1", 2, http_proxy=with_login)
    assert replies == ["POST /v1/chat/completions"] * 2
    assert proxy.asked == ["POST http://api.test/v1/chat/completions HTTP/1.1"]
    assert "\r\nHost: api.test\r\n" in proxy.heads[0]


async def test_no_proxy_and_loopback_bypass_the_proxy() -> None:
    async with served(answer) as url, FakeProxy({}) as proxy:
        assert await chat(spec_at(url), ALL_PROXY=proxy.url, NO_PROXY="127.0.0.1")
        assert await chat(spec_at(url.replace("127.0.0.1", "localhost")), ALL_PROXY=proxy.url)
    assert proxy.asked == []


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_search_service_is_called_through_the_proxy(scheme: str, trusting: None) -> None:
    async with served(answer, tls=server_tls() if scheme == "https" else None) as url:
        port = URL(url).port or 0
        host = f"api.test:{port}"
        async with FakeProxy({"api.test": port}) as proxy:
            text = await search(f"{scheme}://{host}/s?q=ferry", ALL_PROXY=proxy.url)
    assert "GET /s?q=ferry" in text
    asked = f"CONNECT {host}" if scheme == "https" else f"GET http://{host}/s?q=ferry"
    assert proxy.asked == [f"{asked} HTTP/1.1"]


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_failures_name_the_proxy_and_stop_the_provider_only_where_it_refuses(scheme: str) -> None:
    async with FakeProxy({"api.test": 9}, login="me:pass") as proxy:
        wrong = proxy.url.replace("//", "//me:wrong-password@")
        for error in await failures(f"{scheme}://api.test/v1", ALL_PROXY=wrong):
            assert type(error) is ProviderRefused
            assert f"the proxy {proxy.url} (ALL_PROXY) asks for a login (407)" in str(error)
            assert "wrong-password" not in f"{error} {error!r}"
    for url in ("http://127.0.0.1:9", "http://no-such-proxy.invalid:3128"):
        for error in await failures(f"{scheme}://api.test/v1", ALL_PROXY=url):
            assert isinstance(error, TransientError)
            assert f"no connection to the proxy {url} (ALL_PROXY): " in str(error)
            assert error.unsent


@pytest.mark.parametrize(
    ("status", "kind", "problem"),
    [
        (403, ProviderRefused, "refuses to connect to api.test (403)"),
        (502, TransientError, "cannot connect to api.test (HTTP 502)"),
    ],
)
async def test_status_of_the_proxy_decides_whether_to_try_again(
    status: int, kind: type[CTSError], problem: str
) -> None:
    async with FakeProxy({}, status=status) as proxy:
        for error in await failures("https://api.test/v1", ALL_PROXY=proxy.url):
            assert type(error) is kind
            assert f"the proxy {proxy.url} (ALL_PROXY) {problem}" in str(error)
            if isinstance(error, TransientError):
                assert (error.status, error.unsent) == (None, True)


async def test_server_that_is_no_proxy_is_named() -> None:
    async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(shout, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        for error in await failures("https://api.test/v1", ALL_PROXY=url):
            assert isinstance(error, TransientError)
            assert f"no connection to the proxy {url} (ALL_PROXY): " in str(error)


# --- As typed -----------------------------------------------------------------------------------------------


async def cts(cwd: Path, *args: str, **environ: str) -> tuple[int | None, str, str]:
    """The exit code, standard output and standard error of a command."""
    folder = str(Path(cts_async.__file__).parents[1])
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "cts_async.cli.main", *args),
        cwd=cwd,
        env={"PATH": os.environ["PATH"], "HOME": str(cwd), "PYTHONPATH": folder} | environ,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(), 60)
    return process.returncode, out.decode(), err.decode()


async def test_doctor_goes_through_the_proxy_with_the_ca_of_ssl_cert_file(tmp_path: Path) -> None:
    url = "https://api.test/v1"
    (tmp_path / "cts.toml").write_text(f'[models.mine]\nbase_url = "{url}"\nmodel = "m-1"\n')
    doctor = ("doctor", "--ask", "mine", "--config", "cts.toml", "--json")
    async with (
        served(answer, tls=server_tls()) as server,
        FakeProxy({"api.test": URL(server).port or 0}) as proxy,
    ):
        environ = {"HTTPS_PROXY": proxy.url.replace("//", "//me:secret@")}
        _, good, good_err = await cts(tmp_path, *doctor, SSL_CERT_FILE=str(CA), **environ)
        _, bad, bad_err = await cts(tmp_path, *doctor, **environ)
    found = {finding["name"]: finding for finding in json.loads(good)}
    through = f"{proxy.url} (HTTPS_PROXY)"
    assert found["proxy for https"]["text"] == f"{through}, with a login"
    assert found["model mine"]["text"].endswith(f"{url} reachable through the proxy {through}")
    reply = "answers: 'POST /v1/chat/completions'"
    assert found["ask mine"] == {"name": "ask mine", "ok": True, "text": reply}
    refused = {finding["name"]: finding for finding in json.loads(bad)}
    for name in ("model mine", "ask mine"):
        assert not refused[name]["ok"]
        assert "certificate of api.test is refused" in refused[name]["text"]
        assert "SSL_CERT_FILE" in refused[name]["text"]
    assert "secret" not in good + bad + good_err + bad_err


def test_socks_proxy_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    (tmp_path / "cts.toml").write_text('[models.mine]\nbase_url = "https://api.test/v1"\nmodel = "m-1"\n')
    run = ("run", "-m", "mine", "--all", "mine", "-k", "2", "--config", "cts.toml")
    done = cts_in(tmp_path, *run, ALL_PROXY="socks5://me:secret@s:1080")
    assert (done.returncode, "ALL_PROXY: SOCKS5 proxies are not supported" in done.stderr) == (2, True)
    assert "secret" not in done.stderr
    assert "runs" not in os.listdir(tmp_path)
