"""Asking a model by batches: half the price, and a reply within a day. The provider's side is in `batch_apis`.

A step asks `BatchClient.chat` as it would ask `Client.chat`, and waits for its line of a batch. So parsing, asking again
after an unusable reply, the journal and the budget are those of every call; asking again is a line of the next batch.

- A request's id is the digest of its body, so equal requests are one line, and a command that is typed again finds
  each of its requests in the ledger (`batch_ledger`): it waits for the batch that has it, and hands it in only once.
- Requests are gathered until there is a full batch, or nothing else is left to do.
- A request without a result (expired, cancelled, missing, a server's error) goes to the next batch, or is asked live.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeVar

from cts_async.config import BatchFallback
from cts_async.engine.account import LaneLimits, Permit
from cts_async.engine.events import BatchesInUse, BatchStatus, Events, LaneInUse, LaneStatus, Notice
from cts_async.engine.lane import Lane
from cts_async.engine.ratelimit import Quotas
from cts_async.errors import (
    BatchesPending,
    ContentRefused,
    CTSError,
    NoCompletion,
    PromptTooLong,
    ProviderDown,
    ProviderRefused,
    RateLimited,
    RejectedError,
    RequestForbidden,
    RunStopped,
    StepError,
    TransientError,
)
from cts_async.foreign_json import as_text, loads
from cts_async.llm.apis import ChatRequest, Reply, load_api
from cts_async.llm.batch_apis import (
    MAX_RESULT_BYTES,
    PAGE,
    SHORT_S,
    TRANSFER_S,
    BatchState,
    LineResult,
    load_batch_api,
)
from cts_async.llm.batch_ledger import BATCHES, Event, Ledger, RecordedBatch, merged_batches
from cts_async.llm.catalog import BATCH, ModelSpec
from cts_async.llm.model import Client
from cts_async.llm.redact import SECRETS
from cts_async.llm.responses import read_reply

T = TypeVar("T")
_Account = tuple[str, str, str, str]

MAX_BATCH_REQUESTS: Final = 10_000
MAX_BATCH_BYTES: Final = 32_000_000
"""The largest batch that is made, also where the provider takes more: its bytes are held in memory while they are sent,
three times over, and 10,000 judgements have some 50 MB."""
ID_HEX: Final = 40
"""Digits of a request's id: Anthropic takes 64 characters, and 160 bits never meet by chance."""
MAX_TRIES: Final = 3
"""Batches that a request is part of before it fails for good."""
SHOWN_IDS: Final = 5
FAILURES_TO_TELL: Final = 4
"""Failures in a row before the user is told: a single 503 among hundreds of polls is nothing to read."""
CLOSING_S: Final = 120.0
"""How long the end of a command waits for a creation under way, so that its id is recorded."""


@dataclass(frozen=True, slots=True)
class BatchTiming:
    """Seconds of waiting."""

    quiet_s: float = 1.0
    """Nothing has asked for so long, and no other call is under way: what was gathered is handed in."""
    first_poll_s: float = 5.0
    longest_poll_s: float = 60.0
    poll_share: float = 0.1
    """A batch is looked at again after this share of its age, within these bounds."""
    file_s: float = 120.0
    """How long an uploaded file may be unknown to the provider that has just taken it."""
    retry_s: float = 1.0
    """The first wait after a failed request, doubled each time up to `longest_poll_s`."""
    lost_s: float = 90_000.0
    """After so long (25 hours) a batch that was perhaps created, and is in no list, never was: none lives longer."""
    skew_s: float = 86_400.0
    """How far the provider's clock may be from what ours was at the intent: a day, as clocks are set by hand, and to
    another time zone's time. Wider costs only a longer look at the list; whoever looks too closely pays twice."""
    first_room_s: float = 5.0
    longest_room_s: float = 900.0
    """How long a batch that exceeds what may be enqueued, though none of ours is, waits before a smaller one is handed
    in: doubled each time, as it is perhaps somebody else's batches that have to end first, which takes hours."""
    files_missing_s: float = 60.0
    """How long an ended batch may lack the files that its counts promise."""


class _NoReply(Exception):
    """A batch that has ended has no reply to a request; says why."""


class Batch:
    """A batch from its first request to its results.

    `done` is set when there are results, or when there is an `error` in their place.
    """

    __slots__ = (
        "claimed",
        "digest",
        "done",
        "error",
        "followed",
        "held_back",
        "id",
        "ids",
        "input_file",
        "intended_at",
        "is_recorded",
        "lines",
        "n_bytes",
        "n_done",
        "n_failed",
        "nonce",
        "phase",
        "polled",
        "reason",
        "results",
        "state",
    )

    def __init__(self, nonce: str, now: float) -> None:
        self.nonce = nonce
        self.lines: dict[str, bytes] = {}
        """The requests by id until they are handed in, in order."""
        self.n_bytes = 0
        self.ids: frozenset[str] = frozenset()
        self.digest = ""
        self.input_file = ""
        self.intended_at = now
        self.id = ""
        self.phase: Event | Literal["filling"] = "filling"
        self.state = ""
        self.n_done = self.n_failed = 0
        self.followed = self.polled = False
        self.is_recorded = False
        """True if an earlier process has handed it in."""
        self.claimed: set[str] = set()
        """The requests that this process has asked for."""
        self.results: dict[str, LineResult] = {}
        self.reason = ""
        """Why there are no results, or not all."""
        self.held_back = False
        """True if it was never worked on, which is no try of its requests: too much was enqueued, or it never was."""
        self.error: CTSError | None = None
        self.done = asyncio.Event()

    @classmethod
    def recorded(cls, record: RecordedBatch) -> Batch:
        """A batch of an earlier process."""
        batch = cls(record.nonce, record.intended_at)
        batch.ids, batch.digest, batch.input_file = frozenset(record.ids), record.digest, record.input_file
        batch.id, batch.phase, batch.state = record.id, record.phase, record.state
        batch.n_done, batch.n_failed = record.n_done, record.n_failed
        batch.is_recorded = True
        return batch

    @property
    def n_requests(self) -> int:
        return len(self.lines) or len(self.ids)

    @property
    def is_open(self) -> bool:
        """True if the provider may be working on it."""
        return self.phase in ("intent", "created") and not self.done.is_set()

    def add(self, id: str, line: bytes) -> None:
        self.lines[id] = line
        self.n_bytes += len(line) + 1

    def finish(self, error: CTSError | None = None) -> None:
        """Wake all that wait for it. The first end counts."""
        if not self.done.is_set():
            self.error = error
            self.done.set()

    def status(self, model: str) -> BatchStatus:
        words = {"filling": "filling", "intent": "looked for"}
        state = words.get(self.phase) or self.state or self.phase
        return BatchStatus(
            model,
            self.id,
            state,
            self.n_requests,
            self.n_done,
            self.n_failed,
            self.intended_at,
            ended=self.done.is_set(),
        )


class BatchLane(Lane):
    """The lane of a model that is asked by batches: it admits everybody, as its provider's limits are of lines waiting.

    What waits for a batch is in flight. `on_stop` is called with the reason when nobody is admitted any more.
    """

    def __init__(self, name: str, events: Events, on_stop: Callable[[RunStopped], None]) -> None:
        super().__init__(name, LaneLimits(max_concurrency=1), events)
        self._on_stop = on_stop
        self._n_admitted = 0
        self._n_tokens = 0.0

    async def admit(
        self, seq: int, tokens: float = 0.0, step_key: str = "", *, reserved: float = 0.0
    ) -> Permit:
        if self.stopped:
            raise self.stopped
        self.in_flight += 1
        self._n_admitted += 1
        if self._n_admitted == 1:
            self._events.emit(LaneInUse(self.name, lambda: self.status(0.0)))
        return Permit(tokens, asyncio.get_running_loop().time(), number=self._n_admitted)

    def succeeded(self, permit: Permit, tokens_used: float | None, quotas: Quotas | None = None) -> None:
        self.in_flight -= 1
        self._n_tokens += tokens_used or 0.0

    def forbidden(self, permit: Permit, error: RequestForbidden, step_key: str) -> ProviderRefused | None:
        self.in_flight -= 1
        return None

    def failed(self, permit: Permit, error: TransientError, step_key: str) -> bool:
        self.in_flight -= 1
        return False

    def abandoned(self, permit: Permit) -> None:
        self.in_flight -= 1

    def stop(self, reason: RunStopped) -> None:
        super().stop(reason)
        self._on_stop(reason)

    async def dispatch(self) -> None:
        await asyncio.Event().wait()  # nobody waits here

    def status(self, now: float) -> LaneStatus:
        reason = ""
        if self.stopped:
            reason = str(self.stopped)
        return LaneStatus(
            name=self.name,
            in_flight=self.in_flight,
            waiting=0,
            places=self.in_flight,
            sent=self._n_admitted,
            tokens=self._n_tokens,
            requests_per_min=None,
            tokens_per_min=None,
            answers_429=0,
            paused_s=0.0,
            probe_s=None,
            reason=reason,
            gone=bool(self.stopped),
        )


@dataclass(frozen=True, slots=True)
class _ModelWire:
    """The requests of one model's batches, by the client of its ordinary calls."""

    client: Client
    spec: ModelSpec

    async def get(self, path: str) -> bytes:
        data = await self.client.request(
            self.spec, "GET", path, timeout_s=SHORT_S, max_bytes=MAX_RESULT_BYTES
        )
        # States and reasons are shown, and written to the ledger.
        return SECRETS.body(data)

    async def get_file(self, path: str) -> bytes:
        return await self.client.request(
            self.spec, "GET", path, timeout_s=TRANSFER_S, max_bytes=MAX_RESULT_BYTES, is_file=True
        )

    async def post(
        self, path: str, body: bytes, *, content_type: str = "application/json", timeout_s: float = SHORT_S
    ) -> bytes:
        data = await self.client.request(
            self.spec, "POST", path, body, content_type=content_type, timeout_s=timeout_s, once=True
        )
        return SECRETS.body(data)


@dataclass(slots=True)
class BatchSettings:
    """What a command has decided about its batches."""

    folders: Sequence[Path]
    """The folders of its ledgers: those of its journals."""
    fallback: BatchFallback = "batch"
    max_outage_s: float = 900.0
    timing: BatchTiming = field(default_factory=BatchTiming)
    clock: Callable[[], float] = time.time


class BatchClient:
    """Use as `async with BatchClient(...)`. Asks models by batches; everything else is as `Client` does it.

    `is_busy` says whether a call is under way whose result may lead to further requests: until then no batch is made
    that is not full. With `on_submitted`, nothing is waited for: it is called once everything that is left has been
    handed in.
    """

    def __init__(
        self,
        client: Client,
        events: Events,
        settings: BatchSettings,
    ) -> None:
        self._client, self._events, self._settings = client, events, settings
        self._ledger = Ledger(settings.folders, settings.clock)
        self._queues: dict[_Account, _Queue] = {}
        self._live_lanes: dict[str, Lane] = {}
        self._recorded: list[RecordedBatch] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._n_read: Counter[tuple[_Account, str]] = Counter()
        """By the account and the digest of a body, how often a result of it has been read."""
        self.is_busy: Callable[[], bool] = _never
        self.on_submitted: Callable[[RunStopped], None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._watching is not None:
            self._watching.cancel()
        try:
            for queue in self._queues.values():
                await queue.close()
        finally:
            self._ledger.close()

    @property
    def asks_live(self) -> bool:
        """Whether a request may be asked by an ordinary call, at its full price."""
        return self._settings.fallback == "live"

    def lane(self, spec: ModelSpec, live: Lane) -> BatchLane:
        """The lane for a model that is asked by batches; what has to be asked live uses the lane `live`."""
        self._live_lanes[spec.name] = live
        return BatchLane(f"{spec.name} batch", self._events, partial(self._stop, spec))

    def batches(self) -> Iterator[BatchStatus]:
        """The status of every batch of this process."""
        for queue in self._queues.values():
            yield from queue.statuses()

    async def close_ended(self) -> None:
        """Call when all jobs have ended: no request of an ended batch has to be found again.

        What failed for good is asked anew by the next command, and not answered by the same line for ever.
        """
        for queue in self._queues.values():
            await queue.close_ended()

    async def chat(self, spec: ModelSpec, request: ChatRequest) -> Reply:
        """As `Client.chat`, hours later.

        Raises as that does; RejectedError also for a request that no batch had a result of, ProviderRefused where the
        provider refuses a whole batch.
        """
        queue = self._queue(spec)
        tried: set[str] = set()
        reason, n_tries = "", 0
        digest = _account(spec), sha256(_body(queue.sent_spec(spec), request)).hexdigest()
        # A step whose reply was unusable may ask the same once more, and wants another reply.
        occurrence = self._n_read[digest]
        while n_tries < MAX_TRIES:
            batch, id = self._enqueue(queue, spec, request, occurrence, tried)
            if not batch.done.is_set():
                await batch.done.wait()
            if batch.error is not None:
                raise batch.error
            tried.add(batch.nonce)
            try:
                reply = self._reply_in(batch, id, queue, spec, request)
            except _NoReply as missing:
                reason = str(missing)
            except StepError:
                # What the batch says of it is read: whoever asks again does not want to hear the same.
                self._n_read[digest] = occurrence + 1
                raise
            else:
                self._n_read[digest] = occurrence + 1
                return reply
            if batch.held_back:
                continue
            n_tries += 1
            if self._settings.fallback == "live":
                return await self._ask_live(spec, request)
            if self._settings.fallback == "none":
                break
        name = "batch"
        if n_tries > 1:
            name = f"{n_tries} batches"
        raise RejectedError(
            f"{spec.name}: no reply in {name} ({reason}); --retry-failed asks again, and --batch-fallback live by an "
            "ordinary call"
        )

    def _reply_in(self, batch: Batch, id: str, queue: _Queue, spec: ModelSpec, request: ChatRequest) -> Reply:
        """The reply to a request in a batch that has ended. Raises _NoReply where another batch may have one."""
        result = batch.results.get(id)
        if result is None:
            raise _NoReply(batch.reason or "the batch has no result of it")
        if not result.status:
            raise _NoReply(SECRETS.text(result.reason))
        try:
            return self._read(queue, spec, request, result)
        except TransientError as error:
            raise _NoReply(str(error)) from None
        except ProviderRefused as error:
            # A bill or a key. Of an earlier process the user has read it, and acted, before typing the command again.
            if batch.is_recorded:
                raise _NoReply(str(error)) from None
            raise

    def _enqueue(
        self, queue: _Queue, spec: ModelSpec, request: ChatRequest, occurrence: int, tried: set[str]
    ) -> tuple[Batch, str]:
        """The batch that has, or will have, this request, and the request's id in it."""
        body = _body(queue.sent_spec(spec), request)
        determining = body
        if occurrence:
            determining += b"\n%d" % occurrence
        id = sha256(determining).hexdigest()[:ID_HEX]
        line = queue.api.line(id, body, queue.terms)
        limit = min(queue.terms.max_bytes, MAX_BATCH_BYTES)
        limit = min(limit, queue.terms.max_request_bytes or limit)
        if len(line) >= limit:
            raise PromptTooLong(
                f"{spec.name}: the request has {len(line):,} bytes, and one in a batch at most {limit:,}"
            )
        return queue.batch_for(id, line, tried), id

    def _read(self, queue: _Queue, spec: ModelSpec, request: ChatRequest, result: LineResult) -> Reply:
        """The reply in a line of results. Raises the error that it stands for, as an ordinary call would."""
        data = SECRETS.body(result.data, good=result.status == 200)
        sent = queue.sent_spec(spec)
        api = load_api(spec.api)
        try:
            reply = read_reply(api, spec, result.status, {}, data, self._settings.clock())
        except (ContentRefused, PromptTooLong):
            raise
        except RejectedError as error:
            raise self._client.explain_rejection(error, sent, request, _body(sent, request), data) from None
        refused = self._client.refused_parameters(spec)
        if refused:
            params = spec.sent(request.params)
            reply = replace(reply, dropped=tuple(name for name in refused if name in params))
        # Whatever word the provider has for it: this is the tier that it charges for.
        return replace(reply, tier=BATCH)

    async def _ask_live(self, spec: ModelSpec, request: ChatRequest) -> Reply:
        """Ask by an ordinary call, with the permission of the account's lane; an outage is waited for."""
        lane, step = self._live_lanes[spec.name], secrets.token_hex(8)
        while True:
            permit = await lane.admit(0, step_key=step)
            try:
                reply = await self._client.chat(spec, request)
            except TransientError as error:
                if not lane.failed(permit, error, step):
                    raise
                await lane.sleep(error.retry_after_s or 0.0)
                continue
            except RequestForbidden as error:
                raise lane.forbidden(permit, error, step) or error from None
            except (StepError, RunStopped):
                lane.succeeded(permit, None)
                raise
            except BaseException:
                lane.abandoned(permit)
                raise
            tokens_used = None
            if reply.usage:
                tokens_used = float(reply.usage.total)
            lane.succeeded(permit, tokens_used, reply.quotas)
            return reply

    def _queue(self, spec: ModelSpec) -> _Queue:
        account = _account(spec)
        queue = self._queues.get(account)
        if queue is None:
            if self._recorded is None:
                # Only now: before the first job begins another process may be writing these ledgers.
                self._recorded = merged_batches(self._settings.folders)
            queue = _Queue(self._client, spec, self._ledger, self._events, self._settings, self)
            queue.take_over(self._recorded)
            self._queues[account] = queue
            self._events.emit(BatchesInUse(spec.name, queue.statuses))
        if self.on_submitted is not None and self._watching is None:
            self._watching = asyncio.create_task(self._watch_submission())
        return queue

    def _stop(self, spec: ModelSpec, reason: RunStopped) -> None:
        # Nothing may have been asked yet.
        queue = self._queues.get(_account(spec))
        if queue is not None:
            queue.stop(reason)

    async def _watch_submission(self) -> None:
        """Call `on_submitted` once nothing is left to do but to wait for batches."""
        while True:
            n_asked = sum(queue.n_asked for queue in self._queues.values())
            await asyncio.sleep(1.5 * self._settings.timing.quiet_s)
            queues = list(self._queues.values())
            is_quiet = n_asked == sum(queue.n_asked for queue in queues) and not self.is_busy()
            if not is_quiet or not all(queue.only_waits for queue in queues):
                continue
            # One of several models may be done; with all of them, the command ends by itself.
            if any(queue.open_batches for queue in queues) and self.on_submitted is not None:
                self.on_submitted(_pending(queues))
                return


def _account(spec: ModelSpec) -> _Account:
    """Whose batches a model's requests may share: one model at one address, in one wire format and with one key."""
    return spec.base_url, spec.model, spec.api, spec.key_env or ""


def _never() -> bool:
    return False


def _pending(queues: Sequence[_Queue]) -> BatchesPending:
    """The reason to stop with where all that is left waits for batches."""
    batches: list[Batch] = []
    for queue in queues:
        batches += queue.open_batches
    n_requests = sum(batch.n_requests for batch in batches)
    ids = ", ".join(batch.id or f"not yet listed, {batch.nonce}" for batch in batches[:SHOWN_IDS])
    if len(batches) > SHOWN_IDS:
        ids += f" and {len(batches) - SHOWN_IDS} more"
    batch_words = "batch" if len(batches) == 1 else "batches"
    return BatchesPending(
        f"submitted {_requests(n_requests)} in {len(batches)} {batch_words} ({ids}); the same command collects"
    )


def _requests(n: int) -> str:
    """So many requests, in words."""
    return "1 request" if n == 1 else f"{n:,} requests"


def _body(spec: ModelSpec, request: ChatRequest) -> bytes:
    """The body of the ordinary call. Raises RejectedError where it cannot be written."""
    try:
        return load_api(spec.api).body(spec, request)
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
        raise RejectedError(f"{spec.name}: the request cannot be written: {error}") from error


class _Queue:
    """The batches of one model and key, and the tasks that hand them in and follow them."""

    def __init__(
        self,
        client: Client,
        spec: ModelSpec,
        ledger: Ledger,
        events: Events,
        settings: BatchSettings,
        owner: BatchClient,
    ) -> None:
        self.spec = spec
        self.terms = spec.tiers[BATCH]
        self.api = load_batch_api(spec.api)
        self.n_asked = 0
        self._client, self._ledger, self._events = client, ledger, events
        self._settings, self._timing, self._owner = settings, settings.timing, owner
        self._wire = _ModelWire(client, spec)
        self._batches: list[Batch] = []
        self._batch_of: dict[str, Batch] = {}
        """By a request's id, the latest batch that has it."""
        self._filling: Batch | None = None
        self._full: list[Batch] = []
        self._max_requests = min(self.terms.max_requests, MAX_BATCH_REQUESTS)
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()
        """Set whenever a batch has ended: what was over the provider's quota may fit now."""
        self._room_s = self._timing.first_room_s
        """The next wait for room in the provider's quota where nothing of ours is enqueued."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._submitting: asyncio.Task[None] | None = None
        self._in_hand: Batch | None = None
        """The batch that is being handed in."""
        self._created = asyncio.Event()
        """Cleared between the intent of a batch and the record of what became of its creation."""
        self._created.set()
        self._stopped: RunStopped | None = None
        self._sent_specs: dict[str, tuple[ModelSpec, tuple[str, ...], ModelSpec]] = {}
        """By the model's name, its entry, what its server has refused, and the entry without that: several entries of
        the catalogue may be one model with different parameters."""

    def take_over(self, records: Sequence[RecordedBatch]) -> None:
        """Take over the batches that earlier processes have handed in for this model, oldest first."""
        for record in records:
            # Another model's, or the same model's at another address: its requests are others.
            if (record.server, record.model) != (self.spec.base_url, self.spec.model):
                continue
            # What never was, or was not accepted, is handed in again.
            if record.phase in ("closed", "refused", "void"):
                continue
            batch = Batch.recorded(record)
            self._batches.append(batch)
            # A request that was handed in again has its result, if any, in the later batch.
            for id in batch.ids:
                self._batch_of[id] = batch

    def sent_spec(self, spec: ModelSpec) -> ModelSpec:
        """The model without what a batch cannot have: a stream, and parameters that its server has refused."""
        refused = self._client.refused_parameters(spec)
        known = self._sent_specs.get(spec.name)
        if known is not None and known[0] is spec and known[1] == refused:
            return known[2]
        sent = replace(spec, drops=(*spec.drops, "stream", *refused))
        self._sent_specs[spec.name] = spec, refused, sent
        return sent

    @property
    def open_batches(self) -> list[Batch]:
        """Those that requests of this process wait for, and their provider works on."""
        return [batch for batch in self._batches if batch.followed and batch.is_open]

    @property
    def only_waits(self) -> bool:
        """True if all that was asked has been handed in, and each batch that has not ended has been looked at; also if
        nothing more is handed in."""
        if self._stopped is not None:
            return True
        if self._filling is not None or self._full or self._in_hand is not None:
            return False
        return all(batch.polled for batch in self.open_batches)

    def statuses(self) -> list[BatchStatus]:
        """The status of each batch; may be called in another thread."""
        batches = [batch for batch in list(self._batches) if batch.followed or batch.phase == "filling"]
        return [batch.status(self.spec.name) for batch in batches]

    def batch_for(self, id: str, line: bytes, tried: set[str]) -> Batch:
        """The batch of a request: one that has it already, unless it was `tried`, else the one that is being filled."""
        if self._stopped is not None:
            raise self._stopped
        self.n_asked += 1
        batch = self._batch_of.get(id)
        if batch is not None and batch.nonce not in tried:
            self._follow(batch)
            batch.claimed.add(id)
            return batch
        # Full at the limit of requests, or where this one would not fit any more.
        batch = self._filling
        max_bytes = min(self.terms.max_bytes, MAX_BATCH_BYTES)
        if batch is not None:
            is_full = len(batch.lines) >= self._max_requests or batch.n_bytes + len(line) >= max_bytes
            if is_full:
                self._full.append(batch)
                batch = None
        if batch is None:
            batch = self._filling = Batch(secrets.token_hex(12), self._settings.clock())
            self._batches.append(batch)
        batch.add(id, line)
        batch.claimed.add(id)
        self._batch_of[id] = batch
        self._arrived.set()
        if self._submitting is None:
            self._submitting = asyncio.create_task(self._guarded(self._submit_all()))
        return batch

    def stop(self, reason: RunStopped) -> None:
        """Hand in nothing more; everybody who waits is told the reason. A creation under way is finished by `close`."""
        self._stopped = self._stopped or reason
        for batch in self._batches:
            batch.finish(self._stopped)

    async def close(self) -> None:
        """Finish a creation that is under way, so that its id is recorded, and end all tasks."""
        tasks = list(self._tasks)
        if self._submitting is not None:
            tasks.append(self._submitting)
        if not self._created.is_set():
            self._notify(f"waiting for the answer to the creation of a batch, at most {CLOSING_S:.0f} s")
        try:
            # Cancelled here (a second Ctrl-C), the batch is found again by the next process.
            async with asyncio.timeout(CLOSING_S):
                await self._created.wait()
        except TimeoutError:
            pass
        finally:
            for task in tasks:
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def close_ended(self) -> None:
        """Record that what this process has asked of batches that have ended has not to be found again."""
        for batch in self._batches:
            if batch.phase != "ended" or not batch.claimed:
                continue
            if len(batch.claimed) == len(batch.ids):
                await self._record(batch, "closed")
            else:
                await self._record(batch, "used", ids=sorted(batch.claimed))

    async def _guarded(self, work: Awaitable[None]) -> None:
        """Run a task; what ends it ends everything that waits for this model's batches."""
        try:
            await work
        except asyncio.CancelledError:
            raise
        except RunStopped as reason:
            self.stop(reason)
        except CTSError as error:
            self.stop(RunStopped(f"{error}; the same command resumes"))
        except Exception as error:
            self.stop(RunStopped(f"{self.spec.name}: batches failed ({type(error).__name__}: {error})"))
            raise

    # --- Handing in

    async def _submit_all(self) -> None:
        """Hand in one batch after the other: full ones at once, the last one when nothing else happens."""
        while True:
            if not self._full and self._filling is None:
                self._arrived.clear()
                await self._arrived.wait()
            if not self._full:
                await self._gather()
            if self._full:
                batch = self._full.pop(0)
            elif self._filling is not None:
                batch, self._filling = self._filling, None
            else:
                continue
            self._in_hand = batch
            await self._submit(batch)
            self._in_hand = None
            if self._stopped is not None:
                return

    async def _gather(self) -> None:
        """Wait until a batch is full, or nothing has been asked for a while and no call is under way elsewhere."""
        while not self._full:
            n_asked = self.n_asked
            await asyncio.sleep(self._timing.quiet_s)
            if n_asked == self.n_asked and not self._owner.is_busy():
                return

    async def _submit(self, batch: Batch) -> None:
        # From here on nothing joins it: whoever asks the same waits for it.
        lines = list(batch.lines.values())
        batch.ids = frozenset(batch.lines)
        digest = sha256()
        for line in lines:
            digest.update(line + b"\n")
        batch.digest = digest.hexdigest()
        upload = partial(self.api.upload, self._wire, lines, batch.nonce)
        try:
            # Before the intent: an upload costs nothing, and may be repeated.
            batch.input_file = await self._persistently(upload)
            await self._create(batch, lines)
        except (RejectedError, ProviderRefused) as error:
            self._refuse(batch, str(error))
        # Thousands of prompts: whoever has to ask again writes the request anew.
        batch.lines = {}

    async def _create(self, batch: Batch, lines: Sequence[bytes]) -> None:
        """Create the batch. Raises what refuses it for good."""
        loop = asyncio.get_running_loop()
        began, wait_s = loop.time(), self._timing.retry_s
        while self._stopped is None:
            self._created.clear()
            try:
                error = await self._create_once(batch, lines)
            finally:
                self._created.set()
            if error is None:
                self._follow(batch)
                return
            lasted_s = loop.time() - began
            if wait_s == self._timing.retry_s:
                self._notify(f"no batch can be made for now ({error}), waiting")
            if isinstance(error, TransientError):
                self._check_outage(error, lasted_s)
                wait_s = max(wait_s, error.retry_after_s or 0.0)
            # A file that was uploaded a moment ago may be unknown to the part of the provider that makes batches.
            elif not _is_about_file(error, batch.input_file) or lasted_s > self._timing.file_s:
                raise error
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, self._timing.longest_poll_s)

    async def _create_once(
        self, batch: Batch, lines: Sequence[bytes]
    ) -> TransientError | RejectedError | ProviderRefused | None:
        """One creation, between its intent and what became of it; why there certainly is no batch, else None."""
        ids: list[str] = []
        if batch.phase == "filling":
            ids = list(batch.lines)
        batch.intended_at, batch.phase = self._settings.clock(), "intent"
        await self._record_intent(batch, ids)
        try:
            state = await self.api.create(self._wire, self.terms, lines, batch.nonce, batch.input_file)
        except (RejectedError, ProviderRefused) as error:
            await self._record(batch, "refused", reason=str(error))
            return error
        except (TransientError, NoCompletion) as error:
            if isinstance(error, RateLimited) or (isinstance(error, TransientError) and error.unsent):
                await self._record(batch, "refused", reason=str(error))
                return error
            # It was perhaps created: whoever sent it again might pay twice.
            self._notify(
                f"the creation of a batch was not answered ({error}); it is looked for, and handed in again once it has "
                f"been in no list for {self._timing.lost_s / 3600:.0f} hours"
            )
            return None
        batch.id, batch.state = state.id, state.word
        await self._record(batch, "created", id=state.id)
        batch.phase = "created"
        self._notify(f"batch {state.id} submitted, {_requests(len(batch.ids))}")
        return None

    def _refuse(self, batch: Batch, reason: str) -> None:
        """End a batch that its provider does not accept: one reason for all its requests."""
        batch.phase, batch.reason = "refused", reason
        if self._settings.fallback == "live":
            self._notify(
                f"a batch of {_requests(batch.n_requests)} was refused ({reason}); asked live instead"
            )
            batch.finish()
            return
        batch.finish(
            ProviderRefused(
                f"{self.spec.name}: a batch of {_requests(batch.n_requests)} was refused: {reason}; the same command "
                "tries again, and --batch-fallback live asks one by one"
            )
        )

    # --- Following

    def _follow(self, batch: Batch) -> None:
        """Follow a batch to its end, in a task of its own, unless somebody does already."""
        if batch.followed or batch.phase == "filling" or batch.done.is_set():
            return
        batch.followed = True
        task = asyncio.create_task(self._guarded(self._follow_to_end(batch)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _follow_to_end(self, batch: Batch) -> None:
        state: BatchState | None = None
        if not batch.id:
            state = await self._adopt(batch)
            if state is None:
                return
        state = await self._ended_state(batch)
        if state.phase == "refused":
            await self._refused_by_validation(batch, state)
        else:
            await self._collect(batch, state)
        self._room.set()

    async def _adopt(self, batch: Batch) -> BatchState | None:
        """Find the batch whose creation was not answered; None once it is certain that there is none.

        It has our nonce or our file. Where a provider lists neither, it has our count and our time, and once it has
        ended, our ids.
        """
        foreign: set[str] = set()
        wait_s = self._timing.first_poll_s
        while True:
            state = await self._persistently(partial(self._search, batch, foreign))
            if state is not None:
                batch.id, batch.state, batch.phase = state.id, state.word, "created"
                await self._record(batch, "created", id=state.id, adopted=True)
                self._notify(f"batch {state.id} was created all the same, and is adopted")
                return state
            batch.polled = True
            if self._settings.clock() - batch.intended_at > self._timing.lost_s:
                batch.phase, batch.held_back = "void", True
                await self._record(batch, "void")
                batch.finish()
                return None
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, self._timing.longest_poll_s)

    async def _search(self, batch: Batch, foreign: set[str]) -> BatchState | None:
        """One look through the provider's list; `foreign` collects batches that turned out to be somebody else's."""
        # A batch that has its id in the ledger is not the one that lacks it.
        adopted_ids = {batch_of_ours.id for batch_of_ours in self._batches if batch_of_ours.id}
        oldest = batch.intended_at - self._timing.skew_s
        n_old = 0
        async for state in self.api.listed(self._wire):
            if state.nonce == batch.nonce:
                return state
            if state.created_at is not None and state.created_at < oldest:
                # Newest first, as documented, what follows is older still; a page of a server that has another order
                # is read all the same.
                n_old += 1
                if n_old >= PAGE:
                    return None
                continue
            if batch.input_file:
                if state.input_file == batch.input_file:
                    return state
                continue
            if state.id in adopted_ids or state.id in foreign or state.n_requests != len(batch.ids):
                continue
            is_late = (
                state.created_at is not None and state.created_at > batch.intended_at + self._timing.skew_s
            )
            # Another batch of the same size at the same time has other ids; only its results have any.
            if is_late or state.phase != "ended":
                continue
            try:
                ids = await self._ids_of_results(state)
            except (RejectedError, ProviderRefused):
                continue  # somebody else's that is gone, or ours that is not there yet
            # One is enough: digests of 160 bits are nobody else's.
            if not ids.isdisjoint(batch.ids):
                return state
            foreign.add(state.id)
        return None

    async def _ids_of_results(self, state: BatchState) -> frozenset[str]:
        results: dict[str, LineResult] = {}
        for path in self.api.result_paths(state):
            data = await self._wire.get_file(path)
            results |= self._read_results(data)[0]
        return frozenset(results)

    async def _ended_state(self, batch: Batch) -> BatchState:
        """Look at the batch again and again until it has ended."""
        files_missing_s = 0.0
        while True:
            try:
                state = await self._persistently(partial(self.api.state, self._wire, batch.id))
            except ProviderRefused as error:
                # Another account's key, or a batch that somebody has deleted: sent again, it could be paid twice.
                raise ProviderRefused(
                    f"{error}; batch {batch.id} was handed in with this account's key. If it is gone for good, remove "
                    f"its lines from {BATCHES}, and its requests are handed in again"
                ) from None
            counts = state.word, state.n_done, state.n_failed
            # Only what is new: a day of polls would fill the ledger.
            if counts != (batch.state, batch.n_done, batch.n_failed):
                batch.state, batch.n_done, batch.n_failed = counts
                await self._record(
                    batch, "state", state=state.word, n_done=state.n_done, n_failed=state.n_failed
                )
            batch.polled = True
            age_s = self._settings.clock() - batch.intended_at
            wait_s = max(self._timing.first_poll_s, self._timing.poll_share * age_s)
            wait_s = min(wait_s, self._timing.longest_poll_s)
            if state.phase != "running":
                # The files of results may come a moment after the end; a batch without any is not waited for for ever.
                has_files = bool(state.files) and not state.lacks_output
                if state.phase == "refused" or has_files or files_missing_s >= self._timing.files_missing_s:
                    return state
                wait_s = self._timing.first_poll_s
                files_missing_s += wait_s
            await asyncio.sleep(wait_s)

    async def _refused_by_validation(self, batch: Batch, state: BatchState) -> None:
        await self._record(batch, "refused", state=state.word, reason=state.reason)
        batch.phase = "refused"
        if not state.is_over_quota:
            self._refuse(batch, state.reason or f"state {state.word}")
            return
        text = f"batch {batch.id} exceeds what may be enqueued ({state.reason}); it is handed in again"
        # This one is refused, and no longer among them.
        if self.open_batches:
            self._notify(f"{text} once another has ended")
            # What they have enqueued is free again then.
            self._room.clear()
            await self._room.wait()
        else:
            self._max_requests = max(1, batch.n_requests // 2)
            self._notify(f"{text} in {self._room_s:.0f} s, by batches of at most {self._max_requests:,}")
            await asyncio.sleep(self._room_s)
            self._room_s = min(2 * self._room_s, self._timing.longest_room_s)
        batch.held_back, batch.reason = True, state.reason
        batch.finish()

    async def _collect(self, batch: Batch, state: BatchState) -> None:
        """Fetch the results of an ended batch, partial ones too."""
        # It had room, and so may larger ones have: what was enqueued before was perhaps somebody else's.
        self._room_s = self._timing.first_room_s
        if len(batch.ids) >= self._max_requests:
            self._max_requests = min(2 * self._max_requests, self.terms.max_requests, MAX_BATCH_REQUESTS)
        n_unknown = await self._fetch_results(batch, state)
        n_missing = len(batch.ids) - len(batch.results)
        n_replies = sum(result.status == 200 for result in batch.results.values())
        # An earlier process may have recorded its end, and was killed before it had written all verdicts.
        if batch.phase != "ended":
            await self._record(
                batch,
                "ended",
                state=state.word,
                n_done=state.n_done,
                n_failed=state.n_failed,
                n_missing=n_missing,
                n_unknown=n_unknown,
            )
        batch.phase, batch.reason = "ended", f"{state.word}, without a result of it"
        text = f"batch {batch.id} {state.word}: {n_replies:,} of {len(batch.ids):,} requests have a reply"
        if n_unknown:
            text += f"; {n_unknown:,} results with unknown ids are refused"
        if n_replies < _promised_replies(batch, state):
            text += f"; its provider counts {state.n_done:,}"
        self._notify(text)
        batch.finish()

    async def _fetch_results(self, batch: Batch, state: BatchState) -> int:
        """Fetch the files of results; return how many of their lines are of no request.

        For a while they are fetched again where they have fewer replies than the provider counts (where it counts none,
        lines that cannot be read): a file may be cut off, or come late, and what it lacks would be asked, and paid, once
        more. Raises ProviderRefused where such a file stays refused.
        """
        waited_s = 0.0
        while True:
            n_unknown = n_unreadable = 0
            refusal: CTSError | None = None
            for path in self.api.result_paths(state):
                try:
                    data = await self._persistently(partial(self._wire.get_file, path))
                except (RejectedError, ProviderRefused) as error:
                    refusal = error
                    continue
                results, n_unreadable_here = self._read_results(data)
                n_unreadable += n_unreadable_here
                for id, result in results.items():
                    if id not in batch.ids:
                        n_unknown += 1
                    elif _outweighs(result, batch.results.get(id)):
                        batch.results[id] = result
            n_replies = sum(result.status == 200 for result in batch.results.values())
            is_short = n_replies < _promised_replies(batch, state)
            # Where nothing is counted, only the lines themselves tell.
            is_doubtful = not state.n_done and bool(n_unreadable or refusal)
            if not (is_short or is_doubtful) or waited_s >= self._timing.files_missing_s:
                break
            await asyncio.sleep(self._timing.first_poll_s)
            waited_s += self._timing.first_poll_s
        if refusal is not None and is_short:
            raise ProviderRefused(
                f"{refusal}; batch {batch.id} has ended, its provider counts {state.n_done:,} of its requests as done, "
                "and a file of their results cannot be fetched. If it is gone for good, remove the lines of the batch "
                f"from {BATCHES}, and its requests are handed in, and paid, again"
            )
        if refusal is not None:
            self._notify(f"batch {batch.id}: a file of results cannot be fetched ({refusal})")
        return n_unknown + n_unreadable

    def _read_results(self, data: bytes) -> tuple[dict[str, LineResult], int]:
        """The results in a file by id, and the number of lines that are none."""
        results: dict[str, LineResult] = {}
        n_unreadable = 0
        # At \n only: texts may have the other characters at which Python's own methods break lines.
        for line in data.split(b"\n"):
            if not line.strip():
                continue
            parsed: Any = None
            with suppress(ValueError):
                parsed = loads(line)
            id = None
            if isinstance(parsed, Mapping):
                id = as_text(parsed.get("custom_id"))
            if id is None:
                n_unreadable += 1
                continue
            result = self.api.result(parsed)
            if _outweighs(result, results.get(id)):
                results[id] = result
        return results, n_unreadable

    # --- Requests that cost nothing

    async def _persistently(self, request: Callable[[], Awaitable[T]]) -> T:
        """Repeat a request that costs nothing until it is answered. Raises ProviderDown after the longest outage."""
        loop = asyncio.get_running_loop()
        failed_at: float | None = None
        wait_s, n_failures = self._timing.retry_s, 0
        while True:
            pause_s = wait_s
            failure: StepError
            try:
                return await request()
            except TransientError as error:
                failure, pause_s = error, max(wait_s, error.retry_after_s or 0.0)
            except (NoCompletion, RejectedError) as error:
                # A gateway's page in the place of an answer is none; a refusal under HTTP 200 is perhaps for now.
                if isinstance(error, RejectedError) and error.status != 200:
                    raise
                failure = error
            now = loop.time()
            if failed_at is None:
                failed_at = now
            n_failures += 1
            if n_failures == FAILURES_TO_TELL:
                self._notify(f"its batches cannot be reached ({failure}), waiting")
            self._check_outage(failure, now - failed_at)
            await asyncio.sleep(pause_s)
            wait_s = min(2 * wait_s, self._timing.longest_poll_s)

    def _check_outage(self, error: StepError, lasted_s: float) -> None:
        """Raise ProviderDown where nothing was answered for the longest outage, or a pause beyond it is asked for."""
        if isinstance(error, TransientError) and (error.retry_after_s or 0.0) > self._settings.max_outage_s:
            raise ProviderDown(
                f"{error}: it requests a pause of {round(error.retry_after_s or 0.0):.10g} s; batches go on without "
                "this command, and the same command resumes"
            )
        if lasted_s > self._settings.max_outage_s:
            raise ProviderDown(
                f"{self.spec.name}: its batches cannot be reached for {lasted_s:.0f} s ({error}); they go on without "
                "this command, and the same command collects"
            )

    # --- Records

    async def _record_intent(self, batch: Batch, ids: Sequence[str]) -> None:
        """Record the intent; without `ids`, once more."""
        fields: dict[str, Any] = {}
        if ids:
            fields = {
                "server": self.spec.base_url,
                "model": self.spec.model,
                "endpoint": self.terms.endpoint,
                "digest": batch.digest,
                "n_requests": len(ids),
                "input_file": batch.input_file,
                "ids": ids,
            }
        await self._record(batch, "intent", **fields)

    async def _record(self, batch: Batch, event: Event, **fields: Any) -> None:
        await self._ledger.append(batch.nonce, event, **fields)

    def _notify(self, text: str) -> None:
        self._events.emit(Notice(f"{self.spec.name}: {text}"))


def _outweighs(result: LineResult, earlier: LineResult | None) -> bool:
    """True if a result of a request counts in the place of an earlier one, in this file or the other: a reply does, and
    anything in the place of none."""
    if earlier is None or not earlier.status:
        return True
    return result.status == 200 and earlier.status != 200


def _promised_replies(batch: Batch, state: BatchState) -> int:
    """How many replies to its requests a batch has at least, as its provider counts them."""
    # What an earlier process has used is not among its requests any more, and may all have had replies.
    n_used = max(0, state.n_requests - len(batch.ids))
    return min(max(0, state.n_done - n_used), len(batch.ids))


def _is_about_file(error: CTSError, input_file: str) -> bool:
    """True if a batch was refused because its file is not known, or not ready."""
    if not input_file:
        return False
    words = str(error).lower()
    if "file" not in words:
        return False
    return any(word in words for word in ("not found", "not exist", "no such", "not ready", "process"))
