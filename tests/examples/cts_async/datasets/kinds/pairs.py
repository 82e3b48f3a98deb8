"""Tab-separated pairs of an intent and its underspecified query."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from cts_async.datasets.gold import read_gold
from cts_async.datasets.kinds import RUN_COMMANDS, Dataset, Kind, make_dataset
from cts_async.errors import InputError
from cts_async.records import Instance


def open_pairs(
    target: str, gold: Path | None, fields: Mapping[str, str], skip_bad_gold: bool = False
) -> Dataset:
    path = Path(target).expanduser()
    index = None if gold is None else read_gold(gold, fields, skip_bad=skip_bad_gold)
    return make_dataset("pairs", path, index, partial(read_pairs, path))


def read_pairs(path: Path) -> Iterator[Instance]:
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        intent, tab, query = line.partition("\t")
        if not tab:
            raise InputError(path, "needs INTENT<tab>QUERY", line=number)
        yield Instance(f"p{number}", intent, query)


KIND = Kind(
    name="pairs",
    title="Tab-separated pairs",
    what="an intent and its underspecified query on each line",
    spec="pairs:PATH",
    expects="a file with INTENT<tab>QUERY on each line",
    uses=(RUN_COMMANDS,),
    source="your own",
    licence="your own",
    open=open_pairs,
    position=50,
)
