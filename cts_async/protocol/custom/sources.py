"""Who plays a custom role: the names that a user may give, what they mean, and the digest of what they run.

    my_lab.py:ask, my_package.clarify:ask    a Python function
    exec:./ask.sh --fast                     a command that answers lines of JSON
    http://127.0.0.1:9000/clarify            an endpoint that answers POSTs of JSON
    mylab                                    an installed plug-in: an entry point of the group `cts_async.roles`
    python:ask                               a function given to `cts_async.run` (a notebook's, say)

A name is executed only where the user typed it: neither cts.toml nor a run's manifest may name one.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import os
import shlex
import shutil
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import chdir
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Literal, TypeVar
from urllib.parse import urlsplit

from cts_async.config import RunConfig, address_problem
from cts_async.custom import ATTRIBUTE, DEFAULT_TIMEOUT_S, RoleInfo, RoleName
from cts_async.errors import UsageError
from cts_async.llm.catalog import Catalogue
from cts_async.protocol.judge import LEXICAL
from cts_async.records import SCHEMES

GROUP: Final = "cts_async.roles"
COMMAND: Final = "exec:"
ENDPOINTS: Final = ("http://", "https://")
MEMORY: Final = "python:"
BASELINE: Final = "baseline"
"""The plug-in of cts_async's own."""
_OWN_PACKAGE: Final = f"{__name__.partition('.')[0]}."
_BASELINE_SHA256: Final = {"1": "254a66cb617624288c5b4f12f5082d942d7a2b25262af0f3fd356ae0bc048d09"}
"""What stands for the baseline's file in the identity of runs, by its version: the digest that the file had when that
version was new. What has been added since changes no result (tests/test_baseline.py), and must not make new versions of
everybody's runs."""
MAX_SCRIPT_BYTES: Final = 16 << 20
_FILE_MODULE: Final = "cts_role_"
"""How the module names of imported files begin."""
TOOLS: Final = ("llm", "search", "visit", "ask")
"""What a function may take by name, beside its view."""


@dataclass(frozen=True, slots=True)
class CustomRole:
    """One player of one role; picklable, and opened by `load_function` or by what its `kind` needs."""

    name: str
    """As the user typed it, or with the absolute paths of its files (`with_files`)."""
    role: RoleName
    kind: Literal["function", "command", "endpoint"]
    label: str
    """A short name without slashes and colons, for the names of runs."""
    version: str
    sha256: str
    """Digest of the function's source file, of the command line and the files it names, or of the address."""
    timeout_s: float = DEFAULT_TIMEOUT_S
    function: str = ""
    """The name of the function; "" for commands and endpoints."""
    typed: str = ""
    """As the user typed it; "" where that is `name`."""

    @property
    def display_name(self) -> str:
        """The name for messages, which are the same wherever it plays."""
        return self.typed or self.name

    @property
    def identity(self) -> dict[str, str]:
        """What determines its replies: two runs of one name must agree on it."""
        return {"custom": self.kind, "name": self.label, "version": self.version, "sha256": self.sha256}


def is_custom(name: str, catalogue: Catalogue) -> bool:
    """True if `name` is not a model of the catalogue but names code of the user's."""
    if name.startswith((COMMAND, MEMORY, *ENDPOINTS)):
        return True
    alias, colon, function = name.partition(":")
    # The catalogue wins: an installed plug-in must not take the name of a model.
    if alias in catalogue.models or name == LEXICAL:
        return False
    if alias.endswith(".py"):
        return True
    if colon:
        # A module has a dot: `provider:model-id` is a model.
        return _is_module(alias) and function.isidentifier()
    return name in _plugins()


def _is_module(name: str) -> bool:
    return "." in name and all(part.isidentifier() for part in name.split("."))


def custom_role(name: str, role: RoleName) -> CustomRole:
    """The player called `name`, imported and checked. Raises UsageError with the reason in one line."""
    if name.startswith(COMMAND):
        return _command(name, role)
    if name.startswith(ENDPOINTS):
        return _endpoint(name, role)
    target, function, label = _resolved(name, role)
    info = getattr(target, ATTRIBUTE, None) or RoleInfo(role, "", DEFAULT_TIMEOUT_S)
    if info.role != role:
        raise UsageError(f"{name}: {function}() is a {info.role}, and cannot play the {role}")
    _check_signature(name, role, target)
    sha256 = ""
    # Not that of somebody's package, which may have a plug-in of this name.
    if name == BASELINE and target.__module__.startswith(_OWN_PACKAGE):
        sha256 = _BASELINE_SHA256.get(info.version, "")
    if not sha256:
        sha256 = hashlib.sha256(_source(name, target)).hexdigest()
    return CustomRole(
        name=name,
        role=role,
        kind="function",
        label=_label(label),
        version=info.version,
        sha256=sha256,
        timeout_s=info.timeout_s,
        function=function,
    )


def load_function(player: CustomRole) -> Callable[..., Any]:
    """The function of a player, imported here. Raises UsageError if it is not the one that was planned with."""
    if custom_role(player.name, player.role).sha256 != player.sha256:
        raise UsageError(f"{player.display_name}: the file has changed since the run began")
    return _resolved(player.name, player.role)[0]


class _PlaysNot(UsageError):
    """A module or plug-in has no function for a role."""


# --- Functions


_in_memory: Final[dict[str, Callable[..., Any]]] = {}
"""Functions that `remember_function` was given, by name."""


def remember_function(function: Callable[..., Any], functions: Mapping[str, Callable[..., Any]]) -> str:
    """Make a function of this process known, and give the name that it can be chosen by.

    Raises UsageError if one of the `functions` of the same command has its name, or if it closes over variables: two
    functions that differ in nothing else would count as one.
    """
    name = f"{MEMORY}{getattr(function, '__name__', 'function')}"
    if functions.get(name, function) is not function:
        raise UsageError(f"{name}: two functions have this name: rename one of them")
    free_variables = getattr(getattr(function, "__code__", None), "co_freevars", ())
    if free_variables:
        names = ", ".join(free_variables)
        raise UsageError(f"{name}: depends on {names} of the function around it: define it outside")
    _in_memory[name] = function
    return name


def _source(name: str, function: Callable[..., Any]) -> bytes:
    """The content of the function's file, or its own source where it has none."""
    plain = inspect.unwrap(function)
    try:
        file = inspect.getsourcefile(plain)
        if file is not None and Path(file).is_file() and not name.startswith(MEMORY):
            return Path(file).read_bytes()
        return inspect.getsource(plain).encode()
    except OSError:
        raise UsageError(
            f"{name}: its source cannot be found: put it in a file, and name FILE.py:FUNCTION"
        ) from None
    except TypeError:
        raise UsageError(f"{name}: is a {type(plain).__name__}, not a function: call it from one") from None


def _resolved(name: str, role: RoleName) -> tuple[Callable[..., Any], str, str]:
    """The function that `name` means (the one named, else the only one with this role), its name, and the label."""
    if name.startswith(MEMORY):
        if name not in _in_memory:
            raise UsageError(f"{name}: no such function was given in this process")
        return _in_memory[name], name.removeprefix(MEMORY), name.removeprefix(MEMORY)
    place, _, function = name.partition(":")
    plugin = _plugins().get(name)
    if plugin is not None:
        place, function = plugin.module, plugin.attr
    module = _import_file(place) if place.endswith(".py") else _import_module(place)
    if function:
        if not callable(getattr(module, function, None)):
            functions = ", ".join(_functions(module)) or "none"
            raise UsageError(f"{name}: {place} has no function {function!r} (functions: {functions})")
        return getattr(module, function), function, f"{Path(place).stem}.{function}"
    candidates = []
    for candidate in _functions(module):
        info = getattr(getattr(module, candidate), ATTRIBUTE, None)
        if info is not None and info.role == role:
            candidates.append(candidate)
    if not candidates:
        raise _PlaysNot(f"{name}: plays no {role}; name the function: {place}:FUNCTION")
    if len(candidates) > 1:
        raise UsageError(
            f"{name}: has {len(candidates)} functions with @role({role!r}); name the function: {place}:FUNCTION"
        )
    function = candidates[0]
    label = name if plugin else f"{Path(place).stem}.{function}"
    return getattr(module, function), function, label


def _functions(module: ModuleType) -> list[str]:
    """Names of the functions that a module defines itself, not of those that it imports."""
    names = []
    for name, value in vars(module).items():
        if inspect.isfunction(value) and value.__module__ == module.__name__:
            names.append(name)
    return names


def _import_file(place: str) -> ModuleType:
    path = Path(place)
    if not path.is_file():
        raise UsageError(f"{place}: no such file")
    path = path.resolve()
    content = path.read_bytes()
    # By content: in a notebook, a file that was edited is another module, and what is executed is what was hashed.
    name = f"{_FILE_MODULE}{hashlib.sha256(str(path).encode() + content).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # last, so that the file's neighbours shadow nothing
    try:
        with chdir("."):  # an imported file may change the folder, and paths of the run are relative to it
            exec(compile(content, path, "exec"), vars(module))
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise _import_error(place, error) from None
    return module


def _import_module(name: str) -> ModuleType:
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # as for a file; last, so that the folder shadows nothing
    try:
        with chdir("."):
            return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        raise _import_error(name, error) from None


def _import_error(place: str, error: BaseException) -> UsageError:
    return UsageError(f"{place}: cannot be imported: {last_line(error)}")


def last_line(error: BaseException) -> str:
    """The last line of a traceback, with the place that raised it: `ValueError: no such thing (my_lab.py:12)`."""
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error}"[:300]  # which names file and line
    text = "".join(traceback.format_exception_only(error))
    if type(error).__module__.startswith(_FILE_MODULE):
        text = text.removeprefix(f"{type(error).__module__}.")  # a name that the user has not given
    text = " ".join(printable(text).split())[:300]
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename[:1] != "<"]
    if not frames:
        return text
    return f"{text} ({Path(frames[-1].filename).name}:{frames[-1].lineno})"


def printable(text: str) -> str:
    """Return a text with spaces for line ends and control characters: messages are one line on a terminal."""
    return "".join(char if char.isprintable() else " " for char in text)


def _check_signature(name: str, role: RoleName, function: Callable[..., Any]) -> None:
    """Raise UsageError unless the function takes a view, and by name nothing but TOOLS."""
    tools = TOOLS if role == "agent" else TOOLS[:1]
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        raise UsageError(f"{name}: is not a function") from None
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    takes_view = bool(parameters) and parameters[0].kind in positional
    for parameter in parameters[1:]:
        if parameter.default is parameter.empty and parameter.name not in tools:
            takes_view = False
    if not takes_view:
        names = ", ".join(parameter.name for parameter in parameters)
        raise UsageError(
            f"{name}: has the parameters ({names}); a {role} takes (view), and by name {', '.join(tools)}"
        )


def tools_taken(function: Callable[..., Any]) -> frozenset[str]:
    """Those of TOOLS that a function takes by name."""
    return frozenset(list(inspect.signature(function).parameters)[1:]) & frozenset(TOOLS)


def may_ask_models(player: CustomRole) -> bool:
    """Whether a player can ask the catalogue's models: commands and endpoints can, and functions that take `llm`."""
    return player.kind != "function" or "llm" in tools_taken(load_function(player))


def may_ask_user(player: CustomRole) -> bool:
    """Whether an agent can ask the user: commands and endpoints can, and functions that take `ask`."""
    return player.kind != "function" or "ask" in tools_taken(load_function(player))


@lru_cache(maxsize=1)
def _plugins() -> dict[str, EntryPoint]:
    """The installed plug-ins by name."""
    return {point.name: point for point in entry_points(group=GROUP)}


def plugin_names() -> list[str]:
    """Names of the installed plug-ins."""
    return sorted(_plugins())


# --- Commands and endpoints


def command_line(name: str) -> list[str]:
    """The arguments of a command. Raises UsageError if there is none or its quotes are not closed."""
    try:
        arguments = shlex.split(name.removeprefix(COMMAND))
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from None
    if not arguments:
        raise UsageError(f"{name}: no command after {COMMAND!r}")
    return arguments


def _command(name: str, role: RoleName) -> CustomRole:
    arguments = command_line(name)
    if shutil.which(arguments[0]) is None:
        raise UsageError(f"{name}: {arguments[0]} is not an executable file")
    digest = hashlib.sha256()
    for argument in arguments:
        digest.update(hashlib.sha256(_content(argument)).digest())
    label = _label(Path(_script(arguments)).name)
    return CustomRole(name, role, "command", label, "", digest.hexdigest())


def _script(arguments: Sequence[str]) -> str:
    """Return the argument that a command is called by: `python ask.py` is called ask.py."""
    for argument in arguments[1:]:
        if Path(argument).is_file():
            return argument
    return arguments[0]


def _content(argument: str) -> bytes:
    """What an argument stands for: a file by its name and content, so that a moved one is the same system.

    Programs that are no scripts count by their name: another machine's Python is the same system.
    """
    path = Path(shutil.which(argument) or argument)
    if not is_script(path):
        return argument.encode()
    content = path.read_bytes()
    is_program = os.access(path, os.X_OK) and not content.startswith(b"#!")
    if is_program:
        content = b""
    return path.name.encode() + b"\0" + content


def is_script(path: Path) -> bool:
    """True for a file whose content is a part of the command: models and data are too large to be."""
    return path.is_file() and path.stat().st_size <= MAX_SCRIPT_BYTES


def _endpoint(name: str, role: RoleName) -> CustomRole:
    problem = address_problem(name, optional=False)
    if problem:
        raise UsageError(f"{name}: the address {problem}")
    url = urlsplit(name)
    label = _label(f"{url.netloc}{url.path}".rstrip("/"))
    return CustomRole(name, role, "endpoint", label, "", hashlib.sha256(name.encode()).hexdigest())


def _label(text: str) -> str:
    """Return a name that can stand in the name of a run directory."""
    label = "".join(char if char.isalnum() or char in "-._" else "_" for char in text)
    return label.strip("._") or "custom"


# --- Sources, to be recorded with a run

MAX_RECORDED_BYTES: Final = 1 << 20
"""Of a source that a run keeps a copy of; a larger one is known by its digest alone."""


def source_texts(player: CustomRole) -> dict[str, str]:
    """The texts of what a player runs, by a file name such as `my_lab.ask.clarifier.py`; none of an endpoint.

    A run keeps them, so that two versions of it can be compared line by line.
    """
    if player.kind == "endpoint" or player.name == BASELINE:  # the baseline's is this package's own
        return {}
    if player.kind == "function":
        content = _source(player.name, _resolved(player.name, player.role)[0])
        return _recorded_source(f"{player.label}.{player.role}.py", content)
    texts: dict[str, str] = {}
    for argument in command_line(player.name):
        path = Path(shutil.which(argument) or argument)
        if not is_script(path):
            continue
        content = path.read_bytes()
        if os.access(path, os.X_OK) and not content.startswith(b"#!"):  # a program
            continue
        name = f"{player.label}.{player.role}{path.suffix}"
        if name in texts:
            name = f"{player.label}.{player.role}.{_label(path.name)}"
        texts |= _recorded_source(name, content)
    return texts


def _recorded_source(name: str, content: bytes) -> dict[str, str]:
    if len(content) > MAX_RECORDED_BYTES:
        return {}
    return {name: content.decode(errors="replace")}


# --- Files that a name refers to, for other machines


def with_files(player: CustomRole, place: Callable[[Path], Path | None]) -> CustomRole:
    """The player with `place(absolute path)` for each file in its name; what that gives None for stays as it is.

    Raises UsageError for a function that exists in this process only.
    """
    if player.name.startswith(MEMORY):
        raise UsageError(
            f"{player.name}: exists in this process only, and workers cannot have it: put it in a file, and "
            "name FILE.py:FUNCTION"
        )

    def placed(word: str) -> str:
        return str(place(Path(word).absolute()) or word)

    if player.kind == "command":
        program, *arguments = command_line(player.name)
        if "/" in program and not Path(program).is_absolute():  # others are installed where they run
            program = placed(program)
        line = shlex.join([program, *map(placed, arguments)])
        return replace(player, name=f"{COMMAND}{line}", typed=player.display_name)
    file, colon, function = player.name.partition(":")
    if player.kind == "endpoint" or not file.endswith(".py"):
        return player
    return replace(player, name=f"{placed(file)}{colon}{function}", typed=player.display_name)


# --- All custom players of a command

Players = Mapping[str, Mapping[RoleName, CustomRole]]
"""Custom players by label and role."""


ConfigT = TypeVar("ConfigT", bound=RunConfig)


def label_players(config: ConfigT, catalogue: Catalogue) -> tuple[ConfigT, Players]:
    """Replace the names of custom roles in `config` by their labels, and give the players.

    `--all NAME` plays every role that NAME has; where it has no judge, the lexical one judges. Raises UsageError.
    """
    registry = _PlayerRegistry(catalogue)
    every = config.every_role
    if every is not None and is_custom(every, catalogue):
        judge = every if plays(every, "judge") else LEXICAL
        config = replace(
            config,
            support=config.support or every,
            agent=config.agent or every,
            judges=config.judges or (judge,),
            # Code of the user's does not read pages: only a model of the catalogue can, or no model at all.
            visit_model=config.visit_model or LEXICAL,
            every_role=None,
        )
    clarifiers = config.models
    if not config.asks_before_search:
        # There is no Clarifier: code that plays every role need not have one.
        clarifiers = tuple(name for name in config.models if not is_custom(name, catalogue))
    models = tuple(registry.label(name, "clarifier") for name in clarifiers)
    # Where nobody asks, nobody supports: `orig` and `gold` alone need not have the roles. An agent's own questions have
    # to be answered, and nobody rewrites them.
    converses = config.asks_before_search and bool(config.models or config.given_questions)
    support = config.support if converses or config.asks_during_search else None
    answers, rewrites = config.answerer or support, config.rewriter
    if converses:
        rewrites = rewrites or support
    answerer = answers and registry.label(answers, "answerer")
    rewriter = rewrites and registry.label(rewrites, "rewriter")
    if support is not None and is_custom(support, catalogue):
        support = answerer
        if rewriter is not None and config.rewriter is None:
            support = rewriter
    # Two functions of one file have two labels, and one name cannot stand for both.
    are_two = support in registry.players and rewriter is not None and answerer != rewriter
    config = replace(
        config,
        models=models,
        support=support or config.support,
        answerer=answerer if are_two or config.answerer else None,
        rewriter=rewriter if are_two or config.rewriter else None,
        agent=config.agent and registry.label(config.agent, "agent"),
        judges=tuple(registry.label(name, "judge") for name in config.judges),
    )
    _check_scheme_and_mode(config, registry.players)
    return config, registry.players


def _check_scheme_and_mode(config: RunConfig, players: Players) -> None:
    """Raise UsageError for a scheme or mode that a Clarifier of the user's has no part in."""
    clarifiers = [name for name in config.models if name in players]
    if not clarifiers:
        return
    if set(config.modes) == {"select"}:
        raise UsageError(
            f"--mode select: {clarifiers[0]} asks questions, and offers no queries; use --mode respond or at-once"
        )
    # Its prompts are its own. The benchmark's scheme is the default, and all of AT-CoT's are what a mode implies.
    is_chosen = set(config.schemes) not in ({"cts"}, set(SCHEMES[1:]))
    if is_chosen and len(clarifiers) == len(config.models):
        raise UsageError(f"--scheme: {clarifiers[0]} is code of yours, which has no scheme; leave it out")


def remarks_on_modes(config: RunConfig, players: Players) -> list[str]:
    """Which Clarifiers have no part in mode "select". UsageError if nobody could choose among the queries of a model."""
    if "select" not in config.modes:
        return []
    offering = [name for name in config.models if name not in players]
    if offering and config.support in players:
        raise UsageError(
            f"--mode select: {config.support} cannot choose among the queries of {offering[0]}; "
            "use --mode respond, or a model as --support"
        )
    left_out = [name for name in config.models if name in players]
    if not left_out:
        return []
    return [f"{', '.join(left_out)}: left out of mode select, which offers queries instead of questions"]


def label_judges(judges: Sequence[str], catalogue: Catalogue) -> tuple[tuple[str, ...], Players]:
    """Replace the names of custom judges by their labels, and give the players. Raises UsageError."""
    registry = _PlayerRegistry(catalogue)
    return tuple(registry.label(name, "judge") for name in judges), registry.players


class _PlayerRegistry:
    """The custom players of a command so far."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.players: dict[str, dict[RoleName, CustomRole]] = {}
        """By label and role."""
        self._catalogue = catalogue
        self._by_label: dict[str, CustomRole] = {}

    def label(self, name: str, role: RoleName) -> str:
        """The label of a custom player of this role; any other name as it is."""
        if not is_custom(name, self._catalogue):
            return name
        player = custom_role(name, role)
        namesake = self._by_label.setdefault(player.label, player)
        # A label stands for a player in the names of runs, where another one must not take its place.
        if (namesake.kind, namesake.sha256) != (player.kind, player.sha256):
            raise UsageError(f"{namesake.name} and {name} are both called {player.label}: rename one of them")
        self.players.setdefault(player.label, {})[role] = player
        return player.label


def plays(name: str, role: RoleName) -> bool:
    """True if `name` can play the role."""
    try:
        custom_role(name, role)
    except _PlaysNot:
        return False
    return True
