"""Errors of the Python API: messages are written for the command line; here the same is said with parameters.

--all baseline                     every_role="baseline"
cts judge RUN --judge NAME         cts_async.judge(RUN, judge=NAME)
the same command                   the same call
"""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache, wraps
from typing import Any, Final, ParamSpec, TypeVar, get_args, get_type_hints

from cts_async.errors import CTSError, InputError, RunStopped, UsageError, closest, expected_error

P = ParamSpec("P")
T = TypeVar("T")

_PHRASE: Final = re.compile(
    # What stands in quotation marks is a user's or a file's own text. An apostrophe within a word is none.
    r"(?P<quoted>(?<!\w)'(?:[^'\\]|\\.)*'(?!\w)|(?<!\w)\"(?:[^\"\\]|\\.)*\"(?!\w))"
    r"|\bcts (?P<command>run|judge|compare)\b"
    r"|(?P<option>(?<![\w/-])--?[A-Za-z][\w-]*)(?:[ =](?P<value>[\w./:@+=*-]*\w))?"
)
_FIRST_OPTION: Final = re.compile(r"(?P<option>--?[A-Za-z][\w-]*)[ =](?P<value>[^\s:]+)(?=: )")
"""A message that begins with an option and its value, and a colon after it."""
_ARGUMENT: Final = re.compile(r" +((?:'[^']*'|[^\s'),;])+)")
"""A word of a command in a sentence."""
_OPTION: Final = re.compile("--?[A-Za-z]")
_METAVAR: Final = re.compile("[A-Z][A-Z_]*")
_IS_VALUE: Final = re.compile(r"[A-Z][A-Z_]*|\d+|baseline|local|lexical|serper|qulac|clariq|.*[./:=].*\w")
"""Words after an option that are its value, and not the next word of the sentence, whatever the option."""
_COMMANDS_OWN: Final = {
    "--quiet": "quiet",
    "-q": "quiet",
    "--baseline": "baseline",
    "--all-versions": "all_versions",
}
"""Options that are declared by the commands themselves."""
_PARAMETERS: Final[Mapping[str, str]] = {
    "models": "model",
    "ks": "k",
    "orig": "references",
    "with_gold": "references",
    "max_usd": "budget.max_usd",
    "max_tokens": "budget.max_tokens",
    "max_calls": "budget.max_calls",
    "deadline": "budget.deadline",
}
"""Parameters that are called otherwise than the field of the option."""


def api_function(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function of the API: what it raises names its parameters.

    An argument that it does not have is a UsageError, too, as every other mistake in a call.
    """
    keywords: list[str] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is not parameter.VAR_POSITIONAL:
            keywords.append(parameter.name)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        for name in kwargs:
            if name not in keywords:
                raise UsageError(_no_such_parameter(name, keywords))
        try:
            return function(*args, **kwargs)
        except (UsageError, RunStopped) as error:
            _translate(error, keywords)
            raise
        # Tasks fail in a group, and files with errors of the system: for the caller these are ours, too.
        except (BaseExceptionGroup, OSError) as error:
            expected = expected_error(error)
            if expected is None:
                raise
            _translate(expected, keywords)
            raise expected from expected.__cause__

    return call


def _no_such_parameter(name: str, keywords: Collection[str]) -> str:
    message = f"{name}: no such parameter"
    near = closest(name, keywords)
    if near:
        message += f"; did you mean {near!r}?"
    return message


def _translate(error: CTSError, keywords: Collection[str]) -> None:
    """Say with the parameters of a function what an error says with options."""
    if isinstance(error, InputError):
        # The text before it is the place: the name of a file, and of a field in it.
        place = str(error).removesuffix(error.problem)
        error.problem = in_parameters(error.problem, keywords)
        message = place + error.problem
    else:
        message = in_parameters(str(error), keywords)
    error.args = (message, *error.args[1:])


def in_parameters(message: str, keywords: Collection[str] = ()) -> str:
    """Return a message with options (`--all baseline`) as parameters (`every_role="baseline"`).

    `keywords` are the parameters of the function that was called: `--judge` is called `judge` in one and `judges` in
    the others.
    """
    parts: list[str] = []
    place = 0
    first = _FIRST_OPTION.match(message)
    if first:
        option = _options().get(first["option"])
        if option:
            parts.append(option.assigned(first["value"], keywords))
            place = first.end()
    while match := _PHRASE.search(message, place):
        parts.append(message[place : match.start()])
        text, place = match[0], match.end()
        option = _options().get(match["option"] or "")
        if match["command"]:
            text, place = _call(match["command"], message, match.end())
        elif option and option.takes(match["value"] or ""):
            text = option.assigned(match["value"], keywords)
        elif option:
            text = option.parameter(keywords)
            place = match.end("option")
        parts.append(text)
    parts.append(message[place:])
    return "".join(parts).replace("he same command", "he same call")


def _call(command: str, message: str, place: int) -> tuple[str, int]:
    """Return the call that stands for a command in a message, and where its arguments end.

    Without arguments it is the name of the function. The first word that is neither an option with its value nor a run
    is the next word of the sentence.
    """
    keywords = ("judge",) if command == "judge" else ("judges",)
    arguments: list[str] = []
    while match := _ARGUMENT.match(message, place):
        word = match[1]
        end = match.end()
        if _OPTION.match(word):
            option = _options().get(word)
            if option is None:
                break
            following = _ARGUMENT.match(message, end)
            if option.is_flag:
                arguments.append(f"{option.parameter(keywords)}=True")
            elif following and not _OPTION.match(following[1]):
                arguments.append(option.assigned(" ".join(shlex.split(following[1])), keywords))
                end = following.end()
            else:
                arguments.append(f"{option.parameter(keywords)}=...")
        elif _METAVAR.fullmatch(word):
            arguments.append(word)
        elif "/" in word:
            arguments.append(f'"{word}"')
        else:
            break
        place = end
    if not arguments:
        return f"cts_async.{command}", place
    return f"cts_async.{command}({', '.join(arguments)})", place


@dataclass(frozen=True, slots=True)
class _Option:
    """An option of the command line, by the field of the configuration that it sets."""

    field: str
    is_flag: bool
    accepted: Collection[str] = ()
    """The words that it takes, where these are few."""

    def takes(self, word: str) -> bool:
        """Whether the word after it in a sentence is its value."""
        return word in self.accepted or _IS_VALUE.fullmatch(word) is not None

    def parameter(self, keywords: Collection[str]) -> str:
        """Return the name of its parameter."""
        if self.field == "trust_config":
            return 'config_consent="remember"'
        if self.field == "judges" and "judges" not in keywords and "judge" in keywords:
            return "judge"
        return _PARAMETERS.get(self.field, self.field)

    def assigned(self, value: str, keywords: Collection[str]) -> str:
        """Return the parameter with a value, as it is written in a call."""
        name = self.parameter(keywords)
        ours, sign, theirs = value.partition("=")
        if self.field == "fields" and sign:
            return f'{name}={{"{ours}": "{theirs}"}}'
        if _METAVAR.fullmatch(value) or value.isdecimal():
            return f"{name}={value}"
        return f'{name}="{value}"'


@cache
def _options() -> Mapping[str, _Option]:
    """The options of the commands that the API has, by each way to type them."""
    from cts_async.cli.judge import JudgeOptions
    from cts_async.cli.options import RunOptions

    options: dict[str, _Option] = {}
    for words, field in _COMMANDS_OWN.items():
        options[words] = _Option(field, is_flag=field != "baseline")
    for declaring in (JudgeOptions, RunOptions):
        for field, hint in get_type_hints(declaring, include_extras=True).items():
            value_type, *declarations = get_args(hint)
            for declared in declarations:
                accepted = getattr(declared.callback, "accepted", ())
                for word in _ways_to_type(declared) or _usual_ways(field):
                    options[word] = _Option(field, value_type is bool, accepted)
    return options


def _ways_to_type(declared: Any) -> list[str]:
    """Return `--model` and `-m` of an option's declaration; none where it has typer's usual name."""
    # In an annotation typer keeps the first way to type an option where its default usually is.
    words = [getattr(declared, "default", None)]
    words += getattr(declared, "param_decls", None) or ()
    return [word for word in words if isinstance(word, str) and word.startswith("-")]


def _usual_ways(field: str) -> list[str]:
    """Return how typer names the option of a field itself."""
    name = field.replace("_", "-")
    return [f"--{name}", f"--no-{name}"]
