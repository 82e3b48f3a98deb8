"""`cts corpus`: describe, search and index a file of documents."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from cts_async.cli import options
from cts_async.cli.data import SETTINGS

if TYPE_CHECKING:
    from cts_async.search.backends import Page, Ranked
    from cts_async.search.backends.corpus import Corpus
    from cts_async.search.rankers import Ranker

corpus: Final = typer.Typer(
    name="corpus", help="A file of documents: what is in it, searches, its index.", **SETTINGS
)

CorpusPath = Annotated[
    Path, typer.Argument(metavar="FILE", help="Documents: JSON Lines of id, url, title, text.")
]

MODELS: Final = ("bm25", "ql")


@corpus.command("show", short_help="Describe a corpus.")
def show(
    path: CorpusPath,
    n: Annotated[int, typer.Option("-n", min=0, help="Number of documents to show.")] = 5,
    as_json: options.AsJson = False,
) -> None:
    """Describe a corpus: documents, words, and the first documents.

    A line that is not a document is refused with its number and field.

    Example: cts corpus show docs.jsonl
    """
    from itertools import islice

    from cts_async.search.backends.corpus import Corpus
    from cts_async.tables.datasets import documents_table, facts_table
    from cts_async.tables.table import show_tables

    opened = Corpus.open(path)
    chars = sum(len(page.text) for page in opened.documents())
    facts = {
        "documents": len(opened),
        "different words": opened.terms,
        "characters a document": chars / len(opened),
        "bytes": path.stat().st_size,
        "index": _index_folder(opened),
    }
    documents = documents_table(islice(opened.documents(), n))
    show_tables([facts_table(str(path), facts), documents], as_json=as_json)


@corpus.command("search", short_help="Rank the documents for a query.")
def search(
    path: CorpusPath,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What to search for.")],
    n: Annotated[int, typer.Option("-n", min=1, help="Number of documents to show.")] = 10,
    model: Annotated[
        str, typer.Option(metavar="MODEL", help="Ranking model: bm25, or ql (query likelihood).")
    ] = "bm25",
    rerank: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL", help="Re-rank with this cross-encoder or MonoT5 model (folder or hub name)."
        ),
    ] = None,
    depth: Annotated[int, typer.Option(min=1, help="Number of documents to re-rank.")] = 100,
    as_json: options.AsJson = False,
) -> None:
    """Rank the documents for a query, as evaluations do.

    Example: cts corpus search docs.jsonl "history of the great wall" -n 5 --model ql

    Example: cts corpus search docs.jsonl "great wall" --rerank castorini/monot5-base-msmarco
    """
    from cts_async.errors import UsageError
    from cts_async.search.backends.corpus import Corpus
    from cts_async.tables.datasets import found_table
    from cts_async.tables.table import show_tables

    if model not in MODELS:
        raise UsageError(f"--model {model}: must be one of {', '.join(MODELS)}")
    opened = Corpus.open(path)
    ranker = _ranker(opened, model, rerank, depth)
    pages: list[tuple[Ranked, Page]] = []
    for ranked in ranker.rank(query, n):
        page = opened.document(ranked.id)
        # For the type checker: what was ranked is in the corpus.
        if page is not None:
            pages.append((ranked, page))
    table = found_table(ranker.name, pages)
    notes = []
    if not table.rows:
        notes.append("no results: no document contains a word of the query")
    show_tables([table], notes=notes, as_json=as_json)


@corpus.command("build", short_help="Index a corpus.")
def build(path: CorpusPath, as_json: options.AsJson = False) -> None:
    """Build the index of a corpus in advance, so that runs need not.

    The index is stored below $XDG_CACHE_HOME/cts_async (else ~/.cache), under a digest of the file's content.

    Example: cts corpus build docs.jsonl
    """
    from time import perf_counter

    from cts_async.search.backends.corpus import Corpus
    from cts_async.tables.datasets import facts_table
    from cts_async.tables.table import show_tables

    start = perf_counter()
    opened = Corpus.open(path)
    facts = {
        "documents": len(opened),
        "different words": opened.terms,
        "seconds": perf_counter() - start,
        "found ready": opened.from_cache,
        "kept in": _index_folder(opened),
    }
    notes = []
    # Not refused: such an index serves this process, but each run makes it again.
    if opened.folder is None:
        notes.append("the index could not be stored: make the cache folder writable, or set XDG_CACHE_HOME")
    show_tables([facts_table(str(path), facts)], notes=notes, as_json=as_json)


def _index_folder(opened: Corpus) -> str | None:
    """Return where the index is stored; None if it is in memory only."""
    if opened.folder is None:
        return None
    return str(opened.folder)


def _ranker(opened: Corpus, model: str, rerank: str | None, depth: int) -> Ranker:
    base: Ranker = opened
    if model == "ql":
        from cts_async.search.rankers import QueryLikelihoodRanker

        base = QueryLikelihoodRanker(opened.documents())
    if rerank is None:
        return base
    # As in AT-CoT's evaluation, where BM25's first 100 documents are re-ranked.
    from cts_async.search.rankers import CrossEncoderRanker

    return CrossEncoderRanker(base, rerank, opened, depth)
