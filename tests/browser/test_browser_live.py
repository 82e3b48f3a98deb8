"""A run that grows while its page is open."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from fake_provider import provider_process
from made_live import lane, live, part, worker
from made_runs import Row, made_run
from made_views import GOOD_K3
from playwright.sync_api import Page, expect
from real_run import RealRun

from browser.viewing import Viewer, Watch, row_of
from cts_async.watch.live import LiveFile, LiveLane, remove_live, write_live

NAME = "growing-gpt-k1"


@pytest.fixture
def growing(viewer: Viewer) -> Iterator[Path]:
    """A run of 4 instances, one of which has ended, with a process at work."""
    directory = made_run(
        viewer.runs,
        label="gpt-k1",
        data="growing",
        rows=[Row("g0", ("Which?",), ("this",), 20.0)],
        n_expected=4,
    )
    write_live(directory, running(1, mean=20.0))
    yield directory
    shutil.rmtree(directory)


OPENAI = lane("openai", in_flight=3, calls_per_min=41.0, calls_allowed=60.0)


def running(n_done: int = 0, lanes: Sequence[LiveLane] = (OPENAI,), **fields: Any) -> LiveFile:
    """The state of this process, which has worked for a minute."""
    now = time.time()
    return live([part(NAME, n_done, 4)], lanes, **{"time": now, "started": now - 60} | fields)


def end_one_more(directory: Path, id: str, score: float) -> None:
    """Append the line of another instance, as the run would; `score` is a whole number of points."""
    line = json.loads((directory / "results.jsonl").read_text().splitlines()[0])
    nuggets = [
        {"id": "N1", "weight": score, "coverage": "full"},
        {"id": "N2", "weight": 100 - score, "coverage": "none"},
    ]
    line |= {"id": id, "nuggets": nuggets, "restore_score_100": score}
    with (directory / "results.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")


def test_page_of_a_growing_run_updates_itself(page: Page, viewer: Viewer, growing: Path) -> None:
    page.goto(viewer.url)
    row_of(page, NAME).get_by_role("link").click()
    expect(page.get_by_text("● running")).to_be_visible()
    expect(page.locator("tbody tr[data-id]")).to_have_count(1)
    provider = page.get_by_role("table", name="Providers").get_by_role("row").filter(has_text="openai")
    expect(provider).to_contain_text("3 of 8")
    expect(provider).to_contain_text("41 of 60")
    end_one_more(growing, "g1", 60.0)
    outage = lane("openai", open_s=34.0, reason="no answer")
    write_live(growing, running(2, mean=40.0, mean_low=-214.1, mean_high=294.1, lanes=[outage]))
    expect(page.locator("tbody tr[data-id=g1]")).to_be_visible()
    expect(page.locator(".live")).to_contain_text("2 of 4")
    expect(page.locator(".facts.large")).to_contain_text("Mean so far40.0")
    expect(page.locator(".facts.large")).not_to_contain_text("[")  # no interval below 5 scores
    expect(page.locator("dt", has_text="Mean")).to_have_count(1)
    expect(provider).to_contain_text("down")
    remove_live(growing)
    expect(page.get_by_text("● running")).to_have_count(0)


def test_workers_are_listed_and_of_many_only_unhealthy_ones(
    page: Page, viewer: Viewer, growing: Path
) -> None:
    lost = worker("w3", state="lost", note="its process <b>died</b>")
    workers = [worker("w1"), worker("w2", host="node-b", heard_s=7.0), lost]
    write_live(growing, running(workers=workers, workers_wanted=3, cluster="ray://head:10001"))
    page.goto(viewer.at("run", run=NAME))
    expect(page.locator(".live")).to_contain_text("2 of 3hosts: 2, lost: 1")
    rows = page.get_by_role("table", name="Workers").locator("tbody").get_by_role("row")
    expect(rows).to_have_text(
        [
            "w1node-a8120180working",
            "w2node-b8120180silent for 7 s",
            "w3node-a8120180lostits process <b>died</b>",
        ]
    )
    many = [*(worker(f"w{n}", host=f"node-{n % 8}") for n in range(64)), lost]
    write_live(growing, running(workers=many, workers_wanted=64, cluster="ray://head:10001"))
    expect(page.locator(".live")).to_contain_text("64hosts: 8, lost: 1")
    expect(rows).to_have_count(1)
    write_live(growing, running())
    expect(page.get_by_role("table", name="Workers")).to_have_count(0)


def test_batches_are_listed_with_their_provider_counts(page: Page, viewer: Viewer, growing: Path) -> None:
    now = time.time()
    batch = {
        "model": "gpt",
        "id": "batch_<b>1</b>",
        "state": "in_progress",
        "n_requests": 1000,
        "n_done": 250,
        "n_failed": 2,
        "since": now - 600,
    }
    write_live(growing, running(time=now, batches=[batch]))
    page.goto(viewer.at("run", run=NAME))
    rows = page.get_by_role("table", name="Batches of requests").locator("tbody").get_by_role("row")
    expect(rows).to_have_text(["gpt batch_<b>1</b>in_progress250 of 1,000210 min 0 s"])


def test_running_run_shows_each_number_once(page: Page, viewer: Viewer, growing: Path) -> None:
    page.goto(viewer.at("run", run=NAME))
    page.locator("tbody tr[data-id]").wait_for()
    expect(page.get_by_text("1 of 4", exact=True)).to_have_count(1)
    remove_live(growing)
    expect(page.get_by_text("● running")).to_have_count(0)
    expect(page.get_by_text("1 of 4", exact=True)).to_have_count(1)
    expect(page.get_by_text("Cost", exact=True)).to_be_visible()


def test_a_real_run_is_watched_from_its_first_instance_to_its_last(page: Page, viewer: Viewer) -> None:
    """`cts run` over 3 instances, against a provider that takes 50 ms for each of some 18 calls, 2 at a time.

    It begins when the list of runs is open already, and appears there by itself.
    """
    words = ("--all", "fake", "-k", "1", "--no-orig", "--limit", "3", "--name", "watched", "-q")
    run = RealRun(viewer.runs.parent, words)
    page.goto(viewer.url)
    page.locator("section.group").first.wait_for()
    expect(row_of(page, "watched")).to_have_count(0)
    with provider_process(latency_s=0.05) as provider:
        run.configure(provider.url, max_concurrency=2)
        with run.start() as process:
            try:
                row_of(page, "watched").get_by_role("link").click()
                page.locator("tbody tr[data-id]").first.wait_for()
                expect(page.locator("tbody tr[data-id]")).to_have_count(3)
                assert process.wait(timeout=30) == 0
                expect(page.get_by_text("● running")).to_have_count(0)
            finally:
                process.kill()
                shutil.rmtree(viewer.runs / "watched", ignore_errors=True)


def test_unreachable_server_is_reported_and_retried(
    new_page: Callable[..., Page], viewer: Viewer, watch: Watch
) -> None:
    watch.expected = "net::ERR_INTERNET_DISCONNECTED"
    page = new_page()
    page.goto(viewer.at("instance", run=GOOD_K3, id="s04"))
    page.get_by_role("link", name="Next instance").wait_for()
    page.context.set_offline(True)
    page.keyboard.press("j")
    expect(page.get_by_role("alert").filter(has_text="The server does not answer")).to_be_visible()
    page.context.set_offline(False)
    expect(page.get_by_role("heading", level=1, name="property tax rate")).to_be_visible()
    expect(page.get_by_text("The server does not answer")).to_be_hidden()
