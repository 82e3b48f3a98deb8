"""Who does which piece: leases small enough that nobody waits for anybody, and nothing dealt that is not brought back.

Four rules. A worker has about a second of work beside what it works on, and no more than its share of what is left.
Older pieces go first. Pieces that ask the same go to one worker, so that it is asked once. And what several workers
were lost with comes last, each by itself: nothing else is to go down with it. Nothing here waits, but for a stream's
next piece: where most was done before, that takes long, so no more than one is waited for at a time.
"""

from __future__ import annotations

import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from math import ceil
from operator import itemgetter
from typing import Final

from cts_async.cluster.messages import Piece
from cts_async.errors import RunStopped

LEASE_S: Final = 1.0
"""Seconds of work that a worker has beside what it works on."""
MOST_AT_ONCE: Final = 500
"""Pieces of one lease."""
MOST_AHEAD: Final = 4096
"""Pieces that are read to see whether there are as many for everybody else."""
READ_S: Final = 0.02
"""After so long no more is read at once."""
MOST_ASIDE: Final = 1000
"""Pieces that wait for the one worker that is to have them, before others wait with them."""
MOST_DEATHS: Final = 3
"""Workers that may be lost with a piece in hand, before it counts as what they may have died of."""
MOST_OWNED: Final = 1 << 17
"""Questions whose worker is remembered."""
SAMPLE_S: Final = 0.5
"""A worker's pace is measured over at least so long."""


@dataclass(frozen=True, slots=True)
class Lease:
    """What a worker is given at once."""

    pieces: tuple[Piece, ...] = ()
    parts: tuple[int, ...] = ()
    """Of what they share, that which it has not been told."""


@dataclass(slots=True)
class _Hand:
    """What one worker has of one stream."""

    in_flight: int
    pieces: dict[int, Piece] = field(default_factory=dict)
    aside: list[tuple[int, Piece]] = field(default_factory=list)
    """Pieces that nobody else is to have, a heap."""
    pace: float = 0.0
    """Pieces a second; 0 while nothing is known."""
    ended: int = 0
    since: float | None = None

    @property
    def room(self) -> int:
        """Pieces that it had best be given now."""
        spare = max(1, ceil(self.pace * LEASE_S)) if self.pace else self.in_flight
        return min(MOST_AT_ONCE, self.in_flight + spare - len(self.pieces))

    def count(self, n: int, now: float) -> None:
        """So many ended by now."""
        if self.since is None:
            self.since = now
        self.ended += n
        elapsed_s = now - self.since
        if elapsed_s >= SAMPLE_S:
            pace = self.ended / elapsed_s
            self.pace = (self.pace + pace) / 2 if self.pace else pace
            self.ended, self.since = 0, now


class Stream:
    """The pieces of one stream, from an iterator that is read little further than what is dealt."""

    def __init__(self, pieces: Iterator[Piece], clock: Callable[[], float]) -> None:
        self._pieces: Iterator[Piece] | None = pieces
        self._clock = clock
        self._ahead: deque[Piece] = deque()
        self._back: list[tuple[int, Piece]] = []
        """Pieces of lost workers, a heap."""
        self._deaths: Counter[int] = Counter()
        self._suspects: list[tuple[int, Piece]] = []
        """Pieces that too many workers were lost with, a heap."""
        self._hands: dict[str, _Hand] = {}
        self._owners: OrderedDict[int, str] = OrderedDict()
        """By question, the worker that has it, the least recently asked first."""
        self._forgot = False
        """Whether a question's worker had to be forgotten."""
        self._dropped: set[str] = set()
        self.failure: RunStopped | None = None
        """What the iterator raised."""

    @property
    def over(self) -> bool:
        """Whether every piece has ended or was dropped."""
        return (
            not (self._ahead or self._back or self._suspects)
            and not any(hand.pieces or hand.aside for hand in self._hands.values())
            and not self._read(1)
            and self._pieces is None
        )

    def look(self) -> None:
        """Read up to the first piece."""
        self._read(1)

    def joined(self, worker: str, in_flight: int) -> None:
        """A worker is there that works on so many at once."""
        self._hands[worker] = _Hand(in_flight)

    def deal(self, worker: str) -> list[Piece]:
        """What the worker is to have now, oldest first; it has it from now on."""
        hand = self._hands[worker]
        room = hand.room
        if room <= 0:
            return []
        self._read(min(room * len(self._hands), MOST_AHEAD))
        if self._pieces is None:
            room = min(room, self._share() - len(hand.pieces))
        dealt: list[Piece] = []
        while len(dealt) < room and (piece := self._next(worker, hand)):
            hand.pieces[piece.seq] = piece
            dealt.append(piece)
        if not hand.pieces and self._suspects and not self._read(1) and self._pieces is None:
            suspect = next(
                (one for one in sorted(self._suspects, key=itemgetter(0)) if self._may_have(worker, one[1])),
                None,
            )
            if suspect:
                self._suspects.remove(suspect)
                heapify(self._suspects)
                seq, piece = suspect
                self._own(piece.same, worker)
                hand.pieces[seq] = piece
                dealt.append(piece)
        return dealt

    def _may_have(self, worker: str, piece: Piece) -> bool:
        """Whether nobody else has, or is just lost with, another piece that asks the same."""
        owner = self._owners.get(piece.same, worker)
        return owner == worker or owner not in self._hands

    def ended(self, worker: str, seqs: Iterable[int], now: float) -> list[Piece]:
        """The pieces with these numbers have ended; those of them that the worker did have, each once."""
        hand = self._hands.get(worker)
        if hand is None:
            return []
        ended = [piece for seq in seqs if (piece := hand.pieces.pop(seq, None))]
        hand.count(len(ended), now)
        return ended

    def lost(self, worker: str) -> list[Piece]:
        """The worker is gone: what it had is dealt again; given are the pieces it had, oldest first."""
        hand = self._hands.pop(worker, None)
        if hand is None:
            return []
        had = [replace(piece, again=True) for _, piece in sorted(hand.pieces.items())]
        self._deaths.update(piece.seq for piece in had)
        for piece in (*had, *(piece for _, piece in hand.aside)):
            if piece.group not in self._dropped:
                suspect = self._deaths[piece.seq] >= MOST_DEATHS
                heappush(self._suspects if suspect else self._back, (piece.seq, piece))
        return had

    def left(self, worker: str, seqs: Iterable[int]) -> None:
        """The worker has these no more, and nobody is to have them."""
        if hand := self._hands.get(worker):
            for seq in seqs:
                hand.pieces.pop(seq, None)

    def drop(self, group: str) -> None:
        """Nothing of this group is dealt any more; who has pieces of it may end them."""
        self._dropped.add(group)
        self._ahead = deque(piece for piece in self._ahead if piece.group != group)
        for heap in (self._back, self._suspects, *(one.aside for one in self._hands.values())):
            heap[:] = [(seq, piece) for seq, piece in heap if piece.group != group]
            heapify(heap)

    def _share(self) -> int:
        """Pieces of what is left that one worker is to have at most."""
        left = len(self._ahead) + len(self._back) + len(self._suspects)
        left += sum(len(hand.pieces) + len(hand.aside) for hand in self._hands.values())
        return ceil(left / len(self._hands))

    def _read(self, n: int) -> bool:
        """Have so many pieces at hand that nobody has, or as many as can be read soon; whether there are any."""
        until = self._clock() + READ_S
        while len(self._ahead) + len(self._back) < n and self._pieces is not None:
            try:
                piece = next(self._pieces, None)
            except RunStopped as failure:
                self.failure, piece = failure, None
            if piece is None:
                self._pieces = None
            elif piece.group not in self._dropped:
                self._ahead.append(piece)
            if self._clock() > until:
                break
        return bool(self._ahead or self._back)

    def _next(self, worker: str, hand: _Hand) -> Piece | None:
        """The oldest piece that this worker may have; what others are to have is laid aside for them."""
        while self._back or self._ahead:
            piece = self._back[0][1] if self._back else self._ahead[0]
            if self._back and self._ahead and self._ahead[0].seq < piece.seq:
                piece = self._ahead[0]
            if hand.aside and hand.aside[0][0] < piece.seq:
                break
            owner = self._owners.get(piece.same, "") if piece.same else ""
            other = self._hands.get(owner) if owner != worker else None
            if other and len(other.aside) >= MOST_ASIDE:
                break
            self._take(piece)
            if not piece.same:
                return piece
            if owner or self._forgot:
                # What the first of them brought may be on record only.
                piece = replace(piece, again=True)
            if other is None:
                self._own(piece.same, worker)
                return piece
            heappush(other.aside, (piece.seq, piece))
        return heappop(hand.aside)[1] if hand.aside else None

    def _take(self, piece: Piece) -> None:
        if self._back and self._back[0][1] is piece:
            heappop(self._back)
        else:
            self._ahead.popleft()

    def _own(self, question: int, worker: str) -> None:
        if not question:
            return
        self._owners[question] = worker
        self._owners.move_to_end(question)
        if len(self._owners) > MOST_OWNED:
            self._owners.popitem(last=False)
            self._forgot = True


class Dealer:
    """All streams of a run, and what each worker has been told of what pieces share."""

    def __init__(
        self, streams: Sequence[Iterator[Piece]], clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._streams = [Stream(pieces, clock) for pieces in streams]
        self._told: dict[str, set[int]] = {}

    def look(self) -> None:
        """Read each stream up to its first piece: where much was done before, that takes long."""
        for stream in self._streams:
            stream.look()

    @property
    def over(self) -> bool:
        """Whether every piece has ended or was dropped."""
        return all(stream.over for stream in self._streams)

    @property
    def failure(self) -> RunStopped | None:
        """What a stream broke off with; of what came before it, all is dealt."""
        return next((stream.failure for stream in self._streams if stream.failure), None)

    def joined(self, worker: str, in_flight: int) -> None:
        """A worker is there that works on so many pieces of each stream at once."""
        self._told[worker] = set()
        for stream in self._streams:
            stream.joined(worker, in_flight)

    def deal(self, worker: str) -> Lease:
        """What a worker that is there is to have now; it has it from now on."""
        pieces = [piece for stream in self._streams for piece in stream.deal(worker)]
        told = self._told[worker]
        parts = tuple(dict.fromkeys(part for piece in pieces for part in piece.parts if part not in told))
        told.update(parts)
        return Lease(tuple(pieces), parts)

    def ended(self, worker: str, seqs: Collection[int], now: float) -> list[Piece]:
        """The pieces with these numbers have ended; those of them that the worker did have, each once."""
        return [piece for stream in self._streams for piece in stream.ended(worker, seqs, now)]

    def lost(self, worker: str) -> list[Piece]:
        """The worker is gone: what it had is dealt again; given are the pieces it had, oldest first."""
        self._told.pop(worker, None)
        return sorted((p for stream in self._streams for p in stream.lost(worker)), key=lambda p: p.seq)

    def left(self, worker: str, seqs: Collection[int]) -> None:
        """The worker has these no more, and nobody is to have them."""
        for stream in self._streams:
            stream.left(worker, seqs)

    def drop(self, group: str) -> None:
        """Nothing of this group is dealt any more; who has pieces of it may end them."""
        for stream in self._streams:
            stream.drop(group)
