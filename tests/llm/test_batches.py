"""Batches over real HTTP, of both kinds: what is handed in, when, what becomes of it, and that nothing is paid twice."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_batches import BatchFaults, FakeBatches
from llm_calls import KEY, spec_at

from cts_async.engine.events import Event, Events, Notice
from cts_async.engine.journal import read_records
from cts_async.engine.lane import Lane, LaneLimits
from cts_async.errors import (
    BatchesPending,
    CTSError,
    Interrupted,
    ProviderDown,
    ProviderRefused,
    RejectedError,
    RunStopped,
)
from cts_async.llm.apis import ChatRequest, Message, Reply
from cts_async.llm.batch_ledger import BATCHES, read_ledger
from cts_async.llm.batches import BatchClient, BatchSettings, BatchTiming
from cts_async.llm.catalog import BATCH, ModelSpec, Tier
from cts_async.llm.model import Client, model_prices

HASTE = BatchTiming(
    quiet_s=0.02,
    first_poll_s=0.01,
    longest_poll_s=0.05,
    file_s=1.0,
    retry_s=0.01,
    lost_s=0.3,
    skew_s=2.0,
    files_missing_s=0.02,
    first_room_s=0.01,
    longest_room_s=0.1,
)
KINDS = pytest.mark.parametrize("api", ["openai", "anthropic"])


class Session:
    """What one process does: a client with its ledger, and what it tells."""

    def __init__(self, client: BatchClient, spec: ModelSpec, told: list[str]) -> None:
        self.client, self.spec, self.told = client, spec, told

    async def ask(self, *topics: str) -> list[Reply | CTSError]:
        """The replies to questions about these topics, or the errors in their places."""
        calls = [self.client.chat(self.spec, question(topic)) for topic in topics]
        return await asyncio.gather(*calls, return_exceptions=True)  # type: ignore[return-value]


def question(topic: str) -> ChatRequest:
    messages: Sequence[Message] = (
        {"role": "system", "content": "Ask."},
        {"role": "user", "content": f"<blurred_query>\n{topic}\n</blurred_query>\nK = 2"},
    )
    return ChatRequest(messages)


@asynccontextmanager
async def session(
    provider: FakeBatches,
    folder: Path,
    api: str = "openai",
    timing: BatchTiming = HASTE,
    fallback: Any = "batch",
    **terms: Any,
) -> AsyncIterator[Session]:
    told: list[str] = []

    def tell(event: Event) -> None:
        if isinstance(event, Notice):
            told.append(event.text)

    events = Events(tell)
    tiers = {BATCH: Tier(0.5, **terms)}
    spec = spec_at(provider.url, api=api, tiers=tiers, input_usd_per_mtok=2.0, output_usd_per_mtok=8.0)
    settings = BatchSettings([folder], fallback, 5.0, timing)
    async with Client({"MY_KEY": KEY}) as client, BatchClient(client, events, settings) as batches:
        live = Lane("mine", LaneLimits(), events)
        lane = batches.lane(spec, live)
        made = Session(batches, spec, told)
        made.lane = lane  # type: ignore[attr-defined]
        yield made


def texts(replies: Sequence[Reply | CTSError]) -> list[str]:
    for reply in replies:
        assert isinstance(reply, Reply), repr(reply)
    return [reply.text for reply in replies if isinstance(reply, Reply)]


def events_in(folder: Path) -> list[str]:
    return [record["event"] for record in read_records(folder / BATCHES) if record["event"] != "state"]


@KINDS
async def test_replies_of_a_batch_are_those_of_ordinary_calls_at_half_the_price(
    api: str, tmp_path: Path
) -> None:
    async with FakeBatches(BatchFaults(unknown=2)) as provider:
        async with session(provider, tmp_path, api) as batched:
            replies = await batched.ask("ferry", "bikes", "ferry")
        async with Client({"MY_KEY": KEY}) as client:
            ordinary = await client.chat(batched.spec, question("ferry"))
    assert len(provider.made) == 1
    # Equal requests are one line.
    assert len(provider.made[0].requests) == 2
    first, _, third = replies
    assert isinstance(first, Reply)
    assert (first.text, first.usage, third) == (ordinary.text, ordinary.usage, first)
    assert first.tier == BATCH
    prices = model_prices(batched.spec)
    assert prices is not None
    assert first.usage is not None
    assert prices.usd(first.usage.in_tier(first.tier)) == pytest.approx(0.5 * prices.usd(first.usage))
    assert any("2 results with unknown ids are refused" in text for text in batched.told)
    assert events_in(tmp_path) == ["intent", "created", "ended"]
    assert KEY not in (tmp_path / BATCHES).read_text() + "".join(batched.told)


async def test_batches_are_split_by_requests_and_by_bytes(tmp_path: Path) -> None:
    topics = [f"topic {n}" for n in range(5)]
    async with FakeBatches() as provider:
        async with session(provider, tmp_path, max_requests=2) as batched:
            assert len(set(texts(await batched.ask(*topics)))) == 5
        assert [len(batch.requests) for batch in provider.made] == [2, 2, 1]
        size = len(provider.files["file-0001"].split(b"\n")[0])
    async with FakeBatches() as provider:
        # Room for three requests and their line breaks, and not for a fourth.
        async with session(provider, tmp_path / "..", max_bytes=3 * size + 9) as batched:
            texts(await batched.ask(*topics))
        assert [len(batch.requests) for batch in provider.made] == [3, 2]


@KINDS
async def test_two_entries_of_one_model_are_each_asked_with_their_own_parameters(
    api: str, tmp_path: Path
) -> None:
    async with FakeBatches() as provider, session(provider, tmp_path, api) as batched:
        low = replace(batched.spec, params={"seed": 1})
        high = replace(batched.spec, name="high", params={"seed": 2})
        batched.client.lane(high, Lane("high", LaneLimits(), Events(lambda event: None)))
        await asyncio.gather(*(batched.client.chat(spec, question("ferry")) for spec in (low, high)))
        # One batch, as it is one model, and a line for each.
        assert len(provider.made) == 1
        bodies = [json.loads(request.body) for request in provider.made[0].requests]
        assert [body["seed"] for body in bodies] == [1, 2]


async def test_one_model_at_two_addresses_is_found_again_at_both(tmp_path: Path) -> None:
    """Equal bodies are counted for each address: a line's id must be the same when the command is typed again."""
    async with FakeBatches() as provider, FakeBatches() as mirror:
        for _ in range(2):
            async with session(provider, tmp_path) as batched:
                elsewhere = replace(batched.spec, name="mirror", base_url=mirror.url)
                batched.client.lane(elsewhere, Lane("mirror", LaneLimits(), Events(lambda event: None)))
                # The first command judges here and then there; the second one has what was judged here in its journal.
                if not provider.made:
                    await batched.client.chat(batched.spec, question("ferry"))
                await batched.client.chat(elsewhere, question("ferry"))
        assert (len(provider.made), len(mirror.made)) == (1, 1)


@KINDS
async def test_what_a_batch_has_no_reply_to_is_asked_in_the_next_one(api: str, tmp_path: Path) -> None:
    topics = [f"topic {n}" for n in range(30)]
    faults = BatchFaults(expired=0.2, errored=0.1, missing=0.1)
    async with FakeBatches(faults) as provider, session(provider, tmp_path, api) as batched:
        fates = {len(await batched.ask(*topics[:0]))}
        replies = await batched.ask(*topics)
        assert fates == {0}
        assert len(provider.made) >= 2
        first, second = provider.made[:2]
        unanswered = {request.id for request in first.requests if request.fate}
        assert 0 < len(unanswered) < 30
        # The ids are those of the first batch: the same bodies once more, and no others.
        assert {request.id for request in second.requests} == unanswered
        assert provider.stats()["lines_paid_twice"] == 0
        given_up = [reply for reply in replies if isinstance(reply, RejectedError)]
        assert all("no reply in 3 batches" in str(error) for error in given_up)
        assert len(replies) - len(given_up) == provider.stats()["lines_paid"]


async def test_fallback_none_gives_up_and_live_asks_by_an_ordinary_call(tmp_path: Path) -> None:
    topics = [f"topic {n}" for n in range(30)]
    async with FakeBatches(BatchFaults(expired=0.3)) as provider:
        async with session(provider, tmp_path, fallback="none") as batched:
            replies = await batched.ask(*topics)
        expired = [request for request in provider.made[0].requests if request.fate]
        errors = [str(reply) for reply in replies if isinstance(reply, RejectedError)]
        assert len(errors) == len(expired) > 0
        assert "batch_expired: This request could not be executed" in errors[0]
        async with session(provider, tmp_path, fallback="live") as batched:
            # The same ledger: the batch of before has all other replies.
            replies = await batched.ask(*topics)
        assert len(texts(replies)) == 30
        tiers = [reply.tier for reply in replies if isinstance(reply, Reply)]
        assert tiers.count("") == len(expired) == provider.stats()["paid"]
        assert len(provider.made) == 1


async def test_reason_of_a_failed_validation_is_told_once_and_handed_in_again_later(tmp_path: Path) -> None:
    async with FakeBatches(BatchFaults(failed="no such model")) as provider:
        async with session(provider, tmp_path) as batched:
            replies = await batched.ask("ferry", "bikes")
        assert len({str(reply) for reply in replies}) == 1
        assert isinstance(replies[0], ProviderRefused)
        assert "a batch of 2 requests was refused: invalid: no such model" in str(replies[0])
        provider.faults.failed = ""
        async with session(provider, tmp_path) as batched:
            texts(await batched.ask("ferry", "bikes"))
        assert len(provider.made) == 2


@KINDS
async def test_creation_refused_under_200_is_told_and_not_looked_for(api: str, tmp_path: Path) -> None:
    async with FakeBatches(BatchFaults(refused_under_200="open the storage first")) as provider:
        async with session(provider, tmp_path, api) as batched:
            (reply,) = await asyncio.wait_for(batched.ask("ferry"), 10)
        assert isinstance(reply, ProviderRefused)
        assert "a batch of 1 request was refused: mine: HTTP 200: open the storage first" in str(reply)
        assert provider.requests["GET list"] == 0
    assert events_in(tmp_path) == ["intent", "refused"]


@KINDS
async def test_gateways_page_in_the_place_of_a_state_is_no_end(api: str, tmp_path: Path) -> None:
    async with FakeBatches(BatchFaults(gateway_pages=2)) as provider:
        async with session(provider, tmp_path, api) as batched:
            texts(await batched.ask("ferry"))
        assert len(provider.made) == 1


async def test_file_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    async with FakeBatches(BatchFaults(refused_creations=2)) as provider:
        async with session(provider, tmp_path) as batched:
            texts(await batched.ask("ferry"))
        assert provider.requests["POST batch"] == 3
        assert provider.requests["POST file"] == 1
    assert events_in(tmp_path) == ["intent", "refused", "intent", "refused", "intent", "created", "ended"]
    (batch,) = read_ledger(tmp_path)
    assert len(batch.ids) == 1


async def test_too_many_enqueued_tokens_make_smaller_batches(tmp_path: Path) -> None:
    topics = [f"topic {n}" for n in range(10)]
    async with FakeBatches(BatchFaults(over_quota=3)) as provider:
        async with session(provider, tmp_path) as batched:
            texts(await asyncio.wait_for(batched.ask(*topics), 10))
        assert provider.stats()["lines_paid"] == 10
        assert [len(batch.requests) for batch in provider.made][:2] == [10, 5]


async def test_quota_that_others_fill_is_waited_for_longer_each_time(tmp_path: Path) -> None:
    topics = [f"topic {n}" for n in range(10)]
    async with FakeBatches(BatchFaults(full_batches=6)) as provider:
        began = time.monotonic()
        async with session(provider, tmp_path) as batched:
            texts(await asyncio.wait_for(batched.ask(*topics), 10))
            # 10, 5 (and the other 5, whose refusal halves nothing once the first waits), ...
            waits = [text for text in batched.told if "by batches of at most" in text]
        # 0.01 s, 0.02, 0.04: a refused batch is handed in again only when its wait is over.
        assert time.monotonic() - began >= 0.07
        assert len(waits) >= 3
        assert waits[0].endswith("it is handed in again in 0 s, by batches of at most 5")
        assert len(provider.made[0].requests) == 10
        assert provider.stats()["lines_paid"] == 10
        assert provider.stats()["lines_paid_twice"] == 0


async def test_batches_grow_again_once_there_is_room(tmp_path: Path) -> None:
    async with FakeBatches(BatchFaults(full_batches=1)) as provider:
        async with session(provider, tmp_path) as batched:
            texts(await asyncio.wait_for(batched.ask("ferry", "bikes"), 10))
            texts(await asyncio.wait_for(batched.ask("tides", "trains"), 10))
        # Two are refused, and handed in one by one; the next two are one batch.
        assert [len(batch.requests) for batch in provider.made] == [2, 1, 1, 2]


@KINDS
async def test_batch_that_ends_without_results_is_not_polled_for_ever(api: str, tmp_path: Path) -> None:
    faults = BatchFaults(no_files=True) if api == "openai" else BatchFaults(cancelled=True)
    async with FakeBatches(faults) as provider, session(provider, tmp_path, api) as batched:
        (reply,) = await asyncio.wait_for(batched.ask("ferry"), 10)
        assert isinstance(reply, RejectedError)
        assert "no reply in 3 batches" in str(reply)
        assert len(provider.made) == 3
        assert max(batch.polls for batch in provider.made) < 20


@KINDS
@pytest.mark.parametrize("fault", [{"cut_files": 1}, {"refused_files": 1}, {"repeated_lines": True}])
async def test_replies_that_are_paid_are_read_once_their_file_is_whole(
    api: str, fault: dict[str, Any], tmp_path: Path
) -> None:
    async with FakeBatches(BatchFaults(**fault)) as provider:
        async with session(provider, tmp_path, api) as batched:
            texts(await batched.ask("ferry", "bikes", "tides"))
        assert len(provider.made) == 1
        assert any("3 of 3 requests have a reply" in text for text in batched.told)


async def test_output_file_that_comes_after_the_error_file_is_waited_for(tmp_path: Path) -> None:
    topics = [f"topic {n}" for n in range(30)]
    async with FakeBatches(BatchFaults(errored=0.3, late_outputs=2)) as provider:
        async with session(provider, tmp_path, fallback="none") as batched:
            replies = await batched.ask(*topics)
        assert sum(isinstance(reply, Reply) for reply in replies) == provider.stats()["lines_paid"] > 0
        # The creation named none either.
        assert provider.made[0].polls == 2


@KINDS
async def test_replies_whose_file_is_gone_are_not_asked_again_by_themselves(api: str, tmp_path: Path) -> None:
    async with FakeBatches(BatchFaults(refused_files=1000)) as provider:
        async with session(provider, tmp_path, api) as batched:
            (reply,) = await asyncio.wait_for(batched.ask("ferry"), 10)
        assert isinstance(reply, ProviderRefused)
        assert "batch_0001 has ended, its provider counts 1 of its requests as done" in str(reply)
        assert len(provider.made) == 1


@KINDS
async def test_next_process_waits_for_the_same_batch(api: str, tmp_path: Path) -> None:
    async with FakeBatches(BatchFaults(duration_s=60)) as provider:
        async with session(provider, tmp_path, api) as batched:
            asking = asyncio.create_task(batched.ask("ferry", "bikes"))
            while not provider.made or not provider.made[0].polls:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            batched.lane.stop(Interrupted("stop"))  # type: ignore[attr-defined]
            assert [str(reply) for reply in await asking] == ["stop", "stop"]
        provider.faults.duration_s = 0
        async with session(provider, tmp_path, api) as batched:
            # One more is a line of the next batch.
            texts(await batched.ask("bikes", "ferry", "tides"))
            await batched.client.close_ended()
        assert [len(batch.requests) for batch in provider.made] == [2, 1]
        assert provider.stats()["lines_paid_twice"] == 0
        assert events_in(tmp_path)[-2:] == ["closed", "closed"]
        # What is closed answers nothing: whoever asks now, such as --retry-failed, wants another reply.
        async with session(provider, tmp_path, api) as batched:
            texts(await batched.ask("ferry"))
        assert len(provider.made) == 3


@KINDS
async def test_orphan_between_the_two_writes_is_adopted(api: str, tmp_path: Path) -> None:
    async with FakeBatches(BatchFaults(listed_after_s=0.1)) as provider:
        # Somebody else's batch of the same size at the same time: its results have other ids.
        async with session(provider, tmp_path / "..", api) as other:
            texts(await other.ask("cars", "trains"))
        async with session(provider, tmp_path, api) as batched:
            texts(await batched.ask("ferry", "bikes"))
        ledger = tmp_path / BATCHES
        intent, created, *_ = ledger.read_bytes().splitlines(keepends=True)
        assert json.loads(created)["id"] == provider.made[1].id
        # As a process leaves it that is killed after the creation, while it writes the id.
        ledger.write_bytes(intent + created[:20])
        async with session(provider, tmp_path, api) as batched:
            texts(await batched.ask("bikes", "ferry"))
        assert len(provider.made) == 2
        assert provider.stats()["lines_paid_twice"] == 0
    assert events_in(tmp_path) == ["intent", "created", "ended"]
    assert [record.get("adopted") for record in read_records(ledger)][1] is True
    assert ledger.with_name("batches.jsonl.torn").exists()


async def test_orphan_is_adopted_by_its_file_where_a_provider_keeps_no_metadata(tmp_path: Path) -> None:
    async with FakeBatches(BatchFaults(metadata=False, unanswered_creations=1.0)) as provider:
        async with session(provider, tmp_path) as batched:
            texts(await batched.ask("ferry", "bikes"))
        assert len(provider.made) == 1


@KINDS
async def test_orphan_is_adopted_from_a_list_that_begins_with_the_oldest(api: str, tmp_path: Path) -> None:
    faults = BatchFaults(oldest_first=True, clock_s=-1000.0)
    async with FakeBatches(faults) as provider:
        async with session(provider, tmp_path / "..", api) as other:
            texts(await other.ask("cars", "trains"))
        # That one was made long before, by all clocks.
        provider.faults.clock_s, provider.faults.unanswered_creations = 0.0, 1.0
        async with session(provider, tmp_path, api) as batched:
            texts(await batched.ask("ferry", "bikes"))
        assert len(provider.made) == 2


async def test_orphan_is_adopted_though_results_of_others_are_gone(tmp_path: Path) -> None:
    async with FakeBatches(BatchFaults(gone_files=("msgbatch_0002",))) as provider:
        async with session(provider, tmp_path, "anthropic") as batched:
            texts(await batched.ask("ferry"))
        ledger = tmp_path / BATCHES
        intent, _ = ledger.read_bytes().split(b"\n", 1)
        ledger.write_bytes(intent + b"\n")
        # Another batch of the same size, listed before ours.
        async with session(provider, tmp_path / "..", "anthropic") as other:
            assert isinstance((await other.ask("cars"))[0], ProviderRefused)
        async with session(provider, tmp_path, "anthropic") as batched:
            texts(await batched.ask("ferry"))
        assert len(provider.made) == 2


@KINDS
@pytest.mark.parametrize("hours", [-14, 14])
async def test_orphan_is_adopted_though_a_clock_is_wrong_by_hours(
    api: str, hours: int, tmp_path: Path
) -> None:
    """A clock is set by hand, or to another time zone's time: the batch is listed long before or after its intent."""
    timing = replace(HASTE, skew_s=BatchTiming().skew_s)
    faults = BatchFaults(unanswered_creations=1.0, clock_s=3600.0 * hours)
    async with FakeBatches(faults) as provider:
        async with session(provider, tmp_path, api, timing) as batched:
            texts(await batched.ask("ferry", "bikes"))
        assert len(provider.made) == 1
    assert events_in(tmp_path) == ["intent", "created", "ended"]


@KINDS
async def test_creation_that_never_happened_is_repeated_only_after_a_day(api: str, tmp_path: Path) -> None:
    async with FakeBatches(BatchFaults(dropped_creations=1.0)) as provider:
        began = time.monotonic()
        async with session(provider, tmp_path, api) as batched:
            asking = asyncio.create_task(batched.ask("ferry"))
            while not provider.requests["GET list"]:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            provider.faults.dropped_creations = 0
            texts(await asking)
        assert time.monotonic() - began >= HASTE.lost_s
        assert provider.requests["POST batch"] == 2
    assert events_in(tmp_path) == ["intent", "void", "intent", "created", "ended"]


async def test_submission_ends_with_one_line_and_the_same_command_collects(tmp_path: Path) -> None:
    async with FakeBatches(BatchFaults(duration_s=60)) as provider:
        for _ in range(2):
            reasons: list[RunStopped] = []
            async with session(provider, tmp_path) as batched:
                ended = asyncio.Event()

                def submitted(
                    reason: RunStopped, ended: asyncio.Event = ended, reasons: Any = reasons
                ) -> None:
                    reasons.append(reason)
                    ended.set()

                batched.client.on_submitted = submitted
                asking = asyncio.create_task(batched.ask("ferry", "bikes", "tides"))
                await asyncio.wait_for(ended.wait(), 10)
                batched.lane.stop(reasons[0])  # type: ignore[attr-defined]
                await asking
            assert isinstance(reasons[0], BatchesPending)
            assert (
                str(reasons[0]) == "submitted 3 requests in 1 batch (batch_0001); the same command collects"
            )
        provider.faults.duration_s = 0
        async with session(provider, tmp_path) as batched:
            texts(await batched.ask("ferry", "bikes", "tides"))
        assert len(provider.made) == 1


@pytest.mark.parametrize("is_stopped", [False, True])
async def test_submission_ends_though_another_model_is_done_or_stopped(
    is_stopped: bool, tmp_path: Path
) -> None:
    async with FakeBatches() as provider, session(provider, tmp_path, max_requests=1) as batched:
        texts(await batched.ask("ferry"))
        if is_stopped:
            # As by a refused key: of two more batches none is handed in.
            stopped = asyncio.create_task(batched.ask("bikes", "trains"))
            while not any(batch.state == "filling" for batch in batched.client.batches()):  # noqa: ASYNC110
                await asyncio.sleep(0)
            batched.lane.stop(Interrupted("stop"))  # type: ignore[attr-defined]
            assert [str(reply) for reply in await stopped] == ["stop", "stop"]
        provider.faults.duration_s = 60
        second = replace(batched.spec, name="second", model="m-2")
        second_lane = batched.client.lane(second, Lane("second", LaneLimits(), Events(lambda event: None)))
        reasons: list[RunStopped] = []
        ended = asyncio.Event()

        def submitted(reason: RunStopped) -> None:
            reasons.append(reason)
            ended.set()

        batched.client.on_submitted = submitted
        asking = asyncio.create_task(batched.client.chat(second, question("ferry")))
        await asyncio.wait_for(ended.wait(), 10)
        second_lane.stop(reasons[0])
        with pytest.raises(BatchesPending):
            await asking
        # Only what is waited for: the first model's batch is collected.
        assert str(reasons[0]) == "submitted 1 request in 1 batch (batch_0002); the same command collects"


async def test_same_request_after_an_unusable_reply_is_a_new_line(tmp_path: Path) -> None:
    async with FakeBatches() as provider, session(provider, tmp_path) as batched:
        texts(await batched.ask("ferry"))
        texts(await batched.ask("ferry"))
        first, second = provider.made
        assert first.requests[0].digest == second.requests[0].digest
        assert first.requests[0].id != second.requests[0].id


async def test_busy_provider_is_waited_for_and_an_outage_ends_with_nothing_lost(tmp_path: Path) -> None:
    async with FakeBatches(BatchFaults(busy=0.5)) as provider:
        async with session(provider, tmp_path) as batched:
            texts(await batched.ask("ferry"))
        provider.faults.busy = 1.0
        async with session(provider, tmp_path) as batched:
            batched.client._settings.max_outage_s = 0.05
            (reply,) = await asyncio.wait_for(batched.ask("bikes"), 10)
    assert isinstance(reply, RunStopped)
    assert "the same command collects" in str(reply)


async def test_pause_beyond_the_longest_outage_ends_the_command_at_once(tmp_path: Path) -> None:
    """As it ends a command of ordinary calls, rather than to sleep for a day without a word."""
    async with FakeBatches(BatchFaults(pause_s=6)) as provider, session(provider, tmp_path) as batched:
        (reply,) = await asyncio.wait_for(batched.ask("ferry"), 3)
    assert isinstance(reply, ProviderDown)
    assert "too many batches: it requests a pause of 6 s" in str(reply)
    assert events_in(tmp_path) == ["intent", "refused"]


async def test_batch_that_the_account_does_not_know_is_never_sent_again_by_itself(tmp_path: Path) -> None:
    async with FakeBatches() as provider:
        async with session(provider, tmp_path) as batched:
            texts(await batched.ask("ferry"))
        provider.made.clear()
        async with session(provider, tmp_path) as batched:
            (reply,) = await batched.ask("ferry")
        assert isinstance(reply, ProviderRefused)
        assert "batch batch_0001 was handed in with this account's key" in str(reply)
        assert provider.made == []


async def test_key_that_a_gateway_repeats_is_told_and_recorded_nowhere(tmp_path: Path) -> None:
    faults = BatchFaults(failed=f"the key {KEY} may not", expired=1.0, expiry=f"ask with {KEY}")
    async with FakeBatches(faults) as provider:
        async with session(provider, tmp_path) as batched:
            (refused,) = await batched.ask("ferry")
        provider.faults.failed = ""
        async with session(provider, tmp_path, fallback="none") as later:
            (expired,) = await later.ask("ferry")
    assert "the key (key) may not" in str(refused)
    assert "batch_expired: ask with (key)" in str(expired)
    assert KEY not in (tmp_path / BATCHES).read_text() + "".join(batched.told + later.told)


async def test_ledger_of_a_stranger_answers_nothing_and_breaks_nothing(tmp_path: Path) -> None:
    lines = [
        b'{"batch":"a","event":"created","id":"batch_1"}\n',
        b'{"batch":["a"],"event":"intent"}\n',
        b'{"batch":"b","event":"intent","ids":"x","time":"now","server":3}\n',
        b"not json\n",
        b'{"batch":"c","event":"intent","ids":[1,"y"],"server":"http://elsewhere","model":"m-1","time":1}\n',
    ]
    (tmp_path / BATCHES).write_bytes(b"".join(lines))
    assert [(batch.nonce, batch.ids) for batch in read_ledger(tmp_path)] == [("b", []), ("c", ["y"])]
    async with FakeBatches() as provider, session(provider, tmp_path) as batched:
        texts(await batched.ask("ferry"))


async def test_parameter_that_the_server_refuses_is_left_out_of_the_next_batch(tmp_path: Path) -> None:
    """The line of results says HTTP 400, as an ordinary call would."""
    async with FakeBatches() as provider, session(provider, tmp_path) as batched:
        spec = replace(batched.spec, drops=("seed",))
        reply = await batched.client.chat(spec, replace(question("ferry"), params={"seed": 1}))
        assert isinstance(reply, Reply)
        assert b'"seed"' not in provider.files["file-0001"]
        assert b'"stream"' not in provider.files["file-0001"]
