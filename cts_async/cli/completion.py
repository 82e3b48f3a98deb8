"""`cts completion`: what the tab key offers in bash, zsh and fish.

While completing, nothing is executed, sent or trusted: tables are read for their names, and folders are listed. Only
names that mean nothing to a shell are offered, because zsh's script evaluates what it gets.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Final

import typer

from cts_async.config import read_tables, user_config_file
from cts_async.errors import CTSError, UsageError

VARIABLE: Final = "_CTS_COMPLETE"
"""Set by the scripts when they ask for completions."""
SHELLS: Final = ("bash", "zsh", "fish")

# zsh's script evaluates what it is offered.
_HARMLESS = re.compile(r"[\w./@+=,-]+")
_PACKAGE: Final = Path(__file__).parents[1]
_SHIPPED: Final = {
    "models": _PACKAGE / "llm/models.toml",
    "search": _PACKAGE / "search/web.toml",
    "visit": _PACKAGE / "search/web.toml",
}
_MAX_BYTES: Final = 1_000_000
"""A larger cts.toml is not read."""
_MAX_FOLDERS: Final = 5_000


def choices(words: Iterable[str]) -> Callable[[str], list[str]]:
    """Return a completer for one of a few words."""

    def complete(incomplete: str) -> list[str]:
        return _completions(words, incomplete)

    return complete


def completion(
    shell: Annotated[
        str,
        typer.Argument(metavar="bash|zsh|fish", help="Your shell.", autocompletion=choices(SHELLS)),
    ],
) -> None:
    """Print a script with which the tab key completes commands, options, model names and runs.

    Example: cts completion bash >> ~/.bashrc

    Example: cts completion zsh >> ~/.zshrc

    Example: cts completion fish > ~/.config/fish/completions/cts.fish

    Then open a new shell. In ~/.zshrc the script must stand below compinit. Completing sends nothing.
    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    if shell not in SHELLS:
        raise UsageError(f"{shell}: no completion for this shell; known: {', '.join(SHELLS)}")
    typer.echo(get_completion_script(prog_name="cts", complete_var=VARIABLE, shell=shell))


def register() -> None:
    """Make typer answer the scripts; by itself it does so only with options that edit the user's shell files."""
    from typer.completion import completion_init  # type: ignore[attr-defined]

    completion_init()


def names(table: str, *words: str) -> Callable[[str], list[str]]:
    """Return a completer for names of `[TABLE.NAME]` in the catalogue and in the user's files, and for `words`."""

    def complete(incomplete: str) -> list[str]:
        return _completions(chain(_names_in(table), words), incomplete)

    return complete


def runs(incomplete: str) -> list[str]:
    """Complete run directories: those in `runs`, or in the folder that is typed."""
    folder = os.path.dirname(incomplete) or "runs"
    # A folder that cannot be read has no runs: the tab key is no place for an error.
    with suppress(OSError), os.scandir(folder) as entries:
        paths = [entry.path for entry in islice(entries, _MAX_FOLDERS)]
        return [path for path in _completions(paths, incomplete) if os.path.isfile(f"{path}/run.json")]
    return []


def run_names(incomplete: str) -> list[str]:
    """Complete names of runs in `runs`, or run directories as `runs` does."""
    inside = "runs/"
    if "/" in incomplete:
        return runs(incomplete)
    return [path.removeprefix(inside) for path in runs(f"{inside}{incomplete}")]


def _names_in(table: str) -> Iterator[str]:
    sources: tuple[Callable[[], Path | None], ...] = (
        lambda: _SHIPPED[table],
        lambda: user_config_file(os.environ),
        lambda: Path("cts.toml"),
    )
    for source in sources:
        # Whatever is wrong with a file: the tab key is no place for an error.
        with suppress(CTSError, OSError):
            file = source()
            if file and file.is_file() and file.stat().st_size <= _MAX_BYTES:
                yield from read_tables(file)[table]


def _completions(words: Iterable[str], incomplete: str) -> list[str]:
    return sorted({word for word in words if word.startswith(incomplete) and _HARMLESS.fullmatch(word)})
