"""`cts`: the commands together, and the one place where an error becomes a line and an exit code."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from typing import Annotated, Final, cast

import typer

from cts_async import __version__
from cts_async.cli import (
    audit,
    compare,
    converse,
    diagnose,
    doctor,
    gold,
    judge,
    models,
    plan,
    report,
    run,
    score,
    status,
    view,
)
from cts_async.cli.corpus import corpus
from cts_async.cli.data import data
from cts_async.cli.grouped import Grouped
from cts_async.cli.options import read_common, with_options
from cts_async.cli.run_options import with_run_options
from cts_async.cli.standard_error import open_closed_streams, tolerate_deaf_ears
from cts_async.engine.processes import MORE_FILES
from cts_async.errors import EXIT_RESUMABLE, EXIT_USAGE, NO_ROOM, CTSError, UsageError, unwritable
from cts_async.llm.redact import SECRETS
from cts_async.report.standard_output import abandon_stdout, tolerate_encodings
from cts_async.report.text import plain

app = typer.Typer(
    name="cts",
    help="Does asking a clarifying question make a deep-search agent answer better? Run the "
    "Clarify-Then-Search benchmark, resumable at any point.\n\n"
    "Start with: cts run (embedded model, sample world, no key) or cts run --model gpt -k 3",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("run", cls=Grouped, short_help="Clarify, search and judge; the same command again resumes.")(
    with_run_options(run.run)
)
app.command("plan", cls=Grouped, short_help="What a run will take: calls, tokens, dollars, time.")(
    with_run_options(plan.plan)
)
app.command("converse", cls=Grouped, short_help="Clarifying conversations, evaluated turn by turn (AT-CoT).")(
    with_options(read_common, converse.converse, own_first=True)
)
app.command("gold", cls=Grouped, short_help="Build the static gold: weighted nuggets with their sources.")(
    with_run_options(gold.gold, without=gold.NOT_FOR_GOLD)
)
app.command("judge", cls=Grouped, short_help="Other judges on answers that exist already.")(
    with_options(read_common, judge.judge, own_first=True)
)
app.command("status", short_help="What runs are doing, from another shell.")(status.status)
app.command("score", short_help="Scores and their summary, from judged files.")(score.score)
app.command("diagnose", short_help="Which questions were asked, and what they were worth.")(diagnose.diagnose)
app.command("compare", short_help="Runs side by side, with tests of their differences.")(compare.compare)
app.command("report", cls=Grouped, short_help="What runs came to, as one HTML file.")(report.report)
app.command("view", short_help="Runs in the browser: leaderboard, every instance, every step, live.")(
    view.view
)
app.add_typer(data, short_help="Datasets: what there is, is a file sound, published figures.")
app.add_typer(corpus, short_help="A file of documents: what is in it, searches, its index.")
app.command("models", short_help="Which models there are, and what each needs.")(models.models)
app.command("audit", short_help="Prove that nobody saw what they must not see.")(audit.audit)
app.command("doctor", short_help="Is everything here that a run needs?")(doctor.doctor)


_Misused: Final = cast("type[typer.BadParameter]", typer.BadParameter.__mro__[1])
"""What typer refuses options, arguments and commands with; it exports this one of its kinds only."""
_BY_CTRL_C: Final = 130
"""What typer makes of a KeyboardInterrupt."""
_RESUMED: Final = frozenset({"run", "converse", "gold", "judge"})
"""The commands that keep a journal."""
_TOO_MANY: Final = frozenset({errno.EMFILE, errno.ENFILE})
_BEYOND_ONE_PROCESS: Final = frozenset({"--ray", "--workers"})
"""Options that somebody may well carry over from the two commands that have them."""


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"cts {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options of `cts` itself."""


def main() -> None:
    """Run a command; a mistake of the user's ends in one line, never in a traceback."""
    # Nothing here multiplies matrices: threads that wait for some to multiply would only burn time.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    open_closed_streams()
    tolerate_deaf_ears()
    tolerate_encodings()
    try:
        status = app(prog_name="cts", standalone_mode=False)
        if status == _BY_CTRL_C:
            raise KeyboardInterrupt
        sys.exit(status)
    except _Misused as error:
        _explain(error)
    except CTSError as error:
        _fail(error)
    except KeyboardInterrupt:
        print(f"cts: interrupted; the same command {_again()}", file=sys.stderr)
        sys.exit(EXIT_RESUMABLE)
    except BaseExceptionGroup as group:
        errors = list(_leaves(group))
        expected = [error for error in errors if isinstance(error, CTSError)]
        of_files = [error for error in errors if isinstance(error, OSError) and _is_of_a_file(error)]
        if len(expected) + len(of_files) < len(errors):
            raise
        if of_files:
            _fail_of_file(of_files[0])
        _fail(expected[0])
    except BrokenPipeError:
        sys.exit(EXIT_USAGE)
    except OSError as error:
        if not _is_of_a_file(error):
            raise
        _fail_of_file(error)


def _explain(error: typer.BadParameter) -> None:
    """Help for a bare `cts` or a bare group of commands, for any other misuse one line."""
    if error.ctx and error.message == error.ctx.get_help():
        error.show()
    else:
        command = error.ctx.command_path if error.ctx else "cts"
        option = getattr(error, "option_name", None)
        said = error.format_message()
        if option in _BEYOND_ONE_PROCESS:
            said = f"No such option: {option}; only cts run and cts judge work in several processes"
        print(f"cts: {said} (see {command} --help)", file=sys.stderr)
    sys.exit(EXIT_USAGE)


def _is_of_a_file(error: OSError) -> bool:
    """Without a path it is no file of the user's, but a bug, unless a disk is full or too many files are open."""
    return error.filename is not None or error.errno in NO_ROOM | _TOO_MANY


def _fail_of_file(error: OSError) -> None:
    if error.errno in _TOO_MANY:
        _fail(UsageError(f"too many open files; {MORE_FILES}"))
    if error.errno not in NO_ROOM:
        _fail(UsageError(f"{error.filename}: {error.strerror}"))
    if error.filename is None:
        abandon_stdout()
    _fail(unwritable(error.filename or "standard output, or a file", error))


def _fail(error: CTSError) -> None:
    print(plain(SECRETS.text(f"cts: {error}"), lines=True), file=sys.stderr)
    sys.exit(error.exit_code)


def _again() -> str:
    """What the same command does after Ctrl-C: what has no journal begins anew."""
    return "resumes" if sys.argv[1:2] and sys.argv[1] in _RESUMED else "begins anew"


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


if __name__ == "__main__":
    main()
