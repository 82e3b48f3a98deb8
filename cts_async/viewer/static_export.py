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
from collections.abc import Callable, Iterator, Sequence
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
from cts_async.runs.results import instance_name
from cts_async.safe_files import make_folder, open_file, open_folder, replace_file
from cts_async.viewer.instances import MAX_ROWS, Parameters, searched_texts
from cts_async.viewer.leaderboards import data_name, differences_of, leaderboards_of
from cts_async.viewer.library import Library
from cts_async.viewer.matrix import SHOWN, orig_first
from cts_async.viewer.pages import Endpoints
from cts_async.viewer.versions import chosen_versions, versions_of

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
    restrictions: tuple[str, ...] = ()
    """Why texts of the runs' data must not be published, a sentence each."""


def export_pages(library: Library, target: Path) -> ExportedPages:
    """Write the pages of all runs of `library` into the folder `target`, which is created, or an earlier export.

    Raises UsageError if it holds anything else, there are no runs, or one was replaced meanwhile; StorageFull.
    """
    if not library.find().runs:
        raise UsageError(f"{library.root}: there are no runs to export (cts run writes into runs/)")
    try:
        folder = _empty_folder(target)
        n_bytes = _write_static(folder)
        data = make_folder(folder, "data")
        n_answers: Counter[str] = Counter()
        restrictions: dict[str, None] = {}
        for name, parameters, value in answers(library):
            n_bytes += _record(data, name, parameters, value)
            n_answers[name] += 1
            if name == "run" and "restriction" in value["row"]:
                restrictions[value["row"]["restriction"]] = None
        page = folder / "index.html"
        # The last: an export that was broken off does not open.
        n_bytes += _replace(page, _page())
    except Refused as refused:
        raise UsageError(f"{library.root}: {refused.message}; type the same command again") from None
    except OSError as error:
        raise write_error(target, error) from None
    return ExportedPages(n_answers["run"], n_answers["instance"], n_bytes, page, tuple(restrictions))


# --- What is recorded


def answers(library: Library) -> Iterator[Answer]:
    """All answers that the pages may ask for. Raises Refused."""
    pages = Endpoints(library)
    rows = [_counted_row(library, name) for name in library.find().runs]
    newest = sorted(rows, key=lambda row: row["started"] or "", reverse=True)
    exported = datetime.now(UTC).isoformat(timespec="seconds")
    # An export is given to others, who need not know the folder.
    yield "runs", {}, pages.runs({}) | {"folder": "", "exported": exported, "runs": newest}
    yield from _leaderboards(library, rows)
    for data_sha in sorted({row["data_sha"] for row in rows} - {""}):
        yield from _differences(library, data_sha)
    for row in rows:
        yield from _answers_of_run(library, pages, row)


def _answers_of_run(library: Library, pages: Endpoints, row: Json) -> Iterator[Answer]:
    run = library.open(row["name"])
    if run is None:
        return
    run.viewed = True
    # Without a limit: all of it, the journal included.
    run.advance()
    name = {"run": row["name"]}
    page = pages.run(name)
    page["row"] = row
    for field in ("manifest", "command", "versions"):
        page[field] = without_paths(page[field])
    yield "run", name, page
    if row["changed"] or row["changed_from"]:
        yield "changes", name, _changes(pages.changes(name))
    # "" is the scoring judge, who is the first.
    for judge in [""] + list(run.judges())[1:]:
        parameters = name | {"judge": judge}
        yield "instances", parameters, _whole_list(pages.instances, parameters) | {"shows": SHOWN}
    # The first two follow from scores.
    for show in SHOWN[2:]:
        cells = _whole_list(pages.matrix, {"runs": quote(row["name"]), "show": show})
        yield "cells", name | {"show": show}, [cell["values"][0] for cell in cells["rows"]]
    lines = [run.line(run.results, int(offset)) or {} for offset in run.results.lines().offsets]
    yield "texts", name, ["\n".join(searched_texts(line)).lower() for line in lines]
    for line in lines:
        parameters = name | {"id": instance_name(line) or ""}
        instance = pages.instance(parameters)
        # Steps of a run in another folder name its path.
        for field in ("versions", "spending"):
            instance[field] = without_paths(instance[field])
        yield "instance", parameters, instance
        if instance["trace_turns"]:
            for trace, of_page, events in _all_pages("trace", pages.trace, parameters):
                for event in events["turns"]:
                    event["reused"] = without_paths(event["reused"])
                yield trace, of_page, events


def _counted_row(library: Library, name: str) -> Json:
    """A run's row once all of its results are counted, as an export has it for ever: of a run at rest."""
    row = library.row(name)
    # Each look counts for a quarter of a second.
    while row is not None and row["ready"] < 1:
        row = library.row(name)
    if row is None:
        raise Refused(404, f"{name}: {NO_RUN}")
    changed = without_paths(row["changed"])
    return row | {"running": False, "live": None, "changed": changed, "origs": library.origs(name)}


def _leaderboards(library: Library, rows: Sequence[Json]) -> Iterator[Answer]:
    """Those of all data, of each, and of each older version in the place of the newest."""
    every_sha = sorted({row["data_sha"] for row in rows} - {""})
    older = [row for row in rows if row["older"] and row["data_sha"]]
    choices: list[tuple[str, Parameters]] = [("", {})]
    choices += [(data_sha, {}) for data_sha in every_sha]
    if older:
        choices += [(data_sha, {"all": "1"}) for data_sha in ["", *every_sha]]
    for row in older:
        versions = {"versions": _escaped_name(row["name"])}
        # A page of the version itself asks for the leaderboard of its data; it is chosen on those of its lineage.
        shas = {version["data_sha"] for version in rows if version["name"] in row["versions"]}
        choices += [(data_sha, versions) for data_sha in ["", *sorted(shas - {""})]]
    computed: dict[tuple[str, ...], Json] = {}
    for data_sha, chosen in choices:
        runs = chosen_versions(library, data_sha, chosen)
        if not runs:
            continue
        names = [place.name for place, _ in runs]
        # Choices differ in little: most leaderboards are several ones' at once.
        if tuple(names) not in computed:
            computed[tuple(names)] = leaderboards_of({place.name: place.path for place, _ in runs})
        board: Json = {"data": data_name(data_sha, runs), "data_sha": data_sha, "computing": False}
        if not data_sha and len(every_sha) == 1:
            board |= {"data": data_name(every_sha[0], runs), "data_sha": every_sha[0]}
        board["versions"] = without_paths(versions_of(library, names))
        yield "leaderboard", {"data": data_sha, **chosen}, board | computed[tuple(names)]


def _changes(changes: Json) -> Json:
    """What changed in a version, without lines of prompts and sources: a run's pages have none of these either."""
    texts = [text | {"lines": [], "n_lines": 0} for text in changes["texts"]]
    shared: Json = without_paths(changes | {"texts": texts})
    return shared


def _differences(library: Library, data_sha: str) -> Iterator[Answer]:
    """The differences of at most MAX_PAIRS pairs of runs over the same data, in both orders, those with orig first."""
    runs = sorted(library.over(data_sha), key=orig_first)
    paths = {place.name: place.path for place, _ in runs}
    pairs = list(combinations(paths, 2))[:MAX_PAIRS]
    if not pairs:
        return
    for (a, b), difference in differences_of(paths, pairs).items():
        yield _difference_answer(a, b, difference)
        reverse = [_reverse_difference(judge_difference) for judge_difference in difference["judges"]]
        yield _difference_answer(b, a, difference | {"judges": reverse})


def _difference_answer(a: str, b: str, difference: Json) -> Answer:
    names = f"{_escaped_name(a)},{_escaped_name(b)}"
    return "difference", {"runs": names}, {"runs": [a, b], "computing": False} | difference


def _reverse_difference(difference: Json) -> Json:
    """B less A from A less B; the p of a two-sided test is the same."""
    # 0 less it, since -0.0 is shown with its sign.
    changed: Json = {"difference": 0 - difference["difference"]}
    if difference["low"] is not None:
        changed |= {"low": -difference["high"], "high": -difference["low"]}
    return difference | changed


def _escaped_name(name: str) -> str:
    """A run's name in a list of several (`joined` in route.js)."""
    return name.replace("%", "%25").replace(",", "%2C")


def _whole_list(answer: Callable[[Parameters], Json], parameters: Parameters) -> Json:
    """A list that is answered in pages, as one."""
    rows: list[Json] = []
    after = ""
    while True:
        page = answer(dict(parameters) | {"limit": str(MAX_ROWS), "after": after})
        # The same page again: asking for it indexed a part of what is left.
        if page["ready"] < 1:
            continue
        rows += page["rows"]
        if page["next"] is None:
            return page | {"rows": rows}
        after = page["next"]


def _all_pages(name: str, answer: Callable[[Parameters], Json], parameters: Parameters) -> Iterator[Answer]:
    """Each page of what is read further and further."""
    after = ""
    while True:
        page_parameters = dict(parameters) | {"after": after}
        page = answer(page_parameters)
        yield name, page_parameters, page
        if page["next"] is None:
            return
        after = str(page["next"])


def without_paths(value: Any) -> Any:
    """JSON in which each absolute path of a text is cut to its last part."""
    if isinstance(value, str):
        return _PATH.sub("", value)
    if isinstance(value, list):
        return [without_paths(item) for item in value]
    if isinstance(value, dict):
        # Names may be paths, too.
        return {without_paths(name): without_paths(item) for name, item in value.items()}
    return value


# --- Files


def _empty_folder(target: Path) -> Path:
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
    # Sorted, and without empty ones: the page looks for the same key, whatever it was asked in which order.
    settings = sorted(f"{parameter}={value}" for parameter, value in parameters.items() if value)
    key = "\n".join([name] + settings)
    text = orjson.dumps(value).decode()
    line = b"recorded(%b, %b);\n" % (_literal(key), _literal(_HOME.sub("~", text)))
    # Two answers may have the same CRC.
    path = folder / f"{crc32(key.encode(errors='replace')):08x}.js"
    with os.fdopen(open_file(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), "wb") as file:
        return file.write(line)


def _literal(text: str) -> bytes:
    """A string of JavaScript. Of a parsed text "__proto__" is a name as any other; of an object it would not be."""
    literal = orjson.dumps(text)
    for character in "<\u2028\u2029":
        literal = literal.replace(character.encode(), b"\\u%04x" % ord(character))
    return literal


def _replace(path: Path, content: bytes) -> int:
    replace_file(path, content, sync=False)
    return len(content)


def _write_static(folder: Path) -> int:
    """Write style sheets, the icon and the script; their size in bytes."""
    static = make_folder(folder, "static")
    n_bytes = _replace(static / _START, bundle())
    for path in STATIC.iterdir():
        if path.suffix in (".css", ".svg"):
            n_bytes += _replace(static / path.name, path.read_bytes())
    return n_bytes


def _page() -> bytes:
    page = (STATIC / "index.html").read_text("utf-8")
    policy = f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    page = page.replace('<meta charset="utf-8">', f'<meta charset="utf-8">\n  {policy}')
    return page.replace('<script type="module" ', "<script defer ").encode()


def bundle() -> bytes:
    """All modules of the page as one classic script, each in a function of its own, in the order of their imports."""
    functions: dict[str, str] = {}

    def add(module: str) -> None:
        if module in functions:
            return
        source = (STATIC / _INSTEAD.get(module, module)).read_text("utf-8")
        # Its own function is called where it stands, when those of its imports have been.
        for _, imported_module in _IMPORT.findall(source):
            add(imported_module)
        exports = ", ".join(_EXPORT.findall(source))
        body = _EXPORT.sub("", _IMPORT.sub(r'const {\1} = modules["\2"];', source))
        functions[module] = f'modules["{module}"] = (() => {{\n{body}\nreturn {{ {exports} }};\n}})();\n'

    add(_START)
    return ('"use strict";\n{\nconst modules = {};\n' + "".join(functions.values()) + "}\n").encode()
