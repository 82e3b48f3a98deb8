"""A package of somebody else's with plug-ins, as `pip install` leaves it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from cts_async import plugins


def install(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    groups: Mapping[str, Mapping[str, str]],
    modules: Mapping[str, str],
    package: str = "my-lab",
) -> None:
    """Install `package` 1.0 into a folder of the module path: entry points by group, and modules by name."""
    site = folder / f"site-{package}"
    metadata = site / f"{package.replace('-', '_')}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n", "utf-8")
    lines: list[str] = []
    for group, entries in groups.items():
        lines.append(f"[{group}]")
        lines += [f"{name} = {value}" for name, value in entries.items()]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n", "utf-8")
    for name, text in modules.items():
        (site / f"{name}.py").write_text(text, "utf-8")
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setattr(plugins, "_warned", set())
    forget()


def forget() -> None:
    """Search the module path again at the next question."""
    plugins._plugins.cache_clear()
    plugins._built_in.cache_clear()
