"""Role prompts: plain files, loaded, strictly rendered and hashed.

A file `ROLE[.small].LANGUAGE.txt`, `agent.native.txt` or `agent.tongyi.txt`, has a `## system` and a `## user` section
with `{field}` placeholders; only its role's declared fields are placeholders, any other brace is text. A `## user`
section alone sends no system message. In an agent's prompt `{tools}` stands for the lines that describe its tools, which
are part of the prompt and of its hash; a user's folder may have lines of its own in `tools.jsonl`. A placeholder alone
between `<tag>` and `</tag>` holds data: no value can open or close one of these tags (`fence`).

The roles that a default `cts run` plays have a `.small` prompt, which fits the embedded model; it gets the ordinary
prompt in all other roles.

A user's folder has the same files, or only those that differ: `--prompts DIR` replaces them for every role of a run,
`--prompts NAME=DIR` (or `[prompts]` in cts.toml) for the roles that `MODEL@NAME` plays. A named prompt keeps that name
in everything that is recorded (`clarify.en@short`). Such a folder may be anybody's: only files that are called like
prompts are read, never through a link.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal

from cts_async.config import VARIANT, CommandConfig, RunConfig, SearchConfig, variant_of
from cts_async.errors import InputError, UsageError, closest, cut_end
from cts_async.foreign_json import as_object, as_text, loads
from cts_async.llm.catalog import Catalogue
from cts_async.llm.escaping import harmless
from cts_async.llm.json_text import THOUGHT_TAGS
from cts_async.records import AgentPrompt, JudgeForm, Language, language_of
from cts_async.safe_files import open_file
from cts_async.search.confidence import REQUEST
from cts_async.search.toolbox import Toolbox, every_tool, open_toolbox

__all__ = [
    "FIELDS",
    "JUDGE_PROMPTS",
    "Prompt",
    "PromptSet",
    "choose_prompts",
    "load_prompts",
    "open_prompts",
    "parse_prompt",
    "prompt_files",
    "read_folder",
    "read_prompt",
    "read_tool_lines",
    "remarks_on",
    "remarks_on_agent",
    "shipped_folder",
]

Size = Literal["full", "small"]

_TURN_FIELDS: Final = ("conversation", "blurred_query", "k")

FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "clarify": ("blurred_query", "k"),
    "answer": ("clear_query", "clarification_question"),
    "answer_yes_no": ("clear_query", "clarification_question"),
    "rewrite": ("blurred_query", "qa_pairs"),
    "judge": ("query", "nuggets", "candidate_answer"),
    "match": ("query", "correct_answer", "candidate_answer"),
    "gold": ("query", "answer", "sources"),
    "agent": ("current_date", "question"),
    "visit": ("goal", "page"),
    "standard": _TURN_FIELDS,
    "standard_queries": _TURN_FIELDS,
    "at_standard": _TURN_FIELDS,
    "at_standard_queries": _TURN_FIELDS,
    "cot": _TURN_FIELDS,
    "cot_queries": _TURN_FIELDS,
    "at_cot": _TURN_FIELDS,
    "at_cot_queries": _TURN_FIELDS,
    "respond": ("clear_query", "conversation", "clarification_question"),
    "select_query": ("clear_query", "conversation", "offered_queries"),
    "reformulate": ("conversation",),
}
"""The fields of each role's prompt: all of them have to be given, and no others."""

JUDGE_PROMPTS: Final[Mapping[JudgeForm, str]] = {"nuggets": "judge", "match": "match"}
"""The prompt that a judge is asked with, by the form of judging."""

MAX_BYTES: Final = 128 << 10
"""Of a user's prompt, which is sent with every call: 40 times the longest one shipped."""

TOOLS_FILE: Final = "tools.jsonl"
"""Of a user's folder: how its agent's prompts describe tools."""

NO_LINES: Final[Mapping[str, str]] = MappingProxyType({})

AS_PUBLISHED_FOLDER: Final = "as_published"
"""Of the shipped prompts: those that differ in a run as published."""

FOLDERS_BY_TOOLS: Final[Mapping[tuple[str, ...], str]] = {(): "without_tools", ("ask",): "only_ask"}
"""Of the shipped prompts: those of an agent that cannot search, by the names of its tools."""

_EVERY_FIELD: Final = frozenset().union(*FIELDS.values())
_PACKAGE: Final = Path(__file__).parents[1]
_HEADER = re.compile(r"^## (system|user)[ \t]*$", re.MULTILINE)
_NAME = re.compile(r"(?P<role>[a-z_]+)(?:(?:\.small)?\.(?:en|zh)|(?<=agent)\.(?:native|tongyi))")


@dataclass(frozen=True, slots=True)
class Prompt:
    """One role's prompt in one language and size."""

    name: str
    """The file's name without `.txt`; a variant's is followed by its name (`clarify.en@short`)."""
    path: Path
    text: str
    sha256: str
    fields: frozenset[str]
    sections: tuple[tuple[str, tuple[str, ...]], ...]
    """Pairs (role of the message, texts and field names alternating), in the order of the file."""
    fence: frozenset[str]
    """The tags that no value may open or close."""

    @property
    def role(self) -> str:
        return _role_of(self.name)

    @property
    def language(self) -> str:
        """ "en" or "zh"; "native" or "tongyi" of the agent's that serve all languages."""
        return self.path.stem.rpartition(".")[2]

    @property
    def variant(self) -> str:
        """The name of the user's prompts that it belongs to; "" for the shipped ones and for those of all roles."""
        return self.name.partition("@")[2]

    @property
    def unfenced(self) -> list[str]:
        """Fields with untrusted text that are not alone between tags. The agent's query is a message of its own."""
        if self.role == "agent":
            return []
        untrusted = sorted(self.fields - {"k", "current_date"})
        return [name for name in untrusted if not re.search(_fenced_pattern(name), self.text)]

    def render(self, **fields: object) -> tuple[dict[str, str], ...]:
        """The messages, system first. Raises ValueError for a missing or unknown field."""
        if fields.keys() != self.fields:
            raise ValueError(f"prompt {self.name}: {_difference(self.fields, frozenset(fields))}")
        values: dict[str, str] = {}
        for name, value in fields.items():
            values[name] = harmless(str(value), self.fence)
        messages = []
        for role, parts in self.sections:
            # Filled in here, not by a function of its own: every judged candidate passes.
            content = parts[0]
            if len(parts) > 1:
                texts = list(parts)
                for i in range(1, len(texts), 2):
                    texts[i] = values[texts[i]]
                content = "".join(texts)
            messages.append({"role": role, "content": content})
        return tuple(messages)

    def chars_before(self, field: str, **fields: object) -> int:
        """How many characters the last message of `render` has before a field; 0 if the field is not in it."""
        _, parts = self.sections[-1]
        n_chars = 0
        for i, part in enumerate(parts):
            if i % 2 == 0:
                n_chars += len(part)
            elif part == field:
                return n_chars
            else:
                n_chars += len(harmless(str(fields[part]), self.fence))
        return 0


@dataclass(frozen=True, slots=True)
class PromptSet:
    """The prompts of all roles, by the name of their file without `.txt`."""

    directory: Path
    prompts: Mapping[str, Prompt]
    own: frozenset[str] = frozenset()
    """Those that a user's folder changes; it is `directory` then."""
    variants: Mapping[str, PromptSet] = field(default_factory=dict)

    def of(self, player: str) -> PromptSet:
        """The prompts of a player: those called `short` for `gpt@short`, else these."""
        _, variant = variant_of(player, self.variants)
        return self.variants[variant] if variant else self

    def of_role(self, role: str, agent: AgentPrompt = "query") -> list[Prompt]:
        """The prompts that a role may get, in all languages and sizes; the agent's by `agent`."""
        endings: tuple[str, ...] = ("",)
        if role == "agent":
            endings = (".en", ".zh") if agent == "query" else (f".{agent}",)
        prompts = []
        for name, prompt in self.prompts.items():
            if _role_of(name) == role and name.endswith(endings):
                prompts.append(prompt)
        return prompts

    def over(self, base: PromptSet) -> PromptSet:
        """`base` with those of these prompts that differ. A full one hides the small one of `base`, too."""
        prompts, changed = dict(base.prompts), set()
        for name, prompt in self.prompts.items():
            if name in base.prompts and base.prompts[name].sha256 == prompt.sha256:
                continue
            changed.add(name)
            prompts[name] = prompt
            # Otherwise the embedded model would be given the shipped prompt in place of the user's.
            small = name.replace(".", ".small.", 1)
            if small not in self.prompts:
                prompts.pop(small, None)
        return replace(self, prompts=dict(sorted(prompts.items())), own=frozenset(changed))

    def asking_confidence(self) -> PromptSet:
        """These prompts, whose agents are also asked how sure they are of their answers; variants, too."""
        prompts: dict[str, Prompt] = {}
        for name, prompt in self.prompts.items():
            if prompt.role == "agent":
                prompt = _with_confidence(prompt)
            prompts[name] = prompt
        variants = {name: variant.asking_confidence() for name, variant in self.variants.items()}
        return replace(self, prompts=prompts, variants=variants)

    def mark(self, *, clarifying: bool) -> str:
        """The suffix of a run's name: `+prompts-FOLDER` if a user's folder has prompts for the roles of the system."""
        roles = {_role_of(name) for name in self.own}
        if not clarifying:
            roles &= {"agent", "visit", "gold", *JUDGE_PROMPTS.values()}
        if not roles:
            return ""
        name = re.sub(r"[^\w.-]", "_", self.directory.resolve().name)
        return f"+prompts-{name}"

    def one_sided(self) -> Iterator[tuple[str, Language]]:
        """Roles whose prompt the user's folder changes in one language only, with the other language."""
        languages_by_role: dict[str, set[str]] = {role: set() for role in FIELDS}
        for name in self.own:
            languages_by_role[_role_of(name)].add(name.rpartition(".")[2])
        for role, languages in languages_by_role.items():
            if "en" in languages and "zh" not in languages:
                yield role, "zh"
            elif "zh" in languages and "en" not in languages:
                yield role, "en"

    @property
    def sha256(self) -> dict[str, str]:
        """The hash of each prompt's text, by its name (`clarify.en`)."""
        return {name: prompt.sha256 for name, prompt in self.prompts.items()}

    def text(self, name: str) -> str:
        """The file's text. Raises KeyError for an unknown name."""
        return self.prompts[name].text

    def get(self, role: str, language: Language | Literal["native", "tongyi"], size: Size = "full") -> Prompt:
        """The prompt of `role`: the small one if there is one, else the full one, but never in another language.

        The agent's "native" and "tongyi" prompts serve all languages. InputError names the file that is missing.
        """
        name = f"{role}.{language}"
        prompt = None
        if size == "small":
            prompt = self.prompts.get(f"{role}.small.{language}")
        if prompt is None:
            prompt = self.prompts.get(name)
        if prompt is None:
            raise InputError(self.directory / f"{name}.txt", f"there is no {language!r} prompt for {role!r}")
        return prompt

    def agent(self, choice: AgentPrompt, query: str, size: Size = "full") -> Prompt:
        """The deep-search agent's prompt by `choice` (`records.AGENT_PROMPTS`) for a search of `query`."""
        return self.get("agent", language_of(query) if choice == "query" else choice, size)


def load_prompts(directory: Path | None = None, toolbox: Toolbox | None = None) -> PromptSet:
    """Read every prompt of `directory`; by default those shipped in the package, else the repository's.

    The agent's describe the tools of `toolbox`; by default the usual ones.

    InputError names an invalid file, or a directory without prompts.
    """
    directory = directory or shipped_folder()
    files = sorted(directory.glob("*.txt"))
    if not files:
        raise InputError(directory, _NO_PROMPTS)
    prompts = {path.stem: parse_prompt(path, path.read_bytes(), toolbox=toolbox) for path in files}
    return PromptSet(directory, prompts)


def shipped_folder() -> Path:
    """The folder of the shipped prompts: in the package, or in the repository."""
    packaged = _PACKAGE / "_prompts"
    return packaged if packaged.is_dir() else _PACKAGE.parent / "prompts"


# --- A user's prompts


def choose_prompts(
    config: CommandConfig, catalogue: Catalogue, toolbox: Toolbox | None = None
) -> tuple[PromptSet, Catalogue]:
    """The prompts of a command, and the catalogue with the names that may follow a model's.

    The agent's describe the tools of `toolbox`; None: those of the configuration.

    Of the variants only those are read that a player of `config` is named with. Raises UsageError, InputError.
    """
    _, folders = _read_options(config.prompts)
    catalogue = replace(catalogue, prompts=dict(catalogue.prompts) | folders)
    used: set[str] = set()
    for player in config.players:
        _, variant = variant_of(player, catalogue.prompts)
        if variant:
            used.add(variant)
    for name in folders:
        if name not in used:
            raise UsageError(f"--prompts {name}=...: nobody uses them; name them with a model: gpt@{name}")
    as_published = isinstance(config, RunConfig) and config.as_published
    if toolbox is None and isinstance(config, SearchConfig):
        toolbox = open_toolbox(config.tools)
    used_folders = {name: catalogue.prompts[name] for name in sorted(used)}
    prompts = open_prompts(config.prompts, used_folders, as_published=as_published, toolbox=toolbox)
    return prompts, catalogue


def open_prompts(
    options: Sequence[str],
    folders: Mapping[str, Path],
    *,
    as_published: bool = False,
    toolbox: Toolbox | None = None,
) -> PromptSet:
    """The shipped prompts with those of the user's over them: as `--prompts` gives them, and folders by variant.

    `as_published` takes the shipped prompts that say no more than the paper's; the agent's describe the tools of
    `toolbox`, by default the usual ones. Raises UsageError, InputError.
    """
    base = load_prompts(toolbox=toolbox)
    shipped: list[str] = []
    if as_published:
        shipped.append(AS_PUBLISHED_FOLDER)
    if toolbox is not None and toolbox.names in FOLDERS_BY_TOOLS:
        shipped.append(FOLDERS_BY_TOOLS[toolbox.names])
    for folder in shipped:
        # They are no user's: `own` and the folder, which name a run, stay as they are.
        changed = load_prompts(shipped_folder() / folder, toolbox).over(base)
        base = replace(base, prompts=changed.prompts)
    folder_of_all, folders_by_option = _read_options(options)
    if folder_of_all is not None:
        base = read_folder(folder_of_all, toolbox=toolbox).over(base)
    variants = {}
    # An option goes before the folder that a cts.toml has under the same name.
    for name, variant_folder in (dict(folders) | folders_by_option).items():
        variants[name] = read_folder(variant_folder, name, toolbox).over(base)
    return replace(base, variants=variants)


def _read_options(options: Sequence[str]) -> tuple[Path | None, dict[str, Path]]:
    """The folder for all roles, and those by variant, as `--prompts` gives them. Raises UsageError."""
    folder_of_all, folders = None, dict[str, Path]()
    for option in options:
        name, sign, folder = option.partition("=")
        # A path may have a sign of equality, too.
        if sign and VARIANT.fullmatch(name):
            if name in folders:
                raise UsageError(f"--prompts {option}: {name} is given twice")
            folders[name] = Path(folder)
        elif folder_of_all is not None:
            raise UsageError(
                f"--prompts {option}: {folder_of_all} is for all roles already; name one of them: NAME=DIR"
            )
        else:
            folder_of_all = Path(option)
        if not (folder if sign else option).strip():
            raise UsageError(f"--prompts {option}: write it as DIR, or as NAME=DIR")
    return folder_of_all, folders


def read_folder(directory: Path, variant: str = "", toolbox: Toolbox | None = None) -> PromptSet:
    """The prompts of a user's folder; other files in it are ignored. Raises InputError with the first mistake."""
    files, tool_lines = prompt_files(directory), read_tool_lines(directory)
    prompts = {path.stem: read_prompt(path, variant, toolbox, tool_lines) for path in files}
    return PromptSet(directory, prompts, frozenset(prompts))


def prompt_files(directory: Path) -> list[Path]:
    """Files of a user's folder that are called like prompts, or nearly so. Raises InputError if there are none."""
    try:
        names = sorted(entry.name for entry in os.scandir(directory))
    except OSError as error:
        problem = error.strerror
        if isinstance(error, FileNotFoundError):
            problem = "no such folder"
        raise InputError(directory, f"{problem}: expected a folder of prompts (ROLE.LANGUAGE.txt)") from None
    # `clarify.en.text` is a prompt with a slip in its name, and reading it says so; a README is none.
    paths = [directory / name for name in names if name.endswith(".txt") or _role_of(name) in FIELDS]
    if not paths:
        raise InputError(directory, _NO_PROMPTS)
    return paths


def read_prompt(
    path: Path,
    variant: str = "",
    toolbox: Toolbox | None = None,
    tool_lines: Mapping[str, str] = NO_LINES,
) -> Prompt:
    """Read one file of a user's, which is no link and has at most MAX_BYTES. Raises InputError.

    `tool_lines` are those of its folder (`read_tool_lines`).
    """
    _check_name(path)
    return parse_prompt(path, _read_own(path), variant, toolbox, tool_lines)


def read_tool_lines(directory: Path) -> dict[str, str]:
    """The lines of a user's folder that describe tools in its agent's prompts, by the name of the tool.

    They stand in `tools.jsonl`, and go into a prompt as they are, in the place of ours; other tools keep ours. Empty
    without that file. Raises InputError.
    """
    path = directory / TOOLS_FILE
    if not os.path.lexists(path):
        return {}
    try:
        text = _read_own(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(path, f"is not UTF-8 text: {error.reason}") from None
    tool_names = every_tool().names
    lines: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        name = described_tool(line)
        if not name:
            form = '{"type": "function", "function": {"name": ..., ...}}'
            raise InputError(path, f"expected a JSON object: {form}", line=number)
        if name not in tool_names:
            near = closest(name, tool_names)
            hint = f"there are {', '.join(tool_names)}"
            if near:
                hint = f"did you mean {near!r}?"
            raise InputError(path, f"no tool is called {cut_end(name, 40)!r}; {hint}", line=number)
        if name in lines:
            raise InputError(path, f"describes {name} twice", line=number)
        lines[name] = line.strip()
    return lines


def described_tool(line: str) -> str:
    """The name of the tool that a line describes; "" if it describes none."""
    try:
        described = as_object(loads(line))
    except ValueError:
        return ""
    return as_text(as_object(described.get("function")).get("name")) or ""


def _read_own(path: Path) -> bytes:
    """The content of a user's file, which is no link and has at most MAX_BYTES. Raises InputError."""
    try:
        # The folder itself may be reached through a link: it was named by the user.
        real_path = Path(os.path.realpath(path.parent), path.name)
        with os.fdopen(open_file(real_path, os.O_RDONLY), "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(path, f"cannot be read: {error.strerror or error}") from None
    if len(data) > MAX_BYTES:
        raise InputError(path, f"is longer than {MAX_BYTES >> 10} KiB, which would be sent with every call")
    return data


def remarks_on(prompts: PromptSet, languages: Iterable[Language] = ("en", "zh")) -> Iterator[str]:
    """What a user should know of prompts that are in order: which of the `languages` a folder does not cover."""
    for folder in chain([prompts], prompts.variants.values()):
        for role, language in folder.one_sided():
            if language in languages:
                text = f"{folder.directory}: changes the prompt {role!r} in one language only"
                yield f"{text}; where the language is {language!r}, the usual one is used"


def remarks_on_agent(prompts: PromptSet, choice: AgentPrompt) -> Iterator[str]:
    """Say where a user's folder has prompts of the agent, and none that it is given by `choice`."""
    own = {name for name in prompts.own if _role_of(name) == "agent"}
    used = [prompt.name.partition("@")[0] for prompt in prompts.of_role("agent", choice)]
    if own and own.isdisjoint(used):
        yield (
            f"{prompts.directory}: changes {', '.join(sorted(own))}, but the agent is given {', '.join(used)}; another "
            "--agent or --agent-prompt may have been meant"
        )


# --- Files

_NO_PROMPTS: Final = "holds no prompts (ROLE.LANGUAGE.txt)"


def _role_of(name: str) -> str:
    return name.partition(".")[0]


def _check_name(path: Path) -> None:
    """Raise InputError unless a file is called like a prompt of one of our roles."""
    name = _NAME.fullmatch(path.name.removesuffix(".txt"))
    if name is not None and name["role"] in FIELDS and path.suffix == ".txt":
        return
    names = ["agent.native.txt", "agent.tongyi.txt"]
    for role in FIELDS:
        names += [f"{role}.en.txt", f"{role}.zh.txt"]
    near = closest(path.name, names)
    problem = f"expected ROLE[.small].en|zh.txt with a role of {', '.join(FIELDS)}"
    if near:
        problem = f"is no prompt's name; did you mean {near!r}? {problem}"
    raise InputError(path, problem)


def parse_prompt(
    path: Path,
    data: bytes,
    variant: str = "",
    toolbox: Toolbox | None = None,
    tool_lines: Mapping[str, str] = NO_LINES,
) -> Prompt:
    """Read the content of a prompt's file. Raises InputError with its first mistake."""
    _check_name(path)
    try:
        # Line ends are those of the editor: they are no part of the text that is hashed and sent.
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(path, f"is not UTF-8 text: {error.reason}", line=line) from None
    if _role_of(path.stem) == "agent":
        text = _with_tools(path, text, toolbox or open_toolbox(), tool_lines)
    return _parse_text(path, text, variant)


# A process that starts several commands reads the same files for each of them.
@lru_cache(maxsize=256)
def _parse_text(path: Path, text: str, variant: str) -> Prompt:
    """Read the text of a prompt. Raises InputError with its first mistake."""
    role = _role_of(path.stem)
    fields = FIELDS[role]
    before, *sections = _HEADER.split(text)
    headers, contents = sections[::2], sections[1::2]
    if before.strip() or headers not in (["system", "user"], ["user"]):
        raise InputError(
            path, "expected exactly a '## system' and then a '## user' section, or the second alone"
        )
    for line, content in enumerate(text.split("\n"), 1):
        for name in re.findall(r"\{\s*([A-Za-z_]+)\s*\}", content):
            _check_field(path, line, role, name, f"{{{name}}}" in content)
    placeholder = re.compile(rf"\{{({'|'.join(fields)})\}}")
    parsed, used = [], set()
    for header, content in zip(headers, contents, strict=True):
        parts = placeholder.split(content.strip())
        parsed.append((header, tuple(parts)))
        used.update(parts[1::2])
    if used != set(fields):
        raise InputError(path, _difference(frozenset(fields), frozenset(used)))
    name = f"{path.stem}@{variant}" if variant else path.stem
    digest = hashlib.sha256(text.encode()).hexdigest()
    return Prompt(name, path, text, digest, frozenset(fields), tuple(parsed), _fence(text, fields))


_TOOLS_PLACE: Final = "{tools}"


def _with_tools(path: Path, text: str, toolbox: Toolbox, tool_lines: Mapping[str, str]) -> str:
    """The agent's prompt with the lines of its tools. Raises InputError if it has its own of others.

    A prompt that names the usual tools itself is one of before there were others.
    """
    if _TOOLS_PLACE in text:
        return text.replace(_TOOLS_PLACE, toolbox.prompt_lines(path.stem, tool_lines))
    if toolbox.is_default or not toolbox.tools:
        return text
    names = ",".join(toolbox.names)
    raise InputError(
        path, f"describes tools of its own: write {_TOOLS_PLACE} in their place for --tools {names}"
    )


def _with_confidence(prompt: Prompt) -> Prompt:
    """An agent's prompt that asks for a confidence, at the end of its system message."""
    language: Language = "zh" if prompt.language == "zh" else "en"
    _, user_header = _HEADER.finditer(prompt.text)
    system, user = prompt.text[: user_header.start()], prompt.text[user_header.start() :]
    text = f"{system.rstrip()}\n\n{REQUEST[language]}\n{user}"
    return _parse_text(prompt.path, text, prompt.variant)


def _check_field(path: Path, line: int, role: str, name: str, exact: bool) -> None:
    """Refuse a placeholder that is another role's field, or nearly one of this role's; any other brace is text."""
    fields = FIELDS[role]
    if exact and name in fields:
        return
    near = closest(name, fields)
    if near or name in _EVERY_FIELD:
        hint = f"; did you mean {{{near}}}?" if near else ";"
        has = ", ".join(f"{{{field}}}" for field in fields)
        raise InputError(path, f"unknown field {name}{hint} {role} has {has}", line=line)


def _fence(text: str, fields: tuple[str, ...]) -> frozenset[str]:
    """The tags that no value may open or close: those around a field, and where there are any, those of thoughts."""
    tags = frozenset(match[1] for match in re.finditer(_fenced_pattern("|".join(fields)), text))
    if not tags:
        return tags
    # A quoted `</think>` would turn everything before it, such as a verdict, into a thought.
    return tags | THOUGHT_TAGS


def _fenced_pattern(names: str) -> str:
    """The pattern of one of the fields `a|b` alone between tags."""
    return rf"<(\w+)>\s*\{{(?:{names})\}}\s*</\1>"


def _difference(expected: frozenset[str], fields: frozenset[str]) -> str:
    """`missing field a; unknown field b`"""
    problems = []
    for name in sorted(expected - fields):
        problems.append(f"missing field {name}")
    for name in sorted(fields - expected):
        problems.append(f"unknown field {name}")
    return "; ".join(problems)
