"""`cts data`: any dataset listed, shown, validated and converted; a group of commands for each neighbouring study."""

from __future__ import annotations

import sys
from enum import StrEnum
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperGroup

from cts_async.cli import options
from cts_async.tables.output import print_json, print_notes

if TYPE_CHECKING:
    from cts_async.datasets.kinds import Contents

SETTINGS: Final[dict[str, Any]] = {
    "no_args_is_help": True,
    "add_completion": False,
    "rich_markup_mode": None,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}
"""How every group of commands behaves, as `cts` itself."""


class _Neighbour(TyperGroup):
    """A group of commands that are imported when they are first needed: `app` of `neighbours.NAME`."""

    _imported: Any = None

    @property
    def commands(self) -> Any:
        if self._imported is None:
            module = import_module(f"cts_async.neighbours.{str(self.name).replace('-', '_')}")
            # For the same help as of all other commands: see options.Command.
            for info in module.app.registered_commands:
                info.cls = options.Command
            self._imported = typer.main.get_command(module.app)
        return self._imported.commands

    @commands.setter
    def commands(self, value: Any) -> None:
        """Called by the base class, which knows of no commands."""


data: Final = typer.Typer(
    name="data",
    help="List, show, check and convert datasets; reproduce figures published about them.",
    **SETTINGS,
)
for _name, _help in (
    ("qulac", "Qulac (SIGIR 2019): conversations, gains, published figures."),
    ("clariq", "ClariQ (EMNLP 2021): its figures, run files in its tasks."),
    ("mimics-duo", "MIMICS-Duo: panes, labels and the paper's tables (SIGIR 2022)."),
):
    data.add_typer(typer.Typer(name=_name, help=_help, cls=_Neighbour, **SETTINGS))

Spec = Annotated[str, typer.Argument(metavar="DATASET", help="As for cts run --data; see cts data list.")]
Gold = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Join the nuggets of this gold file (JSONL).")
]


@data.command("list", short_help="List the known datasets.")
def list_kinds(as_json: options.AsJson = False) -> None:
    """List the known datasets: what each contains, its paper, licence and source, and the path it takes.

    Example: cts data list --json
    """
    from cts_async.datasets.kinds import FILE, all_kinds

    kinds = list(all_kinds().values())
    # A plain file is no kind that is found by its name, but --data takes it.
    kinds.append(FILE)
    if as_json:
        print_json([kind.as_json() for kind in kinds])
        return
    from rich.console import Console

    from cts_async.tables.datasets import print_kinds

    print_kinds(Console(emoji=False), kinds)


@data.command("show", short_help="Show counts and the first instances of a dataset.")
def show(
    spec: Spec,
    n: Annotated[int, typer.Option("-n", min=0, help="Number of instances to show.")] = 3,
    id: Annotated[str | None, typer.Option(metavar="ID", help="Show this instance in full.")] = None,
    gold: Gold = None,
    field: options.Fields = None,
    as_json: options.AsJson = False,
) -> None:
    """Show counts, lengths, languages and the join with the gold of a dataset; then its first instances.

    DATASET is what cts run --data takes (sample, KIND:PATH, a .csv or .jsonl file), or mimics-duo:DIR for its panes.

    Example: cts data show qulac:qulac.json -n 5

    Example: cts data show hard518:release --id h001
    """
    from rich.console import Console

    from cts_async.datasets.inspect import item_of, open_to_inspect
    from cts_async.tables.datasets import print_contents, print_item

    inspected = open_to_inspect(spec, gold, options.read_fields(field))
    if id is not None:
        item = item_of(inspected, id)
        if as_json:
            print_json(item)
        else:
            print_item(Console(emoji=False), item, whole=True)
        return
    contents = inspected.contents()
    items = list(islice(inspected.items(), n))
    if as_json:
        row: dict[str, Any] = {"kind": inspected.kind, "files": [str(path) for path in inspected.paths]}
        row |= contents.as_json()
        row["items"] = items
        print_json(row)
        return
    console = Console(emoji=False)
    print_contents(console, inspected.title, inspected.paths, contents)
    for item in items:
        print_item(console, item)


class FileKind(StrEnum):
    """What a file may be besides a dataset."""

    GOLD = "gold"
    CANDIDATES = "candidates"
    QRELS = "qrels"
    RUN = "run"
    EVALUATIONS = "evaluations"
    CORPUS = "corpus"


@data.command("validate", short_help="Check a dataset or file; name the first mistake.")
def validate(
    spec: Annotated[str, typer.Argument(metavar="DATASET", help="As for cts run --data; with --as a file.")],
    gold: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Join and check this gold file (JSONL), too.")
    ] = None,
    kind: Annotated[
        FileKind | None,
        typer.Option(
            "--as",
            metavar="FORMAT",
            help="Check the file as gold, candidates, qrels, run, evaluations or corpus.",
        ),
    ] = None,
    field: options.Fields = None,
    as_json: options.AsJson = False,
) -> None:
    """Read a whole dataset, check every record, and print one line about its contents.

    A mistake ends the check with one line that names file, line and field, and with exit code 2. --as checks other
    files: gold, candidates (files, patterns, directories), qrels, run (TREC format), evaluations (JSON) or corpus.

    Example: cts data validate hard518:release --gold gold.jsonl

    Example: cts data validate documents.jsonl --as corpus
    """
    from cts_async.errors import UsageError
    from cts_async.tables.datasets import fact_lines
    from cts_async.tables.output import print_line

    if kind is not None and gold is not None:
        raise UsageError("--gold is joined with a dataset; omit --as, or check the gold alone with --as gold")
    # The first mistake ends the command here: what follows is said of sound files only.
    contents = _contents(spec, gold, kind, options.read_fields(field))
    if as_json:
        row: dict[str, Any] = {"sound": True, "spec": spec, "kind": kind or "dataset"}
        row |= contents.as_json()
        print_json(row)
        return
    facts = "; ".join(f"{name}: {value}" for name, value in fact_lines(contents))
    print_line(f"{spec}: sound. {facts}")
    print_notes(contents.notes)


def _contents(spec: str, gold: Path | None, kind: FileKind | None, fields: dict[str, str]) -> Contents:
    from cts_async.datasets.inspect import file_reader, open_to_inspect
    from cts_async.tables.datasets import corpus_contents

    if kind is FileKind.CORPUS:
        return corpus_contents(Path(spec))
    if kind is not None:
        return file_reader(kind)(spec, fields)
    inspected = open_to_inspect(spec, gold, fields)
    # Panes are no dataset of instances; the sample world has documents that a run of it searches.
    if inspected.dataset is None or inspected.dataset.corpus is None:
        return inspected.contents()
    return inspected.contents().joined(corpus_contents(inspected.dataset.corpus))


@data.command("convert", short_help="Convert a dataset to a file that --data reads.")
def convert(
    spec: Spec,
    to: Annotated[Path, typer.Option(metavar="FILE", help="The file to write: .jsonl or .csv.")],
    gold: Gold = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Convert only the first N instances.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    field: options.Fields = None,
) -> None:
    """Convert a dataset's instances and nuggets to a .jsonl or .csv file that cts run --data reads.

    MIMICS-Duo's panes become JSON Lines, one pane per line. For Qulac's questions and answers see cts data qulac --help.

    Example: cts data convert hard518:release --to hard518.jsonl

    Example: cts data convert qulac:qulac.json --gold gold.jsonl --to qulac.csv --limit 50
    """
    from cts_async.datasets.inspect import convert as write
    from cts_async.datasets.inspect import open_to_inspect
    from cts_async.tables.output import print_line

    inspected = open_to_inspect(spec, gold, options.read_fields(field))
    n = write(inspected, to, limit=limit, force=force)
    # To standard error: the file may be /dev/stdout.
    if inspected.dataset is None:
        print_line(f"{to}: {n:,} panes from {spec}", sys.stderr)
    else:
        print_line(f"{to}: {n:,} instances from {spec}", sys.stderr)
        print_notes(inspected.dataset.notes)
