"""The architecture, executable: who may import whom, and what starting `cts` may cost."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from importlib.util import find_spec
from pathlib import Path

import cts_async
from cts_async.cli.main import COMMANDS

PACKAGE = Path(cts_async.__file__).parent
BELOW = [
    *("errors", "engine", "llm", "search", "runs", "protocol", "analysis"),
    *("tables", "watch", "pages", "viewer", "cli"),
]
"""The rooms from the ground up: each may import itself and those before it."""

FREE = {
    *(
        "records",
        "errors",
        "config",
        "safe_files",
        "scorer",
        "tagged_text",
        "thoughts",
        "custom",
        "foreign_json",
        "plugins",
    ),
    "__init__",
}
ALLOWED: dict[str, set[str]] = {
    **{room: {*BELOW[: i + 1], *FREE} for i, room in enumerate(BELOW)},
    "datasets": {
        "datasets",
        "records",
        "errors",
        "safe_files",
        "tagged_text",
        "foreign_json",
        "plugins",
        "__init__",
    },
    "cluster": {*BELOW[: BELOW.index("protocol") + 1], "cluster", "datasets", *FREE},
    "records": {"errors"},
    "errors": set(),
    "foreign_json": set(),
    "config": {"records", "errors", "safe_files"},
    "safe_files": {"errors"},
    "scorer": set(),
    "tagged_text": {"thoughts"},
    "thoughts": set(),
    "__init__": {"custom", "api"},
    "api": {*BELOW, *FREE, "api_messages"},
    "api_messages": {"cli", "errors"},
    "custom": set(),
    "baseline": {*BELOW[: BELOW.index("analysis") + 1], *FREE},
    "demo": {*BELOW[: BELOW.index("protocol") + 1], *FREE},
    "__main__": {"cli", "errors"},
    # Names the folders of everything that can be added, and imports from them what is asked for.
    "plugins": {"errors", "llm", "datasets", "tables", "search", "neighbours"},
}
for _room in ("runs", "protocol", "analysis", "tables", "watch", "pages", "viewer", "cli"):
    ALLOWED[_room].add("datasets")
ALLOWED["cli"] |= {"cluster", "demo"}
ALLOWED["neighbours"] = {*ALLOWED["pages"], "neighbours"}
ALLOWED["cli"].add("neighbours")
"""Nobody else but `plugins` may import the neighbours."""

SLOW = (
    "aiohttp",
    "numpy",
    "scipy",
    "sklearn",
    "lightgbm",
    "ir_measures",
    "rich.progress",
    "rich.live",
    "pydantic",
    "bm25s",
    "jieba",
    "trafilatura",
    "lxml",
    "xllamacpp",
    "uvloop",
    "ray",
    "cts_async.neighbours",
)
CONSOLE = re.compile(r"\bConsole\(.+\)")
STRING = re.compile(r"cts_async(\.[a-z_]+)+\.?")
"""A module's name, or its beginning, as `import_module` and child processes take it."""
MODULES = sorted(PACKAGE.rglob("*.py"))
IMPORTABLE = [path for path in MODULES if find_spec("ray") or not path.stem.startswith("ray_")]


def dotted(path: Path) -> str:
    parts = ("cts_async", *path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {dotted(path) for path in MODULES}


def room(module: str) -> str:
    """`cts_async.engine.lane` is in `engine`; the package itself is `__init__`."""
    return module.split(".")[1] if "." in module else "__init__"


@cache
def imports(path: Path) -> list[tuple[int, str]]:
    """Return line and module of every import of ours, wherever in the file it is."""
    return list(_imports(path))


IMPORTING = (ast.Import, ast.ImportFrom, ast.Constant)


@cache
def nodes(path: Path) -> list[ast.AST]:
    """Return all nodes of a file's syntax tree that may hold an import."""
    found: list[ast.AST] = []
    # As `ast.walk` does, in a third of its time.
    inner: list[object] = [ast.parse(path.read_text(encoding="utf-8"))]
    while inner:
        value = inner.pop()
        if isinstance(value, list):
            inner += value
        elif isinstance(value, IMPORTING):
            found.append(value)
        elif isinstance(value, ast.AST):
            inner += value.__dict__.values()
    return found


def _imports(path: Path) -> Iterator[tuple[int, str]]:
    for node in nodes(path):
        if isinstance(node, ast.Import):
            for name in node.names:
                if name.name.partition(".")[0] == "cts_async":
                    yield node.lineno, name.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import"
            if node.module == "cts_async":
                for name in node.names:
                    child = PACKAGE / name.name
                    known = child.is_dir() or child.with_suffix(".py").exists()
                    yield node.lineno, f"cts_async.{name.name}" if known else "cts_async"
            elif (node.module or "").startswith("cts_async."):
                yield node.lineno, str(node.module)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and STRING.fullmatch(node.value):
            name = node.value.rstrip(".")
            place = PACKAGE.joinpath(*name.split(".")[1:])
            if place.is_dir() or place.with_suffix(".py").exists():  # else it is a group of entry points
                yield node.lineno, name


def test_rooms_import_downwards_only() -> None:
    wrong = [
        f"{path.relative_to(PACKAGE)}:{line}: {room(dotted(path))} imports {name}"
        for path in MODULES
        for line, name in imports(path)
        if room(name) not in ALLOWED[room(dotted(path))]
    ]
    assert not wrong, "\n".join(wrong)


def test_no_module_imports_itself_through_others() -> None:
    """Imports inside functions and for type checking count, too: a reader follows them all the same."""
    known = {dotted(path): path for path in MODULES if path != PACKAGE / "__init__.py"}
    graph = {
        module: {name for name in imported_modules(path) if name in known and name != module}
        for module, path in known.items()
    }
    TopologicalSorter(graph).prepare()  # CycleError names the modules of a circle


def imported_modules(path: Path) -> Iterator[str]:
    """What a file imports: of `from package import module` the module, not the package."""
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            children = {f"{node.module}.{name.name}" for name in node.names}
            modules = children & NAMES
            yield from modules or {str(node.module)}


def test_every_room_has_its_place_in_the_order() -> None:
    assert {room(dotted(path)) for path in MODULES} <= ALLOWED.keys()


def test_the_walk_sees_imports_of_every_form() -> None:
    """The rules above prove nothing if the walk is blind."""
    seen = {(path.stem, name) for path in MODULES for _, name in imports(path)}
    assert ("rejudge", "cts_async.engine.runner") in seen  # from a.b import c
    assert ("score", "cts_async.scorer") in seen  # from a import module, inside a function
    assert ("sample", "cts_async") in seen  # import a
    assert ("audit", "cts_async.cli") in seen  # from a.b import module


def test_starting_cts_loads_nothing_slow() -> None:
    code = (
        "import sys, typer; from cts_async.cli.main import app; typer.main.get_command(app).commands['score']; "
        "print(*sys.modules); import cts_async.baseline; print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    with_score, with_baseline = (line.split() for line in done.stdout.splitlines())
    assert [name for name in SLOW if name in with_score] == []
    assert [f"cts_async.cli.{name}" for name in COMMANDS if f"cts_async.cli.{name}" in with_score] == [
        "cts_async.cli.score",
        "cts_async.cli.completion",  # the words that options take
    ]
    assert "jieba" not in with_baseline


def test_every_module_has_a_docstring() -> None:
    named = [path for path in MODULES if not path.stem.startswith("_")]
    silent = [dotted(path) for path in named if not path.read_text("utf-8").startswith('"""')]
    assert not silent


def test_every_module_imports_and_has_its_public_names() -> None:
    for path in IMPORTABLE:
        module = importlib.import_module(dotted(path))
        missing = [name for name in getattr(module, "__all__", ()) if not hasattr(module, name)]
        assert not missing, f"{path}: __all__ names {missing}"


def test_no_console_takes_text_for_emoji() -> None:
    """`my_lab.py:boom: ...` is what it says, whatever rich makes of `:boom:`."""
    made = [line for path in MODULES for line in path.read_text("utf-8").splitlines() if CONSOLE.search(line)]
    assert made
    assert [line for line in made if "emoji=False" not in line] == []


PARSES_JSON = {
    "foreign_json.py": "the bounded parser itself",
    "scorer.py": "standalone: it imports nothing of the package",
    "engine/journal.py": "steps are remembered by the engine, which knows no run",
    "engine/journal_index.py": "the index of its lines",
    "cluster/worker.py": "a step that the head remembers, as its journal has it",
    "protocol/audit/evidence.py": "the audit shares no code with what it audits",
    "protocol/custom/calls.py": "records of an ended call of the user's code, in its own step",
    "protocol/custom/gateway.py": "requests of the user's code",
    "protocol/custom/wire.py": "replies of the user's code",
    "search/turn_format.py": "tool calls in a model's text",
    "search/backends/corpus.py": "a file of documents, and its index",
    "search/backends/fetch.py": "what the child process that reads pages answers",
    "search/backends/page_text.py": "what it is asked",
    "search/backends/services.py": "replies of search services",
    "demo.py": "requests to the scripted models",
    "pages/plots/asking.py": "asking.json of the package",
    "pages/plots/figure.py": "style.json of the package",
    "tables/export.py": "the marker of an earlier export",
    "viewer/leaderboards.py": "what its child process computes",
    "watch/live.py": "live.json, which its process replaces each second",
}
"""Who parses JSON beside `runs`, `llm` and `datasets`, and what."""


def test_json_is_parsed_where_it_enters() -> None:
    parsers = set()
    for path in MODULES:
        name = path.relative_to(PACKAGE).as_posix()
        if re.search(r"json\.loads\(", path.read_text("utf-8")) and room(dotted(path)) not in (
            "runs",
            "llm",
            "datasets",
        ):
            parsers.add(name)
    assert parsers == PARSES_JSON.keys()


def test_fields_of_a_manifest_are_read_in_one_place() -> None:
    readers = []
    for path in MODULES:
        text = path.read_text("utf-8")
        if 'get("identity")' in text or '["identity"]' in text:
            readers.append(path.relative_to(PACKAGE).as_posix())
    assert readers == ["runs/manifest.py"]
