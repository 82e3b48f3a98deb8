"""What can be added as one file: wire formats, datasets, statistics and tools of the agent.

Each is a module of a folder of this package, or a plug-in: an entry point, in the group of the same name, of any
installed package. Both are found, checked and loaded here, and only when they are needed. A plug-in that cannot be
loaded, or has the name of something that is there already, is named in one line on standard error and left out; asked
for by its name, it is a UsageError with that line.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Final

from cts_async.errors import CTSError, UsageError

_ROOT: Final = Path(__file__).parent
_LONGEST_REASON: Final = 300


@dataclass(frozen=True, slots=True)
class Seam:
    """One sort of thing that can be added."""

    group: str
    """The group of entry points."""
    folder: str
    """The package whose modules are the built-in ones; a name that begins with an underscore is none of them."""
    title: str
    """What one of them is called in messages."""
    needs: tuple[str, ...]
    """Names that it must define; `a|b` for either of two."""
    attribute: str = ""
    """The name of the object in a module; "" where the module itself is the object."""
    elsewhere: tuple[tuple[str, str], ...] = ()
    """(name, module) of built-in ones outside the folder."""


APIS: Final = Seam(
    "cts_async.apis", "cts_async.llm.apis", "wire format", ("PATH|path", "headers", "body", "reply")
)
DATASETS: Final = Seam(
    "cts_async.datasets",
    "cts_async.datasets.kinds",
    "dataset",
    ("name", "title", "open"),
    "KIND",
    (
        ("qulac", "cts_async.neighbours.qulac"),
        ("clariq", "cts_async.neighbours.clariq"),
        ("mimics-duo", "cts_async.neighbours.mimics_duo"),
    ),
)
STATISTICS: Final = Seam(
    "cts_async.statistics", "cts_async.tables.statistics", "statistic", ("ORDER", "tables")
)
TOOLS: Final = Seam(
    "cts_async.tools", "cts_async.search.toolbox", "tool", ("name", "labels", "wording", "read"), "TOOL"
)


class Broken(UsageError):
    """A plug-in that cannot be used; the message names its package and the reason."""


def built_in_names(seam: Seam) -> tuple[str, ...]:
    """Names of what this package has itself, sorted; nothing is imported."""
    return tuple(sorted(_built_in(seam)))


def all_names(seam: Seam) -> tuple[str, ...]:
    """The built-in names and those of the plug-ins that they do not hide, each sorted; nothing is imported."""
    return built_in_names(seam) + tuple(sorted(_plugins(seam)))


def is_known(seam: Seam, name: str) -> bool:
    """True if something of this name can be loaded. Packages are searched only where it is not built in."""
    return _normal(name) in _built_in(seam) or _normal(name) in _plugins(seam)


def package_of(seam: Seam, name: str) -> str:
    """The package and its version that a plug-in is from; "" for what is built in, or unknown."""
    if _normal(name) in _built_in(seam):
        return ""
    plugin = _plugins(seam).get(_normal(name))
    if plugin is None:
        return ""
    return _package(plugin)


def load(seam: Seam, name: str) -> Any:
    """Import what is called `name`. Raises LookupError if there is none, Broken for a plug-in that cannot be used.

    Mistakes in this package's own files are raised as they are: who adds one wants the traceback.
    """
    module = _built_in(seam).get(_normal(name))
    if module is not None:
        return _object_in(seam, import_module(module))
    plugin = _plugins(seam).get(_normal(name))
    if plugin is None:
        raise LookupError(f"no {seam.title} is called {name!r}")
    return _load_plugin(seam, plugin)


def load_all(seam: Seam) -> Iterator[tuple[str, Any]]:
    """Import everything there is, as (name, object): first the built-in ones, by name; broken plug-ins are left out."""
    for name, module in sorted(_built_in(seam).items()):
        yield name, _object_in(seam, import_module(module))
    for name, plugin in sorted(_plugins(seam).items()):
        try:
            yield name, _load_plugin(seam, plugin)
        except Broken as error:
            warn(str(error))


def guarded(seam: Seam, name: str, function: Callable[..., Any], *args: Any) -> Any:
    """Call a function of what is called `name`. Another than our own exceptions in a plug-in's is raised as Broken."""
    package = package_of(seam, name)
    # A mistake in a file of this package keeps its traceback, for who is writing it.
    if not package:
        return function(*args)
    try:
        return function(*args)
    except CTSError:
        raise
    except Exception as error:
        raise Broken(f"{seam.title} {name!r} of {package}: {_reason(error)}") from error


_warned: Final[set[str]] = set()


def warn(problem: str) -> None:
    """Say on standard error what is wrong with a plug-in, once."""
    if problem not in _warned:
        _warned.add(problem)
        print(f"warning: {problem}", file=sys.stderr)


def _normal(name: str) -> str:
    """Modules are called `mimics_duo`, what they hold `mimics-duo`."""
    return name.replace("-", "_")


@lru_cache
def _built_in(seam: Seam) -> dict[str, str]:
    """Modules by normal name."""
    modules = {_normal(name): module for name, module in seam.elsewhere}
    # The folder is listed, not imported: a catalogue that checks a name must not load what stands there.
    for path in (_ROOT.parent / seam.folder.replace(".", "/")).iterdir():
        is_module = path.suffix == ".py" or (path / "__init__.py").is_file()
        if is_module and not path.name.startswith("_"):
            modules[path.stem] = f"{seam.folder}.{path.stem}"
    return modules


@lru_cache
def _plugins(seam: Seam) -> dict[str, EntryPoint]:
    """The installed plug-ins by normal name, without those whose name is taken."""
    plugins: dict[str, EntryPoint] = {}
    for plugin in sorted(entry_points(group=seam.group), key=lambda plugin: (plugin.name, _package(plugin))):
        name = _normal(plugin.name)
        if name in _built_in(seam):
            owner = "cts_async"
        # An editable install may list one entry point twice: the same object is no second one.
        elif name in plugins and plugins[name].value != plugin.value:
            owner = _package(plugins[name])
        else:
            plugins[name] = plugin
            continue
        warn(
            f"{seam.title} {plugin.name!r} of {_package(plugin)} is not used: {owner} has one of this name; "
            f"its entry point ({seam.group}) needs another"
        )
    return plugins


def _package(plugin: EntryPoint) -> str:
    if plugin.dist is None:
        return plugin.module
    return f"{plugin.dist.name} {plugin.dist.version}"


def _load_plugin(seam: Seam, plugin: EntryPoint) -> Any:
    try:
        return _object_in(seam, plugin.load())
    except (Exception, SystemExit) as error:
        # Whatever somebody else's module does when it is imported: scripts without a main guard even exit.
        raise Broken(
            f"{seam.title} {plugin.name!r} of {_package(plugin)} ({plugin.value}): {_reason(error)}"
        ) from error


def _object_in(seam: Seam, loaded: Any) -> Any:
    """The object that a module holds, or that an entry point names itself. Raises TypeError if it lacks something."""
    # An entry point may name the module or the object in it.
    if seam.attribute:
        loaded = getattr(loaded, seam.attribute, loaded)
    missing = [need.replace("|", " or ") for need in seam.needs if not _defines(loaded, need)]
    if missing:
        raise TypeError(f"is no {seam.title}: it defines no {', '.join(missing)}")
    return loaded


def _defines(loaded: Any, need: str) -> bool:
    return any(hasattr(loaded, name) for name in need.split("|"))


def _reason(error: BaseException) -> str:
    """An exception in one line."""
    text = " ".join(str(error).split())
    # Our own words (`_object_in`) say enough.
    if isinstance(error, TypeError) and text.startswith("is no "):
        return text
    return f"{type(error).__name__}: {text}"[:_LONGEST_REASON]
