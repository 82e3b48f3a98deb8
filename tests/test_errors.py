"""What a user can cause is an error of ours, however the operating system and task groups report it."""

from __future__ import annotations

import errno

import pytest

from cts_async.errors import Interrupted, StorageFull, UsageError, expected_error

FULL = OSError(errno.ENOSPC, "No space left on device", "runs/a/steps.jsonl")
ABSENT = FileNotFoundError(errno.ENOENT, "No such file or directory", "a.csv")
MANY = OSError(errno.EMFILE, "Too many open files")
OURS = UsageError("no such model")


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (OURS, UsageError, "no such model"),
        (ABSENT, UsageError, "a.csv: No such file or directory"),
        (FULL, StorageFull, "runs/a/steps.jsonl: cannot write (No space left on device); make room"),
        (MANY, UsageError, "too many open files; raise the limit"),
        (ExceptionGroup("", [OURS]), UsageError, "no such model"),
        (ExceptionGroup("", [OURS, ExceptionGroup("", [ABSENT])]), UsageError, "a.csv: No such file"),
        (
            BaseExceptionGroup("", [Interrupted("stopped"), FULL]),
            StorageFull,
            "runs/a/steps.jsonl: cannot write",
        ),
    ],
)
def test_error_of_a_file_or_of_ours_is_expected(error: BaseException, kind: type, message: str) -> None:
    expected = expected_error(error)
    assert type(expected) is kind
    assert str(expected).startswith(message)


@pytest.mark.parametrize(
    "error",
    [ValueError(), OSError(errno.EIO, "Input/output error"), ExceptionGroup("", [OURS, ValueError()])],
)
def test_anything_else_is_a_bug(error: BaseException) -> None:
    assert expected_error(error) is None
