"""Options: those that several commands share, how they are read, and how `--help` arranges them.

A class such as `RunOptions` declares options of commands, each named as the field of the configuration that it sets.
"""

from __future__ import annotations

import inspect
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime, time, timedelta
from difflib import get_close_matches
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar, get_args, get_type_hints

import typer
from typer.core import TyperCommand

from cts_async.config import BudgetConfig, CommandConfig, Consent
from cts_async.errors import UsageError
from cts_async.records import AGENT_PROMPTS, MODES, SCHEMES, STAGES, EmptyAnswers

if TYPE_CHECKING:
    from cts_async.protocol.config_trust import Spec

Config = TypeVar("Config", bound=CommandConfig)
N = TypeVar("N", bound=str)

_DURATION = re.compile("".join(rf"(?:(\d+(?:\.\d+)?){unit})?" for unit in "dhms"), re.ASCII)
_CLOCK = re.compile(r"\d{1,2}:\d{2}(:\d{2})?")

# --- Headings of --help

DATA, MODELS, TALKS = "Data and systems", "Models", "Conversations"
EVALUATION, SEARCHING, EVIDENCE = "Evaluation", "Searching", "Evidence"
RESULTS, BUDGETS, PROCESSES, OTHER = "Results", "Budgets", "Beyond one process", "Other options"
HEADINGS: Final = (DATA, MODELS, TALKS, EVALUATION, SEARCHING, EVIDENCE, RESULTS, BUDGETS, PROCESSES, OTHER)


def option(heading: str, *names: str, help: str, **more: Any) -> Any:
    """Declare an option that `--help` shows under a heading; `more` is what `typer.Option` takes."""
    return typer.Option(*names, help=help, rich_help_panel=heading, **more)


class Grouped(TyperCommand):
    """A command with many options: its help shows them under `HEADINGS`, in the order of their declaration."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then the options, heading by heading."""
        sections: dict[str, list[tuple[str, str]]] = {heading: [] for heading in ("Arguments", *HEADINGS)}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                usual = "Arguments" if param.param_type_name == "argument" else OTHER
                sections[getattr(param, "rich_help_panel", None) or usual].append(record)
        for heading, records in sections.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)


# --- What an option's text means


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


def one_of(option: str, known: Sequence[str]) -> Callable[[Any], Any]:
    """Return a callback that checks the name, or the names, given to an option."""

    def check(given: Any) -> Any:
        if isinstance(given, str):
            return read_names(option, [given], known)[0]
        return None if given is None else read_names(option, given, known)

    return check


def read_date(text: str | None) -> str | None:
    """Check a calendar date, YYYY-MM-DD. Raises UsageError for another form or a day that does not exist."""
    try:
        # fromisoformat accepts 20310501 and 2031-W18-4 as well.
        if text is None or date.fromisoformat(text).isoformat() == text:
            return text
    except ValueError:
        pass
    raise UsageError(f"--date {text}: not a date; write it as YYYY-MM-DD, e.g. 2031-05-01")


def read_deadline(text: str, now: datetime) -> datetime:
    """Parse `2h30m` (from `now`), `18:30` (its next occurrence) or an ISO date and time (local without a zone).

    Raises UsageError for anything else, and for a time in the past.
    """
    words = text.strip().lower()
    try:
        if words and (duration := _DURATION.fullmatch(words)):
            days, hours, minutes, seconds = (float(part or 0) for part in duration.groups())
            at = now + timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        elif clock := _CLOCK.fullmatch(words):
            at = datetime.combine(now.date(), time.fromisoformat(words.zfill(8 if clock[1] else 5)))
            at = at if at > now else at + timedelta(days=1)
        else:
            at = datetime.fromisoformat(text.strip())
        past = at.timestamp() <= now.timestamp()
    except (ValueError, OverflowError):
        raise UsageError(
            f"--deadline {text}: write it as 90m, 2h30m or 45s from now, as 18:30, or as 2031-05-01T08:00"
        ) from None
    if past:
        raise UsageError(f"--deadline {text}: is in the past")
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
    from cts_async.report.output import plain

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


# --- Options of several commands

ConfigFile = Annotated[
    Path | None,
    option(MODELS, "--config", help="Models and roles of your own [default: ./cts.toml if there is one]."),
]
TrustConfig = Annotated[
    bool,
    option(
        MODELS,
        "--trust-config",
        help="Consent to ./cts.toml deciding where keys go, until the file changes.",
    ),
]
Prompts = Annotated[
    list[str] | None,
    option(
        MODELS,
        "--prompts",
        metavar="[NAME=]DIR",
        help="Your prompts, for all roles, or for those of MODEL@NAME; repeatable. See cts prompts.",
    ),
]
Fields = Annotated[
    list[str] | None,
    option(
        DATA,
        "--field",
        metavar="OURS=THEIRS",
        help="Name of a column in your file, e.g. fused_query=OQ.",
    ),
]
SkipBadGold = Annotated[
    bool,
    option(
        DATA,
        "--skip-bad-gold",
        help="Leave out, and list, instances whose gold has no nuggets or no valid weights.",
    ),
]
EmptyAnswersOption = Annotated[
    str,
    option(
        MODELS,
        "--empty-answers",
        metavar="fail|zero",
        callback=one_of("--empty-answers", get_args(EmptyAnswers)),
        help="An empty answer: failed and in no mean, or scored 0 without a call.",
    ),
]
RelevanceLevel = Annotated[
    int,
    option(
        EVALUATION,
        min=1,
        max=4,
        metavar="N",
        help="Lowest grade that P, RR, AP and R count as relevant (TREC Deep Learning: 2); nDCG uses all.",
    ),
]
Seed = Annotated[int, option(OTHER, help="Seed of everything random.")]
Ray = Annotated[
    str | None,
    option(
        PROCESSES,
        "--ray",
        metavar="ADDRESS",
        help="Run on this Ray cluster: auto, HOST:6379, or ray://HOST:10001 from outside it.",
    ),
]
Workers = Annotated[
    int | None,
    option(
        PROCESSES,
        min=1,
        metavar="N",
        help="Number of worker processes, on this machine without --ray [default with --ray: its free CPUs].",
    ),
]
CsvFolder = Annotated[
    Path | None, option(RESULTS, metavar="DIR", help="Also write every table there, unrounded.")
]
Quiet = Annotated[bool, option(RESULTS, "--quiet", "-q", help="Show no progress.")]
AsJson = Annotated[bool, option(RESULTS, "--json", help="Print the results as JSON on standard output.")]
Clarifiers = Annotated[
    list[str],
    option(
        DATA, "--model", "-m", metavar="NAME", help="Clarifier (a model, or code: see above); repeatable."
    ),
]
Support = Annotated[str | None, option(MODELS, help="User Answerer and Rewriter [paper: ernie].")]


class CommandOptions:
    """Options of every command that calls models."""

    fields: Fields = None
    config_file: ConfigFile = None
    trust_config: TrustConfig = False
    prompts: Prompts = None
    max_usd: Annotated[
        float | None,
        option(BUDGETS, min=0, help="Most dollars to spend, over all sessions; stops before that (exit 75)."),
    ] = None
    max_tokens: Annotated[
        int | None,
        option(BUDGETS, min=0, help="Most tokens to use, in and out together; stops before that (exit 75)."),
    ] = None
    max_calls: Annotated[
        int | None,
        option(BUDGETS, min=0, help="Most calls to make, failed ones included; stops before that (exit 75)."),
    ] = None
    deadline: Annotated[
        str | None,
        option(
            BUDGETS,
            metavar="WHEN",
            help="Stop by that time (exit 75): 90m, 2h30m, 45s from now, or 18:30, or 2031-05-01T08:00 (local).",
        ),
    ] = None
    max_outage_s: Annotated[
        float,
        option(
            BUDGETS,
            "--max-outage",
            min=0,
            help="Seconds that a provider may be down before the run stops (exit 75).",
        ),
    ] = 900.0
    in_flight: Annotated[
        int | None,
        option(BUDGETS, min=1, help="Instances in progress at once [default: from the models' limits]."),
    ] = None
    retry_failed: Annotated[
        bool, option(OTHER, "--retry-failed", help="Try permanently failed instances again.")
    ] = False
    sync: Annotated[
        bool, option(OTHER, "--sync", help="Flush every step to the disk, to survive a power cut as well.")
    ] = False
    seed: Seed = 0


class DataOptions(CommandOptions):
    """Options of every command that works on a dataset."""

    data: Annotated[
        str, option(DATA, help="sample, hard518:PATH, qulac:PATH, clariq:PATH, or a .csv or .jsonl file.")
    ] = "sample"
    limit: Annotated[int | None, option(DATA, min=1, help="Only the first N instances.")] = None
    every_role: Annotated[
        str | None, option(MODELS, "--all", metavar="NAME", help="One model, or plug-in, for every role.")
    ] = None
    runs_dir: Annotated[Path, option(RESULTS, help="Folder of the runs.")] = Path("runs")


class SearchOptions(DataOptions):
    """Options of every command that runs the deep-search agent."""

    agent: Annotated[str | None, option(MODELS, help="Deep-search model [paper: webdancer].")] = None
    agent_prompt: Annotated[
        str | None,
        option(
            MODELS,
            metavar="PROMPT",
            callback=one_of("--agent-prompt", AGENT_PROMPTS),
            help="The agent's: native (WebDancer's), en, zh, or query: as its query [webdancer: native, others: query].",
        ),
    ] = None
    date: Annotated[
        str | None,
        option(
            MODELS,
            metavar="YYYY-MM-DD",
            callback=read_date,
            help="Date in the agent's prompt [today; of a run that is resumed: its own].",
        ),
    ] = None
    corpus: Annotated[
        Path | None, option(SEARCHING, help="Documents {id,url,title,text} (JSONL) to search.")
    ] = None
    search: Annotated[
        str | None,
        option(SEARCHING, help="Searches: corpus, serper, or one of cts.toml [corpus if there is one]."),
    ] = None
    visit: Annotated[
        str | None,
        option(
            SEARCHING, help="Pages: jina, direct, or one of cts.toml [of the web: jina if its key is set]."
        ),
    ] = None
    visit_model: Annotated[
        str | None,
        option(
            SEARCHING, help="Model that reads pages for a goal, or lexical for none [of the web: support]."
        ),
    ] = None
    allow_addresses: Annotated[
        list[str] | None,
        option(
            SEARCHING,
            "--allow-address",
            metavar="HOST_OR_NET",
            help="Private host or network that pages may come from.",
        ),
    ] = None
    replay: Annotated[
        list[Path] | None,
        option(SEARCHING, metavar="RUN", help="Answer searches and visits from this run's journal only."),
    ] = None
    max_turns: Annotated[
        int | None, option(SEARCHING, min=1, help="Model calls per search [WebDancer: 20].")
    ] = None


class RunOptions(SearchOptions):
    """Options of `cts run` and `cts plan`."""

    models: Clarifiers = ["local"]
    ks: Annotated[
        list[int],
        option(DATA, "-k", metavar="N", min=1, max=3, help="Questions it may ask, or turns; repeatable."),
    ] = [1]
    schemes: Annotated[
        list[str],
        option(
            DATA,
            "--scheme",
            metavar="SCHEME",
            callback=one_of("--scheme", SCHEMES),
            help="Prompting: cts, standard, at-standard, cot, at-cot; may be repeated.",
        ),
    ] = ["cts"]
    modes: Annotated[
        list[str],
        option(
            DATA,
            "--mode",
            metavar="MODE",
            callback=one_of("--mode", MODES),
            help="Questions at-once; one a turn: respond; queries to pick: select. Repeatable.",
        ),
    ] = ["at-once"]
    gold: Annotated[Path | None, option(DATA, help="Nuggets (JSONL), joined by id or by fused_query.")] = None
    skip_bad_gold: SkipBadGold = False
    orig: Annotated[bool, option(DATA, help="Also search the blurred query itself, as the paper does.")] = (
        True
    )
    with_gold: Annotated[bool, option(DATA, "--gold-query", help="Also search the intent itself.")] = False
    support: Support = None
    answerer: Annotated[str | None, option(MODELS, help="User Answerer [as --support].")] = None
    rewriter: Annotated[str | None, option(MODELS, help="Rewriter [as --support].")] = None
    given_questions: Annotated[
        list[Path] | None,
        option(
            DATA,
            "--questions",
            metavar="FILE|RUN",
            help="Ask these (the first K) in the Clarifier's place: a .csv or .jsonl file, or an earlier run.",
        ),
    ] = None
    given_rewrites: Annotated[
        list[Path] | None,
        option(
            DATA,
            "--rewrites",
            metavar="FILE|RUN",
            help="Search these rewritten queries, by id; nothing is asked.",
        ),
    ] = None
    stop_after: Annotated[
        str | None,
        option(
            DATA,
            "--stop-after",
            metavar="STAGE",
            callback=one_of("--stop-after", STAGES),
            help="questions, answers or rewrite: end there, without search and judges.",
        ),
    ] = None
    answers: Annotated[
        str | None,
        option(MODELS, metavar="DATA", help="Whose answers take the User Answerer's place: qulac or clariq."),
    ] = None
    judges: Annotated[
        list[str] | None,
        option(MODELS, "--judge", metavar="NAME", help="Judge; the first gives the score [paper: ernie]."),
    ] = None
    no_judge: Annotated[bool, option(MODELS, "--no-judge", help="Answer only; no scores.")] = False
    extractor: Annotated[str | None, option(MODELS, hidden=True, help="Model that builds gold.")] = None
    empty_answers: EmptyAnswersOption = "fail"
    name: Annotated[str | None, option(RESULTS, help="Name of the run [default: DATA-MODEL-kK].")] = None


def with_options(
    options: type[CommandOptions], config: type[Config]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorate a command to be as typer wants it: with its own options, then those declared in a class.

    Its first argument becomes the configuration that the options' values make.
    """
    hints = get_type_hints(options, include_extras=True)
    shared = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=getattr(options, name, inspect.Parameter.empty),
            annotation=hints[name],
        )
        for declared in options.__mro__
        for name in vars(declared).get("__annotations__", ())
    ]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        _, *positional = inspect.signature(command, eval_str=True).parameters.values()
        own = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in positional]

        def run(**given: Any) -> None:
            values = {parameter.name: given.pop(parameter.name) for parameter in shared}
            command(read_config(config, values), **given)

        run.__signature__ = inspect.Signature([*own, *shared])  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in (*own, *shared)}
        run.__name__, run.__doc__ = command.__name__, command.__doc__
        return run

    return decorate


def read_config(config: type[Config], values: dict[str, Any]) -> Config:
    """Make a configuration of options' values. Raises UsageError."""
    limits = [values.pop(name) for name in ("max_usd", "max_tokens", "max_calls", "deadline")]
    named = values["config_file"]
    values |= {
        "fields": read_fields(values["fields"]),
        "config_file": config_file(named),
        "config_consent": config_consent(named, values.pop("trust_config")),
        "budget": read_budget(*limits),
        "command": shlex.join(["cts", *sys.argv[1:]]),
    }
    if "turns" in values:
        values["ks"] = [values.pop("turns")]
    if "orig" in values:
        values["references"] = ("orig",) * values.pop("orig") + ("gold",) * values.pop("with_gold")
    if values.get("every_role") and values.get("models") == ["local"]:
        values["models"] = [values["every_role"]]
    given: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in values.items()
        if value is not None
    }
    return config(**given)


def read_budget(
    max_usd: float | None, max_tokens: int | None, max_calls: int | None, deadline: str | None
) -> BudgetConfig:
    """Read the budget. Raises UsageError for an infinite amount, and for a deadline that is unreadable or past."""
    if max_usd is not None and not isfinite(max_usd):
        raise UsageError(f"--max-usd {max_usd}: not an amount of money")
    at = None if deadline is None else read_deadline(deadline, datetime.now()).timestamp()
    return BudgetConfig(max_usd, max_tokens, max_calls, at)
