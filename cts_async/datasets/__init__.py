"""Reads queries, gold nuggets and candidate answers from files; one module in `kinds` for each kind of dataset.

Every InputError names the file, and the line and field if there are any.
"""

from cts_async.datasets.candidates import CandidateLine, FailedLine, candidate_files, read_candidates
from cts_async.datasets.gold import GoldIndex, GoldRecord, normalise, read_gold
from cts_async.datasets.io import check_read_again, restriction_in, sha256_of
from cts_async.datasets.kinds import Dataset, all_kinds, open_dataset
from cts_async.datasets.kinds.sample import sample_dir

__all__ = [
    "CandidateLine",
    "Dataset",
    "FailedLine",
    "GoldIndex",
    "GoldRecord",
    "all_kinds",
    "candidate_files",
    "check_read_again",
    "normalise",
    "open_dataset",
    "read_candidates",
    "read_gold",
    "restriction_in",
    "sample_dir",
    "sha256_of",
]
