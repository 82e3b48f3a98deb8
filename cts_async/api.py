"""The Python API: `run`, `judge`, `compare` and `load`, from a script or a notebook.

    import cts_async, pandas

    runs = cts_async.run("gpt", k=2, limit=20)
    pandas.DataFrame(cts_async.load("runs").instances)

All of them are ordinary functions, also where an event loop is running, as in a notebook.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar, get_args, get_origin, get_type_hints

from cts_async.config import JudgeConfig, RunConfig, suggestion, user_config_file
from cts_async.errors import InputError, RunStopped, UsageError
from cts_async.llm.parsing import questions_in as questions_in
from cts_async.runs.selection import find_runs
from cts_async.tables.rows import Tables as Tables
from cts_async.tables.rows import tables_of

T = TypeVar("T")
MOST_QUESTIONS: Final = 3
"""The largest `k`, as of -k."""
Player = str | Callable[..., Any]
"""A name as on the command line, or a function (see `role`)."""


def load(*runs: str | Path) -> Tables:
    """Read runs as rows: run directories, folders of them, or patterns; without any, the folder `runs`.

    The rows are those that `cts export --layout csv` writes; `Tables` and docs/usage.md say what they hold. Raises
    UsageError.
    """
    return tables_of(find_runs(_words(runs)))


def _words(runs: Sequence[str | Path]) -> list[str]:
    """Return runs as commands name them: as texts, and without any the usual folder."""
    if not runs:
        return ["runs"]
    return [str(run) for run in runs]


def run(
    model: Player | Sequence[Player] = "local",
    k: int | Sequence[int] = 1,
    *,
    quiet: bool = False,
    **options: Any,
) -> Tables:
    """Run or resume systems, as `cts run` does, and load them.

    `options` are the fields of `cts_async.config.RunConfig`; wherever they name a model, a function will do, too, a
    path may be a text, and one path or text stands for several. The user's own cts.toml and ./cts.toml are read, under
    the rules of the command: what needs consent is asked for on a terminal, and refused without one; naming the file
    as `config_file` is consent. Progress goes to standard error unless `quiet`. Raises UsageError, which names
    parameters, and RunStopped where the run ended early: then nothing is lost, and the same call resumes it.
    """
    from cts_async.llm.catalog import load_catalogue
    from cts_async.protocol.plan import make_plan
    from cts_async.protocol.run import run_plan
    from cts_async.runs.files import RESULTS
    from cts_async.watch.progress import RunGroup

    names = _Names()
    with _naming_parameters():
        parameters = {"models": names.of_players(model), "ks": _questions(k)}
        config = _config(RunConfig, names, parameters, options)
        plan = make_plan(config, load_catalogue(*config.config_files), os.environ)
        groups = [
            RunGroup(directory.name, plan.n_instances, (directory,), directory / RESULTS, plan.embedded)
            for directory in plan.systems.values()
        ]
        used: list[Any] = list(plan.specs.values())
        used += plan.search.opened
        _drive(run_plan, plan, groups, used, quiet=quiet)
    return load(*plan.systems.values())


def judge(
    runs: str | Path | Sequence[str | Path],
    judge: Player | Sequence[Player],
    *,
    quiet: bool = False,
    **options: Any,
) -> Tables:
    """Judge the answers of finished runs again, as `cts judge RUN --judge NAME` does, and load them.

    `options` are the fields of `cts_async.config.JudgeConfig`. Raises as `run`.
    """
    from cts_async.llm.catalog import load_catalogue
    from cts_async.protocol.rejudge import plan_judging, run_judging
    from cts_async.watch.progress import RunGroup

    if isinstance(runs, str | Path):
        runs = [runs]
    paths = tuple(found.path for found in find_runs([str(run) for run in runs]))
    names = _Names()
    with _naming_parameters():
        config = _config(JudgeConfig, names, {"judges": names.of_players(judge), "runs": paths}, options)
        plan = plan_judging(config, load_catalogue(*config.config_files), os.environ)
        directories = tuple(plan.directories())
        groups = [
            RunGroup(plan.group(name), plan.n_answers, directories, None, plan.embedded)
            for name in plan.judges
        ]
        _drive(run_judging, plan, groups, list(plan.specs.values()), quiet=quiet)
    return load(*paths)


def compare(
    *runs: str | Path,
    judges: str | Sequence[str] = (),
    baseline: str | None = None,
    seed: int = 0,
    published: bool = False,
) -> Mapping[str, Any]:
    """Compare runs, as `cts compare --json` does: leaderboard, intervals, tests of every pair, agreement of judges.

    With `published` there is also ours beside the paper's values, under that name.
    """
    from cts_async.tables.comparison import compare_runs, comparison_json

    if isinstance(judges, str):
        judges = [judges]
    compared = compare_runs(_words(runs), judges=judges, baseline=baseline, seed=seed, partial=published)
    result = comparison_json(compared)
    if published:
        from cts_async.tables.published import published_json, published_of

        result["published"] = published_json(published_of(compared))
    return result


# --- Calling


class _Names:
    """Players of one command by the names that they can be chosen by: functions are made known."""

    def __init__(self) -> None:
        self._functions: dict[str, Callable[..., Any]] = {}

    def of_player(self, player: Player) -> str:
        """The name of a player."""
        from cts_async.protocol.custom.sources import remember_function

        if isinstance(player, str):
            return player
        if not callable(player):
            raise UsageError(f"{player!r}: name a model or a role of yours, or give a function")
        name = remember_function(player, self._functions)
        self._functions[name] = player
        return name

    def of_players(self, players: Player | Sequence[Player]) -> tuple[str, ...]:
        """The names of one player or several."""
        if isinstance(players, str) or not isinstance(players, Sequence):
            return (self.of_player(players),)
        if not players:
            raise UsageError("name at least one model, or give a function")
        return tuple(self.of_player(player) for player in players)


# Messages of a plan are written for the command line: in Python the same is said with a parameter.

_OPTION: Final = re.compile(r"(?<![\w-])(--?[A-Za-z][A-Za-z_-]*)(?:[ =]([\w./:@+-]*\w))?")
_IS_VALUE: Final = re.compile(r"[A-Z][A-Z_]+|baseline|local|lexical|serper|at-once|respond|select|.*[./].*\w")
"""Words after an option that are its value, and not the next word of the sentence."""
_OTHER_NAMES: Final[Mapping[str, str]] = {
    "models": "model",
    "ks": "k",
    "orig": "references",
    "with_gold": "references",
    "trust_config": "config_consent",
    "max_usd": "budget",
    "max_tokens": "budget",
    "max_calls": "budget",
    "deadline": "budget",
}
"""Parameters that are called otherwise than the field of the option."""


@contextmanager
def _naming_parameters() -> Iterator[None]:
    """Let a UsageError that names options of the command line name the parameters instead."""
    try:
        yield
    except InputError:  # about a file: what it quotes is the file's
        raise
    except UsageError as error:
        error.args = (in_parameters(str(error)),)
        raise


def in_parameters(message: str) -> str:
    """Return a message with options (`--all baseline`) as parameters (`every_role="baseline"`)."""
    fields = _fields_by_option()

    def parameter(match: re.Match[str]) -> str:
        option, value = match[1], match[2] or ""
        field = fields.get(option)
        if field is None:  # a word that only looks like an option
            return match[0]
        name = _OTHER_NAMES.get(field, field)
        if field == "trust_config":
            return f'{name}="remember"'
        if not _IS_VALUE.fullmatch(value):
            return name + match[0].removeprefix(option)
        if value.isupper():  # DIR, NAME: what to put there
            return f"{name}={value}"
        return f'{name}="{value}"'

    return _OPTION.sub(parameter, message)


@cache
def _fields_by_option() -> Mapping[str, str]:
    """The fields of the options of `cts run` and `cts judge`, by each way to type them."""
    from cts_async.cli.judge import JudgeOptions
    from cts_async.cli.options import RunOptions

    fields = {"--quiet": "quiet", "-q": "quiet"}  # the command's own
    for options in (JudgeOptions, RunOptions):
        for field, hint in get_type_hints(options, include_extras=True).items():
            for declared in get_args(hint)[1:]:
                for option in _ways_to_type(declared) or [f"--{field.replace('_', '-')}"]:
                    fields[option] = field
    return fields


def _ways_to_type(declared: Any) -> list[str]:
    """Return `--model` and `-m` of an option's declaration; none where it has typer's usual name."""
    # In an annotation typer keeps the first way to type an option where its default usually is.
    words = [getattr(declared, "default", None)]
    words += getattr(declared, "param_decls", None) or ()
    return [word for word in words if isinstance(word, str) and word.startswith("-")]


_PLAYERS: Final = frozenset({"support", "answerer", "rewriter", "agent", "every_role"})
_COUNTS: Final = frozenset({"limit", "in_flight", "max_turns", "nuggets_per_call"})


def _config(kind: type[T], names: _Names, parameters: Mapping[str, Any], options: Mapping[str, Any]) -> T:
    """A configuration of a function's own `parameters` and its `options`. UsageError names a wrong one."""
    from pydantic import TypeAdapter, ValidationError

    from cts_async.cli.options import config_consent, config_file

    types = get_type_hints(kind)
    fields: dict[str, Any] = {"user_config": user_config_file(os.environ)}
    fields.update(parameters)
    for name, value in options.items():
        if name in parameters or name not in types:
            accepted = sorted(types.keys() - parameters.keys())
            raise UsageError(f"{name}: no such option{suggestion(name, accepted)}")
        if value is None:  # the default, as where the option is left out
            fields.pop(name, None)
            continue
        if name in _PLAYERS:
            value = names.of_player(value)
        elif name == "judges" and not value:  # the first judge is that of the paper then
            value = ()
        elif name == "judges":
            value = names.of_players(value)
        elif get_origin(types[name]) is tuple and isinstance(value, str | Path):
            value = (value,)
        try:
            fields[name] = TypeAdapter(types[name]).validate_python(value)
        except ValidationError as error:
            # pydantic's words end in the class that it wanted, which says nothing to a user.
            problem = error.errors()[0]["msg"].removeprefix("Input ").partition(" for <")[0]
            raise UsageError(f"{name}: {problem}, not {value!r}") from None
        if name in _COUNTS and fields[name] < 1:
            raise UsageError(f"{name}: must be at least 1, not {value!r}")
    named_config = fields.get("config_file")
    fields["config_file"] = config_file(named_config)
    fields.setdefault("config_consent", config_consent(named_config, trust=False))
    return kind(**fields)


def _questions(k: int | Sequence[int]) -> tuple[int, ...]:
    """Numbers of questions, as -k takes them. Raises UsageError."""
    ks: tuple[Any, ...] = (k,)
    if isinstance(k, Sequence) and not isinstance(k, str):
        ks = tuple(k)
    if not ks or not all(isinstance(n, int) and 1 <= n <= MOST_QUESTIONS for n in ks):
        raise UsageError(f"k: must be a number from 1 to {MOST_QUESTIONS}, or a list of them, not {k!r}")
    return ks


def _drive(run: Any, plan: Any, groups: Any, used: Any, *, quiet: bool) -> None:
    """Run a plan to its end; in a thread of its own where this one has a running event loop."""
    from cts_async.cli.drive import drive

    def main() -> RunStopped | None:
        return drive(run, plan, groups, used, quiet=quiet)

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        stopped = main()
    else:  # a notebook
        stopped = _in_thread(main)
    if stopped is not None:
        raise stopped


def _in_thread(main: Callable[[], T]) -> T:
    """The result of `main` in another thread. Ctrl-C, which only this one gets, stops it as it stops a command."""
    from cts_async.engine.signals import interrupt

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(main)
        while not running.done():
            try:
                wait([running])
            except KeyboardInterrupt:
                interrupt()
        return running.result()
