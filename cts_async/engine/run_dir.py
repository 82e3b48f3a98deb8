"""A run's directory: one writer at a time, and a manifest that describes the run.

`run.json` holds `identity` (what determines the results: a resumed run must agree on it) and notes (versions, command,
sessions) that may change from one session to the next.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import orjson

from cts_async import __version__
from cts_async.errors import InputError, RunLocked, UsageError, write_error
from cts_async.records import is_one_line
from cts_async.safe_files import is_open_file, open_file, open_folder, replace_file

_DAMAGED: Final = (
    ": damaged; move it aside, with the results and judgments/: the same command makes them again from "
    "what steps.jsonl has"
)
VERSION: Final = re.compile(r"[0-9][0-9a-z.+]{0,30}")
LOCK: Final = ".lock"
FEW = 3
"""Differences within one field of the identity that an error message lists."""


class Lock:
    """A run directory that is locked by this process."""

    def __init__(self, directory: Path, fd: int) -> None:
        self._directory, self._fd = directory, fd

    def holds(self) -> bool:
        """True if the path still leads to the locked directory; another process may lock what replaced it."""
        return is_open_file(self._directory, self._fd)


@contextmanager
def locked(directory: Path, *, place: str = "") -> Iterator[Lock]:
    """Lock the directory for writing, and create it if necessary. The lock ends with the process.

    `place` is the option that chooses another directory, where there is one. Raises RunLocked naming the process that
    has the lock, UsageError where nothing can be written or the directory is a symbolic link, StorageFull where the
    disk is full.
    """
    # The lock is on the directory itself, since any file in it could be deleted, which would let a second process in.
    # The file `.lock` is locked as well: it names the process, versions before 0.7 know no other lock, and on network
    # file systems the directory's lock may not reach other machines.
    with ExitStack() as held:
        try:
            directory.mkdir(parents=True, exist_ok=True)
            folder = held.enter_context(open_folder(directory))
            fd = open_file(directory / LOCK, os.O_RDWR | os.O_CREAT)
            held.callback(os.close, fd)
            free = _flock(fd, fcntl.LOCK_EX)
            with suppress(OSError):  # of file systems that lock no directories
                free = _flock(folder, fcntl.LOCK_EX) and free
        except OSError as error:
            raise write_error(directory, error, verb="write there") from None
        other = f", or choose another {place}" if place else ""
        if not free:
            holder = os.pread(fd, 64, 0).decode(errors="replace")
            process = holder if re.fullmatch(r"process \d+", holder) else "another process"
            raise RunLocked(f"{directory}: {process} is writing this run; wait for it{other}")
        if not is_open_file(directory / LOCK, fd):
            raise RunLocked(
                f"{directory}: was replaced while it was being locked; run the same command again"
            )
        try:
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"process {os.getpid()}".encode(), 0)
        except OSError as error:
            raise write_error(directory, error, verb="write there") from None
        yield Lock(directory, folder)


def _flock(fd: int, kind: int) -> bool:
    """Lock an open file or directory; False where another process holds it. Raises OSError where there are no locks."""
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def read_manifest(directory: Path) -> dict[str, Any] | None:
    """The manifest, or None where the directory has no run yet. Raises InputError."""
    path = directory / "run.json"
    if path.exists() and not path.is_file():  # reading a named pipe would wait for its writer
        raise InputError(path, "not a manifest (no regular file); move it aside")
    try:
        manifest = orjson.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except orjson.JSONDecodeError as error:
        raise InputError(path, f"not a manifest ({error}){_DAMAGED}") from None
    if not isinstance(manifest, dict):
        raise InputError(path, f"not a manifest (no JSON object){_DAMAGED}")
    check_manifest(path, manifest)
    return manifest


def json_bytes(value: Any, option: int = 0) -> bytes:
    """JSON by orjson; "?" for what UTF-8 cannot encode, which file names may contain."""
    try:
        return orjson.dumps(value, option=option)
    except TypeError:
        held = json.dumps(value, ensure_ascii=False).encode(errors="replace")
        return orjson.dumps(orjson.loads(held), option=option)


def write_json(path: Path, value: Any) -> None:
    """Write a small JSON file atomically: a reader, or a crash, sees the old content or the new."""
    replace_file(path, json_bytes(value, orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))


def check_identity(directory: Path, identity: Mapping[str, Any], *, place: str = "--name") -> None:
    """Raise UsageError if a run was created with another identity, naming the differences.

    `place` is the option that chooses another directory. If another version created the run, the message names it:
    its prompts may be what differs.
    """
    manifest = read_manifest(directory)
    if manifest is None:
        return
    changed = list(differences(manifest.get("identity", {}), identity))
    if not changed:
        return
    begun_by = manifest.get("version")
    resume = "repeat the original options to resume"
    if isinstance(begun_by, str) and begun_by != __version__ and VERSION.fullmatch(begun_by):
        resume += f"; if those are the same, finish it with the version that began it: cts-async=={begun_by}"
    raise UsageError(
        f"{directory} was created with different settings: {'; '.join(changed)}. "
        f"Use {place} to start a new run, or {resume}"
    )


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """The fields that differ: plain ones first, since nested ones mostly follow from them, and few of these."""
    pairs = {name: (before.get(name), now.get(name)) for name in sorted({*before, *now})}
    for name in sorted(pairs, key=lambda name: any(isinstance(value, Mapping) for value in pairs[name])):
        found = list(_differences(*pairs[name], name))
        yield from found[:FEW]
        if len(found) > FEW:
            yield f"{len(found) - FEW} more of {name}"


def _differences(before: Any, now: Any, path: str) -> Iterator[str]:
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for key in sorted({*before, *now}):
            yield from _differences(before.get(key), now.get(key), f"{path}.{key}")
    elif before != now:
        yield f"{path} was {_short(before)}, now {_short(now)}"


def _short(value: Any) -> str:
    text = orjson.dumps(value).decode()
    return text if len(text) <= 60 else text[:57] + "..."


_ABSENT: Final[Any] = object()
_NUMBERS: Final = (int, float, type(None))


def check_manifest(path: Path, manifest: Mapping[str, Any]) -> None:
    """Check the form of the fields that readers rely on, since a manifest may have been edited.

    Any may be absent, and nested ones null. Raises InputError naming the field, such as `identity.k`.
    """
    for names, (form, expected) in _FORMS.items():
        outer, _, inner = names.partition(".")
        value = manifest.get(outer, _ABSENT)
        if inner and value is not _ABSENT:
            value = _ABSENT if value.get(inner) is None else value[inner]
        if value is not _ABSENT and not form(value):
            raise InputError(path, f"has to be {expected}", field=names)


def sessions_of(manifest: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The well-formed ones of the manifest's sessions: a run can be read without them."""
    noted = manifest.get("sessions")
    if not isinstance(noted, list):
        return []
    return [one for one in noted if isinstance(one, dict) and type(one.get("wall_s")) in _NUMBERS]


def command_of(manifest: Mapping[str, Any]) -> str:
    """The manifest's command, quoted so that a shell takes it for one command of `cts`; "" for anything else.

    The manifest may come from anywhere, and the command is shown to be copied into a shell.
    """
    command = manifest.get("command")
    try:
        words = shlex.split(command) if isinstance(command, str) and is_one_line(command) else []
    except ValueError:
        return ""
    return shlex.join(words) if words[:1] == ["cts"] else ""


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**31


def _are_texts(value: Any) -> bool:
    return all(isinstance(one, str) for one in value)


def _are_names(value: Any) -> bool:
    return all(isinstance(one, str) and is_one_line(one) for one in value)


def _are_prices(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(one, dict) and all(type(price) in _NUMBERS for price in one.values())
        for one in value.values()
    )


_FORMS: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    "identity": (_is_object, "an object"),
    "identity.data": (_is_object, "an object"),
    "identity.system": (lambda value: not isinstance(value, str) or is_one_line(value), "a name of one line"),
    "identity.k": (_is_count, "a number of questions"),
    "identity.judges": (lambda value: isinstance(value, list) and _are_names(value), "a list of names"),
    "data": (_is_object, "an object"),
    "players": (
        lambda value: (
            isinstance(value, dict) and _are_texts(one for one in value.values() if one is not None)
        ),
        "an object of names",
    ),
    "further_judges": (
        lambda value: isinstance(value, dict) and all(isinstance(one, dict) for one in value.values()),
        "an object of judges by name",
    ),
    "prices": (_are_prices, "an object of prices by model"),
    "n_expected": (_is_count, "a number of instances"),
}
"""Fields by name, each after the one that contains it: a check, and what the error message expects."""
