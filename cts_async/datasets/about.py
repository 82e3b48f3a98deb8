"""What each kind of dataset is, and how to come by it: `cts data list`. A kind describes itself here, and only here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class About:
    """One kind of dataset. `taken` says whether `--data` takes it; the others have commands of their own."""

    name: str
    title: str
    what: str
    paper: str
    """"" where there is none."""
    licence: str
    source: str
    """Where it comes from: an address, or a place here."""
    spec: str
    """How it is named on the command line."""
    expects: str
    """What the path has to be."""
    taken: bool
    uses: tuple[str, ...]
    """Commands that are of use with it."""


_RUNS: Final = "cts run, converse, plan"

ABOUT: Final[Mapping[str, About]] = {
    about.name: about
    for about in (
        About(
            name="sample",
            title="The sample world",
            what="28 queries in English and Chinese with gold and a small corpus, all made up: for learning",
            paper="",
            licence="MIT or CC0 1.0",
            source="included",
            spec="sample, sample:DIR",
            expects="nothing, or a folder with queries.jsonl, gold.jsonl and perhaps corpus.jsonl",
            taken=True,
            uses=(_RUNS, "cts judge, score, compare, diagnose"),
        ),
        About(
            name="hard518",
            title="Hard518",
            what="518 pairs of a hidden intent and its blurred query, with a static gold of weighted nuggets",
            paper="Huang et al., KDD 2026: Clarify-Then-Search",
            licence="CC BY 4.0",
            source="https://clarify-then-search.github.io/",
            spec="hard518:PATH",
            expects="the unpacked release's folder, or its hard_518_queries.csv; gold beside it is found",
            taken=True,
            uses=(_RUNS, "cts judge, score, compare, diagnose"),
        ),
        About(
            name="qulac",
            title="Qulac",
            what="198 topics, 762 facets and 10,277 pairs of a clarifying question and a human answer; no nuggets",
            paper="Aliannejadi et al., SIGIR 2019: Asking Clarifying Questions in Open-Domain ...",
            licence="MIT",
            source="https://github.com/aliannejadi/qulac",
            spec="qulac:PATH",
            expects="the file data/qulac/qulac.json",
            taken=True,
            uses=(_RUNS, "cts run --answers qulac", "cts gold", "cts data qulac"),
        ),
        About(
            name="clariq",
            title="ClariQ",
            what="requests with facets, clarifying questions, answers and how much each needs clarification (1 to 4)",
            paper="Aliannejadi et al., EMNLP 2021: Building and Evaluating Open-Domain Dialogue Corpora ...",
            licence="no licence named in its repository",
            source="https://github.com/aliannejadi/ClariQ",
            spec="clariq:PATH, clariq:PATH,need=3-4",
            expects="the folder with train.tsv and dev.tsv, or one of them; need= keeps these clarification needs",
            taken=True,
            uses=(_RUNS, "cts run --answers clariq", "cts gold", "cts data clariq"),
        ),
        About(
            name="mimics-duo",
            title="MIMICS-Duo",
            what="1,034 clarification panes of 306 queries with users' clicks and workers' labels: no instances to run",
            paper="Tavakoli et al., SIGIR 2022: MIMICS-Duo: Offline & Online Evaluation of Search Clarification",
            licence="MIT",
            source="https://github.com/Leila-Ta/MIMICS-Duo",
            spec="mimics-duo:DIR",
            expects="the folder with the four TSV files, under their names in the repository",
            taken=False,
            uses=("cts data mimics-duo",),
        ),
        About(
            name="file",
            title="A file of your own",
            what="pairs of a fused and a blurred query, perhaps with ids and nuggets",
            paper="",
            licence="yours",
            source="e.g. cts data convert",
            spec="FILE.csv, FILE.jsonl",
            expects="columns fused_query and blurred_query; other names with --field OURS=THEIRS",
            taken=True,
            uses=(_RUNS, "cts judge, gold"),
        ),
    )
}
"""By kind, as KIND:PATH names it; "file" is what has no kind."""
