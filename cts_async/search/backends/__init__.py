"""Where searches and visits go: one file per backend, behind one interface."""

from cts_async.search.backends.base import Backend, Hit, Page, PageReader, SearchEngine
from cts_async.search.backends.corpus import Corpus, CorpusBackend

__all__ = ["Backend", "Corpus", "CorpusBackend", "Hit", "Page", "PageReader", "SearchEngine"]
