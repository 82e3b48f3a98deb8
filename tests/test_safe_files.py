"""Files are written whole or not at all, and never through a link; no module writes files in another way."""

from __future__ import annotations

import ast
import errno
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import cts_async
from cts_async.errors import StorageFull, UsageError
from cts_async.safe_files import (
    atomic_writer,
    check_writable,
    is_open_file,
    make_folder,
    open_file,
    open_folder,
    read_file,
    replace_file,
)

PACKAGE = Path(cts_async.__file__).parent
APPEND = os.O_RDWR | os.O_CREAT | os.O_APPEND


def test_file_is_replaced_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    for content in (b"first", b"old"):
        with atomic_writer(path) as file:
            file.write(content)
    with suppress(KeyboardInterrupt), atomic_writer(path) as file:
        file.write(b"new")
        raise KeyboardInterrupt

    def refuse(fd: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    problem = "a: cannot write .No space left on device.; make room"
    with pytest.raises(StorageFull, match=problem), atomic_writer(path) as file:
        file.write(b"new")
    assert [(one.name, one.read_bytes()) for one in tmp_path.iterdir()] == [("a", b"old")]


def test_unwritable_place_is_one_line(tmp_path: Path) -> None:
    for path, why in [(tmp_path / "none" / "a", "No such file"), (tmp_path, "Is a directory")]:
        with pytest.raises(UsageError, match=f"cannot write \\({why}"), atomic_writer(path):
            pass


# --- links and special files


def a_socket(path: Path) -> None:
    # The path of a socket is no longer than 107 bytes.
    with open_folder(path.parent) as folder, socket.socket(socket.AF_UNIX) as bound:
        bound.bind(f"/proc/self/fd/{folder}/{path.name}")


REFUSED = {
    "link": (lambda path: path.symlink_to(path.parent / "outside"), "is a symbolic link"),
    "dangling link": (lambda path: path.symlink_to(path.parent / "nothing"), "is a symbolic link"),
    "pipe": (os.mkfifo, "is not a regular file"),
    "socket": (a_socket, "is not a regular file"),
    "folder": (os.mkdir, "Is a directory"),
}


@pytest.mark.parametrize(("make", "why"), REFUSED.values(), ids=REFUSED)
def test_irregular_file_is_refused_and_unchanged(
    tmp_path: Path, make: Callable[[Path], None], why: str
) -> None:
    outside, path = tmp_path / "outside", tmp_path / "file"
    outside.write_bytes(b"theirs")
    make(path)
    before = path.lstat()
    for flags in (APPEND, os.O_RDWR, os.O_WRONLY):
        with pytest.raises(OSError, match=why):
            open_file(path, flags)
    with pytest.raises(OSError, match=why):
        check_writable(path)
    with pytest.raises(UsageError, match=rf"file: cannot write \(.*{why}"):
        replace_file(path, b"ours")
    with pytest.raises(UsageError, match=rf"file: cannot write \(.*{why}"), atomic_writer(path) as file:
        file.write(b"ours")
    after = path.lstat()
    assert (after.st_ino, after.st_mode, after.st_mtime_ns) == (
        before.st_ino,
        before.st_mode,
        before.st_mtime_ns,
    )
    assert outside.read_bytes() == b"theirs"
    assert {one.name for one in tmp_path.iterdir()} == {"outside", "file"}


def test_small_file_of_unknown_origin_is_read_up_to_a_bound(tmp_path: Path) -> None:
    path, link = tmp_path / "file", tmp_path / "link"
    path.write_bytes(b"12345")
    link.symlink_to(path)
    assert read_file(path, 5) == read_file(link, 5) == b"12345"
    with pytest.raises(OSError, match="is larger than 4 bytes"):
        read_file(path, 4)
    with path.open("r+b") as file:
        file.truncate(3 << 30)  # takes no room on the disk
    with pytest.raises(OSError, match="is larger than 1,000 bytes"):
        read_file(path, 1000)
    for make, why in (REFUSED["pipe"], REFUSED["folder"]):
        odd = tmp_path / why
        make(odd)
        with pytest.raises(OSError, match=why):
            read_file(odd, 5)
    with pytest.raises(OSError, match="is not a regular file"):
        read_file(Path("/dev/zero"), 5)


def test_folder_that_is_a_link_is_refused_unless_the_user_named_the_file(tmp_path: Path) -> None:
    elsewhere, link = tmp_path / "elsewhere", tmp_path / "link"
    elsewhere.mkdir()
    link.symlink_to(elsewhere)
    for refused in (
        lambda: open_file(link / "file", APPEND),
        lambda: make_folder(link, "folder"),
        lambda: make_folder(tmp_path, "link"),
    ):
        with pytest.raises(OSError, match="link is a symbolic link"):
            refused()
    with pytest.raises(UsageError, match="link is a symbolic link"):
        replace_file(link / "file", b"")
    assert not list(elsewhere.iterdir())
    with atomic_writer(link / "file") as file:
        file.write(b"named by the user")
    assert (elsewhere / "file").read_bytes() == b"named by the user"


def test_folders_further_up_may_be_links(tmp_path: Path) -> None:
    (tmp_path / "data" / "run").mkdir(parents=True)
    (tmp_path / "runs").symlink_to(tmp_path / "data")
    replace_file(tmp_path / "runs" / "run" / "file", b"ours")
    assert make_folder(tmp_path / "runs" / "run", "folder").is_dir()
    assert (tmp_path / "data" / "run" / "file").read_bytes() == b"ours"


def test_link_under_the_temporary_name_is_removed_and_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"theirs")
    (tmp_path / f".file.{os.getpid()}").symlink_to(outside)
    replace_file(tmp_path / "file", b"ours")
    assert outside.read_bytes() == b"theirs"
    assert {one.name for one in tmp_path.iterdir()} == {"outside", "file"}


def test_deleted_or_replaced_file_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    fd = open_file(path, APPEND)
    assert is_open_file(path, fd)
    path.rename(tmp_path / "aside")
    assert not is_open_file(path, fd)
    path.touch()
    assert not is_open_file(path, fd)
    path.unlink()
    path.symlink_to(tmp_path / "aside")
    assert not is_open_file(path, fd)
    os.close(fd)


WRITES = """
import sys
from pathlib import Path
from cts_async.safe_files import atomic_writer
print("before", flush=True)
with atomic_writer(Path(sys.argv[1])) as file:
    file.write(b"content\\n")
print("after")
"""


@pytest.mark.parametrize(
    ("name", "redirected"), [("/dev/stdout", ">"), ("/dev/fd/1", ">>"), ("/proc/self/fd/1", "| cat >")]
)
def test_standard_output_by_its_name_is_written_to_in_its_place(
    tmp_path: Path, name: str, redirected: str
) -> None:
    out = tmp_path / "out"
    out.write_text("there\n" if redirected == ">>" else "")
    command = f'"$0" -c "$1" {name} {redirected} "$2"'
    subprocess.run(["bash", "-c", command, sys.executable, WRITES, out], check=True, timeout=30)
    assert out.read_text() == ("there\n" if redirected == ">>" else "") + "before\ncontent\nafter\n"


# --- nobody else writes

WRITING_FLAGS = {"O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "O_APPEND"}
WRITING_CALLS = {
    *("write_text", "write_bytes", "touch", "symlink_to", "hardlink_to", "extractall", "unpack_archive"),
    *("save", "savez", "savetxt", "tofile", "to_csv", "savefig", "FileHandler"),
    *("NamedTemporaryFile", "mkstemp"),
    *("os.symlink", "os.link", "os.mkfifo", "os.mknod", "os.truncate"),
    *("shutil.copy", "shutil.copy2", "shutil.copyfile", "shutil.copytree", "shutil.move"),
}
ELSEWHERE = {
    "cli/streams.py": "the null device, in place of a standard stream that is closed or fails",
    "tables/output.py": "the null device, in place of a standard output that fails",
    "search/backends/corpus.py": "bm25s and numpy save into a folder that tempfile has just made",
}


MAY_WRITE = re.compile(
    rf"\b(?:open|{'|'.join(re.escape(name.rpartition('.')[2]) for name in WRITING_CALLS)})\b"
)
"""Other modules need not be parsed."""


def writes(tree: ast.Module) -> Iterator[int]:
    """Lines of calls that open files for writing, or make or change them by name."""
    constants = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.AnnAssign | ast.Assign) and node.value
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        function = call.func
        name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
        owner = getattr(getattr(function, "value", None), "id", "")
        given = [*call.args, *(keyword.value for keyword in call.keywords)]
        if name in WRITING_CALLS or f"{owner}.{name}" in WRITING_CALLS:
            yield call.lineno
        elif name == "open" and owner == "os":
            flags = [constants.get(one.id, one) if isinstance(one, ast.Name) else one for one in given]
            names = {node.attr for one in flags for node in ast.walk(one) if isinstance(node, ast.Attribute)}
            if names & WRITING_FLAGS:
                yield call.lineno
        elif name == "open":
            modes = [
                one.value for one in given if isinstance(one, ast.Constant) and isinstance(one.value, str)
            ]
            if any(set(mode) <= set("rwaxbt+") and set(mode) & set("wax+") for mode in modes):
                yield call.lineno


def test_no_module_writes_files_in_another_way() -> None:
    found = {
        f"{name}:{line}"
        for path in PACKAGE.rglob("*.py")
        if (name := path.relative_to(PACKAGE).as_posix()) != "safe_files.py" and name not in ELSEWHERE
        if MAY_WRITE.search(text := path.read_text(encoding="utf-8"))
        for line in writes(ast.parse(text))
    }
    assert not found
    for name in ELSEWHERE:
        assert list(writes(ast.parse((PACKAGE / name).read_text(encoding="utf-8")))), (
            f"{name} needs no exception"
        )


@pytest.mark.parametrize(
    ("writing", "code"),
    [
        (True, "open(path, 'w')"),
        (True, "open(path, mode='ab')"),
        (True, "path.open('r+b')"),
        (True, "gzip.open(path, 'wt')"),
        (True, "os.open(path, os.O_RDWR | os.O_CREAT)"),
        (True, "FLAGS = os.O_WRONLY\nos.open(path, FLAGS)"),
        (True, "path.write_text('')"),
        (True, "shutil.copy(path, other)"),
        (True, "np.save(path, array)"),
        (False, "open(path)"),
        (False, "open(path, 'rb')"),
        (False, "os.open(path, os.O_RDONLY)"),
        (False, "os.fdopen(fd, 'wb')"),
    ],
)
def test_walk_sees_every_way_to_write_and_no_reading(writing: bool, code: str) -> None:
    assert bool(list(writes(ast.parse(code)))) == writing
