"""Every piece ends exactly once, whoever is lost; leases are small, fair, and oldest first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cts_async.cluster import dealing
from cts_async.cluster.dealing import MOST_AT_ONCE, Dealer
from cts_async.cluster.messages import Piece
from cts_async.errors import RunStopped


def pieces(n: int, *, group: str = "g", same: Iterable[int] = (), stream: int = 0) -> Iterator[Piece]:
    asked = dict(enumerate(same))
    for seq in range(n):
        yield Piece(seq, group, f"i{seq}", 0, None, same=asked.get(seq, 0), stream=stream)


def dealer_of(n: int, *workers: str, in_flight: int = 4, same: Iterable[int] = ()) -> Dealer:
    dealer = Dealer([pieces(n, same=same)])
    for worker in workers:
        dealer.joined(worker, in_flight)
    return dealer


def seqs(dealt: Iterable[Piece]) -> list[int]:
    return [piece.seq for piece in dealt]


def test_a_new_worker_is_kept_busy_twice_over() -> None:
    dealer = dealer_of(1000, "a", in_flight=4)
    assert seqs(dealer.deal("a").pieces) == [0, 1, 2, 3, 4, 5, 6, 7]
    assert dealer.deal("a").pieces == ()


def test_a_worker_has_a_second_of_work_beside_what_it_works_on() -> None:
    """8 pieces in half a second are 16 a second: 4 under way and 16 more."""
    dealer = dealer_of(1000, "a", in_flight=4)
    dealt = seqs(dealer.deal("a").pieces)
    dealer.ended("a", [], now=10.0)
    dealer.ended("a", dealt, now=10.5)
    assert len(dealer.deal("a").pieces) == 20


def test_slow_work_is_not_hoarded() -> None:
    """One piece in two seconds: one more than it works on is enough."""
    dealer = dealer_of(1000, "a", in_flight=4)
    dealt = seqs(dealer.deal("a").pieces)
    dealer.ended("a", [], now=0.0)
    dealer.ended("a", dealt[:1], now=2.0)
    assert dealer.deal("a").pieces == (), "7 are left of the first lease"
    dealer.ended("a", dealt[1:4], now=3.9)
    assert len(dealer.deal("a").pieces) == 2, "4 in hand, 6 wanted: 4 under way and 2 a second"


def test_a_lease_is_bounded() -> None:
    dealer = dealer_of(5000, "a", in_flight=1000)
    assert len(dealer.deal("a").pieces) == MOST_AT_ONCE


def test_what_is_left_is_shared_evenly() -> None:
    """10 pieces for two workers that would take 8 each."""
    dealer = dealer_of(10, "a", "b")
    assert seqs(dealer.deal("a").pieces) == [0, 1, 2, 3, 4]
    assert seqs(dealer.deal("b").pieces) == [5, 6, 7, 8, 9]


def test_the_iterator_is_read_as_far_as_all_workers_would_want() -> None:
    """Two workers, 8 pieces each."""
    read: list[int] = []

    def noted() -> Iterator[Piece]:
        for piece in pieces(1000):
            read.append(piece.seq)
            yield piece

    dealer = Dealer([noted()])
    dealer.joined("a", 4)
    dealer.joined("b", 4)
    dealer.deal("a")
    assert len(read) == 16


def test_pieces_of_the_lost_are_dealt_first_and_are_to_be_looked_up() -> None:
    dealer = dealer_of(1000, "a", "b", in_flight=2)
    dealer.deal("a")
    dealer.deal("b")
    dealer.ended("a", [1], now=0.0)
    assert seqs(dealer.lost("a")) == [0, 2, 3]
    dealer.ended("b", [4, 5, 6], now=0.0)
    dealt = dealer.deal("b").pieces
    assert seqs(dealt) == [0, 2, 3]
    assert all(piece.again for piece in dealt)


def test_the_same_question_goes_to_the_worker_that_has_it() -> None:
    dealer = dealer_of(8, "a", "b", in_flight=2, same=[7, 0, 0, 0, 0, 7, 0, 7])
    assert seqs(dealer.deal("a").pieces) == [0, 1, 2, 3]
    assert seqs(dealer.deal("b").pieces) == [4, 6], "5 and 7 are not for b"
    dealer.ended("a", [0, 1, 2, 3], now=0.0)
    dealt = dealer.deal("a").pieces
    assert [(piece.seq, piece.again) for piece in dealt] == [(5, True), (7, True)]


def test_a_lost_workers_questions_move_to_who_gets_its_pieces() -> None:
    dealer = dealer_of(6, "a", "b", in_flight=1, same=[7, 0, 0, 0, 7, 7])
    assert seqs(dealer.deal("a").pieces) == [0, 1]
    dealer.lost("a")
    dealer.joined("c", 1)
    assert [(piece.seq, piece.again) for piece in dealer.deal("c").pieces] == [(0, True), (1, True)]
    assert seqs(dealer.deal("b").pieces) == [2, 3]
    dealer.ended("c", [0, 1], now=0.0)
    dealer.ended("b", [2, 3], now=0.0)
    assert dealer.deal("b").pieces == (), "4 and 5 are c's now"
    assert [(piece.seq, piece.again) for piece in dealer.deal("c").pieces] == [(4, True)], (
        "half of what is left"
    )
    dealer.ended("c", [4], now=0.0)
    assert [(piece.seq, piece.again) for piece in dealer.deal("c").pieces] == [(5, True)]


def test_of_questions_that_are_forgotten_the_record_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dealing, "MOST_OWNED", 2)
    dealer = dealer_of(5, "a", in_flight=5, same=[1, 2, 3, 1, 4])
    assert [piece.again for piece in dealer.deal("a").pieces] == [False, False, False, True, True]


def test_who_waits_for_one_worker_holds_up_others_only_when_many_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dealing, "MOST_ASIDE", 2)
    dealer = dealer_of(9, "a", "b", in_flight=1, same=[7, 0, 7, 7, 0, 7, 0, 0, 0])
    assert seqs(dealer.deal("a").pieces) == [0, 1]
    assert seqs(dealer.deal("b").pieces) == [4], "2 and 3 are laid aside, 5 stands in the way of 6"


def test_parts_are_told_once_to_each() -> None:
    def sharing() -> Iterator[Piece]:
        for seq in range(8):
            yield Piece(seq, "g", f"i{seq}", 0, None, parts=(seq // 3,))

    dealer = Dealer([sharing()])
    dealer.joined("a", 1)
    assert dealer.deal("a").parts == (0,)
    dealer.ended("a", [0, 1], now=0.0)
    assert dealer.deal("a").parts == (1,), "2 and 3: of 0 it has been told"
    dealer.joined("b", 1)
    assert dealer.deal("b").parts == (1,), "4 and 5"


def test_a_dropped_group_is_dealt_no_more_and_others_go_on() -> None:
    def mixed() -> Iterator[Piece]:
        for seq in range(12):
            yield Piece(seq, "odd" if seq % 2 else "even", f"i{seq}", 0, None)

    dealer = Dealer([mixed()])
    dealer.joined("a", 2)
    dealer.joined("b", 2)
    dealer.deal("a")
    dealer.deal("b")
    dealer.drop("odd")
    dealer.left("a", [1])
    assert seqs(dealer.ended("a", [0, 1, 2, 3], now=0.0)) == [0, 2, 3], "3 had been under way"
    assert seqs(dealer.deal("a").pieces) == [8, 10]
    assert seqs(dealer.lost("b")) == [4, 5, 6, 7]
    dealer.ended("a", [8, 10], now=0.0)
    assert seqs(dealer.deal("a").pieces) == [4, 6]
    assert not dealer.over
    dealer.ended("a", [4, 6], now=0.0)
    assert dealer.over


def test_streams_are_dealt_side_by_side() -> None:
    """A worker is kept busy with each: one that is slow holds up no other."""
    dealer = Dealer([iter(list(pieces(9, stream=0))), _from(100, 9)])
    dealer.joined("a", 1)
    assert seqs(dealer.deal("a").pieces) == [0, 1, 100, 101]
    dealer.ended("a", [100, 101], now=0.0)
    assert seqs(dealer.deal("a").pieces) == [102, 103]


def _from(first: int, n: int) -> Iterator[Piece]:
    return (Piece(seq, "h", f"i{seq}", 0, None, stream=1) for seq in range(first, first + n))


def test_of_a_slow_stream_one_piece_is_waited_for_at_a_time() -> None:
    """A second for each, since most of what lies between was done before."""
    now = [0.0]

    def slow() -> Iterator[Piece]:
        for piece in pieces(3):
            now[0] += 1.0
            yield piece

    dealer = Dealer([slow()], lambda: now[0])
    dealer.joined("a", 4)
    assert [seqs(dealer.deal("a").pieces) for _ in range(4)] == [[0], [1], [2], []]
    assert now[0] == 3.0
    dealer.ended("a", [0, 1, 2], now=0.0)
    assert dealer.over


def test_a_slow_stream_of_a_dropped_group_is_not_over_before_its_end() -> None:
    now = [0.0]

    def slow() -> Iterator[Piece]:
        for piece in pieces(3):
            now[0] += 1.0
            yield piece

    dealer = Dealer([slow()], lambda: now[0])
    dealer.drop("g")
    assert [dealer.over for _ in range(5)] == [False, False, False, True, True]


def test_each_stream_can_be_read_up_to_its_first_piece() -> None:
    """Where much was done before, that takes long: it is done before anybody waits."""
    read: list[int] = []

    def skipping(stream: int) -> Iterator[Piece]:
        read.append(stream)
        yield from pieces(3, stream=stream)

    dealer = Dealer([skipping(0), skipping(1)])
    dealer.look()
    assert read == [0, 1]
    dealer.joined("a", 9)
    assert len(dealer.deal("a").pieces) == 6


def test_what_breaks_a_stream_is_told_after_what_came_before() -> None:
    def breaking() -> Iterator[Piece]:
        yield from pieces(2)
        raise RunStopped("the file has changed")

    dealer = Dealer([breaking()])
    dealer.joined("a", 4)
    assert seqs(dealer.deal("a").pieces) == [0, 1]
    assert str(dealer.failure) == "the file has changed"


def test_nothing_to_do_is_over_at_once() -> None:
    assert Dealer([iter(())]).over
    assert Dealer([]).over


def test_what_three_workers_were_lost_with_comes_last_and_each_by_itself() -> None:
    dealer = dealer_of(12)
    for worker in "abc":
        dealer.joined(worker, 2)
        assert seqs(dealer.deal(worker).pieces) == [0, 1, 2, 3]
        dealer.lost(worker)
    dealer.joined("d", 4)
    assert seqs(dealer.deal("d").pieces) == [4, 5, 6, 7, 8, 9, 10, 11]
    dealer.joined("e", 4)
    assert seqs(dealer.deal("e").pieces) == [0], "nothing else is left, and it has nothing else in hand"
    assert dealer.deal("e").pieces == ()
    dealer.lost("e")
    dealer.ended("d", range(4, 12), now=1.0)
    for seq in range(4):
        assert not dealer.over
        assert seqs(dealer.deal("d").pieces) == [seq]
        dealer.ended("d", [seq], now=2.0)
    assert dealer.over


@settings(max_examples=80, deadline=None)
@given(data=st.data(), n=st.integers(0, 60))
def test_every_piece_ends_once_whatever_happens(data: st.DataObject, n: int) -> None:
    """Deals, ends and losses in any order; in the end one worker does what is left."""
    same = data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    dealer = dealer_of(n, same=same)
    alive: dict[str, list[Piece]] = {}
    did: Counter[int] = Counter()
    lost_with: set[int] = set()
    for turn in range(data.draw(st.integers(0, 60))):
        act = data.draw(st.sampled_from(("join", "deal", "end", "lose")))
        if act == "join" or not alive:
            alive[f"w{turn}"] = []
            dealer.joined(f"w{turn}", data.draw(st.integers(1, 5)))
            continue
        worker = data.draw(st.sampled_from(sorted(alive)))
        if act == "deal":
            dealt = dealer.deal(worker).pieces
            assert seqs(dealt) == sorted(seqs(dealt))
            assert all(piece.again for piece in dealt if piece.seq in lost_with)
            alive[worker] += dealt
        elif act == "end":
            n_ended = data.draw(st.integers(0, len(alive[worker])))
            ended, alive[worker] = alive[worker][:n_ended], alive[worker][n_ended:]
            did.update(seqs(dealer.ended(worker, seqs(ended), now=float(turn))))
            assert dealer.ended(worker, seqs(ended), now=float(turn)) == [], "nothing ends twice"
        else:
            had = seqs(dealer.lost(worker))
            assert had == sorted(seqs(alive.pop(worker)))
            lost_with.update(had)
    dealer.joined("last", 3)
    for worker in alive:
        dealer.lost(worker)
    for turn in range(200):
        did.update(seqs(dealer.ended("last", seqs(dealer.deal("last").pieces), now=100.0 + turn)))
    assert dealer.over
    assert did == Counter(range(n))


@settings(max_examples=40, deadline=None)
@given(same=st.lists(st.integers(0, 4), max_size=60), order=st.randoms(use_true_random=False))
def test_a_question_is_never_with_two_workers(same: list[int], order: object) -> None:
    dealer = dealer_of(len(same), "a", "b", "c", in_flight=3, same=same)
    holder: dict[int, str] = {}
    hands: dict[str, list[int]] = {"a": [], "b": [], "c": []}
    for turn in range(300):
        worker = order.choice("abc")  # type: ignore[attr-defined]
        for piece in dealer.deal(worker).pieces:
            hands[worker].append(piece.seq)
            if piece.same:
                assert holder.setdefault(piece.same, worker) == worker
        ended, hands[worker] = hands[worker][:2], hands[worker][2:]
        dealer.ended(worker, ended, now=turn / 10)
    assert dealer.over


def test_what_a_lost_worker_may_have_answered_waits_until_that_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both ask the same, and are dealt alone after one loss: none while a worker that has the other is buried."""
    monkeypatch.setattr(dealing, "MOST_DEATHS", 1)
    dealer = dealer_of(2, "a", same=[7, 7])
    assert seqs(dealer.deal("a").pieces) == [0, 1]
    dealer.lost("a")
    for worker in ("b", "c"):
        dealer.joined(worker, 4)
    assert seqs(dealer.deal("b").pieces) == [0]
    assert seqs(dealer.deal("c").pieces) == []
    dealer.lost("b")
    assert [(piece.seq, piece.again) for piece in dealer.deal("c").pieces] == [(0, True)]
