"""Options: those that several commands share, how they are read, and how `--help` arranges them.

A class such as `RunOptions` declares options of commands, each named as the field of the configuration that it sets, and
with its default, unless `--help` shows a text in its place.
"""

from __future__ import annotations

import inspect
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, fields
from datetime import date, datetime, time, timedelta
from itertools import chain
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, TypeVar, cast, get_args, get_type_hints

import typer
from typer.core import TyperCommand

from cts_async.cli.completion import choices, names, run_names, runs
from cts_async.config import BatchFallback, BudgetConfig, CommandConfig, Consent, user_config_file
from cts_async.errors import UsageError, closest
from cts_async.records import (
    AGENT_PROMPTS,
    ASK_TIMES,
    JUDGE_FORMS,
    MODES,
    REPLY_FORMS,
    SCHEMES,
    STAGES,
    AgentMode,
    AskTime,
    EmptyAnswers,
)

if TYPE_CHECKING:
    from cts_async.protocol.config_trust import Spec

Config = TypeVar("Config", bound=CommandConfig)
N = TypeVar("N", bound=str)

_NUMBER: Final = r"(\d+(?:\.\d+)?)"
_DURATION = re.compile(f"(?:{_NUMBER}d)?(?:{_NUMBER}h)?(?:{_NUMBER}m)?(?:{_NUMBER}s)?", re.ASCII)
# What typer writes of a number's limits: that a count is positive goes without saying, and `1<=x<=3` reads as "1 to 3".
_ANY_COUNT = re.compile(r"  \[x>=[01]\]$|; x>=[01](?=\]$)")
_BOTH_ENDS = re.compile(r"(\d+)<=x<=(\d+)")
_CLOCK = re.compile(r"\d{1,2}:\d{2}(:\d{2})?")

PLAYER: Final = {"autocompletion": names("models", "baseline")}
JUDGE: Final = {"autocompletion": names("models", "baseline", "lexical")}
RUNS: Final = {"autocompletion": runs}
RUN_NAMES: Final = {"autocompletion": run_names}
"""What the tab key offers for models, judges and runs."""

# --- Headings of --help

DATA, MODELS, TALKS = "Data and systems", "Models", "Conversations"
EVALUATION, SEARCHING, EVIDENCE = "Evaluation", "Searching", "Evidence"
RESULTS, REUSE, BUDGETS, PROCESSES = "Results", "Versions and reuse", "Budgets", "Several processes"
OTHER = "Other options"
HEADINGS: Final = (
    DATA,
    MODELS,
    TALKS,
    EVALUATION,
    SEARCHING,
    EVIDENCE,
    RESULTS,
    REUSE,
    BUDGETS,
    PROCESSES,
    OTHER,
)


def option(heading: str, *names: str, help: str, **more: Any) -> Any:
    """Declare an option that `--help` shows under a heading; `more` is what `typer.Option` takes."""
    # The tab key offers what the callback of `one_of` takes: the words are declared once.
    accepted = getattr(more.get("callback"), "accepted", None)
    if accepted:
        more["autocompletion"] = choices(accepted)
    return typer.Option(*names, help=help, rich_help_panel=heading, **more)


class Command(TyperCommand):
    """A command whose help names what to type (RUN, N) where typer would name Python's types (<list[Path]>)."""

    headings: ClassVar[tuple[str, ...]] = ("Options",)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Write a required argument as RUN, not {RUN}."""
        return [re.sub("[{}]", "", piece) for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then the options, heading by heading, in the order of their declaration."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": []}
        for heading in self.headings:
            sections[heading] = []
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is None:  # a hidden option
                continue
            names, text = record
            if param.param_type_name == "argument":
                heading = "Arguments"
                names = re.sub(" <.*>$", "", names)
            else:
                heading = getattr(param, "rich_help_panel", None) or ""
                names = re.sub("<int( range)?>", "N", names)
            if heading not in sections:
                heading = self.headings[-1]  # typer's own --help has no heading
            text = _BOTH_ENDS.sub(r"\1 to \2", _ANY_COUNT.sub("", text))
            sections[heading].append((names, text))
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


def read_names(option: str, typed: Sequence[str], accepted: Sequence[N]) -> tuple[N, ...]:
    """Match names with `accepted`, ignoring case and taking "_" for "-". Raises UsageError for an unknown name."""
    # The paper writes AT-CoT, its files at_cot.
    names: list[N] = []
    for word in typed:
        spelling = word.strip().casefold().replace("_", "-")
        if spelling not in accepted:
            hint = ""
            near = closest(word, accepted)
            if near:
                hint = f"; did you mean {near}?"
            raise UsageError(f"{option} {word}: must be one of {', '.join(accepted)}{hint}")
        names.append(accepted[accepted.index(cast(N, spelling))])
    return tuple(names)


def one_of(option: str, accepted: Sequence[str]) -> Callable[[Any], Any]:
    """Return a callback that checks the name, or the names, typed after an option."""

    def check(typed: Any) -> Any:
        if typed is None:
            return None
        if isinstance(typed, str):
            return read_names(option, [typed], accepted)[0]
        return read_names(option, typed, accepted)

    check.accepted = accepted  # type: ignore[attr-defined]
    return check


def split_names(words: list[str]) -> list[str]:
    """Return the names in words such as `a,b`."""
    return [name.strip() for word in words for name in word.split(",")]


def read_ask_times(typed: list[str]) -> tuple[AskTime, ...]:
    """Return the times to ask in words such as `never,during`. Raises UsageError."""
    return read_names("--ask", split_names(typed), ASK_TIMES)


read_ask_times.accepted = ASK_TIMES  # type: ignore[attr-defined]


def read_shares(typed: list[str] | None) -> list[float]:
    """Return the shares in words such as `0,0.25`. Raises UsageError."""
    shares: list[float] = []
    for word in split_names(typed or []):
        try:
            shares.append(float(word))
        except ValueError:
            raise UsageError(
                f"--inject-at {word}: write shares of the agent's turns, from 0 to below 1: 0,0.25,0.5"
            ) from None
    return shares


def read_date(text: str | None) -> str | None:
    """Check a calendar date, YYYY-MM-DD. Raises UsageError for another form or a day that does not exist."""
    try:
        # fromisoformat accepts 20310501 and 2031-W18-4 as well.
        if text is None or date.fromisoformat(text).isoformat() == text:
            return text
    except ValueError:
        pass
    raise UsageError(f"--date {text}: not a date; write it as YYYY-MM-DD, e.g. 2031-05-01")


def read_deadline(text: str, start: datetime) -> datetime:
    """Parse `2h30m` (from `start`), `18:30` (its next occurrence) or an ISO date and time (local without a zone).

    Raises UsageError for anything else, and for a time in the past.
    """
    words = text.strip().lower()
    try:
        if words and _DURATION.fullmatch(words):
            deadline = start + _duration(words)
        elif _CLOCK.fullmatch(words):
            hour, _, minutes = words.partition(":")
            deadline = datetime.combine(start.date(), time.fromisoformat(f"{hour.zfill(2)}:{minutes}"))
            if deadline <= start:  # 08:00 typed in the evening is tomorrow's
                deadline += timedelta(days=1)
        else:
            deadline = datetime.fromisoformat(text.strip())
        past = deadline.timestamp() <= start.timestamp()
    except (ValueError, OverflowError):  # the latter for years beyond 9999
        raise UsageError(
            f"--deadline {text}: write it as 90m, 2h30m or 45s from now, as 18:30, or as 2031-05-01T08:00"
        ) from None
    if past:
        raise UsageError(f"--deadline {text}: is in the past")
    return deadline


def _duration(text: str) -> timedelta:
    """Return the length of `1d2h30m15s`; a part that is missing counts as 0."""
    match = _DURATION.fullmatch(text)
    assert match is not None
    days, hours, minutes, seconds = (float(amount or 0) for amount in match.groups())
    return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)


def config_file(path: Path | None) -> Path | None:
    """Return the file that was named, else ./cts.toml if it exists.

    Raises UsageError for a folder and for a missing file.
    """
    file = path or Path("cts.toml")
    if file.is_file():
        return file
    if file.exists():  # a folder of that name would otherwise be ignored in silence
        raise UsageError(f"{file}: is not a regular file")
    if path:
        raise UsageError(f"--config {path}: no such file")
    return None


def config_consent(path: Path | None, trust: bool) -> Consent:
    """Return the user's consent to the configuration file: naming a file is consent to it."""
    # Named is stronger: it is consent for this command, and nothing is remembered.
    if path is not None:
        return "named"
    if trust:
        return "remember"
    return "ask"


def config_files(path: Path | None) -> tuple[Path, ...]:
    """Return the user's own cts.toml and `config_file(path)`, as far as they exist. Raises UsageError."""
    # In this order: the folder's file overrides the user's own field by field.
    files = (user_config_file(os.environ), config_file(path))
    return tuple(file for file in files if file is not None)


def check_keys(
    file: Path | None,
    consent: Consent,
    used: Iterable[Spec],
    user: Path | None = None,
    *,
    players: Iterable[str] = (),
    reachable: Iterable[Spec] = (),
) -> None:
    """Print to standard error which key goes where for the models and tools `used`, before anything is sent.

    If ./cts.toml goes beyond the shipped catalogues and the user's own file, ask first; UsageError without a terminal to
    ask on. `players` are the models that the user named, and `reachable` those that code of the user's may ask, too.
    """
    from cts_async.protocol.config_trust import concerns_text, is_trusted, remember, sent_keys, trust_in
    from cts_async.tables.output import plain, print_line

    # Read twice below.
    used = tuple(used)
    trust = trust_in(file, user)
    concerns = trust.concerns_of(tuple(chain(used, reachable)), players)
    if file and concerns and consent != "named" and not is_trusted(file, os.environ):
        problem = plain(f"{file}: would {concerns_text(concerns)}")
        # "remember" is consent, too: --trust-config was typed.
        if consent == "ask" and not _ask_consent(problem):
            raise UsageError(
                f"{problem}: read that file; if it is right, add --trust-config (remembered until it changes) "
                f"or --config {shlex.quote(str(file))}"
            )
        remember(file, os.environ)
    # Also without a cts.toml: where a key goes is said before it goes.
    line = sent_keys(used, trust.sources)
    if line:
        print_line(line, sys.stderr)


def _ask_consent(problem: str) -> bool:
    """Ask on the terminal; False without one."""
    # A question that nobody can see, or answer, would hang a job for ever.
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
JudgeFormOption = Annotated[
    str | None,
    option(
        MODELS,
        "--judge-form",
        metavar="nuggets|match",
        callback=one_of("--judge-form", JUDGE_FORMS),
        help="Ask judges for a label of every nugget, or whether the answer is the right one, yes or no "
        "[default: match for interactcomp, else nuggets].",
    ),
]
Batch = Annotated[
    bool,
    option(
        BUDGETS,
        "--batch",
        help="Ask judges (cts gold: the extractor) by batches: about half the price, and replies within a day.",
    ),
]
Submit = Annotated[
    bool,
    option(
        BUDGETS,
        "--submit",
        help="As --batch, but hand the batches in and exit 75; the same command collects what has ended.",
    ),
]
BatchFallbackOption = Annotated[
    str,
    option(
        BUDGETS,
        "--batch-fallback",
        metavar="live|batch|none",
        callback=one_of("--batch-fallback", get_args(BatchFallback)),
        help="Ask what a batch has no reply to by ordinary calls, in the next batch, or not at all.",
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
AllVersions = Annotated[
    bool,
    typer.Option(
        "--all-versions", help="Show older versions of runs, too [default: the newest of each in a folder]."
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
    config_file: ConfigFile
    trust_config: TrustConfig = False
    prompts: Prompts
    cheap: Annotated[
        bool,
        option(
            MODELS,
            "--cheap",
            help="Ask models in their cheaper, slower tier (flex, batch-chat), if they have one. See cts models.",
        ),
    ]
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
    ]
    in_flight: Annotated[
        int | None,
        option(
            BUDGETS,
            min=1,
            help="Work on at most this many instances at once [default: from the models' limits].",
        ),
    ]
    retry_failed: Annotated[
        bool, option(OTHER, "--retry-failed", help="Retry instances that failed permanently.")
    ]
    new: Annotated[
        bool,
        option(REUSE, "--new", help="Make a new version of the run, and reuse nothing."),
    ]
    reuse: Annotated[
        list[Path] | None,
        option(
            REUSE,
            metavar="DIR",
            help="Also reuse steps of the runs in this folder. Repeatable.",
        ),
    ]
    no_reuse: Annotated[bool, option(REUSE, "--no-reuse", help="Reuse no step of another run.")]
    share_sampled: Annotated[
        bool,
        option(
            REUSE,
            "--share-sampled",
            help="Reuse sampled steps (temperature above 0) of other systems, too: common random numbers.",
        ),
    ]
    sync: Annotated[
        bool, option(OTHER, "--sync", help="Force every step to the disk, so that a power cut loses nothing.")
    ]
    verbose: Annotated[
        bool, option(RESULTS, "--verbose", "-v", help="Print each step, retry, wait and limit as it happens.")
    ]
    log_file: Annotated[
        Path | None,
        option(
            RESULTS,
            "--log",
            metavar="FILE",
            help="Append what --verbose prints to a file, with times; never keys or prompts.",
        ),
    ]
    seed: Seed


class DataOptions(CommandOptions):
    """Options of every command that works on a dataset."""

    data: Annotated[
        str,
        option(
            DATA,
            metavar="DATASET",
            help="sample, hard518:DIR, qulac:FILE, clariq:PATH, interactcomp:FILE, or your .csv or .jsonl file.",
        ),
    ]
    limit: Annotated[int | None, option(DATA, min=1, help="Use only the first N instances.")]
    every_role: Annotated[
        str | None,
        option(MODELS, "--all", metavar="MODEL", help="Use this model for every role.", **PLAYER),
    ]
    runs_dir: Annotated[Path, option(RESULTS, metavar="DIR", help="Write the runs to this folder.")]


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
    ]
    agent_prompt: Annotated[
        str | None,
        option(
            MODELS,
            metavar="PROMPT",
            callback=one_of("--agent-prompt", AGENT_PROMPTS),
            help="Prompt of the agent: native (WebDancer's format), tongyi, en, zh, or query (in the query's language) "
            "[default: native for webdancer, tongyi for tongyi, else query].",
        ),
    ]
    date: Annotated[
        str | None,
        option(
            MODELS,
            metavar="YYYY-MM-DD",
            callback=read_date,
            help="Date in the agent's prompt [default: that of runs over the same data and agent, else today].",
        ),
    ]
    corpus: Documents
    search: Annotated[
        str | None,
        option(
            SEARCHING,
            metavar="ENGINE",
            help="Search engine: corpus, serper, or one from cts.toml [default: corpus, if there is one].",
            autocompletion=names("search"),
        ),
    ]
    visit: Annotated[
        str | None,
        option(
            SEARCHING,
            metavar="READER",
            help="Page reader: jina, direct, or one from cts.toml [default: jina if JINA_API_KEY is set, "
            "else direct].",
            autocompletion=names("visit"),
        ),
    ]
    visit_model: Annotated[
        str | None,
        option(
            SEARCHING,
            metavar="MODEL",
            help="Model that extracts from a web page what the agent looks for; lexical: no model "
            "[default: as --support].",
            autocompletion=names("models", "lexical"),
        ),
    ]
    allow_addresses: Annotated[
        list[str] | None,
        option(
            SEARCHING,
            "--allow-address",
            metavar="HOST_OR_NET",
            help="Allow pages from this private host or network. Repeatable.",
        ),
    ]
    replay: Annotated[
        list[Path] | None,
        option(
            SEARCHING,
            metavar="RUN",
            help="Repeat the searches and page visits of this run's journal; no network. Repeatable.",
            **RUNS,
        ),
    ]
    max_turns: Annotated[
        int | None, option(SEARCHING, min=1, help="Model calls per search [default: 20, as WebDancer].")
    ]
    agent_mode: Annotated[
        str | None,
        option(
            SEARCHING,
            "--agent-mode",
            metavar="MODE",
            callback=one_of("--agent-mode", get_args(AgentMode)),
            help="strict (bounded texts, a forced answer), as-published (as WebDancer's demo), or tongyi (as Tongyi "
            "DeepResearch) [default: its own for webdancer and tongyi, as-published with --as-published, else strict].",
        ),
    ]
    agent_settings: Annotated[
        list[str] | None,
        option(
            SEARCHING,
            "--agent-setting",
            metavar="NAME=true|false",
            help="Switch one difference between the agent modes by itself, e.g. free_end=false. Repeatable.",
        ),
    ]
    tools: Annotated[
        list[str],
        option(
            SEARCHING,
            metavar="NAMES",
            callback=split_names,
            help="Tools that the agent may call, separated by commas: search, visit, or those of plug-ins; or none.",
        ),
    ]


class RunOptions(SearchOptions):
    """Options of `cts run` and `cts plan`."""

    models: Clarifiers
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
    ]
    schemes: Annotated[
        list[str],
        option(
            DATA,
            "--scheme",
            metavar="SCHEME",
            callback=one_of("--scheme", SCHEMES),
            help="Prompting scheme: cts, standard, at-standard, cot or at-cot. Repeatable.",
        ),
    ]
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
    ]
    ask: Annotated[
        list[str],
        option(
            DATA,
            metavar="WHEN",
            callback=read_ask_times,
            help="When the user is asked: never, before the search (a Clarifier), during it (the agent), or both; "
            "several, separated by commas, are compared.",
        ),
    ]
    max_asks: Annotated[
        int, option(DATA, metavar="N", min=1, help="Questions that the agent may ask during a search.")
    ]
    min_asks: Annotated[
        int, option(DATA, metavar="N", min=0, help="Questions that it has to ask before it may answer.")
    ]
    replies: Annotated[
        str,
        option(
            DATA,
            metavar="open|yes-no",
            callback=one_of("--replies", REPLY_FORMS),
            help="How the user replies to the agent: in a short phrase, or yes, no or i don't know.",
        ),
    ]
    inject_at: Annotated[
        list[str] | None,
        option(
            DATA,
            metavar="SHARES",
            callback=read_shares,
            help="Also give the agent the answers asked for before, in the place of a rewritten query, once these "
            "shares of its turns are used up: 0,0.25,0.5.",
        ),
    ]
    gold: Annotated[
        Path | None,
        option(DATA, metavar="FILE", help="Gold nuggets (JSONL), joined by id or by fused_query."),
    ]
    skip_bad_gold: SkipBadGold
    orig: Annotated[bool, option(DATA, help="Also search the underspecified query itself (system orig).")] = (
        True
    )
    # --gold is the file of nuggets.
    with_gold: Annotated[
        bool, option(DATA, "--gold-query", help="Also search the hidden intent itself (system gold).")
    ] = False
    support: Support
    answerer: Annotated[
        str | None, option(MODELS, metavar="MODEL", help="User Answerer [default: as --support].", **PLAYER)
    ]
    rewriter: Annotated[
        str | None, option(MODELS, metavar="MODEL", help="Rewriter [default: as --support].", **PLAYER)
    ]
    given_questions: Annotated[
        list[Path] | None,
        option(
            DATA,
            "--questions",
            metavar="FILE|RUN",
            help="Ask the questions of a .csv or .jsonl file or of an earlier run instead of a Clarifier's.",
            **RUNS,
        ),
    ]
    given_rewrites: Annotated[
        list[Path] | None,
        option(
            DATA,
            "--rewrites",
            metavar="FILE|RUN",
            help="Search the rewritten queries of a file or run; no questions are asked.",
            **RUNS,
        ),
    ]
    stop_after: Annotated[
        str | None,
        option(
            DATA,
            "--stop-after",
            metavar="STAGE",
            callback=one_of("--stop-after", STAGES),
            help="Stop after questions, answers or rewrite: no search, no judges.",
        ),
    ]
    answers: Annotated[
        str | None,
        option(
            MODELS,
            metavar="DATA",
            help="Use the answers people gave in qulac or clariq instead of a User Answerer.",
        ),
    ]
    judges: Judges
    judge_form: JudgeFormOption
    no_judge: Annotated[bool, option(MODELS, "--no-judge", help="Search only; no scores.")]
    as_published: Annotated[
        bool,
        option(
            MODELS,
            "--as-published",
            help="Play the paper's protocol to the letter: its User Answerer's rules, exactly unknown, all nuggets "
            "in one call, temperature 0.",
        ),
    ]
    extractor: Annotated[str | None, option(MODELS, hidden=True, help="Model that builds gold.")]
    empty_answers: EmptyAnswersOption
    batch: Batch
    submit: Submit
    batch_fallback: BatchFallbackOption
    name: Annotated[
        str | None, option(RESULTS, metavar="NAME", help="Name of the run [default: DATASET-MODEL-kK].")
    ]


def with_options(
    options: type[CommandOptions], config: type[Config]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorate a command to be as typer wants it: with its own options, then those declared in a class.

    Its first argument becomes the configuration that the options' values make.
    """
    shared = _parameters_of(options, config)

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        parameters = []
        for parameter in inspect.signature(command, eval_str=True).parameters.values():
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
        del parameters[0]  # the configuration, which nobody types
        parameters += shared

        def run(**typed: Any) -> None:
            values = {parameter.name: typed.pop(parameter.name) for parameter in shared}
            command(read_config(config, values), **typed)

        # typer reads a command's options from its signature, and their help from the annotations.
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        run.__name__ = command.__name__
        run.__doc__ = command.__doc__
        return run

    return decorate


def _parameters_of(options: type[CommandOptions], config: type[CommandConfig]) -> list[inspect.Parameter]:
    """Return the options that a class and its bases declare as parameters, the class's own first.

    An option without a default of its own has that of the configuration's field of its name.
    """
    defaults = _defaults_of(config)
    hints = get_type_hints(options, include_extras=True)
    parameters: list[inspect.Parameter] = []
    for declaring in options.__mro__:
        for name in vars(declaring).get("__annotations__", ()):
            default = getattr(options, name, defaults.get(name, inspect.Parameter.empty))
            parameters.append(
                inspect.Parameter(
                    name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hints[name]
                )
            )
    return parameters


def _defaults_of(config: type[CommandConfig]) -> dict[str, Any]:
    """Return the defaults of a configuration's fields as typer shows them: lists, and nothing for an empty one."""
    defaults: dict[str, Any] = {}
    for field in fields(config):
        default = field.default
        if isinstance(default, tuple):
            default = list(default) or None
        if default is not MISSING:
            defaults[field.name] = default
    return defaults


def read_config(config: type[Config], values: dict[str, Any]) -> Config:
    """Make a configuration of options' values. Raises UsageError."""
    named_config = values["config_file"]
    values["fields"] = read_fields(values["fields"])
    values["config_file"] = config_file(named_config)
    values["user_config"] = user_config_file(os.environ)
    values["config_consent"] = config_consent(named_config, values.pop("trust_config"))
    values["budget"] = read_budget(
        values.pop("max_usd"), values.pop("max_tokens"), values.pop("max_calls"), values.pop("deadline")
    )
    values["command"] = command_line()
    if "turns" in values:  # cts converse: a turn asks one question
        values["ks"] = [values.pop("turns")]
    if "orig" in values:
        values["references"] = _references(orig=values.pop("orig"), gold=values.pop("with_gold"))
    # --all without -m: the embedded default is no choice of the user's.
    if values.get("every_role") and values.get("models") == ["local"]:
        values["models"] = [values["every_role"]]
    # None is what nobody typed: the configuration has its own defaults.
    settings: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, list):
            settings[name] = tuple(value)
        elif value is not None:
            settings[name] = value
    return config(**settings)


def command_line() -> str:
    """Return the command as it was typed, as manifests and reports record it."""
    return shlex.join(["cts"] + sys.argv[1:])


def _references(*, orig: bool, gold: bool) -> tuple[str, ...]:
    """Return the systems that search q, or q*, as they are."""
    references = []
    if orig:
        references.append("orig")
    if gold:
        references.append("gold")
    return tuple(references)


def read_budget(
    max_usd: float | None, max_tokens: int | None, max_calls: int | None, deadline: str | None
) -> BudgetConfig:
    """Read the budget. Raises UsageError for an infinite amount, and for a deadline that is unreadable or past."""
    # typer's min=0 takes inf and nan, which would be no limit at all.
    if max_usd is not None and not isfinite(max_usd):
        raise UsageError(f"--max-usd {max_usd}: not an amount of money")
    deadline_s = None
    if deadline is not None:
        deadline_s = read_deadline(deadline, datetime.now()).timestamp()
    return BudgetConfig(max_usd, max_tokens, max_calls, deadline_s)
