"""`cts plan`: what a run will take, before a cent is spent."""

from __future__ import annotations

import os
from itertools import chain

from cts_async.cli import options
from cts_async.config import RunConfig
from cts_async.tables.output import print_json, print_notes


@options.with_options(options.RunOptions, RunConfig)
def plan(config: RunConfig, as_json: options.AsJson = False) -> None:
    """Estimate what `cts run` with the same options will take: calls, tokens, dollars, time, and which limit binds.

    Makes no call, writes nothing and needs no key. Finished work is subtracted: of the run itself if it exists, and of
    other runs whose steps would be reused. Measurements replace assumptions: of the run, or of the version that a new
    one comes from. For a finished run, the estimate is compared with what the run took.

    Example: cts plan --model gpt -k 3 --data hard518:release --corpus docs.jsonl
    """
    from rich.console import Console

    from cts_async.llm.catalog import load_catalogue
    from cts_async.protocol.dry_walk import look_up, walk_plan
    from cts_async.protocol.forecast import forecast, measured_runs, read_past_usage
    from cts_async.protocol.plan import make_plan
    from cts_async.tables.forecast import forecast_json, print_forecast

    run = make_plan(config, load_catalogue(*config.config_files), os.environ, keyless=True)
    usage = {}
    for system, directory in run.systems.items():
        usage[system] = read_past_usage(directory, run.roles.judges, retry_failed=config.retry_failed)
    walks, notices = look_up(walk_plan, run, os.environ)
    predicted = forecast(run, usage, walks, measured_runs(run, walks))
    if as_json:
        print_json(forecast_json(run, predicted, usage))
    else:
        print_forecast(Console(emoji=False), run, predicted, usage)
        print_notes(chain(run.dataset.notes, run.remarks, notices))
