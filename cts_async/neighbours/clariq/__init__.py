"""ClariQ (Aliannejadi, Kiseleva, Chuklin, Dalton and Burtsev, EMNLP 2021): when and what to ask, in three tasks."""

from typing import Final

from cts_async.datasets.registry import RUN_COMMANDS, Kind, imported_on_call

KIND: Final = Kind(
    name="clariq",
    title="ClariQ",
    what="requests with facets, clarifying questions, answers and how much each needs clarification (1 to 4)",
    paper="Aliannejadi et al., EMNLP 2021: Building and Evaluating Open-Domain Dialogue Corpora ...",
    licence="no licence named in its repository",
    source="https://github.com/aliannejadi/ClariQ",
    spec="clariq:PATH, clariq:PATH,need=3-4",
    expects="the folder with train.tsv and dev.tsv, or one of them; need= keeps these clarification needs",
    uses=(RUN_COMMANDS, "cts run --answers clariq", "cts gold", "cts data clariq"),
    open=imported_on_call("cts_async.neighbours.clariq.collection", "open_clariq"),
    contents=imported_on_call("cts_async.neighbours.clariq.collection", "clariq_contents"),
    folder_files=("train.tsv", "dev.tsv", "test_with_labels.tsv"),
    suffix=".tsv",
    position=3,
)
