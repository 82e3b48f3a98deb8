"""`cts data validate`: is a file sound?"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cts_async.cli import options
from cts_async.cli.streams import print_json, print_notes

if TYPE_CHECKING:
    from cts_async.datasets.contents import Contents

HELP = """Read a dataset to its end, with all readers there are for it, and say in a line what it holds.

Whatever is wrong ends in one line that names file, line and field, and in exit code 2. Other files with --as:
gold, candidates (files, patterns, directories), qrels, run (TREC's format), evaluations (JSON), corpus.

Example: cts data validate hard518:release --gold gold.jsonl

Example: cts data validate documents.jsonl --as corpus
"""


class Kind(StrEnum):
    """What a file may be besides a dataset."""

    GOLD = "gold"
    CANDIDATES = "candidates"
    QRELS = "qrels"
    RUN = "run"
    EVALUATIONS = "evaluations"
    CORPUS = "corpus"


def validate(
    spec: Annotated[str, typer.Argument(metavar="SPEC", help="A dataset, or with --as a file.")],
    gold: Annotated[Path | None, typer.Option(help="Join these nuggets (JSONL), and check them too.")] = None,
    kind: Annotated[Kind | None, typer.Option("--as", help="What it is, if no dataset.")] = None,
    field: options.Fields = None,
    as_json: options.AsJson = False,
) -> None:
    from cts_async.errors import UsageError
    from cts_async.report.text import plain

    if kind is not None and gold is not None:
        raise UsageError("--gold is joined with a dataset; leave --as out, or validate the gold --as gold")
    contents = _read(spec, gold, kind, options.read_fields(field))
    if as_json:
        found = {"sound": True, "spec": spec, "kind": kind or "dataset", **contents.as_json()}
        print_json(found)
        return
    told = "; ".join(fact.text for fact in contents.facts if not fact.detail)
    typer.echo(plain(f"{spec}: sound. {told}"))
    print_notes(contents.notes)


def _read(spec: str, gold: Path | None, kind: Kind | None, fields: dict[str, str]) -> Contents:
    from cts_async.datasets.shelf import open_shelf
    from cts_async.datasets.soundness import SOUND
    from cts_async.report.datasets import corpus_contents

    if kind is Kind.CORPUS:
        return corpus_contents(Path(spec))
    if kind is not None:
        return SOUND[kind](spec, fields)
    shelf = open_shelf(spec, gold, fields)
    if shelf.dataset is None or shelf.dataset.corpus is None:
        return shelf.contents()
    return shelf.contents().joined(corpus_contents(shelf.dataset.corpus))


validate.__doc__ = HELP
