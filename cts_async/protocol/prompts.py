"""Role prompts: plain files, loaded, strictly rendered and hashed.

A file `ROLE[.small].LANGUAGE.txt`, or `agent.native.txt`, has a `## system` and a `## user` section with `{field}`
placeholders; only its role's declared fields are placeholders, any other brace is text. A placeholder alone between
`<tag>` and `</tag>` holds data: no value can open or close one of these tags (`fence`).

The roles that a default `cts run` plays have a `.small` prompt, which fits the embedded model; it gets the ordinary
prompt in all other roles.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from cts_async.errors import InputError
from cts_async.llm.escaping import fence_pattern, harmless
from cts_async.llm.json_text import THOUGHT_TAGS
from cts_async.records import AgentPrompt, Language, language_of

__all__ = ["FIELDS", "Prompt", "PromptSet", "load_prompts"]

Size = Literal["full", "small"]

_SCHEMES: Final = ("standard", "at_standard", "cot", "at_cot")

FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "clarify": ("blurred_query", "k"),
    "answer": ("clear_query", "clarification_question"),
    "rewrite": ("blurred_query", "qa_pairs"),
    "judge": ("query", "nuggets", "candidate_answer"),
    "gold": ("query", "answer", "sources"),
    "agent": ("current_date", "question"),
    "visit": ("goal", "page"),
    **dict.fromkeys(
        (f"{scheme}{offer}" for scheme in _SCHEMES for offer in ("", "_queries")),
        ("conversation", "blurred_query", "k"),
    ),
    "respond": ("clear_query", "conversation", "clarification_question"),
    "select_query": ("clear_query", "conversation", "offered_queries"),
    "reformulate": ("conversation",),
}
"""The fields of each role's prompt: all of them have to be given, and no others."""

_PACKAGE: Final = Path(__file__).parents[1]
_HEADER = re.compile(r"^## (system|user)[ \t]*$", re.MULTILINE)
_NAME = re.compile(r"(?P<role>[a-z_]+)(?:(?:\.small)?\.(?:en|zh)|(?<=agent)\.native)")


@dataclass(frozen=True, slots=True)
class Prompt:
    """One role's prompt in one language and size; `name` is the file's name without `.txt`."""

    name: str
    text: str
    sha256: str
    fields: frozenset[str]
    sections: tuple[tuple[str, tuple[str, ...]], ...]
    """Pairs (role of the message, texts and field names alternating), in the order of the file."""
    fence: re.Pattern[str] | None
    """Matches what in a value would open or close a fence: the bracket in front of a tag's name."""

    def render(self, **fields: object) -> tuple[dict[str, str], ...]:
        """The messages, system first. Raises ValueError for a missing or unknown field."""
        if fields.keys() != self.fields:
            raise ValueError(f"prompt {self.name}: {_difference(self.fields, frozenset(fields))}")
        values = {name: harmless(str(value), self.fence) for name, value in fields.items()}
        return tuple([{"role": role, "content": _filled(parts, values)} for role, parts in self.sections])


def _filled(parts: tuple[str, ...], values: Mapping[str, str]) -> str:
    if len(parts) == 1:
        return parts[0]
    return "".join([values[part] if i % 2 else part for i, part in enumerate(parts)])


@dataclass(frozen=True, slots=True)
class PromptSet:
    """All prompts of one directory, by name."""

    directory: Path
    prompts: Mapping[str, Prompt]

    @property
    def sha256(self) -> dict[str, str]:
        """The hash of each file's bytes, by the prompt's name (`clarify.en`)."""
        return {name: prompt.sha256 for name, prompt in self.prompts.items()}

    def text(self, name: str) -> str:
        """The file's text. Raises KeyError for an unknown name."""
        return self.prompts[name].text

    def get(self, role: str, language: Language | Literal["native"], size: Size = "full") -> Prompt:
        """The prompt of `role`: the small one if there is one, else the full one, but never in another language.

        The agent's "native" prompt serves all languages. InputError names the file that is missing.
        """
        name = f"{role}.{language}"
        prompt = self.prompts.get(f"{role}.small.{language}") if size == "small" else None
        prompt = prompt or self.prompts.get(name)
        if prompt is None:
            raise InputError(self.directory / f"{name}.txt", f"there is no {language!r} prompt for {role!r}")
        return prompt

    def agent(self, choice: AgentPrompt, query: str, size: Size = "full") -> Prompt:
        """The deep-search agent's prompt by `choice` (`records.AGENT_PROMPTS`) for a search of `query`."""
        return self.get("agent", language_of(query) if choice == "query" else choice, size)


def load_prompts(directory: Path | None = None) -> PromptSet:
    """Read every prompt of `directory`; by default those shipped in the package, else the repository's.

    InputError names an invalid file, or a directory without prompts.
    """
    packaged = _PACKAGE / "_prompts"
    directory = directory or (packaged if packaged.is_dir() else _PACKAGE.parent / "prompts")
    files = sorted(directory.glob("*.txt"))
    if not files:
        raise InputError(directory, "holds no prompts (ROLE.LANGUAGE.txt)")
    return PromptSet(directory, {path.stem: _read(path) for path in files})


def _read(path: Path) -> Prompt:
    named = _NAME.fullmatch(path.stem)
    if named is None or named["role"] not in FIELDS:
        raise InputError(path, f"expected ROLE[.small].en|zh.txt with a role of {', '.join(FIELDS)}")
    try:
        data = path.read_bytes()
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(path, f"cannot be read as UTF-8 text: {error}") from error
    fields = FIELDS[named["role"]]
    before, *rest = _HEADER.split(text)
    if before.strip() or rest[::2] != ["system", "user"]:
        raise InputError(path, "expected exactly a '## system' and then a '## user' section")
    placeholder = re.compile(rf"\{{({'|'.join(fields)})\}}")
    sections = tuple(
        (role, tuple(placeholder.split(content.strip())))
        for role, content in zip(rest[::2], rest[1::2], strict=True)
    )
    used = {part for _, parts in sections for part in parts[1::2]}
    if used != set(fields):
        raise InputError(path, _difference(frozenset(fields), frozenset(used)))
    digest = hashlib.sha256(data).hexdigest()
    return Prompt(path.stem, text, digest, frozenset(fields), sections, _fence(text, fields))


def _fence(text: str, fields: tuple[str, ...]) -> re.Pattern[str] | None:
    names = "|".join(fields)
    tags = {match[1] for match in re.finditer(rf"<(\w+)>\s*\{{(?:{names})\}}\s*</\1>", text)}
    # A quoted `</think>` would turn everything before it, such as a verdict, into a thought.
    return fence_pattern(tags | THOUGHT_TAGS) if tags else None


def _difference(expected: frozenset[str], given: frozenset[str]) -> str:
    """`missing field a; unknown field b`"""
    missing = [f"missing field {name}" for name in sorted(expected - given)]
    unknown = [f"unknown field {name}" for name in sorted(given - expected)]
    return "; ".join(missing + unknown)
