"""The manifest of a run, `run.json`: the only reader of its fields, for all versions of the format.

`identity` is what determines the results (a resumed run must agree on it); the rest are notes (versions, command,
sessions) that may change from one session to the next. A run directory can come from anybody, so every field that some
reader relies on has its type here, once; a field that is not named here is kept in `Manifest.raw` and read by nobody.

Commands read strictly: a field of another form is an InputError that names it. Listings, which show what they can of
any folder, read tolerantly: there such a field counts as absent. Both make the same `Manifest`.
"""

from __future__ import annotations

import errno
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SkipValidation,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    field_validator,
)
from pydantic.dataclasses import dataclass
from pydantic_core import PydanticUseDefault

from cts_async import foreign_json
from cts_async.errors import InputError, cut_end
from cts_async.foreign_json import as_float, as_object, as_text
from cts_async.records import MADE_UP, SMOKE_TEST, Caveat, is_one_line
from cts_async.safe_files import read_file

MANIFEST: Final = "run.json"
MAX_MANIFEST_BYTES: Final = 16 << 20
"""A real one has a few kilobytes."""
MAX_NAME: Final = 1_000
"""Characters of a name. A model's id or a file's path has a hundred; names are joined into messages and tables."""
MAX_COMMAND: Final = 1 << 16
"""Characters of a command that are parsed; shlex takes a second per million."""

ORIG: Final = "orig"
"""The system that asks nothing and searches with the query as it is: differences are to its scores."""
GOLDBUILD: Final = "goldbuild"
"""The system name of a `cts gold` build."""
TALK: Final = "talk"
"""The task of a `cts converse` run: conversations without search and answer."""

RunKind: TypeAlias = Literal["run", "talk", "judged"]
"""A run of the benchmark; conversations without an agent (`cts converse`); judged candidate answers."""

_DAMAGED: Final = (
    ": damaged; move it aside, with the results and judgments/: the same command makes them again from "
    "what steps.jsonl has"
)
_TOLERANT: Final = "tolerant"
"""The validation context in which a field of another form counts as absent."""


# --- Types of fields


def _one_line(text: str) -> str:
    if not is_one_line(text):
        raise ValueError("more than one line")
    return text


def _null_passes(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    """Let null through, which `_Part` takes for an absent field: earlier versions wrote some fields so."""
    if value is None:
        return None
    return handler(value)


def _text(value: Any) -> str:
    return as_text(value) or ""


def _whole_number(value: Any) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return None


def _texts(value: Any) -> list[str]:
    return [text for text in foreign_json.as_list(value) if isinstance(text, str)]


def _well_formed_sessions(value: Any) -> list[Any]:
    """The sessions that can be read: a run can be read without them."""
    sessions = [session for session in foreign_json.as_list(value) if isinstance(session, dict)]
    return [session for session in sessions if type(session.get("wall_s")) in (int, float, type(None))]


_Nullable: Final = WrapValidator(_null_passes)
_Count = Annotated[int, Field(strict=True, ge=0, lt=2**31)]
_Name = Annotated[str, Field(max_length=MAX_NAME), AfterValidator(_one_line)]
_Path = Annotated[str, Field(max_length=4 * MAX_NAME)]
# A union keeps 1 apart from 1.0: a price or a forecast that is copied into a manifest is written as it was.
_Price = (
    Annotated[int, Field(strict=True, ge=0)] | Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]
)
_Amount = Annotated[int, Field(strict=True)] | Annotated[float, Field(strict=True, allow_inf_nan=False)]
_Share = Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]
_NullableName = Annotated[_Name, _Nullable]
_NullablePath = Annotated[_Path, _Nullable]
# Of any form: what is not of the type counts as absent for strict readers, too, since no result depends on it.
_AnyText = Annotated[str, BeforeValidator(_text)]
_AnyObject = Annotated[Mapping[str, Any], BeforeValidator(as_object)]
_Truth = Annotated[bool, BeforeValidator(bool)]
_RESTRICTION_CHARS: Final = 300
_KEEP_TEXTS: Final = (
    "Keep queries, answers, nuggets and traces to yourself: cts report --mask writes a report without texts."
)


class _Part:
    """An object of the manifest; a field that is null, or malformed for a tolerant reader, has its default."""

    __slots__ = ()

    @field_validator("*", mode="wrap")
    @classmethod
    def _default_if_absent(
        cls, value: Any, handler: ValidatorFunctionWrapHandler, info: ValidationInfo
    ) -> Any:
        try:
            result = handler(value)
        except ValidationError:
            if info.context == _TOLERANT:
                raise PydanticUseDefault from None
            raise
        if result is None:
            raise PydanticUseDefault
        return result


# --- The manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class DataIdentity(_Part):
    """What determines a run's instances."""

    name: _NullableName = Field(default="", description="a name of one line")
    sha256: _NullableName = Field(default="", description="a digest")
    gold_sha256: _NullableName = Field(default="", description="a digest")

    def as_json(self) -> dict[str, str | None]:
        """The fields as a manifest has them: of judged candidates only the gold's digest, {} if nothing is known."""
        if not self.name and not self.sha256:
            return {"gold_sha256": self.gold_sha256} if self.gold_sha256 else {}
        return {
            "name": self.name or None,
            "sha256": self.sha256 or None,
            "gold_sha256": self.gold_sha256 or None,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity(_Part):
    """What determines a run's results; each field may be absent, which is the same as its default."""

    data: Annotated[DataIdentity, _Nullable] = Field(default=DataIdentity(), description="an object")
    system: _NullableName = Field(default="", description="a name of one line")
    task: _NullableName = Field(default="", description="a name of one line")
    scheme: _Name = Field(default="", description="a name of one line")
    """How a conversation's Clarifier is prompted; "" for the benchmark's own protocol."""
    mode: _Name = Field(default="", description="a name of one line")
    """How a conversation's Clarifier interacts with the user; "" for the benchmark's own protocol."""
    stop_after: _NullableName = Field(default="", description="the name of a stage")
    candidates: _NullablePath = Field(default="", description="a path")
    """The file of judged candidates."""
    current_date: _NullableName = Field(default="", description="a date")
    gold_sha256: _NullableName = Field(default="", description="a digest")
    """Of judged candidates, which know their gold only."""
    corpus_sha256: _AnyText = ""
    k: _Count | None = Field(default=None, description="a number of questions")
    judges: Annotated[tuple[_Name, ...], _Nullable] = Field(default=(), description="a list of names")
    """The scoring judge first."""
    models: Mapping[str, Any] = Field(default={}, description="an object of models by role")
    prompts: Mapping[str, str] = Field(default={}, description="an object of digests by name")
    agent: Annotated[Mapping[str, Any], _Nullable] = Field(default={}, description="an object")
    """The settings of the agent."""
    rewrites: _AnyObject = Field(default={})
    """What identifies given rewritten queries."""
    answers: _Truth = False
    """Whether people's recorded answers stood for the User Answerer's."""
    judge_form: _Name = Field(default="", description="a name of one line")
    """What the judges were asked; "" for a label of every nugget."""
    as_published: Annotated[bool, BeforeValidator(lambda value: value is True)] = False
    """Whether the paper's protocol was played to the letter."""
    asks: Annotated[Mapping[str, Any], _Nullable] = Field(default={}, description="an object")
    """How the agent may ask the user during its search: `max`, `min`, `replies`; empty if it may not."""
    inject_at: _Share | None = Field(default=None, description="a share of turns, from 0 to below 1")
    """When answers of before the search are given to the agent; None: they are rewritten into its query."""

    @property
    def max_asks(self) -> int:
        """Questions that the agent may put to the user during its search; 0: it cannot ask."""
        return foreign_json.as_count(self.asks.get("max"))

    @property
    def dataset(self) -> DataIdentity:
        """Name and digests of the data; of judged candidates only the gold's digest."""
        if self.data == DataIdentity():
            return replace(self.data, gold_sha256=self.gold_sha256)
        return self.data

    @property
    def model_ids(self) -> dict[str, str]:
        """The models' ids by role, as far as they are recorded."""
        ids: dict[str, str] = {}
        for role, model in self.models.items():
            model_id = as_object(model).get("model")
            if isinstance(model_id, str):
                ids[role] = model_id
        return ids


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFiles(_Part):
    """Where a run's data are."""

    spec: _NullablePath = Field(default="", description="a path")
    path: _NullablePath = Field(default="", description="a path")
    gold: _NullablePath = Field(default="", description="a path")
    corpus: _NullablePath = Field(default="", description="a path")
    """The documents that were searched."""
    fields: Annotated[Mapping[str, str], _Nullable] = Field(default={}, description="an object of names")
    notes: Annotated[tuple[str, ...], _Nullable] = Field(default=(), description="a list of texts")
    skip_bad_gold: _Truth = False
    restriction: _AnyText = ""
    """Why their text must not be published; "" if it may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools(_Part):
    """The search engine, the page reader and the recorded runs of a search."""

    search: _NullableName = Field(default="", description="a name of one line")
    visit: _NullableName = Field(default="", description="a name of one line")
    replay: Annotated[tuple[_Path, ...], _Nullable] = Field(default=(), description="a list of paths")


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenTexts(_Part):
    """The file or run that questions or rewritten queries were taken from."""

    source: _AnyText = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session(_Part):
    """One execution of the command; `end` is "" while it runs, or after it was killed."""

    start: _AnyText = ""
    end: _AnyText = ""
    stopped: _AnyText = ""
    """Why it ended before its work was done."""
    wall_s: Annotated[float, BeforeValidator(lambda value: as_float(value) or 0.0)] = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest(_Part):
    """What `run.json` says; all defaults where there is none."""

    directory: Annotated[Path, SkipValidation] = Path()
    raw: Annotated[Mapping[str, Any], SkipValidation] = Field(default={}, repr=False)
    """The JSON object, to be shown or written again; empty where there is no manifest that can be read."""
    identity: Identity = Field(default=Identity(), description="an object")
    data: DataFiles = Field(default=DataFiles(), description="an object")
    tools: Tools = Field(default=Tools(), description="an object")
    players: Mapping[str, _Name | None] = Field(default={}, description="an object of names")
    """Names of models by role: clarifier, support, agent, judge NAME."""
    further_judges: Mapping[str, Mapping[str, Any]] = Field(
        default={}, description="an object of judges by name"
    )
    """What determines each further judge's verdicts."""
    prices: Mapping[str, Mapping[str, _Price | None]] = Field(
        default={}, description="an object of prices by model"
    )
    """Dollars per million tokens, by model and kind; None if unknown."""
    forecast: Mapping[str, _Amount | None] | None = Field(default=None, description="an object of numbers")
    systems: tuple[_Name, ...] = Field(default=(), description="a list of names")
    """Of the folder above several judged files: their names, in order."""
    journal: _NullablePath = Field(default="", description="a path")
    """The journal that several directories share; "" for the run's own."""
    n_expected: _Count = Field(default=0, description="a number of instances")
    n_answers: Annotated[int | None, BeforeValidator(_whole_number)] = None
    """The number of candidates, where these are fewer than the instances of their gold."""
    sessions: Annotated[tuple[Session, ...], BeforeValidator(_well_formed_sessions)] = ()
    given: Annotated[GivenTexts, BeforeValidator(as_object)] = GivenTexts()
    version: _AnyText = ""
    """The version of this package that wrote it."""
    run_version: Annotated[int | None, BeforeValidator(_whole_number)] = None
    """Which version of its series the directory was made as (see `runs.versions`); None in runs up to 0.13."""
    lineage: _NullableName = Field(default="", description="a name of one line")
    """The name that series have in common which tables show as one system."""
    changed: Annotated[tuple[str, ...], BeforeValidator(_texts)] = ()
    """What changed from the version before, in a few words each."""
    changed_from: _AnyText = ""
    """The name of that version's directory."""
    reuses: bool | None = Field(default=None, description="true or false")
    """Whether steps of other runs may be taken; None in runs up to 0.13, which took none."""
    shares_sampled: Annotated[bool, BeforeValidator(lambda value: value is True)] = False
    """Whether sampled steps were taken from runs of other systems (`--share-sampled`)."""
    recorded_command: _AnyText = Field(default="", alias="command")
    """As it is recorded: use `command` to show it."""
    embedded: _Truth = False
    """Whether the embedded model played."""
    demo: _Truth = False
    """Whether the scripts of `cts demo` played."""
    fixed_temperature: Any = None
    """The temperature of fixed roles whose model's entry has none; None in runs of versions up to 0.11."""

    @property
    def raw_identity(self) -> Mapping[str, Any]:
        """The identity as JSON, to be compared or shown."""
        return as_object(self.raw.get("identity"))

    @property
    def has_identity(self) -> bool:
        return "identity" in self.raw

    @property
    def raw_sessions(self) -> Sequence[Any]:
        """The sessions as JSON, malformed ones included, to be written again with one more."""
        sessions: Sequence[Any] = self.raw.get("sessions", [])
        return sessions

    @property
    def system(self) -> str:
        """The system's name; that of the directory if none is recorded."""
        return self.identity.system or self.directory.name

    @property
    def k(self) -> int | None:
        """The budget of questions; of judged candidates the one in their name. None if unknown."""
        if self.kind == "judged":
            return named_system(self.system)[1] or None
        return self.identity.k

    @property
    def judge(self) -> str:
        """The scoring judge; "" for a run without judging."""
        return next(iter(self.identity.judges), "")

    @property
    def agent(self) -> str:
        """The model that searches; "" without a search."""
        return self.players.get("agent") or ""

    @property
    def is_gold_build(self) -> bool:
        """Whether `cts gold` made this directory."""
        return self.identity.system == GOLDBUILD

    @property
    def is_conversation(self) -> bool:
        """Whether `cts converse` made this run."""
        return self.identity.task == TALK

    @property
    def is_judged(self) -> bool:
        """Whether these are judged candidates. Their field may be null, as may any other."""
        return "candidates" in self.raw_identity

    @property
    def is_of_several_systems(self) -> bool:
        """Whether this is the folder that `cts judge` writes above several candidates' runs."""
        return isinstance(self.raw.get("systems"), list)

    @property
    def searches(self) -> bool:
        """False for conversations, and for a run that stops before the search (`--stop-after`)."""
        return not (self.is_conversation or self.identity.stop_after)

    @property
    def kind(self) -> RunKind:
        """What kind of run it is; results without a manifest are those of judged candidates."""
        if self.is_judged or not self.raw:
            return "judged"
        if self.is_conversation:
            return "talk"
        return "run"

    @property
    def caveat(self) -> Caveat:
        """Why the run's scores say nothing about a model; "" if they do."""
        if self.demo:
            return MADE_UP
        if self.embedded:
            return SMOKE_TEST
        return ""

    @property
    def restriction(self) -> str:
        """A sentence for whoever is about to publish what is made of the run; "" if its data's text may be published."""
        if not self.data.restriction:
            return ""
        return f"{cut_end(self.data.restriction, _RESTRICTION_CHARS)}. {_KEEP_TEXTS}"

    @property
    def n_absent(self) -> int:
        """Instances of the gold that judged candidates have no answer for: nothing is missing for them."""
        if self.n_answers is None:
            return 0
        return max(0, self.n_expected - self.n_answers)

    @property
    def wall_s(self) -> float:
        """Seconds that all sessions took, as far as they are recorded."""
        return sum(session.wall_s for session in self.sessions)

    @property
    def started(self) -> str:
        """When the first session began; "" if unknown."""
        if not self.sessions:
            return ""
        return self.sessions[0].start

    @property
    def last_session(self) -> Session:
        if not self.sessions:
            return Session()
        return self.sessions[-1]

    @property
    def command(self) -> str:
        """The command, quoted so that a shell takes it for one command of `cts`; "" for anything else.

        The manifest may come from anywhere, and the command is shown to be copied into a shell.
        """
        return shell_command(self.recorded_command)

    @property
    def data_files(self) -> list[str]:
        """Paths of gold and queries: the gold that is recorded or that `cts judge` was given, then the queries."""
        paths = [self.data.gold, *_gold_options(self.recorded_command), self.data.path]
        return list(dict.fromkeys(path for path in paths if path))

    @property
    def gold_digest(self) -> str:
        """The sha256 of the file that holds the nuggets; "" if unknown.

        A dataset whose queries carry their nuggets has no gold file of its own.
        """
        return self.gold_sha256 or self.identity.data.sha256

    @property
    def gold_sha256(self) -> str:
        """The sha256 of the gold's own file; "" without one."""
        return self.identity.data.gold_sha256 or self.identity.gold_sha256


def shell_command(recorded: str) -> str:
    """A recorded command as text for a shell; "" for anything but one command of `cts`."""
    if len(recorded) > MAX_COMMAND or not is_one_line(recorded):
        return ""
    try:
        words = shlex.split(recorded)
    except ValueError:
        return ""
    if words[:1] != ["cts"]:
        return ""
    return shlex.join(words)


def _gold_options(command: str) -> Iterator[str]:
    """The files that the options --gold and --gold_a of a command name."""
    try:
        words = shlex.split(command[:MAX_COMMAND])
    except ValueError:
        return
    for place, word in enumerate(words):
        if word in ("--gold", "--gold_a"):
            yield from words[place + 1 : place + 2]
        elif word.startswith(("--gold=", "--gold_a=")):
            yield word.partition("=")[2]


def name_of_data(manifests: Iterable[Manifest]) -> str:
    """The name of the data that runs have in common: the first that is recorded, "" if none is."""
    for manifest in manifests:
        if manifest.identity.data.name:
            return manifest.identity.data.name
    return ""


def named_system(name: str) -> tuple[str, int]:
    """Split the name of a file of answers into system and budget: ("ebk1", 1) for the release's ebk1__cand_hard518.

    The budget is 0 if the name does not end in k and a digit, behind which prompts may be named (gpt-k3@short).
    """
    system = name.split("__cand")[0] or name
    budget = re.search(r"k([1-9])(?:@[\w-]+)?$", system)
    return system, int(budget[1]) if budget else 0


# --- Reading

_READER: Final = TypeAdapter(Manifest)


def read_manifest(directory: Path) -> Manifest | None:
    """The manifest, or None where the directory has no run yet.

    Raises InputError, which names a field of another form, such as `identity.k`.
    """
    path = directory / MANIFEST
    try:
        content = read_file(path, MAX_MANIFEST_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise InputError(path, f"not a manifest ({error.strerror}){_DAMAGED}") from None
        if error.errno in (errno.EINVAL, errno.EISDIR):
            raise InputError(path, "not a manifest (no regular file); move it aside") from None
        raise
    try:
        raw = foreign_json.loads(content)
    except ValueError as error:
        raise InputError(path, f"not a manifest ({error}){_DAMAGED}") from None
    if not isinstance(raw, dict):
        raise InputError(path, f"not a manifest (no JSON object){_DAMAGED}")
    try:
        return _READER.validate_python({**raw, "raw": raw, "directory": directory})
    except ValidationError as error:
        name, description = _field_at(error.errors(include_input=False)[0]["loc"])
        raise InputError(path, f"has to be {description}", field=name) from None


def require_manifest(directory: Path) -> Manifest:
    """The manifest of a run. Raises InputError, also where the directory has none."""
    manifest = read_manifest(directory)
    if manifest is None:
        raise InputError(directory, f"not a run directory: {MANIFEST} not found")
    return manifest


def manifest_or_empty(directory: Path) -> Manifest:
    """The manifest; one without fields where the directory has no run yet. Raises InputError as `read_manifest`."""
    return read_manifest(directory) or Manifest(directory=directory)


def manifest_of(directory: Path) -> Manifest:
    """A directory's manifest; one without fields if it is missing or damaged."""
    if directory.is_dir():
        with suppress(InputError):
            return manifest_or_empty(directory)
    return Manifest(directory=directory)


def tolerant_manifest(raw: Mapping[str, Any], directory: Path) -> Manifest:
    """A manifest of which every field of another form counts as absent."""
    fields = {**raw, "raw": raw, "directory": directory}
    return _READER.validate_python(fields, context=_TOLERANT)


# --- Which field is at fault

_ENTRIES: Final = {"players": f"a name of one line, at most {MAX_NAME:,} characters"}
"""What an entry of an object has to be, for the objects whose entries are named in messages."""
_ENTRY_CHARS: Final = 60
"""Of an entry's own name in a message: it is a stranger's."""


def _field_at(places: tuple[int | str, ...]) -> tuple[str, str]:
    """The dotted name of the field in which a mistake is, as far as it is described, and what it has to be."""
    part: Any = Manifest
    names: list[str] = []
    description = ""
    for place in map(str, places):
        field = getattr(part, "__pydantic_fields__", {}).get(place)
        if field is None:
            break
        names.append(place)
        description = field.description
        part = field.annotation
    name = ".".join(names)
    if len(places) == len(names) or name not in _ENTRIES:
        return name, description
    entry = str(places[len(names)])[:_ENTRY_CHARS]
    entry = "".join(char if char.isprintable() else "?" for char in entry)
    return f"{name}.{entry}", _ENTRIES[name]
