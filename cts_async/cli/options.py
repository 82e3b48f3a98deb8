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
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, TypeVar, get_args, get_type_hints

import typer
from typer.core import TyperCommand

from cts_async.cli.completion import choices, names, runs
from cts_async.config import BudgetConfig, CommandConfig, Consent, user_config_file
from cts_async.errors import UsageError, closest
from cts_async.records import AGENT_PROMPTS, DEFAULT_TOOLS, MODES, SCHEMES, STAGES, EmptyAnswers

if TYPE_CHECKING:
    from cts_async.protocol.config_trust import Spec

Config = TypeVar("Config", bound=CommandConfig)
N = TypeVar("N", bound=str)

_DURATION = re.compile("".join(rf"(?:(\d+(?:\.\d+)?){unit})?" for unit in "dhms"), re.ASCII)
_ANY_COUNT = re.compile(r"  \[x>=[01]\]$|; x>=[01](?=\]$)")
_BOTH_ENDS = re.compile(r"(\d+)<=x<=(\d+)")
_CLOCK = re.compile(r"\d{1,2}:\d{2}(:\d{2})?")

PLAYER: Final = {"autocompletion": names("models", "baseline")}
JUDGE: Final = {"autocompletion": names("models", "baseline", "lexical")}
RUNS: Final = {"autocompletion": runs}
"""What the tab key offers for models, judges and runs."""

# --- Headings of --help

DATA, MODELS, TALKS = "Data and systems", "Models", "Conversations"
EVALUATION, SEARCHING, EVIDENCE = "Evaluation", "Searching", "Evidence"
RESULTS, BUDGETS, PROCESSES, OTHER = "Results", "Budgets", "Several processes", "Other options"
HEADINGS: Final = (DATA, MODELS, TALKS, EVALUATION, SEARCHING, EVIDENCE, RESULTS, BUDGETS, PROCESSES, OTHER)


def option(heading: str, *names: str, help: str, **more: Any) -> Any:
    """Declare an option that `--help` shows under a heading; `more` is what `typer.Option` takes."""
    if known := getattr(more.get("callback"), "known", None):
        more["autocompletion"] = choices(known)
    return typer.Option(*names, help=help, rich_help_panel=heading, **more)


class Command(TyperCommand):
    """A command whose help names what to type (RUN, N) where typer would name Python's types (<list[Path]>)."""

    headings: ClassVar[tuple[str, ...]] = ("Options",)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Write a required argument as RUN, not {RUN}."""
        return [re.sub("[{}]", "", piece) for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then the options, heading by heading, in the order of their declaration."""
        sections: dict[str, list[tuple[str, str]]] = {
            heading: [] for heading in ("Arguments", *self.headings)
        }
        for param in self.get_params(ctx):
            if record := param.get_help_record(ctx):
                if param.param_type_name == "argument":
                    heading, names = "Arguments", re.sub(" <.*>$", "", record[0])
                else:
                    panel = getattr(param, "rich_help_panel", None)
                    heading = panel if panel in sections else self.headings[-1]
                    names = re.sub("<int( range)?>", "N", record[0])
                sections[heading].append((names, _BOTH_ENDS.sub(r"\1 to \2", _ANY_COUNT.sub("", record[1]))))
        for heading, records in sections.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)


class Grouped(Command):
    """A command with many options, shown under `HEADINGS`."""

    headings = HEADINGS


# --- What an option's text means

RANGES: Final = {"-k": "-k must be 1, 2 or 3 (the paper's range)"}
"""What to say of a number that an option does not take, where its limits alone would puzzle."""


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
            near = closest(name, known)
            hint = f"; did you mean {near}?" if near else ""
            raise UsageError(f"{option} {name}: must be one of {', '.join(known)}{hint}")
        found.append(one)
    return tuple(found)


def one_of(option: str, known: Sequence[str]) -> Callable[[Any], Any]:
    """Return a callback that checks the name, or the names, given to an option."""

    def check(given: Any) -> Any:
        if isinstance(given, str):
            return read_names(option, [given], known)[0]
        return None if given is None else read_names(option, given, known)

    check.known = known  # type: ignore[attr-defined]
    return check


def split_names(words: list[str]) -> list[str]:
    """Return the names in words such as `a,b`."""
    return [name.strip() for word in words for name in word.split(",")]


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
    """Return the named file, else ./cts.toml if it exists. Raises UsageError for a folder and for a missing file."""
    file = named or Path("cts.toml")
    if file.is_file():
        return file
    if file.exists():
        raise UsageError(f"{file}: is not a regular file")
    if named:
        raise UsageError(f"--config {named}: no such file")
    return None


def config_consent(named: Path | None, trust: bool) -> Consent:
    """Return the user's consent to the configuration file: naming a file is consent to it."""
    return "named" if named is not None else "remember" if trust else "ask"


def config_files(named: Path | None) -> tuple[Path, ...]:
    """Return the user's own cts.toml and `config_file(named)`, as far as they exist. Raises UsageError."""
    return tuple(file for file in (user_config_file(os.environ), config_file(named)) if file is not None)


def check_keys(
    file: Path | None,
    consent: Consent,
    used: Iterable[Spec],
    user: Path | None = None,
    *,
    named: Iterable[str] = (),
    reachable: Iterable[Spec] = (),
) -> None:
    """Print to standard error which key goes where for the models and tools `used`, before anything is sent.

    If ./cts.toml goes beyond the shipped catalogues and the user's own file, ask first; UsageError without a terminal to
    ask on. `named` are the models that the user named, and `reachable` those that code of the user's may ask, too.
    """
    from cts_async.protocol.config_trust import concerns_text, is_trusted, remember, sent_keys, trust_in
    from cts_async.tables.output import plain, print_line

    used = tuple(used)
    trust = trust_in(file, user)
    concerns = trust.concerns_of((*used, *reachable), named)
    if file and concerns and consent != "named" and not is_trusted(file, os.environ):
        problem = plain(f"{file}: would {concerns_text(concerns)}")
        if consent == "ask" and not _ask_consent(problem):
            raise UsageError(
                f"{problem}: read that file; if it is right, add --trust-config (remembered until it changes) "
                f"or --config {shlex.quote(str(file))}"
            )
        remember(file, os.environ)
    if line := sent_keys(used, trust.sources):
        print_line(line, sys.stderr)


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
    option(
        MODELS,
        "--config",
        metavar="FILE",
        help="Your models, roles and search engines [default: ./cts.toml]. cts init writes an example.",
    ),
]
TrustConfig = Annotated[
    bool,
    option(
        MODELS,
        "--trust-config",
        help="Accept where ./cts.toml sends your keys and data, until the file changes.",
    ),
]
Prompts = Annotated[
    list[str] | None,
    option(
        MODELS,
        "--prompts",
        metavar="[NAME=]DIR",
        help="Use the prompts in this folder: for all roles, or as MODEL@NAME. Repeatable. See cts prompts.",
    ),
]
Fields = Annotated[
    list[str] | None,
    option(
        DATA,
        "--field",
        metavar="OURS=THEIRS",
        help="Read the field OURS from your column THEIRS, e.g. fused_query=OQ. Repeatable.",
    ),
]
SkipBadGold = Annotated[
    bool,
    option(
        DATA,
        "--skip-bad-gold",
        help="Skip, and list, instances whose gold has no nuggets or invalid weights.",
    ),
]
EmptyAnswersOption = Annotated[
    str,
    option(
        MODELS,
        "--empty-answers",
        metavar="fail|zero",
        callback=one_of("--empty-answers", get_args(EmptyAnswers)),
        help="Treat an empty answer as failed (excluded from the mean), or score it 0 without asking a judge.",
    ),
]
RelevanceLevel = Annotated[
    int,
    option(
        EVALUATION,
        min=1,
        max=4,
        metavar="N",
        help="Lowest grade that counts as relevant for P, RR, AP and R (TREC Deep Learning: 2); nDCG uses all grades.",
    ),
]
Published = Annotated[
    str,
    option(
        EVALUATION,
        metavar="NAME",
        help="Set AT-CoT's printed values beside: qulac, clariq, raocq, web-track-2013-2014, dl-hard "
        "[default: those of --data].",
    ),
]
Seed = Annotated[int, option(OTHER, help="Random seed.")]
Ray = Annotated[
    str | None,
    option(
        PROCESSES,
        "--ray",
        metavar="ADDRESS",
        help="Run on a Ray cluster: auto, HOST:6379, or ray://HOST:10001 from a machine outside it.",
    ),
]
Workers = Annotated[
    int | None,
    option(
        PROCESSES,
        min=1,
        metavar="N",
        help="Number of worker processes; without --ray on this machine [default with --ray: all free CPUs].",
    ),
]
CsvFolder = Annotated[
    Path | None, option(RESULTS, metavar="DIR", help="Also write every table as CSV, unrounded.")
]
Quiet = Annotated[bool, option(RESULTS, "--quiet", "-q", help="Show no progress.")]
AsJson = Annotated[bool, option(RESULTS, "--json", help="Print the results as JSON on standard output.")]
Clarifiers = Annotated[
    list[str],
    option(
        DATA,
        "--model",
        "-m",
        metavar="NAME",
        help="Clarifier: a model (see cts models) or your own code (see above). Repeatable.",
        **PLAYER,
    ),
]
Support = Annotated[
    str | None,
    option(
        MODELS,
        metavar="MODEL",
        help="User Answerer and Rewriter [default: ernie, as in the paper].",
        **PLAYER,
    ),
]
Judges = Annotated[
    list[str] | None,
    option(
        MODELS,
        "--judge",
        metavar="MODEL",
        help="Judge: a model, or lexical. Repeatable; the first gives the score [default: ernie, as in the paper].",
        **JUDGE,
    ),
]
Documents = Annotated[
    Path | None,
    option(SEARCHING, metavar="FILE", help="Search these documents: JSON Lines of id, url, title, text."),
]
Qrels = Annotated[
    str,
    option(
        EVALUATION,
        metavar="FILE|intent:N",
        help="Relevance judgments by facet; intent:N takes the N documents ranked best for the intent.",
    ),
]
RunWords = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="RUN", help="Run directories, folders of runs, or patterns [default: runs].", **RUNS
    ),
]


class CommandOptions:
    """Options of every command that calls models."""

    fields: Fields = None
    config_file: ConfigFile = None
    trust_config: TrustConfig = False
    prompts: Prompts = None
    max_usd: Annotated[
        float | None,
        option(
            BUDGETS,
            min=0,
            metavar="USD",
            help="Spend at most this many dollars, earlier attempts of this run included; then exit 75.",
        ),
    ] = None
    max_tokens: Annotated[
        int | None,
        option(BUDGETS, min=0, help="Use at most this many tokens, input plus output; then exit 75."),
    ] = None
    max_calls: Annotated[
        int | None,
        option(
            BUDGETS, min=0, help="Make at most this many model calls, failed ones included; then exit 75."
        ),
    ] = None
    deadline: Annotated[
        str | None,
        option(
            BUDGETS,
            metavar="WHEN",
            help="Stop after 45s, 90m or 2h30m, or at 18:30 or 2031-05-01T08:00 (local time); then exit 75.",
        ),
    ] = None
    max_outage_s: Annotated[
        float,
        option(
            BUDGETS,
            "--max-outage",
            min=0,
            metavar="SECONDS",
            help="Wait this long for a provider that is down; then exit 75.",
        ),
    ] = 900.0
    in_flight: Annotated[
        int | None,
        option(
            BUDGETS,
            min=1,
            help="Work on at most this many instances at once [default: from the models' limits].",
        ),
    ] = None
    retry_failed: Annotated[
        bool, option(OTHER, "--retry-failed", help="Retry instances that failed permanently.")
    ] = False
    sync: Annotated[
        bool, option(OTHER, "--sync", help="Force every step to the disk, so that a power cut loses nothing.")
    ] = False
    verbose: Annotated[
        bool, option(RESULTS, "--verbose", "-v", help="Print each step, retry, wait and limit as it happens.")
    ] = False
    log_file: Annotated[
        Path | None,
        option(
            RESULTS,
            "--log",
            metavar="FILE",
            help="Append what --verbose prints to a file, with times; never keys or prompts.",
        ),
    ] = None
    seed: Seed = 0


class DataOptions(CommandOptions):
    """Options of every command that works on a dataset."""

    data: Annotated[
        str,
        option(
            DATA,
            metavar="DATASET",
            help="sample, hard518:DIR, qulac:FILE, clariq:PATH, or your .csv or .jsonl file.",
        ),
    ] = "sample"
    limit: Annotated[int | None, option(DATA, min=1, help="Use only the first N instances.")] = None
    every_role: Annotated[
        str | None,
        option(MODELS, "--all", metavar="MODEL", help="Use this model for every role.", **PLAYER),
    ] = None
    runs_dir: Annotated[Path, option(RESULTS, metavar="DIR", help="Write the runs to this folder.")] = Path(
        "runs"
    )


class SearchOptions(DataOptions):
    """Options of every command that runs the deep-search agent."""

    agent: Annotated[
        str | None,
        option(
            MODELS,
            metavar="MODEL",
            help="Deep-search agent [default: webdancer, as in the paper].",
            **PLAYER,
        ),
    ] = None
    agent_prompt: Annotated[
        str | None,
        option(
            MODELS,
            metavar="PROMPT",
            callback=one_of("--agent-prompt", AGENT_PROMPTS),
            help="Prompt of the agent: native (WebDancer's own), en, zh, or query (in the query's language) "
            "[default: native for webdancer, else query].",
        ),
    ] = None
    date: Annotated[
        str | None,
        option(
            MODELS,
            metavar="YYYY-MM-DD",
            callback=read_date,
            help="Date in the agent's prompt [default: today; a resumed run keeps its date].",
        ),
    ] = None
    corpus: Documents = None
    search: Annotated[
        str | None,
        option(
            SEARCHING,
            metavar="ENGINE",
            help="Search engine: corpus, serper, or one from cts.toml [default: corpus, if there is one].",
            autocompletion=names("search"),
        ),
    ] = None
    visit: Annotated[
        str | None,
        option(
            SEARCHING,
            metavar="READER",
            help="Page reader: jina, direct, or one from cts.toml [default: jina if JINA_API_KEY is set, "
            "else direct].",
            autocompletion=names("visit"),
        ),
    ] = None
    visit_model: Annotated[
        str | None,
        option(
            SEARCHING,
            metavar="MODEL",
            help="Model that extracts from a web page what the agent looks for; lexical: no model "
            "[default: as --support].",
            autocompletion=names("models", "lexical"),
        ),
    ] = None
    allow_addresses: Annotated[
        list[str] | None,
        option(
            SEARCHING,
            "--allow-address",
            metavar="HOST_OR_NET",
            help="Allow pages from this private host or network. Repeatable.",
        ),
    ] = None
    replay: Annotated[
        list[Path] | None,
        option(
            SEARCHING,
            metavar="RUN",
            help="Repeat the searches and page visits of this run's journal; no network. Repeatable.",
            **RUNS,
        ),
    ] = None
    max_turns: Annotated[
        int | None, option(SEARCHING, min=1, help="Model calls per search [default: 20, as WebDancer].")
    ] = None
    tools: Annotated[
        list[str],
        option(
            SEARCHING,
            metavar="NAMES",
            callback=split_names,
            help="Tools that the agent may call, separated by commas: search, visit, or those of plug-ins.",
        ),
    ] = list(DEFAULT_TOOLS)


class RunOptions(SearchOptions):
    """Options of `cts run` and `cts plan`."""

    models: Clarifiers = ["local"]
    ks: Annotated[
        list[int],
        option(
            DATA,
            "-k",
            metavar="N",
            min=1,
            max=3,
            help="Number of clarifying questions (or turns). Repeatable.",
        ),
    ] = [1]
    schemes: Annotated[
        list[str],
        option(
            DATA,
            "--scheme",
            metavar="SCHEME",
            callback=one_of("--scheme", SCHEMES),
            help="Prompting scheme: cts, standard, at-standard, cot or at-cot. Repeatable.",
        ),
    ] = ["cts"]
    modes: Annotated[
        list[str],
        option(
            DATA,
            "--mode",
            metavar="MODE",
            callback=one_of("--mode", MODES),
            help="at-once: all questions together; respond: one question per turn; select: the user picks a "
            "reformulated query. Repeatable.",
        ),
    ] = ["at-once"]
    gold: Annotated[
        Path | None,
        option(DATA, metavar="FILE", help="Gold nuggets (JSONL), joined by id or by fused_query."),
    ] = None
    skip_bad_gold: SkipBadGold = False
    orig: Annotated[bool, option(DATA, help="Also search the underspecified query itself (system orig).")] = (
        True
    )
    with_gold: Annotated[
        bool, option(DATA, "--gold-query", help="Also search the hidden intent itself (system gold).")
    ] = False
    support: Support = None
    answerer: Annotated[
        str | None, option(MODELS, metavar="MODEL", help="User Answerer [default: as --support].", **PLAYER)
    ] = None
    rewriter: Annotated[
        str | None, option(MODELS, metavar="MODEL", help="Rewriter [default: as --support].", **PLAYER)
    ] = None
    given_questions: Annotated[
        list[Path] | None,
        option(
            DATA,
            "--questions",
            metavar="FILE|RUN",
            help="Ask the questions of a .csv or .jsonl file or of an earlier run instead of a Clarifier's.",
            **RUNS,
        ),
    ] = None
    given_rewrites: Annotated[
        list[Path] | None,
        option(
            DATA,
            "--rewrites",
            metavar="FILE|RUN",
            help="Search the rewritten queries of a file or run; no questions are asked.",
            **RUNS,
        ),
    ] = None
    stop_after: Annotated[
        str | None,
        option(
            DATA,
            "--stop-after",
            metavar="STAGE",
            callback=one_of("--stop-after", STAGES),
            help="Stop after questions, answers or rewrite: no search, no judges.",
        ),
    ] = None
    answers: Annotated[
        str | None,
        option(
            MODELS,
            metavar="DATA",
            help="Use the answers people gave in qulac or clariq instead of a User Answerer.",
        ),
    ] = None
    judges: Judges = None
    no_judge: Annotated[bool, option(MODELS, "--no-judge", help="Search only; no scores.")] = False
    as_published: Annotated[
        bool,
        option(
            MODELS,
            "--as-published",
            help="Play the paper's protocol to the letter: its User Answerer's rules, exactly unknown, all nuggets "
            "in one call, temperature 0.",
        ),
    ] = False
    extractor: Annotated[str | None, option(MODELS, hidden=True, help="Model that builds gold.")] = None
    empty_answers: EmptyAnswersOption = "fail"
    name: Annotated[
        str | None, option(RESULTS, metavar="NAME", help="Name of the run [default: DATASET-MODEL-kK].")
    ] = None


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
        "user_config": user_config_file(os.environ),
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
