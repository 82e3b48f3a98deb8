"""MIMICS-Duo (Tavakoli, Trippas, Zamani, Scholer and Sanderson, SIGIR 2022): clarification panes with labels."""

from typing import Final

from cts_async.datasets.registry import Kind, imported_on_call

KIND: Final = Kind(
    name="mimics-duo",
    title="MIMICS-Duo",
    what="1,034 clarification panes of 306 queries with users' clicks and workers' labels: no instances to run",
    paper="Tavakoli et al., SIGIR 2022: MIMICS-Duo: Offline & Online Evaluation of Search Clarification",
    licence="MIT",
    source="https://github.com/Leila-Ta/MIMICS-Duo",
    spec="mimics-duo:DIR",
    expects="the folder with the four TSV files, under their names in the repository",
    uses=("cts data mimics-duo",),
    instead="has panes and no instances to run: see cts data mimics-duo, and cts data show mimics-duo:DIR",
    inspect=imported_on_call("cts_async.neighbours.mimics_duo.panes", "open_panes"),
    folder_files=(
        "Mimics-ClickExploreSampling.tsv",
        "Task1-OfflineRating.tsv",
        "Task2-QualityLabelling.tsv",
        "Task3-AspectLabelling.tsv",
    ),
    position=4,
)
