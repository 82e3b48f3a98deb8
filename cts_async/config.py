"""Configuration: one frozen object per command, made once from its options, and the reading of cts.toml."""

from __future__ import annotations

import os
import pwd
import re
import shlex
import stat
import tomllib
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import parse_qsl, urlsplit

from cts_async.errors import InputError, UsageError, closest
from cts_async.records import (
    DEFAULT_TOOLS,
    SCHEMES,
    AgentMode,
    AgentPrompt,
    AskRules,
    AskTime,
    EmptyAnswers,
    JudgeForm,
    Mode,
    ReplyForm,
    Scheme,
    Stage,
)
from cts_async.safe_files import read_file

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

Join = Literal["id-and-query", "id"]
"""By id, else by fused query, refusing a line where they contradict each other; or by the id alone if it has one."""

BatchFallback = Literal["live", "batch", "none"]
"""Where a request goes whose batch has no result of it: an ordinary call, the next batch, or nowhere."""

Consent = Literal["ask", "named", "remember"]
"""Whether a cts.toml may decide where keys are sent: ask the user; it was named by --config; remember consent."""


@dataclass(frozen=True, slots=True)
class BudgetConfig:
    """Spending limits of a command, all its executions together; None: unlimited.

    `deadline` is a wall-clock time (seconds since 1970) and applies to this execution only.
    """

    max_usd: float | None = None
    max_tokens: int | None = None
    max_calls: int | None = None
    deadline: float | None = None

    @property
    def is_limited(self) -> bool:
        """True if there is any limit."""
        return self != BudgetConfig()


_PLAYERS: Final = ("support", "answerer", "rewriter", "agent", "visit_model", "extractor", "every_role")
"""Options that name one model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandConfig:
    """The options that all commands share which call models: run, gold, converse and judge."""

    fields: Mapping[str, str] = field(default_factory=dict)
    """Names of columns that differ from ours: our name to the file's."""
    config_file: Path | None = None
    user_config: Path | None = None
    """The user's own cts.toml, see `user_config_file`; `config_file` overrides it."""
    config_consent: Consent = "ask"
    prompts: tuple[str, ...] = ()
    """Folders of the user's prompts: DIR for all roles, or NAME=DIR for those played by MODEL@NAME."""
    limit: int | None = None
    """Only the first so many instances (of `cts judge`: answers of each system)."""
    cheap: bool = False
    """Ask every model in its cheapest tier of the ordinary call, which may be slow; one without such a tier live."""
    max_outage_s: float = 900.0
    budget: BudgetConfig = BudgetConfig()
    in_flight: int | None = None
    """Instances worked on at once; None: as many as the models' limits keep busy."""
    retry_failed: bool = False
    batch: bool = False
    """Ask judges, or the extractor of gold, by batches; `submit`: hand them in and end."""
    submit: bool = False
    batch_fallback: BatchFallback = "batch"
    sync: bool = False
    """Flush every step to the disk before it counts."""
    seed: int = 0
    verbose: bool = False
    """Print a line for each event; `log_file`: append it there."""
    log_file: Path | None = None
    new: bool = False
    """Make a new version in which nothing is reused, even if one with the same settings exists."""
    reuse: tuple[Path, ...] = ()
    """Further folders whose runs' steps are reused, beside the folder of the command's own runs."""
    no_reuse: bool = False
    """Take no step of another run."""
    share_sampled: bool = False
    """Take sampled steps (temperature above 0, or not known) of any system's runs, not only of the same system's."""
    command: str = "cts"
    """The command line, as the manifest records it."""

    @property
    def config_files(self) -> tuple[Path, ...]:
        """The files of tables to read, in this order."""
        return tuple(file for file in (self.user_config, self.config_file) if file is not None)

    @property
    def uses_batches(self) -> bool:
        """Whether models are asked by batches."""
        return self.batch or self.submit

    @property
    def manifest_fields(self) -> dict[str, Any]:
        """What every manifest records: the command, and where the user has a cts.toml, the files that were read."""
        fields: dict[str, Any] = {"command": self.command}
        # --config alone stands in the command.
        if self.user_config:
            fields["config_files"] = [str(file) for file in self.config_files]
        return fields

    @property
    def players(self) -> tuple[str, ...]:
        """All names of models and custom roles that the command was given."""
        names: list[str | None] = []
        # Each command has some of these options.
        for option in ("models", "judges"):
            names += getattr(self, option, ())
        names += [getattr(self, option, None) for option in _PLAYERS]
        return tuple(name for name in names if name)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataConfig(CommandConfig):
    """The options that run, gold and converse share: a dataset, and the folder of the runs over it."""

    data: str = "sample"
    every_role: str | None = None
    name: str | None = None
    runs_dir: Path = Path("runs")


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchConfig(DataConfig):
    """The options that run and gold share: the deep-search agent and its tools."""

    agent: str | None = None
    agent_prompt: AgentPrompt | None = None
    """Which prompt the agent gets; None: the one that the catalogue names for the agent's model."""
    date: str | None = None
    """The date in the agent's prompt, YYYY-MM-DD; None: today's, or when a run is resumed, the recorded one."""
    extractor: str | None = None
    corpus: Path | None = None
    search: str | None = None
    visit: str | None = None
    visit_model: str | None = None
    allow_addresses: tuple[str, ...] = ()
    replay: tuple[Path, ...] = ()
    max_turns: int | None = None
    agent_mode: AgentMode | None = None
    """How closely the agent follows WebDancer's published demo; None: as --as-published and the catalogue say."""
    agent_settings: tuple[str, ...] = ()
    """Switches of the agent mode that differ from it, as "NAME=true" or "NAME=false"."""
    tools: tuple[str, ...] = DEFAULT_TOOLS
    """The tools that the agent may call, by name (see `search.toolbox`); ("none",) for an agent without any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig(SearchConfig):
    """A `cts run`. Role names left None take their default from cts.toml, else from the Clarifier."""

    models: tuple[str, ...] = ("local",)
    ks: tuple[int, ...] = (1,)
    schemes: tuple[Scheme, ...] = ("cts",)
    modes: tuple[Mode, ...] = ("at-once",)
    given_questions: tuple[Path, ...] = ()
    """Files or runs whose questions are asked, in the place of a Clarifier."""
    given_rewrites: tuple[Path, ...] = ()
    """Files or runs whose rewritten queries are searched; nothing is asked."""
    stop_after: Stage | None = None
    """The last stage of a run without search and judges; None: all of it."""
    answers: str | None = None
    """Dataset whose human answers replace the User Answerer's ("qulac", "clariq"); None: the support model's."""
    gold: Path | None = None
    skip_bad_gold: bool = False
    """Leave out instances whose gold line is missing, has no nuggets, or cannot be used."""
    support: str | None = None
    answerer: str | None = None
    rewriter: str | None = None
    """The User Answerer and the Rewriter; None: the support model plays them."""
    judges: tuple[str, ...] = ()
    references: tuple[str, ...] = ("orig",)
    no_judge: bool = False
    judge_form: JudgeForm | None = None
    """What judges are asked; None: as the dataset says."""
    empty_answers: EmptyAnswers = "fail"
    """Whether a search that ends without an answer is a failure without a score, or scored 0 without asking a judge."""
    ask: tuple[AskTime, ...] = ("before",)
    """When systems ask the user; each of these makes systems of its own over the same instances."""
    max_asks: int = 3
    min_asks: int = 0
    replies: ReplyForm = "open"
    """The rules of the questions that an agent asks during its search."""
    inject_at: tuple[float, ...] = ()
    """Shares of the agent's turns, from 0 to below 1, after which it is given the answers that were elicited before."""
    as_published: bool = False
    """Play the paper's protocol to the letter where this project's differs (see `protocol.plan.AS_PUBLISHED`)."""
    command: str = "cts run"

    @property
    def ask_rules(self) -> AskRules:
        """What an agent may ask during its search."""
        return AskRules(self.max_asks, self.min_asks, self.replies)

    @property
    def asks_before_search(self) -> bool:
        """Whether there are systems with a Clarifier."""
        return "before" in self.ask or "both" in self.ask

    @property
    def asks_during_search(self) -> bool:
        """Whether there are systems whose agent may ask."""
        return "during" in self.ask or "both" in self.ask


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldConfig(SearchConfig):
    """A `cts gold`: a search of each intent, and the limits of its evidence (None: what suits the extractor)."""

    out: Path
    force: bool = False
    """Replace `out` even where it holds lines that this build did not write."""
    max_sources: int | None = None
    source_chars: int | None = None
    total_chars: int | None = None
    command: str = "cts gold"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConverseConfig(DataConfig):
    """A `cts converse`: conversations without search and judges; `ks` are the numbers of turns."""

    models: tuple[str, ...] = ("local",)
    ks: tuple[int, ...] = (1,)
    schemes: tuple[Scheme, ...] = SCHEMES[1:]
    modes: tuple[Mode, ...] = ("respond", "select")
    support: str | None = None
    questions: int = 5
    """Questions asked in mode "at-once"."""
    topics: int | None = None
    """Only the first so many distinct underspecified queries."""
    intents: int | None = None
    """At most so many instances of each."""
    command: str = "cts converse"


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeConfig(CommandConfig):
    """A `cts judge`: of finished runs, or of candidates (`gold`, `candidates`, `out`).

    `candidates` are files, patterns and directories, or one of them.
    """

    judges: tuple[str, ...] = ()
    runs: tuple[Path, ...] = ()
    gold: Path | None = None
    skip_bad_gold: bool = False
    join: Join = "id-and-query"
    """How candidates are joined with the gold."""
    candidates: str | tuple[str, ...] = ()
    out: Path | None = None
    lexical: bool = False
    """Whether the lexical judge is added to the judges of candidates."""
    nuggets_per_call: int | None = None
    judge_form: JudgeForm | None = None
    """What judges are asked; None: of a run as there, of candidates a label for every nugget."""
    empty_answers: EmptyAnswers = "fail"
    """Whether a candidate's empty answer is a failure without a score, or scored 0 without asking the judge."""
    command: str = "cts judge"


@dataclass(frozen=True, slots=True)
class EvaluationConfig:
    """How finished conversations are evaluated. `qrels` is a file's path or "intent:N".

    `relevance_level` is the lowest grade that binary measures count as relevant. `published` names the dataset whose
    values in AT-CoT's paper stand beside; "" for that of the data itself.
    """

    corpus: Path | None = None
    qrels: str = "intent:10"
    relevance_level: int = 1
    reranker: str | None = None
    measures: tuple[str, ...] = ("nDCG@10", "MRR@10")
    encoder: str | None = None
    published: str = ""


# --- Reading cts.toml

TABLES: Final = ("models", "roles", "prompts", "search", "visit", "names")
"""The tables that a cts.toml may have; the catalogues of models and of search read theirs."""
KEYS_FROM_ENVIRONMENT: Final = "keys come from the environment: use key_env"
VARIABLE_PATTERN: Final = r"[A-Z_][A-Z0-9_]{0,63}"
"""Names of environment variables; a key put in their place does not match."""

MAX_CONFIG_BYTES: Final = 4 << 20
MAX_DEPTH: Final = 32
"""Levels of nesting in a table. orjson writes up to 254; the TOML parser's recursion ends at about 300."""
MAX_INTEGER: Final = 2**63 - 1
"""The largest integer that JSON libraries write and servers read."""

_NAME = re.compile(r"[\w.-]+")
VARIANT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
"""Names of prompt variants, as in `gpt@short`."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SECRET_WORD = re.compile(
    r"auth(?:orization)?|bearer|cookies?|credentials?|jwt|pass(?:phrase|w(?:or)?d)|pwd|secrets?|signature"
)
"""A field whose name contains one of these words holds a secret."""
_SECRET_NOUN = re.compile(r"keys?|pass|sig|token")
"""So does one whose name ends in one of these: `X-Token`, but neither `max_tokens` nor `stop_token_ids`."""
_COMPOUND = re.compile(
    r"(?:access|api|auth|client|private|refresh|secret|session|shared|subscription)(?:keys?|token|secret)$"
)
_NO_SECRETS: Final = frozenset(
    {
        "prompt_cache_key",
        *(f"{word}_token" for word in ("bos", "cls", "eos", "mask", "pad", "sep", "stop", "unk")),
    }
)
"""Request parameters of common servers that only sound like secrets."""
_SECRET_VALUE = re.compile(
    r"(?:(?:bearer|basic|token)\s+|(?:sk|gh[po]|xox[bp])[-_])(?=\S*\d)[^\s{]{16}", re.IGNORECASE
)
"""Values that look like a key, whatever their field is called: an authorization scheme, or a well-known prefix."""


SET_HOME: Final = "set HOME or XDG_CONFIG_HOME to a folder that you can write"


def home_folder() -> Path | None:
    """Return the user's home directory; None in a container whose user has none (no HOME, no entry in passwd)."""
    home = os.environ.get("HOME")
    if not home:  # unset, or empty as some job runners leave it
        try:
            home = pwd.getpwuid(os.getuid()).pw_dir
        except KeyError:
            return None
    if os.path.isabs(home):
        return Path(home)
    return None


def config_home(environ: Mapping[str, str]) -> Path | None:
    """Return the folder of users' configurations: XDG_CONFIG_HOME if it is an absolute path, else ~/.config.

    None without a home directory.
    """
    folder = Path(environ.get("XDG_CONFIG_HOME", ""))
    if folder.is_absolute():  # the XDG specification: a relative one is invalid and ignored
        return folder
    home = home_folder()
    if home is None:
        return None
    return home / ".config"


def user_config_path(environ: Mapping[str, str]) -> Path | None:
    """Return where the user's own cts.toml is, if there is one; None without a home directory."""
    folder = config_home(environ)
    if folder is None:
        return None
    return folder / "cts" / "cts.toml"


def user_config_file(environ: Mapping[str, str]) -> Path | None:
    """Return the user's own cts.toml; None if there is none.

    It needs no consent, so nobody else may be able to change it: UsageError if the file or its folder belongs to
    another user (but root), or can be written by others. It may be a link, as managers of dotfiles make them.
    """
    path = user_config_path(environ)
    # Path.exists would raise where a folder above may not be searched.
    if path is None or not os.path.exists(path):
        return None
    if not path.is_file():
        raise UsageError(f"{path}: is not a regular file")
    target = path.resolve()
    # The folder of a link, too: who can write there can lead the link elsewhere.
    for place in dict.fromkeys((path.parent, target.parent, target)):
        status = place.stat()
        if status.st_uid not in (os.geteuid(), 0):
            raise UsageError(f"{path}: not read: {place} belongs to another user (uid {status.st_uid})")
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            command = f"chmod go-w {shlex.quote(str(place))}"
            raise UsageError(f"{path}: not read: other users can write {place}; type {command}")
    return path


def read_tables(path: Path) -> dict[str, dict[str, Any]]:
    """Read the tables of a cts.toml by name, each perhaps empty; their content is not checked. Raises InputError."""
    try:
        # With or without a byte order mark, which editors on Windows write and tomllib refuses.
        data = tomllib.loads(read_file(path, MAX_CONFIG_BYTES).decode("utf-8-sig"))
    except OSError as error:
        raise InputError(path, f"cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(path, "is not UTF-8 text") from error
    except tomllib.TOMLDecodeError as error:
        problem = f"not valid TOML: {error}"
        if str(error).startswith("Invalid value"):  # model = gpt-5: the usual mistake
            problem += "; texts stand in quotes"
        # Python 3.14 gives the error a `lineno`; before, it stands in the message alone.
        place = re.search(r"at line (\d+)", str(error))
        line = None
        if place:
            line = int(place[1])
        raise InputError(path, problem, line=line) from error
    except RecursionError:
        raise InputError(path, f"is nested more than {MAX_DEPTH} levels deep") from None
    except ValueError:  # int() refuses more than 4,300 digits
        raise InputError(path, "not valid TOML: a number has too many digits") from None
    # A misspelled table would be ignored, and its models missed much later.
    for name, value in data.items():
        if name not in TABLES:
            raise InputError(path, f"unknown table{suggestion(name, TABLES)}", field=name)
        if not isinstance(value, dict):
            raise InputError(path, "expected a table", field=name)
    return {name: data.get(name, {}) for name in TABLES}


MAX_NAME: Final = 60
"""Characters of a name in `[names]`."""


def display_names(files: Iterable[Path]) -> dict[str, str]:
    """Read what reports call models, systems and datasets: `[names]` of each cts.toml over those before it.

    Raises InputError, also where two would have the same name.
    """
    names: dict[str, str] = {}
    for path in files:
        table = read_tables(path)["names"]
        # Taken out first: a file may exchange the names that those before it gave.
        names = {name: shown for name, shown in names.items() if name not in table}
        for name, shown in table.items():
            problem = _display_name_problem(shown, names)
            if problem:
                raise field_error(path, "names", name, problem)
            names[name] = shown
    return names


def _display_name_problem(shown: object, names: Mapping[str, str]) -> str | None:
    """Return what is wrong with the value of a `[names]` field beside the other `names`; None if nothing is."""
    is_line = isinstance(shown, str) and shown.strip() and shown.isprintable()
    if not is_line or len(str(shown)) > MAX_NAME:
        return f"must be a name of one line in quotes, at most {MAX_NAME} characters"
    for name, shown_of_name in names.items():
        if shown_of_name == shown:
            return f"is the name of {name!r} already; give each its own"
    return _value_problem("", shown, key_place=False)


def merge_table(shipped: Mapping[str, Any] | None, table: str, row: object, path: Path) -> dict[str, Any]:
    """Return the shipped table updated by the fields of the user's `[table]`. Raises InputError."""
    if not isinstance(row, dict):
        kind = table.partition(".")[0]
        raise InputError(path, f"expected a table; fields stand below [{kind}.NAME]", field=table)
    table_fields: dict[str, Any] = {}
    if shipped:
        table_fields.update(shipped)
    table_fields.update(row)
    return table_fields


def is_secret_name(name: str) -> bool:
    """True if a field or URL parameter of this name holds a secret: `api_key`, `X-Token`, `clientSecret`, `sig`."""
    if name.lower() in _NO_SECRETS:
        return False
    words = [word.lower() for word in _WORD.findall(name)]
    if not words:
        return False
    if any(map(_SECRET_WORD.fullmatch, words)):
        return True
    noun = words[-1]
    return bool(_SECRET_NOUN.fullmatch(noun) or _COMPOUND.search(noun))


def check_table(table: str, row: Mapping[str, Any], path: Path, *, key_place: bool = False) -> None:
    """Check the name of `[table]`, which has to be fit for an option, and its values at any depth.

    There must be no secrets, and only what JSON can represent. With `key_place`, `{key}` in a value is the place of the
    key. Raises InputError, which does not repeat the value.
    """
    kind, _, name = table.partition(".")
    if not _NAME.fullmatch(name):
        raise InputError(path, f"a name in [{kind}.NAME] has letters, digits, dots, - and _ only", field=name)
    for dotted_key, key, value in _leaves(row, "", "", MAX_DEPTH):
        problem = _value_problem(key, value, key_place=key_place)
        if problem:
            raise field_error(path, table, dotted_key, problem)


def _leaves(value: object, field: str, key: str, depth: int) -> Iterator[tuple[str, str, object]]:
    """Yield each value that is neither a table nor an array: its dotted field, its own key, and the value.

    Tables and arrays nested more than `depth` levels deep are yielded themselves.
    """
    if depth and isinstance(value, Mapping):
        for inner_key, item in value.items():
            inner_field = inner_key
            if field:
                inner_field = f"{field}.{inner_key}"
            yield from _leaves(item, inner_field, inner_key, depth - 1)
    elif depth and isinstance(value, list):
        for item in value:
            yield from _leaves(item, field, key, depth - 1)
    else:
        yield field, key, value


def _value_problem(name: str, value: object, *, key_place: bool) -> str | None:
    match value:
        case str():
            return _secret_problem(name, value, key_place=key_place)
        case bool():  # before the numbers: True is an integer to Python
            return None
        case int() if abs(value) > MAX_INTEGER:
            return "is an integer beyond 64 bits; write a smaller one, or text in quotes"
        case float() if not isfinite(value):
            return "must be a finite number"
        case int() | float():
            return None
        case dict() | list():
            return f"is nested more than {MAX_DEPTH} levels deep"
    return "is a date or a time; write it in quotes"


def _secret_problem(name: str, text: str, *, key_place: bool) -> str | None:
    """Return why a string named `name` must not be in a file, None if it may."""
    has_place = key_place and "{key}" in text
    if is_secret_name(name) and not has_place:
        if key_place:
            return f"{KEYS_FROM_ENVIRONMENT}, and write {{key}} here"
        return KEYS_FROM_ENVIRONMENT
    if _SECRET_VALUE.match(text):
        return f"looks like a key; {KEYS_FROM_ENVIRONMENT}"
    if "://" not in text:
        return None
    try:
        parts = urlsplit(text)
    except ValueError:
        return None  # not an address
    if parts.password:
        return f"must not carry a password; {KEYS_FROM_ENVIRONMENT}"
    for parameter, value in parse_qsl(parts.query):
        has_place = key_place and "{key}" in value
        if is_secret_name(parameter) and not has_place:
            if key_place:
                return f"{KEYS_FROM_ENVIRONMENT}, and write {{key}} after {parameter}="
            return KEYS_FROM_ENVIRONMENT
    return None


def row_error(path: Path, table: str, error: ErrorDetails, field_names: Iterable[str]) -> InputError:
    """Turn pydantic's error about `[table]`, which may have `field_names`, into an InputError of one line."""
    key = ".".join(str(part) for part in error["loc"])
    match error["type"]:
        case "extra_forbidden":
            problem = f"unknown field{suggestion(key, field_names)}"
        case "missing":
            problem = "is missing"
        case "string_pattern_mismatch":  # VARIABLE_PATTERN is the only pattern that a table's fields have
            problem = "must be the NAME of an environment variable, in capitals, such as MY_API_KEY"
            if key == "key_env":
                problem += f"; {KEYS_FROM_ENVIRONMENT}"
        case _:
            # pydantic speaks of JSON and Python, the user's file of TOML.
            problem = error["msg"].removeprefix("Input ")
            problem = problem.replace("tuple", "array").replace("an object", "a table")
    return field_error(path, table, key, problem)


def field_error(path: Path, table: str, key: str, problem: str) -> InputError:
    """Return the error for the field `key` of `[table]`."""
    return InputError(path, problem, line=line_of(path, table, key), field=f"{table}.{key}")


def line_of(path: Path, table: str, key: str) -> int | None:
    """Return the line number of `key` in `[table]`, else that of the table's header; None if not found."""
    header_number = None
    inside = False
    # A field may have a table of its own, [models.NAME.params], or stand in one: params.seed = 1, params = {...}.
    name = key.split(".")[0]
    field = re.compile(rf"\s*[\"']?{re.escape(name)}[\"']?\s*[=.]")
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").splitlines(), 1):
        header = re.match(r"\s*\[([^\[\]]+)\]", line)
        if header:
            header_name = re.sub(r"[\s\"']", "", header[1])
            inside = header_name == table
            # Of the headers that the key stands below, the last is the nearest: [models.NAME.tiers.flex].
            below_table = header_name == table or header_name.startswith(f"{table}.")
            if below_table and f"{table}.{key}.".startswith(f"{header_name}."):
                header_number = number
        elif inside and field.match(line):
            return number
    return header_number


def address_problem(url: str, *, optional: bool = False, query: bool = False) -> str | None:
    """Return what is wrong with an http(s) address, without repeating it (it might hold a key); None if nothing is.

    `optional` permits an empty one, `query` permits a query string.
    """
    if not url:
        if optional:
            return None
        return "is missing: expected an http(s) address"
    no_address = "is not an http(s) address (http://HOST:PORT/...)"
    try:
        parts = urlsplit(url)
        port = parts.port  # raises ValueError beyond 65535
    except ValueError:
        return no_address
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0 or re.search(r"\s", url):
        return no_address
    has_credentials = bool(parts.username or parts.password)
    if query:
        if has_credentials or parts.fragment:
            return f"must not carry user names or fragments; {KEYS_FROM_ENVIRONMENT}"
    elif has_credentials or parts.fragment or parts.query:
        return f"must not carry user names, queries or fragments; {KEYS_FROM_ENVIRONMENT}"
    return None


def environment_override(variable: str | None, environ: Mapping[str, str]) -> str:
    """Return the trimmed value of an environment variable, "" if it is unset or `variable` is None."""
    if variable is None:
        return ""
    return environ.get(variable, "").strip()


def variant_of(player: str, variants: Container[str]) -> tuple[str, str]:
    """Split `gpt@short` into the model and the name of its prompts, "" unless that is one of the `variants`.

    An "@" may be part of a model's id, as in `vertex:claude@20250929`.
    """
    model, at, variant = player.rpartition("@")
    if at and variant in variants:
        return model, variant
    return player, ""


def suggestion(name: str, known_names: Iterable[str]) -> str:
    """Return `; did you mean 'x'? known: ...`, or `; known: ...` where nothing is spelled like it."""
    names = sorted(known_names)
    listing = f"known: {', '.join(names)}"
    match = closest(name, names)
    if match:
        return f"; did you mean {match!r}? {listing}"
    return f"; {listing}"
