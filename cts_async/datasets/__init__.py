"""Reads queries, gold nuggets and candidate answers from files; one file per dataset.

Every InputError names the file, and the line and field where there are any.
"""

from cts_async.datasets.candidates import CandidateLine, FailedLine, candidate_files, read_candidates
from cts_async.datasets.dataset import Dataset, sha256_of
from cts_async.datasets.gold import GoldIndex, GoldRecord, normalise, read_gold
from cts_async.datasets.kinds import KINDS, open_dataset
from cts_async.datasets.lines import check_read_again
from cts_async.datasets.sample import sample_dir

__all__ = [
    "KINDS",
    "CandidateLine",
    "Dataset",
    "FailedLine",
    "GoldIndex",
    "GoldRecord",
    "candidate_files",
    "check_read_again",
    "normalise",
    "open_dataset",
    "read_candidates",
    "read_gold",
    "sample_dir",
    "sha256_of",
]
