"""A run's directory: one writer at a time, and a manifest that describes the run.

`run.json` holds `identity` (what determines the results: a resumed run must agree on it) and notes (versions, command,
sessions) that may change from one session to the next.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, get_args

import orjson
from pydantic import AfterValidator, BaseModel, Field, ValidationError

from cts_async import __version__, foreign_json
from cts_async.errors import InputError, RunLocked, UsageError, write_error
from cts_async.records import is_one_line
from cts_async.safe_files import is_open_file, open_file, open_folder, read_file, replace_file

_DAMAGED: Final = (
    ": damaged; move it aside, with the results and judgments/: the same command makes them again from "
    "what steps.jsonl has"
)
MAX_MANIFEST_BYTES: Final = 16 << 20
"""A real one has a few kilobytes."""
VERSION: Final = re.compile(r"[0-9][0-9a-z.+]{0,30}")
LOCK: Final = ".lock"
_NO_LOCKS: Final = frozenset({errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP})
"""What flock answers on Lustre without `-o flock`, and on NFS without a lock daemon."""
FEW = 3
"""Differences within one field of the identity that an error message lists."""


@contextmanager
def locked(directory: Path, *, place: str = "") -> Iterator[Callable[[], bool]]:
    """Lock the directory for writing, and create it if necessary. The lock ends with the process.

    Yields a function that says whether the path still leads to the locked directory, which may have been replaced.
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
            try:
                free = _flock(fd, fcntl.LOCK_EX)
            except OSError as error:
                if error.errno in _NO_LOCKS:
                    raise UsageError(
                        f"{directory}: this file system has no locks (flock: {error.strerror}); use --runs-dir or --out "
                        "to write on another one, such as a local disk"
                    ) from None
                raise
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
        yield partial(is_open_file, directory, folder)


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
    try:
        content = read_file(path, MAX_MANIFEST_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise InputError(path, f"not a manifest ({error.strerror}){_DAMAGED}") from None
        if error.errno in (errno.EINVAL, errno.EISDIR):
            raise InputError(path, "not a manifest (no regular file); move it aside") from None
        raise
    try:
        manifest = foreign_json.loads(content)
    except ValueError as error:
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


# --- The form of a manifest
#
# A run directory can come from anybody, so every field that some reader relies on has its type here, once. A field that
# is not named is passed through as it is: nobody reads it, or its reader checks it.

MAX_NAME: Final = 1_000
"""Characters of a name. A model's id or a file's path has a hundred; names are joined into messages and tables."""


def _name(text: str) -> str:
    if not is_one_line(text):
        raise ValueError("more than one line")
    return text


_Count = Annotated[int, Field(strict=True, ge=0, lt=2**31)]
_Name = Annotated[str, Field(max_length=MAX_NAME), AfterValidator(_name)]
_Path = Annotated[str, Field(max_length=4 * MAX_NAME)]
_Price = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]
_Amount = Annotated[float, Field(strict=True, allow_inf_nan=False)]


class _DataIdentity(BaseModel):
    """What determines a run's instances."""

    name: _Name | None = Field(default=None, description="a name of one line")
    sha256: _Name | None = Field(default=None, description="a digest")
    gold_sha256: _Name | None = Field(default=None, description="a digest")


class _Identity(BaseModel):
    """The fields of a run's identity that readers rely on; each may be absent, and some may be null."""

    data: _DataIdentity | None = Field(default=None, description="an object")
    system: _Name | None = Field(default=None, description="a name of one line")
    task: _Name | None = Field(default=None, description="a name of one line")
    scheme: _Name = Field(default="", description="a name of one line")
    mode: _Name = Field(default="", description="a name of one line")
    stop_after: _Name | None = Field(default=None, description="the name of a stage")
    candidates: _Path | None = Field(default=None, description="a path")
    current_date: _Name | None = Field(default=None, description="a date")
    gold_sha256: _Name | None = Field(default=None, description="a digest")
    k: _Count | None = Field(default=None, description="a number of questions")
    judges: list[_Name] | None = Field(default=None, description="a list of names")
    models: dict[str, Any] = Field(default={}, description="an object of models by role")
    prompts: dict[str, str] = Field(default={}, description="an object of digests by name")
    agent: dict[str, Any] | None = Field(default=None, description="an object")


class _Data(BaseModel):
    """Where a run's data are."""

    spec: _Path | None = Field(default=None, description="a path")
    path: _Path | None = Field(default=None, description="a path")
    gold: _Path | None = Field(default=None, description="a path")
    corpus: _Path | None = Field(default=None, description="a path")
    fields: dict[str, str] | None = Field(default=None, description="an object of names")
    notes: list[str] | None = Field(default=None, description="a list of texts")


class _Tools(BaseModel):
    """The search engine, the page reader and the recorded runs of a search."""

    search: _Name | None = Field(default=None, description="a name of one line")
    visit: _Name | None = Field(default=None, description="a name of one line")
    replay: list[_Path] | None = Field(default=None, description="a list of paths")


class _Manifest(BaseModel):
    """The fields of a manifest that readers rely on; each may be absent."""

    identity: _Identity = Field(default=_Identity(), description="an object")
    data: _Data = Field(default=_Data(), description="an object")
    tools: _Tools = Field(default=_Tools(), description="an object")
    players: dict[str, _Name | None] = Field(default={}, description="an object of names")
    further_judges: dict[str, dict[str, Any]] = Field(default={}, description="an object of judges by name")
    prices: dict[str, dict[str, _Price | None]] = Field(
        default={}, description="an object of prices by model"
    )
    forecast: dict[str, _Amount | None] | None = Field(default=None, description="an object of numbers")
    systems: list[_Name] = Field(default=[], description="a list of names")
    journal: _Path | None = Field(default=None, description="a path")
    n_expected: _Count = Field(default=0, description="a number of instances")


def check_manifest(path: Path, manifest: Mapping[str, Any]) -> None:
    """Check the form of the fields that readers rely on, since a manifest may have been edited.

    Raises InputError naming the field, such as `identity.k`.
    """
    try:
        _Manifest.model_validate(manifest)
    except ValidationError as error:
        name, description = _field_at(error.errors(include_input=False)[0]["loc"])
        raise InputError(path, f"has to be {description}", field=name) from None


_ENTRIES: Final = {"players": f"a name of one line, at most {MAX_NAME:,} characters"}
"""What an entry of an object has to be, for the objects whose entries are named in messages."""
_ENTRY_CHARS: Final = 60
"""Of an entry's own name in a message: it is a stranger's."""


def _field_at(places: tuple[int | str, ...]) -> tuple[str, str]:
    """The dotted name of the field in which a mistake is, as far as it is described, and what it has to be."""
    model: Any = _Manifest
    names: list[str] = []
    description = ""
    for place in map(str, places):
        if place not in getattr(model, "model_fields", {}):
            break
        field = model.model_fields[place]
        names.append(place)
        description = field.description
        # Of a model that may be null, the model.
        kinds = [field.annotation, *get_args(field.annotation)]
        model = next((kind for kind in kinds if hasattr(kind, "model_fields")), None)
    name = ".".join(names)
    if len(places) == len(names) or name not in _ENTRIES:
        return name, description
    entry = str(places[len(names)])[:_ENTRY_CHARS]
    entry = "".join(char if char.isprintable() else "?" for char in entry)
    return f"{name}.{entry}", _ENTRIES[name]


def sessions_of(manifest: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The well-formed ones of the manifest's sessions: a run can be read without them."""
    noted = manifest.get("sessions")
    if not isinstance(noted, list):
        return []
    return [
        one for one in noted if isinstance(one, dict) and type(one.get("wall_s")) in (int, float, type(None))
    ]


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
