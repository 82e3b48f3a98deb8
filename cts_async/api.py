"""The Python API: `run`, `judge`, `compare` and `load`, from a script or a notebook.

    import cts_async, pandas

    runs = cts_async.run("gpt", k=2, limit=20)
    pandas.DataFrame(cts_async.load("runs").instances)

All of them are ordinary functions, also where an event loop is running, as in a notebook.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from cts_async.analysis.runs import find_runs
from cts_async.config import JudgeConfig, RunConfig
from cts_async.errors import RunStopped, UsageError
from cts_async.report.rows import Tables as Tables
from cts_async.report.rows import tables_of

T = TypeVar("T")
Player = str | Callable[..., Any]
"""A name as on the command line, or a function (see `role`)."""


def load(*runs: str | Path) -> Tables:
    """Read runs as rows: run directories, folders of them, or patterns; without any, the folder `runs`.

    The rows are those that `cts export --layout csv` writes; `Tables` and docs/usage.md say what they hold. Raises
    UsageError.
    """
    return tables_of(find_runs([str(run) for run in runs or ("runs",)]))


def run(
    model: Player | Sequence[Player] = "local",
    k: int | Sequence[int] = 1,
    *,
    quiet: bool = False,
    **options: Any,
) -> Tables:
    """Run or resume systems, as `cts run` does, and load them.

    `options` are the fields of `cts_async.config.RunConfig`; wherever they name a model, a function will do, too, and
    `given_questions` and `given_rewrites` may be one path, `prompts` one text. Progress goes to standard error unless
    `quiet`. Raises UsageError, and RunStopped where the run ended early: then nothing is lost, and the same call
    resumes it.
    """
    from cts_async.protocol.plan import make_plan
    from cts_async.protocol.run import run_plan
    from cts_async.protocol.run_files import RESULTS
    from cts_async.report.progress import RunGroup

    players = {"support", "answerer", "rewriter", "agent", "judges", "every_role"}
    named = {name: _named(value) if name in players else value for name, value in options.items()}
    for name in {"given_questions", "given_rewrites"} & named.keys():
        one = isinstance(named[name], str | Path)
        named[name] = (Path(named[name]),) if one else tuple(map(Path, named[name]))
    models = _named(model if isinstance(model, Sequence) and not isinstance(model, str) else (model,))
    ks = (k,) if isinstance(k, int) else tuple(k)
    plan = make_plan(_config(RunConfig, models=models, ks=ks, **named), _catalogue(named), os.environ)
    groups = [
        RunGroup(directory.name, plan.n_instances, (directory,), directory / RESULTS, plan.embedded)
        for directory in plan.systems.values()
    ]
    _drive(run_plan, plan, groups, [*plan.specs.values(), *plan.search.opened], quiet=quiet)
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
    from cts_async.protocol.rejudge import plan_judging, run_judging
    from cts_async.report.progress import RunGroup

    words = [runs] if isinstance(runs, str | Path) else list(runs)
    paths = tuple(one.path for one in find_runs([str(word) for word in words]))
    judges = _named(judge if isinstance(judge, Sequence) and not isinstance(judge, str) else (judge,))
    config = _config(JudgeConfig, judges=judges, runs=paths, **options)
    plan = plan_judging(config, _catalogue(options), os.environ)
    groups = [
        RunGroup(plan.group(one), plan.n_answers, tuple(plan.directories()), None, plan.embedded)
        for one in plan.judges
    ]
    _drive(run_judging, plan, groups, [*plan.specs.values()], quiet=quiet)
    return load(*paths)


def compare(
    *runs: str | Path,
    judges: Sequence[str] = (),
    baseline: str | None = None,
    seed: int = 0,
    published: bool = False,
) -> Mapping[str, Any]:
    """Compare runs, as `cts compare --json` does: leaderboard, intervals, tests of every pair, agreement of judges.

    With `published` there is also ours beside the paper's values, under that name.
    """
    from cts_async.report.comparison import compare_runs, comparison_json

    words = [str(run) for run in runs or ("runs",)]
    found = compare_runs(words, judges=judges, baseline=baseline, seed=seed, partial=published)
    if not published:
        return comparison_json(found)
    from cts_async.report.published import published_json, published_of

    return comparison_json(found) | {"published": published_json(published_of(found))}


# --- Calling


def _named(value: Any) -> Any:
    """Functions by the name that they can be chosen by; names as they are."""
    from cts_async.protocol.custom.sources import remember_function

    if isinstance(value, str) or value is None:
        return value
    return remember_function(value) if callable(value) else tuple(_named(one) for one in value)


def _config(kind: Callable[..., T], **fields: Any) -> T:
    if isinstance(fields.get("prompts"), str):
        fields["prompts"] = (fields["prompts"],)
    try:
        return kind(**fields)
    except TypeError as error:
        raise UsageError(str(error).rpartition("() ")[2]) from None


def _catalogue(options: Mapping[str, Any]) -> Any:
    from cts_async.llm.catalog import load_catalogue

    return load_catalogue(options.get("config_file"))


def _drive(run: Any, plan: Any, groups: Any, used: Any, *, quiet: bool) -> None:
    """Run a plan to its end; in a thread of its own where this one has a running event loop."""
    from cts_async.cli.drive import drive

    def main() -> RunStopped | None:
        return drive(run, plan, groups, used, quiet=quiet)

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        stopped = main()
    else:
        with ThreadPoolExecutor(1) as pool:
            stopped = pool.submit(main).result()
    if stopped is not None:
        raise stopped
