"""A run's directory: one writer at a time, a manifest that says what the run is, and its files.

`run.json` holds `identity` (what determines the results: a resumed run must agree on it) and notes
(versions, command, sessions) that may change from one session to the next.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import orjson

from cts_async import __version__
from cts_async.engine.manifest_form import check_manifest
from cts_async.errors import InputError, RunLocked, UsageError, unwritable

_DAMAGED: Final = (
    ": damaged; move it aside, with the results and judgments/ beside it: the same command makes them again from "
    "what steps.jsonl has"
)
VERSION: Final = re.compile(r"[0-9][0-9a-z.+]{0,30}")
FEW = 3
"""Differences below one name that a refusal tells."""


@contextmanager
def locked(directory: Path, *, place: str = "") -> Iterator[Path]:
    """Hold the directory for writing; it is made if need be. The lock dies with the process.

    `place` is the option that chooses another, where there is one.
    Raises RunLocked naming the process that holds it, UsageError where nothing can be written, StorageFull where
    there is no room.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        fd = os.open(directory / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise unwritable(directory, error, verb="write there") from None
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(fd, 64, 0).decode(errors="replace").strip() or "another process"
            other = f", or choose another {place}" if place else ""
            raise RunLocked(f"{directory}: {holder} is writing this run; wait for it{other}") from None
        try:
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"process {os.getpid()}".encode(), 0)
        except OSError as error:
            raise unwritable(directory, error, verb="write there") from None
        yield directory
    finally:
        os.close(fd)


def is_locked(directory: Path) -> bool:
    """Whether a process holds the directory for writing just now."""
    try:
        with (directory / ".lock").open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def read_manifest(directory: Path) -> dict[str, Any] | None:
    """The manifest, or None where the directory holds no run yet."""
    path = directory / "run.json"
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
    """The value as orjson writes it; what UTF-8 cannot hold, as file names may have it, is "?"."""
    try:
        return orjson.dumps(value, option=option)
    except TypeError:
        held = json.dumps(value, ensure_ascii=False).encode(errors="replace")
        return orjson.dumps(orjson.loads(held), option=option)


def write_json(path: Path, value: Any) -> None:
    """Write a small JSON file so that a reader, or a crash, sees the old one or the new one whole."""
    replace_file(path, json_bytes(value, orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))


def replace_file(path: Path, content: bytes, *, sync: bool = True) -> None:
    """Write a small file as `write_json` does; without `sync` a power cut may leave nothing in it.

    Raises StorageFull, UsageError.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            if sync:
                os.fsync(file.fileno())  # else a power cut may leave the new name with nothing in it
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise unwritable(path, error) from None


def check_identity(directory: Path, identity: Mapping[str, Any], *, place: str = "--name") -> None:
    """Refuse to continue a run as something else, naming what differs; `place` is the option for another.

    A run that another version began is refused by naming that version: its prompts may be what differs.
    """
    manifest = read_manifest(directory)
    if manifest is None:
        return
    told = list(differences(manifest.get("identity", {}), identity))
    if not told:
        return
    begun_by = manifest.get("version")
    resume = "repeat the original options to resume"
    if isinstance(begun_by, str) and begun_by != __version__ and VERSION.fullmatch(begun_by):
        resume += f"; if those are the same, finish it with the version that began it: cts-async=={begun_by}"
    raise UsageError(
        f"{directory} was created with different settings: {'; '.join(told)}. "
        f"Use {place} to start a new run, or {resume}"
    )


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Fields that differ: plain ones first, since the many below one name mostly follow from them, and few of these."""
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
