"""Options that several commands share, and the functions that read them."""

from __future__ import annotations

import inspect
import os
import re
import shlex
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import date, datetime, time, timedelta
from difflib import get_close_matches
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from cts_async.config import BudgetConfig, Consent
from cts_async.errors import UsageError
from cts_async.records import EmptyAnswers

if TYPE_CHECKING:
    from cts_async.protocol.config_trust import Spec

T = TypeVar("T")
N = TypeVar("N", bound=str)

_DURATION = re.compile("".join(rf"(?:(\d+(?:\.\d+)?){unit})?" for unit in "dhms"), re.ASCII)
_CLOCK = re.compile(r"\d{1,2}:\d{2}(:\d{2})?")

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", help="Models and roles of your own [default: ./cts.toml if there is one]."),
]
TrustConfig = Annotated[
    bool,
    typer.Option(
        "--trust-config", help="Consent to ./cts.toml deciding where keys go, until the file changes."
    ),
]
Fields = Annotated[
    list[str] | None,
    typer.Option(
        "--field", metavar="OURS=THEIRS", help="Name of a column in your file, e.g. fused_query=OQ."
    ),
]
MaxOutage = Annotated[
    float, typer.Option(min=0, help="Seconds that a provider may be down before the run stops (exit 75).")
]
InFlight = Annotated[
    int | None, typer.Option(min=1, help="Instances in progress at once [default: from the models' limits].")
]
SkipBadGold = Annotated[
    bool,
    typer.Option(
        "--skip-bad-gold",
        help="Leave out, and list, instances whose gold has no nuggets or no valid weights.",
    ),
]
RetryFailed = Annotated[bool, typer.Option("--retry-failed", help="Try permanently failed instances again.")]
MaxUsd = Annotated[
    float | None,
    typer.Option(min=0, help="Most dollars to spend, over all sessions; stops before that (exit 75)."),
]
MaxTokens = Annotated[
    int | None,
    typer.Option(min=0, help="Most tokens to use, in and out together; stops before that (exit 75)."),
]
MaxCalls = Annotated[
    int | None,
    typer.Option(min=0, help="Most calls to make, failed ones included; stops before that (exit 75)."),
]
DeadlineAt = Annotated[
    str | None,
    typer.Option(
        "--deadline",
        metavar="WHEN",
        help="Stop by that time (exit 75): 90m, 2h30m, 45s from now, or 18:30, or 2031-05-01T08:00 (local).",
    ),
]
Sync = Annotated[
    bool, typer.Option("--sync", help="Flush every step to the disk, to survive a power cut as well.")
]
RelevanceLevel = Annotated[
    int,
    typer.Option(
        min=1,
        max=4,
        metavar="N",
        help="Lowest grade that P, RR, AP and R count as relevant (TREC Deep Learning: 2); nDCG uses all.",
    ),
]
Seed = Annotated[int, typer.Option(help="Seed of everything random.")]
Ray = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="ADDRESS",
        help="Run on this Ray cluster: auto, HOST:6379, or ray://HOST:10001 from outside it.",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Number of worker processes, on this machine without --ray [default with --ray: its free CPUs].",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the results as JSON on standard output.")]


def read_common(
    field: Fields = None,
    config: ConfigFile = None,
    trust_config: TrustConfig = False,
    max_outage: MaxOutage = 900.0,
    max_usd: MaxUsd = None,
    max_tokens: MaxTokens = None,
    max_calls: MaxCalls = None,
    deadline: DeadlineAt = None,
    in_flight: InFlight = None,
    retry_failed: RetryFailed = False,
    sync: Sync = False,
    seed: Seed = 0,
) -> dict[str, Any]:
    """Read the options of every command that calls models, as fields of its configuration. Raises UsageError."""
    return {
        "fields": read_fields(field),
        "config_file": config_file(config),
        "config_consent": config_consent(config, trust_config),
        "max_outage_s": max_outage,
        "budget": read_budget(max_usd, max_tokens, max_calls, deadline),
        "in_flight": in_flight,
        "retry_failed": retry_failed,
        "sync": sync,
        "seed": seed,
        "command": shlex.join(["cts", *sys.argv[1:]]),
    }


def with_options(
    read: Callable[..., Any],
    command: Callable[..., T],
    *,
    own_first: bool = False,
    without: Collection[str] = (),
) -> Callable[..., T]:
    """Return `command` as typer wants it: with its own options and those of `read`, whose result is its first argument.

    Options in `without` are not offered; `read` gets their defaults. With `own_first` the command's own come first.
    """
    shared = inspect.signature(read, eval_str=True).parameters
    first, *own = inspect.signature(command, eval_str=True).parameters.values()

    def run(**given: Any) -> T:
        values = {name: shared[name].default if name in without else given.pop(name) for name in shared}
        return command(**{first.name: read(**values)}, **given)

    offered = [option for name, option in shared.items() if name not in without]
    parameters = [*own, *offered] if own_first else [*offered, *own]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__doc__ = command.__doc__
    return run


def read_fields(pairs: Sequence[str] | None) -> dict[str, str]:
    """Parse `["fused_query=OQ"]` into a mapping. Raises UsageError."""
    fields: dict[str, str] = {}
    for pair in pairs or ():
        ours, sign, theirs = pair.partition("=")
        if not (sign and ours.strip() and theirs.strip()):
            raise UsageError(f"--field {pair}: write it as OURS=THEIRS, e.g. fused_query=OQ")
        fields[ours.strip()] = theirs.strip()
    return fields


def read_names(option: str, given: Sequence[str], known: Sequence[N]) -> tuple[N, ...]:
    """Match names with `known`, ignoring case and taking "_" for "-". Raises UsageError for an unknown name."""
    by_name: dict[str, N] = {name: name for name in known}
    found = []
    for name in given:
        one = by_name.get(name.strip().casefold().replace("_", "-"))
        if one is None:
            near = get_close_matches(name.casefold(), known, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise UsageError(f"{option} {name}: must be one of {', '.join(known)}{hint}")
        found.append(one)
    return tuple(found)


def read_date(text: str) -> str:
    """Check a calendar date, YYYY-MM-DD. Raises UsageError for another form or a day that does not exist."""
    try:
        # fromisoformat accepts 20310501 and 2031-W18-4 as well.
        if (day := date.fromisoformat(text)).isoformat() == text:
            return text
    except ValueError as error:
        raise UsageError(
            f"--date {text}: not a date ({error}); write it as YYYY-MM-DD, e.g. 2031-05-01"
        ) from None
    raise UsageError(f"--date {text}: write it as YYYY-MM-DD, i.e. {day.isoformat()}")


def read_budget(
    max_usd: float | None, max_tokens: int | None, max_calls: int | None, deadline: str | None
) -> BudgetConfig:
    """Read the budget. Raises UsageError for an infinite amount, and for a deadline that is unreadable or past."""
    if max_usd is not None and not isfinite(max_usd):
        raise UsageError(f"--max-usd {max_usd}: not an amount of money")
    at = None if deadline is None else read_deadline(deadline, datetime.now()).timestamp()
    return BudgetConfig(max_usd, max_tokens, max_calls, at)


def read_deadline(text: str, now: datetime) -> datetime:
    """Parse `2h30m` (from `now`), `18:30` (its next occurrence) or an ISO date and time (local without a zone).

    Raises UsageError for anything else, and for a time in the past.
    """
    at = _duration(text.strip().lower(), now) or _clock_time(text.strip(), now) or _iso_time(text.strip())
    if at is None:
        raise UsageError(
            f"--deadline {text}: write it as 90m, 2h30m or 45s from now, as 18:30, or as 2031-05-01T08:00"
        )
    if at.timestamp() <= now.timestamp():
        raise UsageError(f"--deadline {text}: is in the past")
    return at


def _duration(text: str, now: datetime) -> datetime | None:
    found = _DURATION.fullmatch(text)
    if not text or found is None:
        return None
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    try:
        return now + timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    except OverflowError:
        return None


def _clock_time(text: str, now: datetime) -> datetime | None:
    if not _CLOCK.fullmatch(text):
        return None
    try:
        at = datetime.combine(now.date(), time.fromisoformat(text.zfill(8 if text.count(":") == 2 else 5)))
    except ValueError:
        return None
    return at if at > now else at + timedelta(days=1)


def _iso_time(text: str) -> datetime | None:
    try:
        at = datetime.fromisoformat(text)
        at.timestamp()
    except (ValueError, OverflowError):
        return None
    return at


def config_file(named: Path | None) -> Path | None:
    """Return the named file, else ./cts.toml if it exists. Raises UsageError if the named file is missing."""
    if named is not None:
        if not named.is_file():
            raise UsageError(f"--config {named}: no such file")
        return named
    here = Path("cts.toml")
    return here if here.is_file() else None


def config_consent(named: Path | None, trust: bool) -> Consent:
    """Return the user's consent to the configuration file: naming a file is consent to it."""
    return "named" if named is not None else "remember" if trust else "ask"


def check_keys(file: Path | None, consent: Consent, used: Iterable[Spec]) -> None:
    """Print to standard error which key goes where for the models and tools `used`, before anything is sent.

    If ./cts.toml goes beyond the shipped catalogues, ask the user first; UsageError without a terminal to ask on.
    """
    from cts_async.protocol.config_trust import Trust, is_trusted, remember, sent_keys, trust_in
    from cts_async.report.text import plain

    used = tuple(used)
    trust = trust_in(file) if file else Trust()
    concerns = trust.concerns_of(used)
    if file and concerns and consent != "named" and not is_trusted(file, os.environ):
        problem = plain(f"{file}: would {'; '.join(dict.fromkeys(concern.text for concern in concerns))}")
        if consent == "ask" and not _ask_consent(problem):
            raise UsageError(
                f"{problem}: read that file; if it is right, add --trust-config (remembered until it changes) "
                f"or --config {shlex.quote(str(file))}"
            )
        remember(file, os.environ)
    if line := sent_keys(used, trust.own, file):
        print(plain(line), file=sys.stderr)


def _ask_consent(problem: str) -> bool:
    """Ask on the terminal; False without one."""
    if sys.stdin is None or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    print(
        f"{problem}\nTrust this file from now on, until it changes? [y/N] ",
        end="",
        file=sys.stderr,
        flush=True,
    )
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def runs_or_default(words: Sequence[Path] | None, command: str) -> list[Path]:
    """Return the runs that were named, else the folder `runs`. Raises UsageError if it does not exist."""
    if words:
        return list(words)
    folder = Path("runs")
    if not folder.exists():
        raise UsageError(f"no folder {folder}/: name a run or a folder of runs (cts {command} RUN)")
    return [folder]


def empty_answers_of(word: str) -> EmptyAnswers:
    """Read --empty-answers. Raises UsageError."""
    known: dict[str, EmptyAnswers] = {"fail": "fail", "zero": "zero"}
    if word not in known:
        raise UsageError(f"--empty-answers {word}: choose fail (no score) or zero (scored 0)")
    return known[word]
