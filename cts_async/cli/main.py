"""`cts`: all commands, and the one place where an error becomes a line and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Annotated, Any, Final, cast

import typer
from typer.core import TyperGroup

from cts_async import __version__
from cts_async.cli import completion
from cts_async.cli.data import SETTINGS
from cts_async.cli.options import RANGES, Command, Grouped
from cts_async.cli.streams import (
    drop_unusable_sizes,
    ignore_stderr_failures,
    occupy_closed_streams,
    prepare_stdout,
)
from cts_async.config import SET_HOME
from cts_async.engine.processes import IS_COMMAND
from cts_async.errors import (
    DISK_FULL,
    EXIT_RESUMABLE,
    EXIT_USAGE,
    CTSError,
    UsageError,
    expected_error,
)
from cts_async.llm.redact import SECRETS
from cts_async.tables.output import discard_stdout, print_line, unbroken

COMMANDS: Final = {
    "demo": "Make example runs in seconds and view them: no key, no model.",
    "run": "Clarify, search and judge; run it again to resume.",
    "plan": "Estimate a run: calls, tokens, dollars, time.",
    "converse": "Hold and evaluate clarifying conversations (AT-CoT).",
    "gold": "Build gold: weighted nuggets with their sources.",
    "judge": "Judge existing answers: of runs, or of any system.",
    "status": "Show the progress of runs from another shell.",
    "score": "Compute restore_score_100 from judged files.",
    "diagnose": "Analyse the questions: types, answers, gains.",
    "compare": "Compare runs: leaderboard, intervals, tests.",
    "report": "Write an HTML report; tables and figures for a paper.",
    "export": "Export runs: release layout, Hugging Face, CSV.",
    "view": "View runs in the browser, live.",
    "models": "List the models and what each needs.",
    "init": "Write a commented cts.toml for your own models and tools.",
    "completion": "Print a completion script for bash, zsh or fish.",
    "audit": "Prove that no role saw what it must not see.",
    "doctor": "Check packages, keys and endpoints.",
}
"""The commands, each a function of its name in a module of its name, with one line for `cts --help`."""
_GROUPED: Final = frozenset({"run", "plan", "converse", "gold", "judge", "report"})
"""Commands with so many options that their help shows them under headings."""

_GROUPS: Final = {
    "data": "List, check and convert datasets; published figures.",
    "corpus": "Describe, search and index a file of documents.",
    "prompts": "List, show, check and copy the prompts of the roles.",
    "runs": "List, compare and remove runs and their versions.",
}
"""The groups of commands, each a `typer.Typer` of its name in a module of its name."""


class _Commands(Mapping[str, Any]):
    """All commands and groups by name, each imported and built when it is first looked up.

    Typer evaluates the annotations of each option: all commands take longer than most of them run.
    """

    def __init__(self) -> None:
        self._built: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._built:
            self._built[name] = _build_command(name)
        return self._built[name]

    def __iter__(self) -> Iterator[str]:
        yield from COMMANDS
        yield from _GROUPS

    def __len__(self) -> int:
        return len(COMMANDS) + len(_GROUPS)


def _build_command(name: str) -> Any:
    """Import a command or a group by its name and build it with its options. Raises KeyError for any other name."""
    # So a command is one file and one line above; what it needs when it runs it imports then.
    if name in _GROUPS:
        group: typer.Typer = getattr(import_module(f"cts_async.cli.{name}"), name)
        for info in group.registered_commands:
            info.cls = Command
        built = typer.main.get_command(group)
        built.short_help = _GROUPS[name]
        return built
    line = COMMANDS[name]
    cls: type[Command] = Command
    if name in _GROUPED:
        cls = Grouped
    alone = typer.Typer(**SETTINGS)
    function = getattr(import_module(f"cts_async.cli.{name}"), name)
    alone.command(name, cls=cls, short_help=line)(function)
    return typer.main.get_command(alone)


class _Cts(TyperGroup):
    """`cts` itself: its commands are built when they are needed."""

    commands: Any

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _Commands()


app = typer.Typer(
    name="cts",
    help="Does asking a clarifying question make a deep-search agent answer better? Run the "
    "Clarify-Then-Search benchmark, resumable at any point.\n\n"
    "Start with cts demo (example runs in seconds), cts run --all baseline -k 3 (no model, no key) or "
    "cts run --all gpt -k 3 --limit 5 (your OPENAI_API_KEY).",
    cls=_Cts,
    pretty_exceptions_enable=False,
    **SETTINGS,
)
# Typer exports only this subclass of what it raises for a misused option, argument or command.
_UsageProblem: Final = cast("type[typer.BadParameter]", typer.BadParameter.__mro__[1])
_TYPER_ABORT: Final = 130
"""The exit code that typer returns for a KeyboardInterrupt."""
_RESUMABLE_COMMANDS: Final = frozenset({"run", "converse", "demo", "gold", "judge"})
"""The commands that keep a journal."""
_RAY_OPTIONS: Final = frozenset({"--ray", "--workers"})


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"cts {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options of `cts` itself."""


def main() -> None:
    """Run the command that was typed. An error that a user can cause ends in one line, never in a traceback."""
    # OpenBLAS starts a thread for each core at import; nothing here multiplies large matrices.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    IS_COMMAND.set(True)
    # Before anything is opened or printed: a closed stream's number would go to the next file.
    drop_unusable_sizes(os.environ)
    occupy_closed_streams()
    ignore_stderr_failures()
    prepare_stdout()
    if completion.VARIABLE in os.environ:  # the tab key: nothing is run
        completion.register()
    try:
        # Not standalone: typer would print errors and exit by itself, with codes of its own.
        status = app(prog_name="cts", standalone_mode=False)
        if status == _TYPER_ABORT:
            raise KeyboardInterrupt
        sys.exit(status)
    except _UsageProblem as error:
        _exit_misused(error)
    except CTSError as error:
        _exit_expected(error)
    except KeyboardInterrupt:
        effect = "starts again"
        if len(sys.argv) > 1 and sys.argv[1] in _RESUMABLE_COMMANDS:
            effect = "resumes"
        print_line(f"cts: interrupted; the same command {effect}", sys.stderr)
        sys.exit(EXIT_RESUMABLE)
    except (BaseExceptionGroup, OSError) as error:
        expected = expected_error(error)
        if expected is None:
            raise
        cause = expected.__cause__
        # A write to standard output has no name, and flushing it at exit would fail once more.
        if isinstance(cause, OSError) and cause.errno in DISK_FULL and cause.filename is None:
            discard_stdout()
        _exit_expected(expected)
    except RuntimeError as error:
        # pathlib's, for a path such as ~/data where nobody knows what ~ means.
        if "home directory" not in str(error):
            raise
        _exit_expected(UsageError(f"a path begins with ~, but there is no home directory: {SET_HOME}"))


def _exit_misused(error: typer.BadParameter) -> None:
    """Print help for `cts` or a group without a command, one line for any other misuse; exit code 2."""
    # typer reports `cts` alone as a misuse whose message is the help.
    if error.ctx and error.message == error.ctx.get_help():
        error.show()
    else:
        command = "cts"
        if error.ctx:
            command = error.ctx.command_path
        message = error.format_message()
        # Not every misuse is of an option: a missing command has no `param`.
        for name in getattr(getattr(error, "param", None), "opts", ()):
            message = RANGES.get(name, message)
        option = getattr(error, "option_name", None)
        if option in _RAY_OPTIONS:
            message = f"No such option: {option}; only cts run and cts judge can use several processes"
        print_line(f"cts: {message} (see {unbroken(f'{command} --help')})", sys.stderr)
    sys.exit(EXIT_USAGE)


def _exit_expected(error: CTSError) -> None:
    """Print an error in one line, and exit with its code."""
    # A foreign error may quote a request with its key.
    print_line(SECRETS.text(f"cts: {error}"), sys.stderr)
    sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
