"""`cts prompts`: the prompts of the roles: listed, shown, checked, copied as a start for one's own, or imported."""

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
    from collections.abc import Iterable, Mapping

    from cts_async.protocol.prompts import Prompt

prompts: Final = typer.Typer(
    name="prompts", help="The prompts of the roles: shipped ones, and yours.", **SETTINGS
)

Folders = Annotated[
    list[str] | None,
    typer.Option("--prompts", metavar="[NAME=]DIR", help="Prompts of yours, as in cts run; may be repeated."),
]
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of ROLE.LANGUAGE.txt files.")]


@prompts.command("list", short_help="List the prompts.")
def list_all(
    folders: Folders = None, config: options.ConfigFile = None, as_json: options.AsJson = False
) -> None:
    """List the prompts: name, language, variant, digest and source.

    Prompts of --prompts and of [prompts] in cts.toml are included where they differ from the shipped ones.

    Example: cts prompts list --prompts short=prompts/short --json
    """
    from cts_async.tables.table import show_tables

    show_tables([_table(_prompts_in(folders, config))], as_json=as_json)


@prompts.command("show", short_help="Print one prompt.")
def show(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name as listed, e.g. clarify.en or clarify.en@short.")
    ],
    folders: Folders = None,
    config: options.ConfigFile = None,
    as_json: options.AsJson = False,
) -> None:
    """Print the text of one prompt.

    Example: cts prompts show clarify.en
    """
    from cts_async.errors import UsageError, closest

    by_name = {prompt.name: prompt for prompt in _prompts_in(folders, config)}
    if name not in by_name:
        hint = ""
        near = closest(name, by_name)
        if near:
            hint = f"; did you mean {near!r}?"
        raise UsageError(f"no prompt {name!r}{hint} (see cts prompts list)")
    prompt = by_name[name]
    if as_json:
        row = _json_of(prompt)
        row["fields"] = sorted(prompt.fields)
        row["text"] = prompt.text
        print_json(row)
    else:
        text = prompt.text
        if sys.stdout.isatty():  # a file of the user's may hold a terminal's control sequences
            text = plain(text, lines=True)
        typer.echo(text, nl=not text.endswith("\n"))


@prompts.command("check", short_help="Check your prompts.")
def check(folder: Folder, as_json: options.AsJson = False) -> None:
    """Check a folder of prompts: names, sections, fields, encoding and size.

    Prints every mistake in one line each; exit code 2 if there are any. Notes are about what is allowed but unusual.

    Example: cts prompts check prompts/short
    """
    from cts_async.errors import EXIT_USAGE, InputError
    from cts_async.protocol.prompts import (
        PromptSet,
        prompt_files,
        read_prompt,
        read_tool_lines,
        remarks_on,
    )

    sound: list[Prompt] = []
    problems: list[str] = []
    paths, tool_lines = prompt_files(folder), {}
    try:
        tool_lines = read_tool_lines(folder)
    except InputError as error:
        problems.append(str(error))
    for path in paths:
        try:
            sound.append(read_prompt(path, tool_lines=tool_lines))
        except InputError as error:
            problems.append(str(error))
    by_name = {prompt.name: prompt for prompt in sound}
    notes = list(remarks_on(PromptSet(folder.resolve(), by_name, frozenset(by_name))))
    for prompt in sound:
        for field in prompt.unfenced:
            notes.append(
                f"{prompt.path}: {{{field}}} is not alone between <tag> and </tag>: text in it can pass for "
                "instructions"
            )
    if as_json:
        rows = [_json_of(prompt) for prompt in sound]
        print_json({"prompts": rows, "problems": problems, "notes": notes})
    else:
        if sound:
            from cts_async.tables.table import show_tables

            show_tables([_table(sound)])
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

    # `read_names` compares with hyphens; files and FIELDS have underscores.
    names = [role.replace("_", "-") for role in FIELDS]
    chosen = [name.replace("-", "_") for name in read_names("ROLE", roles or names, names)]
    texts: dict[str, str] = {}
    for prompt in load_prompts().prompts.values():
        if prompt.role in chosen and ".small." not in prompt.name:
            # As written: with {tools}, so that a copy serves whatever the tools are.
            texts[f"{prompt.name}.txt"] = prompt.path.read_text("utf-8")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_error(folder, error) from None
    place = folder.resolve()
    # All are looked at before the first is written: a copy is whole, or not there.
    for name in texts:
        if (place / name).is_symlink() or (place / name).exists():
            raise UsageError(f"{folder / name}: exists already; nothing was copied")
    _write_all(place, {name: text.encode() for name, text in texts.items()})
    check = unbroken(f"cts prompts check {quote(str(folder))}")
    print_line(f"{len(texts)} prompts copied to {folder}; check them with: {check}")


@prompts.command("import", short_help="Take the prompts of a published agent from your clone of it.")
def import_published(
    source: Annotated[
        str, typer.Argument(metavar="webdancer|tongyi", help="The published agent whose prompts are taken.")
    ],
    clone: Annotated[
        Path, typer.Argument(metavar="CLONE", help="Your clone of github.com/Alibaba-NLP/DeepResearch.")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="The new folder [default: prompts/NAME].")
    ] = None,
    accept_changed: Annotated[
        bool, typer.Option("--accept-changed", help="Take texts that differ from those known here, too.")
    ] = False,
) -> None:
    """Take prompts and descriptions of tools of a published agent from your clone of its public repository.

    They become a folder of prompts as --prompts takes it: the agent's prompt, its page reader's, and the tools. Files of
    the clone are only read: nothing in it is executed, and no link is followed. Each text is compared with the digest
    of the version known here; imported.json says what was taken from where.

    Example: cts prompts import tongyi DeepResearch --out prompts/tongyi
    """
    from cts_async.cli.options import read_names
    from cts_async.errors import UsageError, write_error
    from cts_async.protocol.prompt_import import read_clone, sources

    (source,) = read_names("NAME", [source], sources())
    imported = read_clone(source, clone)
    if imported.changed and not accept_changed:
        places = ", ".join(f"{text.part} ({text.file})" for text in imported.changed)
        raise UsageError(
            f"{clone}: differs from the version that this was written after: {places}; read what it says now, and take "
            "it with --accept-changed"
        )
    folder = out or Path("prompts", source)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_error(folder, error) from None
    place = folder.resolve()
    for name in imported.files:
        if (place / name).is_symlink() or (place / name).exists():
            raise UsageError(
                f"{folder / name}: exists already; nothing was imported (--out DIR chooses another)"
            )
    _write_all(place, imported.files)
    notes: list[str] = []
    if imported.left_out:
        notes.append(f"not taken, as there are no such tools here: {', '.join(imported.left_out)}")
    for text in imported.changed:
        notes.append(f"{text.file}: the text {text.part!r} differs from the version known here")
    print_notes(notes)
    use = unbroken(f"cts run --agent {source} --prompts {quote(str(folder))}")
    print_line(f"{len(imported.texts)} texts of {source} imported to {folder}; use them with: {use}")


def _write_all(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write new files, all or none: what a full disk or Ctrl-C left of them would make the same command refuse."""
    from cts_async.safe_files import replace_file

    written: list[Path] = []
    try:
        for name, data in files.items():
            replace_file(folder / name, data)
            written.append(folder / name)
    except BaseException:
        for path in written:
            path.unlink(missing_ok=True)
        raise


def _prompts_in(folders: list[str] | None, config: Path | None) -> list[Prompt]:
    """Return all prompts; those of the user's variants only as far as they differ from the shipped ones."""
    from cts_async.llm.catalog import load_catalogue
    from cts_async.protocol.prompts import open_prompts

    catalogue = load_catalogue(*options.config_files(config))
    shipped = open_prompts(folders or (), catalogue.prompts)
    prompts = list(shipped.prompts.values())
    for variant in shipped.variants.values():
        for name in sorted(variant.own):
            prompts.append(variant.prompts[name])
    return prompts


def _json_of(prompt: Prompt) -> dict[str, Any]:
    from cts_async.protocol.prompts import shipped_folder

    source = str(prompt.path)
    # Some are in a folder within it, such as those for an agent without tools.
    if shipped_folder() in prompt.path.parents:
        source = "shipped"
    return {
        "name": prompt.name,
        "language": prompt.language,
        "variant": prompt.variant or None,
        "sha256": prompt.sha256,
        "source": source,
    }


def _table(prompts: Iterable[Prompt]) -> Any:
    from cts_async.tables.table import Column, DataTable, text_columns

    columns = list(text_columns("name", "language"))
    columns.append(Column("variant", lambda row: row["variant"] or "", numeric=False))
    # Enough to be compared with run.json, which has all 64 digits.
    columns.append(Column("sha256", lambda row: row["sha256"][:12], numeric=False))
    columns += text_columns("source")
    rows = [_json_of(prompt) for prompt in prompts]
    return DataTable("prompts", "Prompts", "by the name of their file", columns, rows)
