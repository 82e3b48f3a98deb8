"""What the agent reads of searches and visits, and what happens when they fail."""

from __future__ import annotations

import anyio
import pytest

from cts_async.errors import ToolError, TransientError
from cts_async.search.backends import Backend, Hit, Page
from cts_async.search.tags import SearchCall, VisitCall
from cts_async.search.tools import extract_for_goal, format_search, format_visit, run_search, run_visit

PAGE = (
    "Rome is old. " + "It has many streets. " * 40 + "The Colosseum was built in 80 AD. " + "Trams run. " * 40
)


class Shelf:
    """A backend of one page; the names of queries and urls say what goes wrong."""

    name = "shelf"
    engine = ""

    async def search(self, query: str, limit: int) -> list[Hit]:
        self._fail(query)
        await anyio.sleep(0.02 if query == "slow" else 0)
        return [Hit("1", f"https://x/{query}", f"About {query}", "A snippet.", 1.0)][:limit]

    async def fetch(self, url: str) -> Page:
        self._fail(url)
        return Page("1", url, "Rome", PAGE)

    def _fail(self, what: str) -> None:
        if "bad" in what:
            raise ToolError(f"nothing at {what}")
        if "flaky" in what:
            raise TransientError("timed out")


SHELF: Backend = Shelf()


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


@pytest.mark.parametrize(
    ("text", "goal", "limit", "expected"),
    [
        ("  A short page.  ", "any", 100, "A short page."),
        ("One cat. Two dogs. Three cats. Four owls.", "cat", 24, "One cat.\nThree cats."),
        ("One cat. Two dogs. Three cats. Four owls.", "zebra", 20, "One cat. Two dogs."),
        ("One cat. Two dogs. Three cats. Four owls.", "", 9, "One cat."),
        ("今天下雨。长城很长。明天晴。", "长城有多长", 6, "长城很长。"),
        ("x" * 50, "goal", 10, "x" * 10),
        ("", "goal", 10, ""),
        ("text", "goal", 0, ""),
    ],
)
def test_evidence_is_what_shares_most_with_the_goal(text: str, goal: str, limit: int, expected: str):
    assert extract_for_goal(text, goal, limit) == expected


async def test_queries_keep_their_order_whichever_ends_first():
    result = await run_search(SHELF, SearchCall(("slow", "quick")), 10)
    first, second = result.text.split("\n=======\n")
    assert first.startswith("A search for 'slow'")
    assert second.startswith("A search for 'quick'")
    assert result.failures == ()


async def test_a_failed_query_is_told_and_the_others_kept():
    result = await run_search(SHELF, SearchCall(("bad", "good")), 10)
    assert result.failures == ("The search for 'bad' failed: nothing at bad.",)
    assert result.text.startswith(result.failures[0] + "\n=======\nA search for 'good'")


async def test_a_visit_gives_bounded_evidence_for_the_goal():
    result = await run_visit(
        SHELF, VisitCall(("https://x/1", "https://x/2"), "when was the Colosseum built"), 300
    )
    first, second = result.text.split("\n=======\n")
    assert "https://x/1" in first
    assert "https://x/2" in second
    evidence = first.split("Evidence in page:\n")[1].split("\n\nSummary:")[0]
    assert "The Colosseum was built in 80 AD." in evidence
    assert len(evidence) <= 150


async def test_an_unknown_page_is_told():
    result = await run_visit(SHELF, VisitCall(("https://bad", "https://x/2"), "g"), 300)
    assert result.failures == ("The page https://bad could not be read: nothing at https://bad.",)
    assert result.text.startswith(result.failures[0])


async def test_nothing_but_failures_is_an_error_not_a_result():
    with pytest.raises(ToolError, match="'bad1' failed: nothing at bad1. The search for 'bad2'"):
        await run_search(SHELF, SearchCall(("bad1", "bad2")), 10)
    with pytest.raises(ToolError, match="https://bad could not be read"):
        await run_visit(SHELF, VisitCall(("https://bad",), "g"), 100)


@pytest.mark.parametrize("others", [("good",), ("bad",)])
async def test_what_may_pass_is_left_to_the_callers_retry(others: tuple[str, ...]):
    with pytest.raises(TransientError):
        await run_search(SHELF, SearchCall((*others, "flaky")), 10)
