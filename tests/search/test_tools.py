"""What the agent reads of searches and visits."""

from __future__ import annotations

from cts_async.search.backends.base import Hit
from cts_async.search.turn_format import format_failure, format_search, format_visit


def test_search_results_read_as_in_webdancer():
    hits = [
        Hit("1", "https://x/a_(b)", "A\nB", "First  snippet.", 2.0),
        Hit("2", "https://x/c", "C", "", 1.0, date="2024-01-01", source="Example"),
    ]
    assert format_search("my query", hits) == (
        "A search for 'my query' found 2 results:\n\n## Web Results\n"
        "1. [A B](https://x/a_%28b%29)\nFirst snippet.\n\n"
        "2. [C](https://x/c)\nDate published: 2024-01-01\nSource: Example"
    )
    assert format_search("q", hits, "Google").startswith("A Google search for 'q' found 2 results:")
    assert format_search("q", []) == "No results found for 'q'. Try a more general query."


def test_a_visit_reads_as_in_webdancer():
    assert format_visit("https://x", "when", "In 80 AD.", "Rome") == (
        "The useful information in https://x for user goal when as follows:\n\n"
        "Evidence in page:\nIn 80 AD.\n\nSummary:\nRome\n"
    )


def test_a_failure_is_one_bounded_line():
    told = format_failure("the visit to https://x", "HTTP 500:\n" + "no " * 500)
    assert told.startswith("Error: the visit to https://x failed: HTTP 500: no no ")
    assert "\n" not in told
    assert len(told) <= len("Error: the visit to https://x failed: ") + 300 + 1
