"""Run directories: one writer, a checked identity, and a manifest of the right form."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cts_async import __version__
from cts_async.errors import EXIT_USAGE, InputError, RunLocked, StorageFull, UsageError
from cts_async.runs.manifest import check_identity, locked, read_manifest, sessions_of, write_json

HOLDER = """
import sys, time
from pathlib import Path
from cts_async.runs.manifest import locked
with locked(Path(sys.argv[1])):
    print("locked", flush=True)
    time.sleep(60)
"""


@contextmanager
def held(directory: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the directory."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(directory)], stdout=subprocess.PIPE, text=True
    ) as holder:
        try:
            assert holder.stdout
            assert holder.stdout.readline() == "locked\n"
            yield holder
        finally:
            holder.kill()


# --- the lock


def test_lock_names_its_holder_and_ends_with_the_process(tmp_path: Path) -> None:
    with held(tmp_path) as holder:
        with pytest.raises(RunLocked, match=rf"process {holder.pid} is writing") as raised, locked(tmp_path):
            pass
        assert raised.value.exit_code == EXIT_USAGE
        assert str(raised.value).startswith(str(tmp_path))
        assert str(raised.value).endswith("is writing this run; wait for it")
        with (
            pytest.raises(RunLocked, match="wait for it, or choose another --out$"),
            locked(tmp_path, place="--out"),
        ):
            pass
        holder.send_signal(signal.SIGKILL)
        holder.wait(10)
        with locked(tmp_path):
            assert (tmp_path / ".lock").read_text() == f"process {os.getpid()}"


def test_the_directory_is_made_and_the_lock_ends_with_the_block(tmp_path: Path) -> None:
    directory = tmp_path / "runs" / "new"
    for _ in range(2):
        with locked(directory) as is_locked:
            assert is_locked()
            assert directory.is_dir()
            with pytest.raises(RunLocked, match=f"process {os.getpid()} "), locked(directory):
                pass
    with pytest.raises(KeyError), locked(directory):
        raise KeyError("a bug")
    with locked(directory):
        pass


def test_deleted_lock_file_admits_no_second_process(tmp_path: Path) -> None:
    with held(tmp_path) as holder:
        # What the file says is printed only if it names a process.
        (tmp_path / ".lock").write_text("\x1b[2J rm -rf ~")
        with pytest.raises(RunLocked, match=": another process is writing this run"), locked(tmp_path):
            pass
        (tmp_path / ".lock").unlink()
        with pytest.raises(RunLocked, match=": another process is writing this run"), locked(tmp_path):
            pass
        holder.kill()
        holder.wait(10)
        with locked(tmp_path):
            pass


def test_a_process_of_an_earlier_version_holds_the_lock_file_alone(tmp_path: Path) -> None:
    with (tmp_path / ".lock").open("w") as file:
        file.write("process 7")
        file.flush()
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(RunLocked, match="process 7 is writing this run"), locked(tmp_path):
            pass


def test_a_lock_file_that_was_replaced_while_it_was_locked_is_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock = fcntl.flock

    def replaced_before(fd: int, operation: int) -> None:
        (tmp_path / ".lock").unlink(missing_ok=True)
        (tmp_path / ".lock").touch()
        flock(fd, operation)

    monkeypatch.setattr(fcntl, "flock", replaced_before)
    with pytest.raises(RunLocked, match="was replaced while it was being locked"), locked(tmp_path):
        pass


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_file_system_without_locks_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def flock(fd: int, operation: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", flock)
    with (
        pytest.raises(UsageError, match=r"this file system has no locks \(flock: .*\); use --runs-dir"),
        locked(tmp_path),
    ):
        raise AssertionError("never held")


def test_a_directory_that_was_moved_away_is_no_longer_held(tmp_path: Path) -> None:
    with locked(tmp_path / "run") as is_locked:
        assert is_locked()
        (tmp_path / "run").rename(tmp_path / "moved")
        assert not is_locked()
        with locked(tmp_path / "run"):
            assert not is_locked()


def test_links_are_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "data")
    refused = pytest.raises(UsageError, match="link: cannot write there .link is a symbolic link")
    with refused, locked(tmp_path / "link"):
        pass
    assert not list((tmp_path / "data").iterdir())
    with locked(tmp_path / "link" / "run"):  # a link above it is not one of ours
        assert (tmp_path / "data" / "run" / ".lock").exists()
    outside = tmp_path / "outside"
    outside.write_text("theirs")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".lock").symlink_to(outside)
    with pytest.raises(UsageError, match=".lock is a symbolic link"), locked(tmp_path / "run"):
        pass
    assert outside.read_text() == "theirs"


def test_a_directory_that_cannot_be_is_the_users_mistake(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(UsageError, match="cannot write there"), locked(tmp_path / "file" / "run"):
        pass
    with pytest.raises(UsageError, match="cannot write there"), locked(tmp_path / "file"):
        pass


def test_lock_that_cannot_be_signed_is_released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int, data: bytes, offset: int) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", full)
        with (
            pytest.raises(StorageFull, match="cannot write there .No space left.*make room"),
            locked(tmp_path),
        ):
            pass
    with locked(tmp_path):
        pass


# --- the manifest


def test_a_manifest_is_read_as_written(tmp_path: Path) -> None:
    assert read_manifest(tmp_path) is None
    value = {"identity": {"k": 3, "models": {"clarifier": "gpt"}}, "n": 1.5, "text": "模糊"}
    write_json(tmp_path / "run.json", value)
    assert read_manifest(tmp_path) == value
    assert (tmp_path / "run.json").read_bytes().endswith(b"}\n")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\0" * 100, b'"text"', b"\xff"])
def test_invalid_manifest_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "run.json").write_bytes(content)
    with pytest.raises(InputError, match="run.json: not a manifest"):
        read_manifest(tmp_path)


def test_a_writer_killed_in_the_middle_leaves_the_old_file_whole(tmp_path: Path) -> None:
    write_json(tmp_path / "run.json", {"n": 1})
    script = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom cts_async.runs.manifest import write_json\n"
        "os.fsync = lambda fd: os.kill(os.getpid(), signal.SIGKILL)\n"
        "write_json(Path(sys.argv[1]), {'n': 2})\n"
    )
    killed = subprocess.run([sys.executable, "-c", script, str(tmp_path / "run.json")], timeout=30)
    assert killed.returncode == -signal.SIGKILL
    assert read_manifest(tmp_path) == {"n": 1}


A_NAME = "has to be a name of one line, at most 1,000 characters"


@pytest.mark.parametrize(
    ("manifest", "problem"),
    [
        ({"identity": {"data": {"name": 5}}}, "'identity.data.name': has to be a name of one line"),
        ({"identity": {"models": None}}, "'identity.models': has to be an object of models by role"),
        ({"identity": {"models": ["gpt"]}}, "'identity.models': has to be an object of models by role"),
        ({"identity": {"prompts": {"a": 1}}}, "'identity.prompts': has to be an object of digests by name"),
        ({"identity": {"stop_after": ["a"]}}, "'identity.stop_after': has to be the name of a stage"),
        ({"identity": {"system": "x" * 1001}}, "'identity.system': has to be a name of one line"),
        ({"identity": None}, "'identity': has to be an object"),
        ({"data": {"spec": ["a"]}}, "'data.spec': has to be a path"),
        ({"data": {"fields": {"a": 1}}}, "'data.fields': has to be an object of names"),
        ({"tools": 5}, "'tools': has to be an object"),
        ({"tools": {"replay": "x"}}, "'tools.replay': has to be a list of paths"),
        ({"players": 5}, "'players': has to be an object of names"),
        ({"players": {"agent": "x" * 10_000_000}}, f"'players.agent': {A_NAME}"),
        ({"players": {"judge \x1b[2J" + "x" * 100: 1}}, f"'players.judge ?[2J{'x' * 50}': {A_NAME}"),
        ({"prices": {"m": {"input": -1.0}}}, "'prices': has to be an object of prices by model"),
        ({"forecast": {"calls": "many"}}, "'forecast': has to be an object of numbers"),
        ({"systems": [1]}, "'systems': has to be a list of names"),
        ({"journal": 7}, "'journal': has to be a path"),
    ],
)
def test_field_of_another_type_is_named(tmp_path: Path, manifest: dict[str, Any], problem: str) -> None:
    write_json(tmp_path / "run.json", manifest)
    with pytest.raises(InputError) as raised:
        read_manifest(tmp_path)
    assert str(raised.value) == f"{tmp_path}/run.json: field {problem}"


def test_fields_that_earlier_versions_left_open_may_be_null(tmp_path: Path) -> None:
    identity = dict.fromkeys(
        ("data", "system", "task", "stop_after", "candidates", "current_date", "k", "judges", "agent")
    )
    manifest = {
        "identity": identity,
        "data": dict.fromkeys(("spec", "path", "gold", "corpus", "fields", "notes")),
        "tools": dict.fromkeys(("search", "visit", "replay")),
        "players": {"clarifier": None, "judge lexical": "lexical"},
        "prices": {"m": {"input": None, "output": 1.5}},
        "further_judges": {"strict": {"model": {"model": "m"}, "prompts": {}}},
        "forecast": None,
        "journal": "/" + "a" * 255 * 15 + "/steps.jsonl",
    }
    write_json(tmp_path / "run.json", manifest)
    assert read_manifest(tmp_path) == manifest


@pytest.mark.parametrize("levels", [101, 300, 1015, 100_000])
def test_deep_manifest_is_one_line(tmp_path: Path, levels: int) -> None:
    (tmp_path / "run.json").write_text('{"identity": ' + "[" * levels + "]" * levels + "}")
    with pytest.raises(InputError, match="run.json: not a manifest") as raised:
        read_manifest(tmp_path)
    assert len(str(raised.value)) < 300


def test_manifest_that_is_huge_or_no_file_is_one_line(tmp_path: Path) -> None:
    with (tmp_path / "run.json").open("wb") as file:
        file.truncate(3 << 30)
    with pytest.raises(InputError, match=r"not a manifest \(is larger than 16,777,216 bytes\)"):
        read_manifest(tmp_path)
    (tmp_path / "run.json").unlink()
    os.mkfifo(tmp_path / "run.json")
    with pytest.raises(InputError, match="no regular file"):
        read_manifest(tmp_path)


# --- the identity

IDENTITY = {
    "system": "gpt",
    "k": 3,
    "models": {"clarifier": {"model": "gpt", "temperature": 0.0}, "agent": {"model": "qwen"}},
    "judges": ["gpt", "claude"],
    "current_date": None,
}


def test_the_same_run_agrees_and_settings_that_differ_are_named_with_both_values(tmp_path: Path) -> None:
    check_identity(tmp_path, IDENTITY)
    write_json(tmp_path / "run.json", {"identity": IDENTITY})
    check_identity(tmp_path, IDENTITY)
    now = {
        **IDENTITY,
        "k": 5,
        "models": {"clarifier": {"model": "gpt", "temperature": 1.0}},
        "judges": ["gpt"],
        "current_date": "2026-01-01",
        "seed": "b" * 500,
    }
    with pytest.raises(UsageError) as raised:
        check_identity(tmp_path, now)
    said = str(raised.value)
    for difference in (
        "k was 3, now 5",
        "models.clarifier.temperature was 0.0, now 1.0",
        'models.agent was {"model":"qwen"}, now null',
        'judges was ["gpt","claude"], now ["gpt"]',
        'current_date was null, now "2026-01-01"',
        f'seed was null, now "{"b" * 56}...',
    ):
        assert difference in said
    assert "system" not in said
    assert "models.clarifier.model" not in said
    assert str(tmp_path) in said
    assert "--name" in said


def test_plain_differences_come_first_and_nested_ones_are_limited(tmp_path: Path) -> None:
    prompts = {f"cot.{n}": "a" for n in range(5)}
    write_json(tmp_path / "run.json", {"identity": {"prompts": prompts, "scheme": "cot", "k": 3}})
    with pytest.raises(UsageError) as raised:
        check_identity(tmp_path, {"prompts": {}, "scheme": "at-cot", "k": 3})
    assert (
        'with different settings: scheme was "cot", now "at-cot"; prompts.cot.0 was "a", now null; '
        'prompts.cot.1 was "a", now null; prompts.cot.2 was "a", now null; 2 more of prompts. Use --name'
    ) in str(raised.value)


@pytest.mark.parametrize(
    ("version", "hint"),
    [
        ("0.6.0", r"finish it with the version that began it: cts-async==0\.6\.0$"),
        *(
            (version, "repeat the original options to resume$")
            for version in (__version__, None, 6, "0.6; rm -rf ~")
        ),
    ],
)
def test_refusal_names_another_version_that_began_the_run(tmp_path: Path, version: object, hint: str) -> None:
    write_json(tmp_path / "run.json", {"identity": {"k": 1}, "version": version})
    with pytest.raises(UsageError, match=hint):
        check_identity(tmp_path, {"k": 3})


SOUND = {
    "identity": {"k": 3, "data": {"name": "sample"}, "judges": ["gpt"]},
    "players": {"clarifier": "gpt", "support": None},
    "prices": {"gpt-5": {"input": 1.25, "output": None}},
    "n_expected": 8,
    "sessions": [{"start": "2026-11-21T06:24:00Z", "wall_s": 2.5}, {}],
}


def written(folder: Path, manifest: dict[str, Any]) -> Path:
    (folder / "run.json").write_text(json.dumps(manifest))
    return folder


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("identity", None),
        ("identity", ["x"]),
        ("players", {"clarifier": 3}),
        ("prices", {"gpt-5": {"input": "1.25"}}),
        ("n_expected", "8"),
        ("n_expected", -1),
        ("identity.k", "3"),
        ("identity.k", True),
        ("identity.data", []),
        ("identity.judges", "gpt"),
    ],
)
def test_field_of_another_form_is_named(tmp_path: Path, part: str, value: Any) -> None:
    outer, _, inner = part.partition(".")
    with pytest.raises(InputError, match=f"run.json: field '{part}[.a-z]*': has to be "):
        read_manifest(written(tmp_path, SOUND | {outer: {inner: value} if inner else value}))


@pytest.mark.parametrize("sessions", [None, {"a": 1}, "x", [7], [{"wall_s": "long"}]])
def test_malformed_sessions_are_ignored(sessions: Any) -> None:
    assert sessions_of({"sessions": sessions}) == []


def test_absent_fields_are_accepted(tmp_path: Path) -> None:
    for manifest in ({}, SOUND, {"identity": {"k": None, "data": None}}):
        assert read_manifest(written(tmp_path, manifest)) == manifest
