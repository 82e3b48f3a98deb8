"""Wire formats of batch APIs, one module each: how many requests are handed in together, followed and collected.

A model's `api` names the module, as in `llm.apis`. All of these resources are read with GET and made with POST, so that
whatever is repeated, but for the creation itself, costs nothing.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal, Protocol, cast
from urllib.parse import quote

from cts_async.errors import NoCompletion
from cts_async.foreign_json import as_float, as_list, as_object, as_text, loads
from cts_async.llm.catalog import Tier
from cts_async.records import value

NAMES: Final = ("openai", "anthropic")
"""The wire formats that have batches."""
MAX_RESULT_BYTES: Final = 1 << 29
"""Longest file of results: 10,000 replies have some 20 MB."""
TRANSFER_S: Final = 1800.0
"""For an upload or a file of results; all other requests are short."""
SHORT_S: Final = 60.0
PAGE: Final = 100
MAX_PAGES: Final = 50
"""Batches on a page of a list, and pages that are read at most."""
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,199}")

Phase = Literal["running", "ended", "refused"]
"""ended: there are results, though not of every request; refused: the batch was not accepted, and costs nothing."""


class Wire(Protocol):
    """Sends requests to one provider, with its key. Raises StepError or ProviderRefused as a call of the model does."""

    async def get(self, path: str) -> bytes:
        """The body of a successful response to a GET of a path below the model's base_url."""

    async def get_file(self, path: str) -> bytes:
        """The same for a file of results."""

    async def post(
        self, path: str, body: bytes, *, content_type: str = "application/json", timeout_s: float = SHORT_S
    ) -> bytes:
        """The same for a POST, which is sent once, whatever becomes of it."""


@value
class BatchState:
    """A batch as its provider describes it."""

    id: str
    phase: Phase
    word: str
    """The provider's own word for its state."""
    n_requests: int
    n_done: int
    n_failed: int
    created_at: float | None = None
    """Seconds since 1970; None where it is not said."""
    nonce: str = ""
    """The nonce in its metadata; "" where a provider stores none."""
    input_file: str = ""
    files: tuple[str, ...] = ()
    """What has its results: ids of files."""
    lacks_output: bool = False
    """True if it counts replies, and names no file of them yet."""
    reason: str = ""
    """Why it was refused."""
    is_over_quota: bool = False
    """True if it was refused because too much is enqueued already: it fits once others have ended."""


@value
class LineResult:
    """What became of one request: a response with its status and body, or (status 0) none, for `reason`."""

    status: int
    data: bytes = b""
    reason: str = ""


class BatchApi(Protocol):
    """What a module of this folder defines."""

    def line(self, id: str, body: bytes, terms: Tier) -> bytes:
        """One request of a batch, without a line break at its end; `body` is that of an ordinary call."""

    async def upload(self, wire: Wire, lines: Sequence[bytes], nonce: str) -> str:
        """Store the lines at the provider; return the file's id, "" where the creation itself carries them."""

    async def create(
        self, wire: Wire, terms: Tier, lines: Sequence[bytes], nonce: str, input_file: str
    ) -> BatchState:
        """Create the batch: the only request that is charged, and must not be repeated while its end is unknown."""

    async def state(self, wire: Wire, id: str) -> BatchState:
        """How far a batch is."""

    def listed(self, wire: Wire) -> AsyncIterator[BatchState]:
        """The account's batches, newest first."""

    def result_paths(self, state: BatchState) -> Sequence[str]:
        """The paths of the files of results, JSON Lines in any order."""

    def result(self, line: Mapping[str, Any]) -> LineResult:
        """What a line of results says; its `custom_id` is read by the caller."""


def load_batch_api(name: str) -> BatchApi:
    """The batch API of a wire format, one of NAMES."""
    return cast(BatchApi, importlib.import_module(f"cts_async.llm.batch_apis.{name}"))


def fields_of(data: bytes) -> Mapping[str, Any]:
    """The fields of a response. Raises NoCompletion for anything but a JSON object."""
    try:
        parsed = loads(data)
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict):
        raise NoCompletion("the response of the provider's batch API is not a JSON object")
    return parsed


def id_in(fields: Mapping[str, Any]) -> str:
    """The id of a batch or file, which becomes part of an address. Raises NoCompletion for an odd one."""
    if not has_good_id(fields):
        raise NoCompletion("the provider's batch API names no id that could be part of an address")
    return str(fields["id"])


def has_good_id(fields: Mapping[str, Any]) -> bool:
    """True if the id of a batch or file can be part of an address."""
    return _ID.fullmatch(as_text(fields.get("id")) or "") is not None


def seconds_of(stamp: object) -> float | None:
    """A time as seconds since 1970, of a number or an RFC 3339 text; None for anything else."""
    if isinstance(stamp, str):
        try:
            return datetime.fromisoformat(stamp).timestamp()
        except (ValueError, OverflowError):
            return None
    return as_float(stamp)


async def listed_batches(
    wire: Wire, path: str, after: str, read_state: Callable[[Mapping[str, Any]], BatchState]
) -> AsyncIterator[BatchState]:
    """Yield the provider's batches, latest first; `after` is its parameter for the last id of the page before."""
    page_path = f"{path}?limit={PAGE}"
    for _ in range(MAX_PAGES):
        page = fields_of(await wire.get(page_path))
        batches: list[BatchState] = []
        for batch in as_list(page.get("data")):
            # One with an odd id is none of ours, and must not hide those that are.
            if isinstance(batch, dict) and has_good_id(batch):
                batches.append(read_state(batch))
        for batch_state in batches:
            yield batch_state
        if not (page.get("has_more") is True and batches):
            return
        page_path = f"{path}?limit={PAGE}&{after}={quote(batches[-1].id, safe='')}"


def message_of(error: object) -> str:
    """The code and message of an error object, on one line."""
    fields = as_object(error)
    # Anthropic wraps the error in an object of the same name.
    if isinstance(fields.get("error"), dict):
        fields = fields["error"]
    words: list[str] = []
    for name in ("code", "type", "message"):
        word = as_text(fields.get(name))
        if word and not (name == "type" and words):
            words.append(" ".join(word.split()))
    return ": ".join(words)[:500]
