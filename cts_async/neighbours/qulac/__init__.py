"""Qulac (Aliannejadi, Zamani, Crestani and Croft, SIGIR 2019): questions and answers about TREC's Web Track topics."""

from typing import Final

from cts_async.datasets.registry import RUN_COMMANDS, Kind, imported_on_call

KIND: Final = Kind(
    name="qulac",
    title="Qulac",
    what="198 topics, 762 facets and 10,277 pairs of a clarifying question and a human answer; no nuggets",
    paper="Aliannejadi et al., SIGIR 2019: Asking Clarifying Questions in Open-Domain ...",
    licence="MIT",
    source="https://github.com/aliannejadi/qulac",
    spec="qulac:PATH",
    expects="the file data/qulac/qulac.json",
    uses=(RUN_COMMANDS, "cts run --answers qulac", "cts gold", "cts data qulac"),
    open=imported_on_call("cts_async.neighbours.qulac.collection", "open_qulac"),
    contents=imported_on_call("cts_async.neighbours.qulac.collection", "qulac_contents"),
    suffix=".json",
    position=2,
)
