"""What becomes of a command when its standard error is closed, or takes no more."""

from __future__ import annotations

import subprocess
import sys

import pytest

PREPARED = (
    "import sys; from cts_async.cli.standard_error import open_closed_streams, tolerate_deaf_ears\n"
    "open_closed_streams(); tolerate_deaf_ears()\n"
)


def ended(program: str, redirected: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-c", PREPARED + program]
    command = ["bash", "-c", f'"$@" {redirected}', "bash", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)


@pytest.mark.parametrize("redirected", ["2>/dev/full", "2>&-", "2> >(exit)"])
def test_whoever_does_not_listen_ends_nothing(redirected: str) -> None:
    done = ended(
        "[print('so far', file=sys.stderr, flush=True) for _ in range(9)]; print('done')", redirected
    )
    assert (done.stdout, done.returncode) == ("done\n", 0)


def test_no_file_gets_the_number_of_a_stream_that_is_closed() -> None:
    done = ended("print(open('/dev/null').fileno() > 2)", "0<&- 2>&-")
    assert done.stdout == "True\n"


def test_what_is_said_arrives_where_somebody_listens() -> None:
    assert ended("print('é', file=sys.stderr)", "2>&1").stdout == "é\n"
