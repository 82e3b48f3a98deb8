"""The page's own files: those that lie in `static/`, each with a tag by which a browser knows that it has it."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path
from typing import Final

from aiohttp import web

from cts_async.report.viewer.files import opened
from cts_async.report.viewer.refusal import Refused

STATIC: Final = Path(__file__).resolve().with_name("static")
INDEX: Final = "index.html"
_TYPES: Final = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".json": "application/json",
    ".woff2": "font/woff2",
}


def page_file(request: web.Request, name: str) -> web.Response:
    """The file of that name, or 304 where the browser has it. Raises Refused for any other name."""
    known = {path.name: path for path in STATIC.iterdir()} if STATIC.is_dir() else {}
    path = known.get(name)
    if path is None or path.suffix not in _TYPES:
        raise Refused(404, "there is no such page")
    with opened(path) as fd, open(fd, "rb", closefd=False) as file:
        data = file.read()
    tag = f'"{blake2b(data, digest_size=12).hexdigest()}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache"}
    if tag in request.headers.get("If-None-Match", ""):
        return web.Response(status=304, headers=headers)
    binary = path.suffix in (".png", ".woff2")
    return web.Response(
        body=data,
        content_type=_TYPES[path.suffix],
        charset=None if binary else "utf-8",
        headers=headers,
    )
