"""The pages of the viewer as files that open without a server: `cts view --export`.

    index.html              the page; its content security policy allows nothing but the files beside it
    static/                 style sheets, and all modules as one classic script
    data/HASH.js            recorded("KEY", "JSON"): one answer of the interface (see `pages`)
    .cts-export             marks the folder as an export, which the next one may replace

Browsers refuse modules and requests to a page that was opened from a file, but run the scripts beside it. So an answer
is a script, loaded when a page asks for it: KEY is its name and parameters, HASH the CRC-32 of KEY
(`static/recorded.js`, which takes the place of `static/api.js`). Lists of instances are recorded whole, and filtered
and sorted in the page.

Exports are given to others: paths are cut to the name of their file, and there are no raw journal records.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote
from zlib import crc32

import orjson

from cts_async.config import home_folder
from cts_async.errors import UsageError, write_error
from cts_async.runs.index import NO_RUN, Json, Refused
from cts_async.runs.manifest import ORIG, name_of_data
from cts_async.runs.results import instance_name
from cts_async.safe_files import make_folder, open_file, open_folder, replace_file
from cts_async.viewer.instances import MAX_ROWS, Parameters, searched_texts
from cts_async.viewer.leaderboards import differences_of, leaderboards_of
from cts_async.viewer.library import Library
from cts_async.viewer.matrix import SHOWN
from cts_async.viewer.pages import Endpoints

STATIC: Final = Path(__file__).resolve().with_name("static")
MAX_PAIRS: Final = 66
"""Differences of two runs over the same data that an export records, in both orders: those of 12 runs, as many as the
matrix has columns. Over 518 instances each takes a few tenths of a second."""
MARK: Final = ".cts-export"
_MARK_TEXT: Final = (
    b"Written by cts view --export. The next export into this folder replaces index.html, static and data.\n"
)
_START: Final = "main.js"
_INSTEAD: Final = {"api.js": "recorded.js"}
"""Modules that are another one in an export."""
# 'self' is no file in some browsers, "file:" is nothing on a web server.
_POLICY: Final = (
    "default-src 'none'; script-src 'self' file:; style-src 'self' file:; img-src 'self' file:; "
    "base-uri 'none'; form-action 'none'"
)
_IMPORT: Final = re.compile(r'^import \{([^}]*)\} from "\./([\w.-]+)";$', re.MULTILINE)
_EXPORT: Final = re.compile(r"^export (?=(?:async function|function|const|class) (\w+))", re.MULTILINE)
_PATH: Final = re.compile(r"(?<![^\s=:,;'\"(\[])(?:~[^\s/'\"]*)?/(?=[^\s/'\"])(?:[^\s'\"]*/)?")
"""An absolute path without the name at its end, and none within an address of the web."""
_NO_HOME: Final = re.compile(r"(?!)")


def _home_pattern() -> re.Pattern[str]:
    """Find the home directory in paths; nothing where it is "/", as in many containers, or where there is none."""
    home = home_folder()
    if home is None or home == Path("/"):
        return _NO_HOME
    return re.compile(re.escape(str(home)) + r"(?![\w.-])")


_HOME: Final = _home_pattern()
_DATA_FILE: Final = re.compile(r"[0-9a-f]{8}\.js")

Answer = tuple[str, Parameters, Any]
"""Name and parameters of a request, and what is answered."""


@dataclass(frozen=True, slots=True)
class ExportedPages:
    """What was written; `n_bytes` counts all files."""

    n_runs: int
    n_instances: int
    n_bytes: int
    page: Path


def export_pages(library: Library, target: Path) -> ExportedPages:
    """Write the pages of all runs of `library` into the folder `target`, which is created, or an earlier export.

    Raises UsageError if it holds anything else, there are no runs, or one was replaced meanwhile; StorageFull.
    """
    if not library.find().runs:
        raise UsageError(f"{library.root}: there are no runs to export (cts run writes into runs/)")
    try:
        folder = _emptied(target)
        n_bytes = _write_static(folder)
        data = make_folder(folder, "data")
        n_of: Counter[str] = Counter()
        for name, parameters, value in answers(library):
            n_bytes += _record(data, name, parameters, value)
            n_of[name] += 1
        page = folder / "index.html"
        n_bytes += _replace(page, _page())  # the last: an export that was broken off does not open
    except Refused as refused:
        raise UsageError(f"{library.root}: {refused.message}; type the same command again") from None
    except OSError as error:
        raise write_error(target, error) from None
    return ExportedPages(n_of["run"], n_of["instance"], n_bytes, page)


# --- What is recorded


def answers(library: Library) -> Iterator[Answer]:
    """All answers that the pages may ask for. Raises Refused."""
    pages = Endpoints(library)
    rows = [_at_rest(_counted(library, name)) for name in library.find().runs]
    newest = sorted(rows, key=lambda row: row["started"] or "", reverse=True)
    exported = datetime.now(UTC).isoformat(timespec="seconds")
    yield "runs", {}, {**pages.runs({}), "folder": "", "exported": exported, "runs": newest}
    for data_sha in sorted({row["data_sha"] for row in rows} - {""}):
        yield "leaderboard", {"data": data_sha}, _leaderboard(library, data_sha)
        yield from _differences(library, data_sha)
    for row in rows:
        yield from _answers_of_run(library, pages, row)


def _answers_of_run(library: Library, pages: Endpoints, row: Json) -> Iterator[Answer]:
    run, by_name = library.open(row["name"]), pages.by_name()
    if run is None:
        return
    run.viewed = True
    run.advance()
    name = {"run": row["name"]}
    page = pages.run(name)
    own = {key: without_paths(page[key]) for key in ("manifest", "command")}
    yield "run", name, {**page, "row": row, **own}
    judges = list(run.judges())
    for judge in ("", *judges[1:]):
        parameters = {**name, "judge": judge}
        listed = _whole_list(by_name["instances"], parameters)
        yield "instances", parameters, {**listed, "shows": SHOWN}
    for show in SHOWN[2:]:  # the first two follow from scores
        cells = _whole_list(by_name["matrix"], {"runs": quote(row["name"]), "show": show})
        yield "cells", {**name, "show": show}, [cell["values"][0] for cell in cells["rows"]]
    lines = [run.line(run.results, int(offset)) or {} for offset in run.results.lines().offsets]
    yield "texts", name, ["\n".join(searched_texts(line)).lower() for line in lines]
    for line in lines:
        of_instance = {**name, "id": instance_name(line) or ""}
        page = by_name["instance"](of_instance)
        yield "instance", of_instance, page
        if page["trace_turns"]:
            yield from _all_pages("trace", by_name["trace"], of_instance)


def _counted(library: Library, name: str) -> Json:
    """A run's row once all of its results are counted."""
    while (row := library.row(name)) is not None and row["ready"] < 1:
        pass
    if row is None:
        raise Refused(404, f"{name}: {NO_RUN}")
    return row


def _at_rest(row: Json) -> Json:
    """The row of a run that may go on, as an export has it for ever."""
    return {**row, "running": False, "live": None}


def _leaderboard(library: Library, data_sha: str) -> Json:
    runs = library.over(data_sha)
    data = name_of_data(manifest for _, manifest in runs)
    boards = leaderboards_of({place.name: place.path for place, _ in runs})
    return {"data": data, "data_sha": data_sha, **boards, "computing": False}


def _differences(library: Library, data_sha: str) -> Iterator[Answer]:
    """The differences of at most MAX_PAIRS pairs of runs over the same data, in both orders, those with orig first."""
    over = sorted(library.over(data_sha), key=lambda run: (run[1].system != ORIG, run[0].name))
    pairs = [(place.name, other.name) for (place, _), (other, _) in combinations(over, 2)][:MAX_PAIRS]
    if not pairs:
        return
    differences = differences_of({place.name: place.path for place, _ in over}, pairs)
    for (a, b), difference in differences.items():
        reverse = {**difference, "judges": [_reversed(found) for found in difference["judges"]]}
        for first, second, found in ((a, b, difference), (b, a, reverse)):
            names = f"{_in_a_list(first)},{_in_a_list(second)}"
            yield "difference", {"runs": names}, {"runs": [first, second], **found, "computing": False}


def _reversed(found: Json) -> Json:
    """B less A from A less B; the p of a two-sided test is the same."""
    ends = {"low": None, "high": None}
    if found["low"] is not None:
        ends = {"low": -found["high"], "high": -found["low"]}
    return {**found, "difference": 0 - found["difference"], **ends}


def _in_a_list(name: str) -> str:
    """A run's name in a list of several (`joined` in route.js)."""
    return name.replace("%", "%25").replace(",", "%2C")


def _whole_list(answer: Callable[[Parameters], Json], parameters: Parameters) -> Json:
    """A list that is answered in pages, as one."""
    rows: list[Json] = []
    after = ""
    while True:
        page = answer({**parameters, "limit": str(MAX_ROWS), "after": after})
        if page["ready"] < 1:
            continue
        rows += page["rows"]
        if page["next"] is None:
            return {**page, "rows": rows}
        after = page["next"]


def _all_pages(name: str, answer: Callable[[Parameters], Json], parameters: Parameters) -> Iterator[Answer]:
    """Each page of what is read further and further."""
    after = ""
    while True:
        given = {**parameters, "after": after}
        page = answer(given)
        yield name, given, page
        if page["next"] is None:
            return
        after = str(page["next"])


def without_paths(value: Any) -> Any:
    """JSON in which each absolute path of a text is cut to its last part."""
    if isinstance(value, str):
        return _PATH.sub("", value)
    if isinstance(value, list):
        return [without_paths(one) for one in value]
    if isinstance(value, dict):
        return {without_paths(name): without_paths(one) for name, one in value.items()}
    return value


# --- Files


def _emptied(target: Path) -> Path:
    """The folder to write into, without the answers of an earlier export. Raises UsageError for any other folder."""
    folder = Path(os.path.abspath(target))
    make_folder(folder.parent, folder.name)
    with open_folder(folder) as fd:
        names = os.listdir(fd)
    if names and MARK not in names:
        raise UsageError(f"{target}: is not empty, and no earlier export; choose a new folder")
    _replace(folder / MARK, _MARK_TEXT)
    with suppress(FileNotFoundError):
        (folder / "index.html").unlink()
    with suppress(FileNotFoundError), open_folder(folder / "data") as fd:
        for name in os.listdir(fd):
            if _DATA_FILE.fullmatch(name):
                os.unlink(name, dir_fd=fd)
    return folder


def _record(folder: Path, name: str, parameters: Parameters, value: Any) -> int:
    """Record an answer; its size in bytes."""
    given = sorted(f"{key}={value}" for key, value in parameters.items() if value)
    key = "\n".join((name, *given))
    text = orjson.dumps(value).decode()
    line = b"recorded(%b, %b);\n" % (_literal(key), _literal(_HOME.sub("~", text)))
    # Two answers may have the same CRC.
    path = folder / f"{crc32(key.encode(errors='replace')):08x}.js"
    with os.fdopen(open_file(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), "wb") as file:
        return file.write(line)


def _literal(text: str) -> bytes:
    """A string of JavaScript. Of a parsed text "__proto__" is a name as any other; of an object it would not be."""
    found = orjson.dumps(text)
    for character in "<\u2028\u2029":
        found = found.replace(character.encode(), b"\\u%04x" % ord(character))
    return found


def _replace(path: Path, content: bytes) -> int:
    replace_file(path, content, sync=False)
    return len(content)


def _write_static(folder: Path) -> int:
    """Write style sheets, the icon and the script; their size in bytes."""
    static = make_folder(folder, "static")
    plain = [path for path in STATIC.iterdir() if path.suffix in (".css", ".svg")]
    n_bytes = sum(_replace(static / path.name, path.read_bytes()) for path in plain)
    return n_bytes + _replace(static / _START, bundle())


def _page() -> bytes:
    page = (STATIC / "index.html").read_text("utf-8")
    policy = f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    page = page.replace('<meta charset="utf-8">', f'<meta charset="utf-8">\n  {policy}')
    return page.replace('<script type="module" ', "<script defer ").encode()


def bundle() -> bytes:
    """All modules of the page as one classic script, each in a function of its own, in the order of their imports."""
    made: dict[str, str] = {}

    def add(name: str) -> None:
        if name in made:
            return
        source = (STATIC / _INSTEAD.get(name, name)).read_text("utf-8")
        for imported in _IMPORT.findall(source):
            add(imported[1])
        names = ", ".join(_EXPORT.findall(source))
        body = _EXPORT.sub("", _IMPORT.sub(r'const {\1} = modules["\2"];', source))
        made[name] = f'modules["{name}"] = (() => {{\n{body}\nreturn {{ {names} }};\n}})();\n'

    add(_START)
    return ('"use strict";\n{\nconst modules = {};\n' + "".join(made.values()) + "}\n").encode()
