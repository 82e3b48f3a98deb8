"""`cts prompts`: the prompts of the roles: listed, shown, checked, and copied as a start for one's own."""

from __future__ import annotations

import sys
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from cts_async.cli import options
from cts_async.cli.data import SETTINGS
from cts_async.tables.output import plain, print_json, print_line, print_notes, unbroken

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cts_async.protocol.prompts import Prompt, PromptSet

prompts: Final = typer.Typer(
    name="prompts", help="The prompts of the roles: shipped ones, and yours.", **SETTINGS
)

Given = Annotated[
    list[str] | None,
    typer.Option("--prompts", metavar="[NAME=]DIR", help="Prompts of yours, as in cts run; may be repeated."),
]
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of ROLE.LANGUAGE.txt files.")]


@prompts.command("list", short_help="List the prompts.")
def list_all(given: Given = None, config: options.ConfigFile = None, as_json: options.AsJson = False) -> None:
    """List the prompts: name, language, variant, digest and source.

    Prompts of --prompts and of [prompts] in cts.toml are included where they differ from the shipped ones.

    Example: cts prompts list --prompts short=prompts/short --json
    """
    from cts_async.tables.table import show_tables

    show_tables([_table(_every(_opened(given, config)))], as_json=as_json)


@prompts.command("show", short_help="Print one prompt.")
def show(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name as listed, e.g. clarify.en or clarify.en@short.")
    ],
    given: Given = None,
    config: options.ConfigFile = None,
    as_json: options.AsJson = False,
) -> None:
    """Print the text of one prompt.

    Example: cts prompts show clarify.en
    """
    from cts_async.errors import UsageError, closest

    found = {prompt.name: prompt for prompt in _every(_opened(given, config))}
    if name not in found:
        near = closest(name, found)
        hint = f"; did you mean {near!r}?" if near else ""
        raise UsageError(f"no prompt {name!r}{hint} (see cts prompts list)")
    prompt = found[name]
    if as_json:
        print_json({**_row(prompt), "fields": sorted(prompt.fields), "text": prompt.text})
    else:
        text = plain(prompt.text, lines=True) if sys.stdout.isatty() else prompt.text
        typer.echo(text, nl=not text.endswith("\n"))


@prompts.command("check", short_help="Check your prompts.")
def check(folder: Folder, as_json: options.AsJson = False) -> None:
    """Check a folder of prompts: names, sections, fields, encoding and size.

    Prints every mistake in one line each; exit code 2 if there are any. Notes are about what is allowed but unusual.

    Example: cts prompts check prompts/short
    """
    from cts_async.errors import EXIT_USAGE, InputError
    from cts_async.protocol.prompts import PromptSet, prompt_files, read_prompt, remarks_on

    found: list[Prompt] = []
    problems: list[str] = []
    for path in prompt_files(folder):
        try:
            found.append(read_prompt(path))
        except InputError as error:
            problems.append(str(error))
    own = {prompt.name: prompt for prompt in found}
    notes = list(remarks_on(PromptSet(folder.resolve(), own, frozenset(own))))
    notes += [
        f"{prompt.path}: {{{field}}} is not alone between <tag> and </tag>: text in it can pass for instructions"
        for prompt in found
        for field in prompt.unfenced
    ]
    if as_json:
        print_json({"prompts": [_row(one) for one in found], "problems": problems, "notes": notes})
    else:
        if found:
            from cts_async.tables.table import show_tables

            show_tables([_table(found)])
        print_notes(notes)
        for problem in problems:
            print_line(f"cts: {problem}", sys.stderr)
    if problems:
        raise typer.Exit(EXIT_USAGE)


@prompts.command("copy", short_help="Copy the shipped prompts, to change them.")
def copy(
    folder: Folder,
    roles: Annotated[
        list[str] | None,
        typer.Argument(metavar="ROLE", help="Copy the prompts of these roles only [default: all]."),
    ] = None,
) -> None:
    """Copy the shipped prompts to a folder, to change them there. No file is overwritten.

    Keep only the files that you change. The short prompts of the embedded model (ROLE.small.LANGUAGE) are not copied:
    your changed prompts replace them, too.

    Example: cts prompts copy prompts/short clarify
    """
    from cts_async.cli.options import read_names
    from cts_async.errors import UsageError, write_error
    from cts_async.protocol.prompts import FIELDS, load_prompts
    from cts_async.safe_files import replace_file

    known = {role.replace("_", "-"): role for role in FIELDS}
    wanted = [known[name] for name in read_names("ROLE", roles or [], list(known))] or list(FIELDS)
    shipped = load_prompts()
    texts = {
        f"{one.name}.txt": one.path.read_text("utf-8")  # as written: with {tools}, whatever the tools are
        for one in shipped.prompts.values()
        if one.role in wanted and ".small." not in one.name
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_error(folder, error) from None
    place = folder.resolve()
    for name in texts:
        if (place / name).is_symlink() or (place / name).exists():
            raise UsageError(f"{folder / name}: exists already; nothing was copied")
    for name, text in texts.items():
        replace_file(place / name, text.encode())
    check = unbroken(f"cts prompts check {quote(str(folder))}")
    print_line(f"{len(texts)} prompts copied to {folder}; check them with: {check}")


def _opened(given: list[str] | None, config: Path | None) -> PromptSet:
    from cts_async.llm.catalog import load_catalogue
    from cts_async.protocol.prompts import open_prompts

    catalogue = load_catalogue(*options.config_files(config))
    return open_prompts(given or (), catalogue.prompts)


def _every(opened: PromptSet) -> list[Prompt]:
    """All prompts, those of variants only as far as they differ."""
    own = [one.prompts[name] for one in opened.variants.values() for name in sorted(one.own)]
    return [*opened.prompts.values(), *own]


def _row(prompt: Prompt) -> dict[str, Any]:
    from cts_async.protocol.prompts import shipped_folder

    return {
        "name": prompt.name,
        "language": prompt.language,
        "variant": prompt.variant or None,
        "sha256": prompt.sha256,
        "source": "shipped" if prompt.path.parent == shipped_folder() else str(prompt.path),
    }


def _table(found: Iterable[Prompt]) -> Any:
    from cts_async.tables.table import Column, DataTable, text_columns

    columns = (
        *text_columns("name", "language"),
        Column("variant", lambda row: row["variant"] or "", numeric=False),
        Column("sha256", lambda row: row["sha256"][:12], numeric=False),
        Column("source", lambda row: row["source"], numeric=False),
    )
    rows = [_row(prompt) for prompt in found]
    return DataTable("prompts", "Prompts", "by the name of their file", columns, rows)
