"""Options that several commands share, and how they are read."""

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
        "--trust-config", help="Let ./cts.toml send keys where it says, from now on until it changes."
    ),
]
Fields = Annotated[
    list[str] | None,
    typer.Option("--field", metavar="OURS=THEIRS", help="A column under another name, e.g. fused_query=OQ."),
]
MaxOutage = Annotated[
    float, typer.Option(min=0, help="Seconds that a provider may be down before the run stops (exit 75).")
]
InFlight = Annotated[
    int | None, typer.Option(min=1, help="Instances worked on at once [default: from the models' limits].")
]
SkipBadGold = Annotated[
    bool,
    typer.Option(
        "--skip-bad-gold", help="Leave out, by name, what the gold has no nuggets or no valid weights for."
    ),
]
RetryFailed = Annotated[bool, typer.Option("--retry-failed", help="Try again what failed for good.")]
MaxUsd = Annotated[
    float | None,
    typer.Option(min=0, help="Dollars this may cost, all its sessions together; stops before (exit 75)."),
]
MaxTokens = Annotated[
    int | None, typer.Option(min=0, help="Tokens it may use, in and out together; stops before (exit 75).")
]
MaxCalls = Annotated[
    int | None, typer.Option(min=0, help="Calls it may make, failed ones counted; stops before (exit 75).")
]
DeadlineAt = Annotated[
    str | None,
    typer.Option(
        "--deadline",
        metavar="WHEN",
        help="Stop by then (exit 75): 90m, 2h30m, 45s from now, or 18:30, or 2031-05-01T08:00 (local time).",
    ),
]
Sync = Annotated[bool, typer.Option("--sync", help="Survive a power cut too: flush every step to the disk.")]
RelevanceLevel = Annotated[
    int,
    typer.Option(
        min=1,
        max=4,
        metavar="N",
        help="The least grade that is relevant to P, RR, AP and R (TREC Deep Learning: 2); nDCG has gains.",
    ),
]
Seed = Annotated[int, typer.Option(help="Seed of everything random here.")]
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
        help="Processes to run in, on Ray; without --ray on this machine [of a cluster: its free CPUs].",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
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
    """What every command that calls models is asked, by the names of the configuration. Raises UsageError."""
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
    """Give `command(asked, **own)` the options of `read`, whose value it gets first, and its own behind them.

    Options `without` are not offered, and have their defaults.
    """
    shared = inspect.signature(read, eval_str=True).parameters
    first, *own = inspect.signature(command, eval_str=True).parameters.values()

    def run(**given: Any) -> T:
        asked = read(**{n: shared[n].default if n in without else given.pop(n) for n in shared})
        return command(**{first.name: asked}, **given)

    offered = [option for name, option in shared.items() if name not in without]
    parameters = [*own, *offered] if own_first else [*offered, *own]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__doc__ = command.__doc__
    return run


def read_fields(pairs: Sequence[str] | None) -> dict[str, str]:
    """`["fused_query=OQ"]` as a mapping. Raises UsageError."""
    fields: dict[str, str] = {}
    for pair in pairs or ():
        ours, sign, theirs = pair.partition("=")
        if not (sign and ours.strip() and theirs.strip()):
            raise UsageError(f"--field {pair}: write it as OURS=THEIRS, e.g. fused_query=OQ")
        fields[ours.strip()] = theirs.strip()
    return fields


def read_names(option: str, given: Sequence[str], known: Sequence[N]) -> tuple[N, ...]:
    """The names of `known` that were given, in any case and with any hyphen. Raises UsageError for another."""
    by_name: dict[str, N] = {name: name for name in known}
    found = []
    for name in given:
        one = by_name.get(name.strip().casefold().replace("_", "-"))
        if one is None:
            near = get_close_matches(name.casefold(), known, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise UsageError(f"{option} {name}: has to be one of {', '.join(known)}{hint}")
        found.append(one)
    return tuple(found)


def read_date(text: str) -> str:
    """A calendar date as YYYY-MM-DD. Raises UsageError for another form, and for a day that does not exist."""
    try:
        # fromisoformat takes 20310501 and 2031-W18-4 as well.
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
    """What may be spent. Raises UsageError for no number, and for a deadline unreadable or past."""
    if max_usd is not None and not isfinite(max_usd):
        raise UsageError(f"--max-usd {max_usd}: not an amount of money")
    at = None if deadline is None else read_deadline(deadline, datetime.now()).timestamp()
    return BudgetConfig(max_usd, max_tokens, max_calls, at)


def read_deadline(text: str, now: datetime) -> datetime:
    """`2h30m` from `now`, the next `18:30`, or an ISO date and time; without a zone it is local, as `now` is.

    Raises UsageError for anything else, and for a time that has passed.
    """
    at = _after(text.strip().lower(), now) or _next_clock_time(text.strip(), now) or _iso(text.strip())
    if at is None:
        raise UsageError(
            f"--deadline {text}: write it as 90m, 2h30m or 45s from now, as 18:30, or as 2031-05-01T08:00"
        )
    if at.timestamp() <= now.timestamp():
        raise UsageError(f"--deadline {text}: has passed already")
    return at


def _after(text: str, now: datetime) -> datetime | None:
    found = _DURATION.fullmatch(text)
    if not text or found is None:
        return None
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    try:
        return now + timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    except OverflowError:
        return None


def _next_clock_time(text: str, now: datetime) -> datetime | None:
    if not _CLOCK.fullmatch(text):
        return None
    try:
        at = datetime.combine(now.date(), time.fromisoformat(text.zfill(8 if text.count(":") == 2 else 5)))
    except ValueError:
        return None
    return at if at > now else at + timedelta(days=1)


def _iso(text: str) -> datetime | None:
    try:
        at = datetime.fromisoformat(text)
        at.timestamp()
    except (ValueError, OverflowError):
        return None
    return at


def config_file(named: Path | None) -> Path | None:
    """The file named, or ./cts.toml where there is one. Raises UsageError for a named one that is missing."""
    if named is not None:
        if not named.is_file():
            raise UsageError(f"--config {named}: no such file")
        return named
    here = Path("cts.toml")
    return here if here.is_file() else None


def config_consent(named: Path | None, trust: bool) -> Consent:
    """What the user says of her configuration file: a file that she names has her consent."""
    return "named" if named is not None else "remember" if trust else "ask"


def check_keys(file: Path | None, consent: Consent, used: Iterable[Spec]) -> None:
    """Say on standard error which key goes where, of what is `used`, before any does.

    Where ./cts.toml goes beyond what is shipped, the user is asked first, or UsageError if there is nobody to ask.
    """
    from cts_async.protocol.config_trust import Trust, is_trusted, remember, sent_keys, trust_in
    from cts_async.report.text import plain

    used = tuple(used)
    trust = trust_in(file) if file else Trust()
    asked = trust.concerns_of(used)
    if file and asked and consent != "named" and not is_trusted(file, os.environ):
        wishes = "; ".join(dict.fromkeys(concern.text for concern in asked))
        said = plain(f"{file}: would {wishes}")
        if consent == "ask" and not _agrees(said):
            raise UsageError(
                f"{said}: read that file; if it is right, add --trust-config (remembered until the file changes) "
                f"or --config {shlex.quote(str(file))}"
            )
        remember(file, os.environ)
    if line := sent_keys(used, trust.own, file):
        print(plain(line), file=sys.stderr)


def _agrees(said: str) -> bool:
    """Ask on the terminal; False where there is none."""
    if sys.stdin is None or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    print(
        f"{said}\nTrust this file from now on, until it changes? [y/N] ", end="", file=sys.stderr, flush=True
    )
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def runs_named(words: Sequence[Path] | None, command: str) -> list[Path]:
    """The runs that were named, or the folder `runs` where none was. Raises UsageError where there is none of it."""
    if words:
        return list(words)
    folder = Path("runs")
    if not folder.exists():
        raise UsageError(f"no {folder}/ here: name a run or a folder of runs (cts {command} RUN)")
    return [folder]


def empty_answers_of(word: str) -> EmptyAnswers:
    """What becomes of empty answers. Raises UsageError for another word."""
    known: dict[str, EmptyAnswers] = {"fail": "fail", "zero": "zero"}
    if word not in known:
        raise UsageError(f"--empty-answers {word}: choose fail (no score) or zero (scored 0)")
    return known[word]
