"""Takes prompts and descriptions of tools from a clone of a published agent, and makes a folder of prompts of them.

Nothing of the agents' texts is shipped: a user has a clone, whose licence allows it. Its Python files are read as data:
parsed, never imported or executed; only string constants count. A clone may be anybody's, so no link in it is followed,
and its files have a largest size. Each text is compared with the digests in `prompt_import.toml`.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import string
import tomllib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import orjson

from cts_async import __version__
from cts_async.errors import InputError, cut_end
from cts_async.protocol.prompts import FIELDS, TOOLS_FILE, described_tool, parse_prompt
from cts_async.safe_files import open_file
from cts_async.search.toolbox import every_tool

MAX_SOURCE_BYTES: Final = 256 << 10
"""Of a Python file of a clone: twenty times the longest one that is read."""
RECORD: Final = "imported.json"
"""The file of the new folder that says where its texts come from."""
_KNOWN: Final = Path(__file__).with_name("prompt_import.toml")
_DATE: Final = "{current_date}"


@dataclass(frozen=True, slots=True)
class ImportedText:
    """A text of a clone: what it is, its file below the clone, and whether its digest is known."""

    part: str
    """"system", "question", "extractor", or the name of a tool."""
    file: str
    text: str
    known: bool = False

    @property
    def sha256(self) -> str:
        """The digest of the text, in UTF-8."""
        return hashlib.sha256(self.text.encode(errors="surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class ImportedPrompts:
    """The files of a new folder of prompts, by name, and what they were made of."""

    source: str
    files: Mapping[str, bytes]
    texts: Sequence[ImportedText]
    left_out: Sequence[str] = ()
    """Tools that the clone describes and this package does not have."""

    @property
    def changed(self) -> list[ImportedText]:
        """The texts whose digest is not known."""
        return [text for text in self.texts if not text.known]


def sources() -> list[str]:
    """The published agents whose texts can be taken."""
    return list(_READERS)


def repository_of(source: str) -> str:
    """The address of the public repository of a published agent."""
    return str(_known_texts(source)["repository"])


def read_clone(source: str, clone: Path) -> ImportedPrompts:
    """Take the texts of a published agent from a clone. Raises InputError with file, line and what was looked for."""
    read = _READERS[source]
    imported = read(_Clone(clone, source))
    digests = _known_texts(source)["sha256"]
    texts: list[ImportedText] = []
    for text in imported.texts:
        texts.append(ImportedText(text.part, text.file, text.text, text.sha256 in digests.get(text.part, ())))
    files = dict(imported.files)
    for name, data in files.items():
        if name.endswith(".txt"):
            try:
                parse_prompt(Path(name), data)
            except InputError as error:
                raise InputError(clone, f"its texts make no prompt {name}: {error.problem}") from None
    imported = ImportedPrompts(source, files, texts, imported.left_out)
    files[RECORD] = _record(imported)
    return imported


def _record(imported: ImportedPrompts) -> bytes:
    texts = []
    for text in imported.texts:
        texts.append({"part": text.part, "file": text.file, "sha256": text.sha256, "known": text.known})
    written: dict[str, str] = {}
    for name, data in imported.files.items():
        written[name] = hashlib.sha256(data).hexdigest()
    record = {
        "source": imported.source,
        "repository": repository_of(imported.source),
        "cts_version": __version__,
        "texts": texts,
        "files": written,
    }
    return orjson.dumps(record, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


@lru_cache
def _known_texts(source: str) -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads(_KNOWN.read_text("utf-8"))[source]
    return table


# --- The published agents


def _read_webdancer(clone: _Clone) -> ImportedPrompts:
    """WebDancer's demo: Qwen-Agent, a package of its own, writes the list of tools below the system message."""
    chat = clone.python("assistant_qwq_chat.py")
    system = chat.text(
        "system", "the text assigned to system_message", _assigned("system_message"), dated=True
    )
    question = chat.text("question", "the text given as custom_user_prompt", _keyword("custom_user_prompt"))
    visit = clone.python("tools/private/visit.py")
    extractor = visit.text(
        "extractor", "the text assigned to extractor_prompt", _assigned("extractor_prompt")
    )
    tools = [clone.python("tools/private/search.py").tool("search"), visit.tool("visit")]
    for imported in (system, question):
        _check_form(imported.text, "agent", imported)
    agent = _agent_prompt(f"{system.text}{_TOOLS_SECTION}", f"{question.text}{{question}}")
    files = {"agent.native.txt": agent} | _extractor_files(extractor) | {TOOLS_FILE: _lines(tools)}
    return ImportedPrompts(clone.source, files, [system, question, extractor, *tools])


_TOOLS_SECTION: Final = """

# Tools

You may call the functions described between <tools> and </tools>, one JSON object a line:
<tools>
{tools}
</tools>

A call is one JSON object with `name` and `arguments` between <tool_call> and </tool_call>."""
"""Our own words for what Qwen-Agent writes there: they are in no clone of the agent."""


def _read_tongyi(clone: _Clone) -> ImportedPrompts:
    """Tongyi DeepResearch: the tools stand in the system message, in later versions each in its own file."""
    prompt = clone.python("prompt.py")
    extractor = prompt.text(
        "extractor", "the text assigned to EXTRACTOR_PROMPT", _assigned("EXTRACTOR_PROMPT")
    )
    tools: list[ImportedText] = []
    left_out: list[str] = []
    if prompt.has_text(_assigned("SYSTEM_PROMPT")):
        whole = prompt.text("system", "the text assigned to SYSTEM_PROMPT", _assigned("SYSTEM_PROMPT"))
        described = _TOOL_LIST.search(whole.text)
        if described is None:
            raise InputError(prompt.path, "SYSTEM_PROMPT has no list of tools between <tools> and </tools>")
        for line in _TOOL_START.split(described[0])[1:]:
            name = _TOOL_NAME.search(line)
            if name is None or name[1] not in every_tool().names:
                left_out.append(name[1] if name else "a tool without a name")
            elif described_tool(line) != name[1]:
                raise InputError(prompt.path, f"the description of {name[1]} in SYSTEM_PROMPT is not JSON")
            else:
                tools.append(ImportedText(name[1], prompt.file, line.strip()))
        text = whole.text[: described.start()] + "{tools}" + whole.text[described.end() :]
    else:
        template = "SYSTEM_PROMPT or SYSTEM_PROMPT_TEMPLATE"
        whole = prompt.text("system", f"the text assigned to {template}", _assigned("SYSTEM_PROMPT_TEMPLATE"))
        if _TOOLS_MARK not in whole.text:
            raise InputError(prompt.path, f"SYSTEM_PROMPT_TEMPLATE has no {_TOOLS_MARK}")
        text = whole.text.replace(_TOOLS_MARK, "{tools}")
        for name_of_tool in ("search", "visit"):
            tools.append(clone.python(f"tool_{name_of_tool}.py").tool(name_of_tool))
    if not tools:
        raise InputError(prompt.path, "SYSTEM_PROMPT describes neither search nor visit")
    system = ImportedText("system", whole.file, text)
    _check_form(text, "agent", system)
    agent = _agent_prompt(f"{text}{_DATE}", "{question}")
    files = {"agent.tongyi.txt": agent} | _extractor_files(extractor) | {TOOLS_FILE: _lines(tools)}
    return ImportedPrompts(clone.source, files, [system, extractor, *tools], left_out)


_TOOL_LIST: Final = re.compile(r"(?<=<tools>\n).*?(?=\n</tools>)", re.DOTALL)
_TOOL_START: Final = re.compile(r'^(?=\{"type": "function")', re.MULTILINE)
"""Where a tool's description begins: one of them has line breaks in its JSON."""
_TOOL_NAME: Final = re.compile(r'"name": "(\w{1,40})"')
_TOOLS_MARK: Final = "__TOOL_DEFINITIONS__"

_READERS: Final[Mapping[str, Callable[[_Clone], ImportedPrompts]]] = {
    "webdancer": _read_webdancer,
    "tongyi": _read_tongyi,
}


# --- Prompts of their texts

_PLACEHOLDER: Final = re.compile(rf"\{{\s*({'|'.join(sorted(frozenset().union(*FIELDS.values())))})\s*\}}")
"""A field of any role's prompt, or nearly one."""
_SECTION: Final = re.compile(r"^## (?:system|user)[ \t]*$", re.MULTILINE)


def _agent_prompt(system: str, user: str) -> bytes:
    return f"## system\n{system.strip()}\n## user\n{user.strip()}\n".encode()


def _check_form(text: str, role: str, source: ImportedText) -> None:
    """Raise InputError for a text that would be read as a section or as a field of another role's prompt."""
    if _SECTION.search(text):
        raise InputError(source.file, f"its {source.part} text has a line that begins a section of a prompt")
    for field in _PLACEHOLDER.finditer(text):
        if field[1] not in FIELDS[role]:
            raise InputError(
                source.file, f"its {source.part} text has {field[0]}, which is a field of prompts here"
            )


def _extractor_files(extractor: ImportedText) -> dict[str, bytes]:
    """The prompt of the model that reads pages, for goals in both languages: it is a user's message alone."""
    fields = {"webpage_content": "{page}", "goal": "{goal}"}
    parts: list[str] = []
    n_fields = 0
    try:
        for text, field, form, conversion in string.Formatter().parse(extractor.text):
            parts.append(text)
            if field is not None:
                if field not in fields or form or conversion:
                    raise ValueError(f"unknown field {cut_end(field, 40)!r}")
                parts.append(fields[field])
                n_fields += 1
        if len(_PLACEHOLDER.findall("".join(parts))) != n_fields:
            raise ValueError("a field of prompts here is text there")
    except ValueError as error:
        expected = "expected {webpage_content} and {goal}, and all other braces twice"
        raise InputError(
            extractor.file, f"its extractor's text cannot be filled in: {error}; {expected}"
        ) from None
    text = "".join(parts)
    _check_form(text, "visit", extractor)
    data = f"## user\n{text.strip()}\n".encode()
    return {"visit.en.txt": data, "visit.zh.txt": data}


def _lines(tools: Sequence[ImportedText]) -> bytes:
    return "".join(f"{tool.text}\n" for tool in tools).encode()


# --- A clone's files

Finder = Callable[[ast.AST], Iterator[ast.expr]]


def _assigned(name: str) -> Finder:
    """Finds the values assigned to a name, anywhere in a module."""

    def find(tree: ast.AST) -> Iterator[ast.expr]:
        for node in ast.walk(tree):
            targets: Sequence[ast.expr] = ()
            value: ast.expr | None = None
            if isinstance(node, ast.Assign):
                targets, value = node.targets, node.value
            elif isinstance(node, ast.AnnAssign):
                targets, value = [node.target], node.value
            for target in targets:
                if isinstance(target, ast.Name) and target.id == name and value is not None:
                    yield value

    return find


def _keyword(name: str) -> Finder:
    """Finds the values given to a keyword argument, anywhere in a module."""

    def find(tree: ast.AST) -> Iterator[ast.expr]:
        for node in ast.walk(tree):
            if isinstance(node, ast.keyword) and node.arg == name:
                yield node.value

    return find


class _Clone:
    """The folder of a clone in which an agent's files are."""

    def __init__(self, clone: Path, source: str) -> None:
        """Raises InputError if this is no such clone."""
        self.source = source
        repository = repository_of(source)
        if not os.path.isdir(clone):
            problem = "is no folder" if os.path.lexists(clone) else "no such folder"
            raise InputError(clone, f"{problem}: expected a clone of {repository}")
        self._clone = clone
        # The clone itself may be reached through a link: it was named by the user.
        self._root = Path(os.path.realpath(clone))
        table = _known_texts(source)
        for place in table["places"]:
            if os.path.exists(self._root / place / table["first"]):
                self._place = str(place)
                return
        places = " and ".join(os.path.join(place, table["first"]) for place in table["places"])
        raise InputError(clone, f"is no clone of {repository}: looked for {places}")

    def python(self, name: str) -> _PythonFile:
        """Read and parse a file. Raises InputError."""
        file = os.path.join(self._place, name)
        path, real_path = self._clone / file, self._root / file
        try:
            # A link may stand for any of the folders between, too.
            if os.path.realpath(real_path) != str(real_path):
                raise InputError(path, "is reached through a link, which is not followed in a clone")
            with os.fdopen(open_file(real_path, os.O_RDONLY), "rb") as opened:
                data = opened.read(MAX_SOURCE_BYTES + 1)
        except FileNotFoundError:
            raise InputError(
                path, f"not found: is {self._clone} whole, and a clone of the repository?"
            ) from None
        except OSError as error:
            raise InputError(path, f"cannot be read: {error.strerror or error}") from None
        if len(data) > MAX_SOURCE_BYTES:
            raise InputError(
                path, f"is longer than {MAX_SOURCE_BYTES >> 10} KiB, which no file of the agent is"
            )
        return _PythonFile(path, Path(file).as_posix(), _parsed(path, data))


def _parsed(path: Path, data: bytes) -> ast.Module:
    try:
        source = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(path, f"is not UTF-8 text: {error.reason}", line=line) from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the parser, on somebody else's code
            return ast.parse(source)
    except SyntaxError as error:
        raise InputError(path, f"is no Python file: {error.msg}", line=error.lineno) from None
    except (ValueError, RecursionError, MemoryError):
        raise InputError(path, "is no Python file: it cannot be parsed") from None


@dataclass(frozen=True, slots=True)
class _PythonFile:
    path: Path
    file: str
    """Below the clone."""
    tree: ast.Module

    def has_text(self, find: Finder) -> bool:
        """Whether a value that is found is a text."""
        return self._first_text(find, dated=False) is not None

    def text(self, part: str, subject: str, find: Finder, *, dated: bool = False) -> ImportedText:
        """The first text that is found; if `dated`, `{current_date}` stands where it has a computed value.

        Raises InputError.
        """
        text = self._first_text(find, dated=dated)
        if text is not None:
            return ImportedText(part, self.file, text)
        line, problem = None, f"{subject} was looked for, and not found"
        for value in find(self.tree):
            line, problem = value.lineno, f"{subject} was looked for: this is no plain text"
        raise InputError(self.path, problem, line=line)

    def tool(self, name: str) -> ImportedText:
        """The line that describes a tool, of the class that has this name. Raises InputError."""
        for node in ast.walk(self.tree):
            if not isinstance(node, ast.ClassDef):
                continue
            values: dict[str, ast.expr] = {}
            for statement in node.body:
                if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                    values[statement.targets[0].id] = statement.value
            if "name" in values and _string_of(values["name"]) == name:
                return self._described(name, node.lineno, values)
        raise InputError(self.path, f"a class with name = {name!r} was looked for, and not found")

    def _described(self, name: str, line: int, values: Mapping[str, ast.expr]) -> ImportedText:
        function: dict[str, Any] = {"name": name}
        for field, kind in (("description", str), ("parameters", dict)):
            value = None
            if field in values:
                line = values[field].lineno
                try:
                    value = ast.literal_eval(values[field])
                except (ValueError, TypeError, RecursionError, MemoryError):
                    value = None
            if not isinstance(value, kind):
                raise InputError(
                    self.path, f"the {field} of {name} was looked for: expected a constant", line=line
                )
            function[field] = value
        try:
            # As Qwen-Agent writes it, and the later version of the program.
            text = json.dumps({"type": "function", "function": function}, ensure_ascii=False, allow_nan=False)
            text.encode()
        except (ValueError, TypeError, RecursionError):
            raise InputError(
                self.path, f"the parameters of {name} cannot be written as JSON", line=line
            ) from None
        return ImportedText(name, self.file, text)

    def _first_text(self, find: Finder, *, dated: bool) -> str | None:
        for value in find(self.tree):
            text = _string_of(value, dated=dated)
            if text is not None:
                return text
        return None


def _string_of(value: ast.expr, *, dated: bool = False) -> str | None:
    """The text of a string constant, or of constants that are joined; None for anything else, and for an empty one.

    With `dated` one computed value may stand in it: `{current_date}` stands there in the text.
    """
    parts: list[str] = []
    n_computed = 0
    # A stack, not a recursion: the operands of `a + b + c` are nested as deep as there are.
    operands: list[ast.expr] = [value]
    while operands:
        node = operands.pop()
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            parts.append(node.value)
        elif isinstance(node, ast.JoinedStr):
            operands += reversed(node.values)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            operands += (node.right, node.left)
        elif isinstance(node, ast.FormattedValue) and dated and not n_computed:
            n_computed += 1
            parts.append(_DATE)
        else:
            return None
    text = "".join(parts)
    if not text.strip() or not _is_utf8(text):
        return None
    return text


def _is_utf8(text: str) -> bool:
    # An escape in a literal may stand for half a surrogate pair.
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
