"""What is set for Ray is set for as long as it runs, and its processes do not hear the terminal."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import cts_async
from cts_async.cluster.ray_quiet import (
    INLINE_BYTES,
    alarmed,
    environment,
    own_environment,
    quiet_environment,
)
from cts_async.cluster.worker import NEWS_BYTES
from cts_async.engine.signals import PASSED_ON


def test_news_need_no_object_store_whose_end_would_be_the_heads() -> None:
    assert INLINE_BYTES >= 2 * NEWS_BYTES
    for variables in (quiet_environment(), own_environment()):
        assert variables["RAY_max_direct_call_object_size"] == str(INLINE_BYTES)


def test_variables_are_set_for_the_block_and_then_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLD", "1")
    monkeypatch.delenv("NEW", raising=False)
    with environment({"OLD": "2", "NEW": "3"}):
        assert (os.environ["OLD"], os.environ["NEW"]) == ("2", "3")
    assert (os.environ["OLD"], "NEW" in os.environ) == ("1", False)


def test_a_ray_of_our_own_has_a_token_that_nobody_can_guess() -> None:
    one, other = own_environment(), own_environment()
    assert len(one["RAY_AUTH_TOKEN"]) == 64
    assert one["RAY_AUTH_TOKEN"] != other["RAY_AUTH_TOKEN"]
    assert quiet_environment().items() <= one.items()


HEARING = """
import os, signal, subprocess, sys
from cts_async.cluster.ray_quiet import deaf_children
heard = []
signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
code = "import signal; print(*sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])))"
with deaf_children():
    started = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    os.kill(os.getpid(), signal.SIGINT)
    meanwhile = list(heard)
print(meanwhile, heard, started.stdout.split())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
def test_what_is_started_hears_no_ctrl_c_and_whoever_starts_it_hears_it_afterwards() -> None:
    # In a process of its own: any other thread of this one would hear the signal.
    done = subprocess.run([sys.executable, "-c", HEARING], capture_output=True, text=True, check=True)
    unheard = [str(int(number)) for number in (signal.SIGHUP, signal.SIGINT, PASSED_ON)]
    assert done.stdout.strip() == f"[] [{int(signal.SIGINT)}] {unheard}"


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
def test_what_takes_too_long_is_given_up() -> None:
    with pytest.raises(TimeoutError, match=r"no answer within 0\.01 s"), alarmed(0.01):
        threading.Event().wait()
    with alarmed(0.01):
        pass
    threading.Event().wait(0.05)  # nothing rings any more


def test_only_files_named_after_ray_import_it() -> None:
    package = Path(cts_async.__file__).parent
    texts = {path: path.read_text(encoding="utf-8") for path in package.rglob("*.py")}
    importing = {
        path.stem for path, text in texts.items() if re.search(r"^\s*(import|from) ray\b", text, re.M)
    }
    assert "ray_start" in importing
    assert all(name.startswith("ray_") for name in importing)


def test_a_file_that_imports_ray_is_imported_once_its_environment_is_set() -> None:
    code = "import sys, cts_async.cluster.ray_cluster; print('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"
