"""A static endpoint: nginx that answers every POST with one judge's reply, so that only clients cost anything."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.shared.process import ROOT

MODEL = "bench-1"
NUGGET_IDS = tuple(f"N{i}" for i in range(1, 9))
_LABELS = ("full", "partial", "none", "full", "full", "none", "partial", "full")

_CONFIG = """
daemon off;
worker_processes {processes};
pid {folder}/nginx.pid;
error_log {folder}/error.log warn;
{user}
events {{ worker_connections 4096; }}
http {{
  access_log off;
  keepalive_timeout 1h;
  keepalive_requests 1000000000;
  client_max_body_size 64m;
  client_body_buffer_size 256k;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  default_type application/json;
  server {{
    listen 127.0.0.1:{port} reuseport{tls};
{certificate}
    location = /status {{ stub_status; }}
{roles}
    location /provider/ {{
{headers}
      return 200 '{provider_reply}';
    }}
    location / {{ return 200 '{reply}'; }}
  }}
}}
"""


_TLS = ROOT / "tests" / "tls"
CA = _TLS / "ca.pem"
_CERTIFICATE = f"    ssl_certificate {_TLS}/server.pem;\n    ssl_certificate_key {_TLS}/server.pem;"

_HEADERS = {
    "x-ratelimit-limit-requests": "60000000",
    "x-ratelimit-limit-tokens": "600000000000",
    "x-ratelimit-remaining-requests": "5999${connection_requests}",
    "x-ratelimit-remaining-tokens": "59999999${connection_requests}",
    "x-ratelimit-reset-requests": "${connection_requests}ms",
    "x-ratelimit-reset-tokens": "1m${connection_requests}ms",
    "x-request-id": "req_$request_id",
    "openai-processing-ms": "$connection_requests",
    "openai-version": "2020-10-01",
    "openai-organization": "org-1234567890",
    "cf-ray": "$request_id-FRA",
}
"""What providers send beside each reply: limits that change from reply to reply, and identifiers."""

ROLES = {
    "clarify": json.dumps(["Which winter?", "Which island?", "Which harbour?"]),
    "support": "the ferry to the northern island in winter",
    "agent": "<think>It is known.</think>\n<answer>The ferry leaves the harbour at nine in winter.</answer>",
}
"""What every model under `/ROLE` says; all others are judges."""


class NoNginx(Exception):
    """nginx is not installed, or does not start."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What nginx has counted so far, its own status page included."""

    connections: int
    requests: int


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`url` is an OpenAI-style base URL."""

    url: str

    def of(self, role: str) -> str:
        """The base URL at which everybody plays this role, of `ROLES`."""
        return f"{self.url.removesuffix('/v1')}/{role}/v1"

    @property
    def provider(self) -> str:
        """The base URL of a judge whose replies look as providers send them: limits, details of usage, a snapshot."""
        return self.of("provider")

    def counts(self) -> Counts:
        with urllib.request.urlopen(f"{self.url.removesuffix('/v1')}/status") as response:
            page = response.read().decode()
        accepted, _, requests = map(int, re.findall(r"^ (\d+) (\d+) (\d+)", page, re.MULTILINE)[0])
        return Counts(accepted, requests)


def judge_reply() -> str:
    """One valid reply of a judge of eight nuggets, complete enough for every client."""
    rows = [{"id": id, "coverage": label} for id, label in zip(NUGGET_IDS, _LABELS, strict=True)]
    return _reply(json.dumps({"results": rows}))


def provider_reply() -> str:
    """The same reply with all that OpenAI sends in one."""
    reply = json.loads(judge_reply())
    reply["model"] = f"{MODEL}-2025-12-11"
    reply["choices"][0]["message"] |= {"refusal": None, "annotations": []}
    reply["choices"][0]["logprobs"] = None
    reply["usage"] |= {
        "prompt_tokens_details": {"cached_tokens": 512, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 0,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }
    reply |= {"service_tier": "default", "system_fingerprint": "fp_1234567890"}
    return json.dumps(reply)


def _reply(text: str) -> str:
    message = {"role": "assistant", "content": text}
    return json.dumps(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1795235534,
            "model": MODEL,
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100},
        }
    )


@contextmanager
def trusted() -> Iterator[None]:
    """While the block runs, processes that are started trust the tests' CA, and no other."""
    before = os.environ.get("SSL_CERT_FILE")
    os.environ["SSL_CERT_FILE"] = str(CA)
    try:
        yield
    finally:
        del os.environ["SSL_CERT_FILE"]
        if before is not None:
            os.environ["SSL_CERT_FILE"] = before


@contextmanager
def static_endpoint(processes: int = 1, *, tls: bool = False) -> Iterator[Endpoint]:
    """nginx on a free port of the loopback while the block runs, with so many worker processes. Raises NoNginx.

    With `tls` it has the certificate of `localhost` that the tests' CA has signed.
    """
    program = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")
    if program is None:
        raise NoNginx("needs nginx (apt-get install nginx-light)")
    with tempfile.TemporaryDirectory(prefix="cts-nginx-") as folder:
        port = _free_port()
        config = Path(folder) / "nginx.conf"
        reply = _quoted(judge_reply())
        roles = "\n".join(
            f"    location /{role}/ {{ return 200 '{_quoted(_reply(text))}'; }}"
            for role, text in ROLES.items()
        )
        headers = "\n".join(f'      add_header {name} "{value}";' for name, value in _HEADERS.items())
        user = "user root;" if os.geteuid() == 0 else ""
        config.write_text(
            _CONFIG.format(
                folder=folder,
                port=port,
                tls=" ssl" if tls else "",
                certificate=_CERTIFICATE if tls else "",
                reply=reply,
                provider_reply=_quoted(provider_reply()),
                headers=headers,
                user=user,
                processes=processes,
                roles=roles,
            )
        )
        log = Path(folder) / "error.log"
        command = [program, "-c", str(config), "-p", folder, "-e", str(log)]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            _wait_for(port, server, log)
            address = f"https://localhost:{port}" if tls else f"http://127.0.0.1:{port}"
            yield Endpoint(f"{address}/v1")
        finally:
            server.terminate()
            server.wait()


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


def _wait_for(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(100):
        if server.poll() is not None:
            raise NoNginx(f"nginx does not start: {log.read_text()[-500:] if log.exists() else '(no log)'}")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise NoNginx("nginx does not listen")
