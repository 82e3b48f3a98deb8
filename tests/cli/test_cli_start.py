"""The first moments of a command."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType

import pytest

from cts_async import __version__
from cts_async.cli.start import start


class _CtrlC:
    """Is pressed while the commands are being imported."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if name == "cts_async.cli.main":
            raise KeyboardInterrupt
        return


def test_ctrl_c_while_commands_are_imported_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "cts_async.cli.main", raising=False)
    monkeypatch.setattr(sys, "meta_path", [_CtrlC(), *sys.meta_path])
    with pytest.raises(SystemExit) as ended:
        start()
    assert (ended.value.code, capsys.readouterr().err) == (75, "cts: interrupted before anything began\n")


def test_otherwise_the_command_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["cts", "--version"])
    with pytest.raises(SystemExit):
        start()
    assert capsys.readouterr().out == f"cts {__version__}\n"
