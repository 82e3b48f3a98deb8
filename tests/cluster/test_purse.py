"""Who may spend how much: never more in all than a line allows, and never kept from who could use it."""

from __future__ import annotations

import pytest
from cts_async.cluster.purse import Purse

from cts_async.cluster.messages import News
from cts_async.engine.budget import NOTHING, Budget, Lines
from cts_async.engine.events import BudgetUsed, Cost, Event, Events
from cts_async.errors import EXIT_RESUMABLE, BudgetSpent


def tokens(n: float) -> Cost:
    return Cost(0, n)


class Talk:
    """A purse with a line at `limit` tokens, and what its workers say in tokens."""

    def __init__(self, limit: int, *workers: str, spent: float = 0.0) -> None:
        self.told: list[Event] = []
        self.purse = Purse(Lines(max_tokens=limit), tokens(spent), Events(self.told.append))
        for worker in workers:
            self.purse.joined(worker)

    def turn(self, worker: str) -> float:
        allowed = self.purse.allowed(worker)
        assert allowed is not None
        return allowed.tokens

    def says(
        self, worker: str, spent: float, reserved: float = 0, *, short: float = 0, wants: float = 0
    ) -> None:
        """`wants` is what it wants besides what it has spent, reserved, and waits for."""
        news = News(
            spent=tokens(spent),
            reserved=tokens(reserved),
            short=tokens(short) if short else None,
            wants=tokens(spent + reserved + short + wants),
        )
        self.purse.heard(worker, news)


def test_without_lines_nobody_is_told_anything() -> None:
    purse = Purse(Lines(), NOTHING, Events())
    purse.joined("a")
    assert purse.allowed("a") is None
    purse.heard("a", News(spent=Cost(5, 500)))
    assert purse.over() is None
    assert purse.spent == Cost(5, 500)


def test_who_has_said_nothing_is_allowed_nothing() -> None:
    assert Talk(1_000, "a").turn("a") == 0


def test_one_worker_gets_what_it_wants_up_to_the_line() -> None:
    talk = Talk(1_000, "a", spent=300)
    talk.says("a", 0, short=50, wants=100)
    assert talk.turn("a") == 150
    talk.says("a", 100, 50, wants=1_000)
    assert talk.turn("a") == 700


def test_each_gets_at_most_its_share_of_what_nobody_has() -> None:
    talk = Talk(1_000, "a", "b")
    talk.says("a", 0, short=50, wants=5_000)
    assert talk.turn("a") == 500
    talk.says("b", 0, short=50, wants=5_000)
    assert talk.turn("b") == 250
    talk.says("a", 100, 400, wants=5_000)
    assert talk.turn("a") == 500 + 125


def test_the_next_call_may_take_more_than_a_share() -> None:
    talk = Talk(1_000, "a", "b")
    talk.says("a", 0, short=800)
    assert talk.turn("a") == 800


def test_where_there_is_enough_unused_allowance_is_left_alone() -> None:
    talk = Talk(1_000, "a", "b")
    talk.says("a", 0, short=50, wants=300)
    assert talk.turn("a") == 350
    talk.says("a", 50)
    talk.says("b", 0, short=100)
    assert talk.turn("a") == 350
    assert talk.turn("b") == 100


def test_unused_allowance_is_asked_back_for_one_who_starves() -> None:
    talk = Talk(1_000, "a", "b")
    talk.says("a", 0, short=50, wants=450)
    assert talk.turn("a") == 500
    talk.says("a", 50, 20)
    talk.says("b", 0, short=600)
    assert talk.turn("b") == 0  # 600 do not fit beside 500
    assert talk.turn("a") == 70  # its own 70, and the other 430 are asked back
    talk.says("b", 0, short=600)
    assert talk.turn("b") == 0  # they are a's until it has answered: it may have begun something
    talk.says("a", 50, 120)
    talk.says("b", 0, short=600)
    assert talk.turn("b") == 600  # beside the 170 that it had begun by then


def test_nobody_waits_for_another_one_in_vain() -> None:
    # Both sit on 40 that are not enough for them: whoever is asked first gives them up for the other.
    talk = Talk(80, "a", "b")
    for worker in "ab":
        talk.says(worker, 0, short=40)
        assert talk.turn(worker) == 40
    for worker in "ab":
        talk.says(worker, 0, short=80)
        assert talk.turn(worker) == 0
    talk.says("a", 0, short=80)
    assert talk.turn("a") == 0
    talk.says("b", 0, short=80)
    assert talk.turn("b") == 80


def test_a_worker_that_is_lost_counts_with_all_that_it_may_have_spent() -> None:
    talk = Talk(1_000, "a", "b")
    talk.says("a", 0, short=50, wants=350)
    assert talk.turn("a") == 400
    talk.says("a", 100)
    talk.purse.lost("a")
    assert talk.purse.spent == tokens(400)
    assert talk.told[-1] == BudgetUsed(tokens(400), None, 1_000, None)
    talk.says("b", 0, short=601)
    assert talk.turn("b") == 0
    talk.says("b", 0, short=600)
    assert talk.turn("b") == 600
    talk.says("a", 50)  # too late: it is counted
    talk.purse.lost("a")
    assert talk.purse.spent == tokens(400)


def test_a_worker_that_is_lost_before_it_has_heard_of_less_counts_with_the_more() -> None:
    talk = Talk(1_000, "a", "b")
    talk.says("a", 0, short=50, wants=450)
    assert talk.turn("a") == 500
    talk.says("a", 50)
    talk.says("b", 0, short=900)
    assert talk.turn("b") == 0
    assert talk.turn("a") == 50
    talk.purse.lost("a")
    assert talk.purse.spent == tokens(500)


def test_a_worker_that_has_closed_everything_counts_with_what_it_spent() -> None:
    talk = Talk(1_000, "a")
    talk.says("a", 0, short=50, wants=450)
    assert talk.turn("a") == 500
    talk.purse.heard("a", News(spent=tokens(70), over=True))
    talk.purse.lost("a")
    assert talk.purse.spent == tokens(70)


def test_what_an_attempt_cost_beyond_its_reservation_is_counted() -> None:
    talk = Talk(100, "a", "b")
    talk.says("a", 0, short=40)
    assert talk.turn("a") == 40
    talk.says("a", 90)
    talk.says("b", 0, short=20)
    assert talk.turn("b") == 0


def test_the_screen_is_told_what_all_have_spent_and_only_news() -> None:
    talk = Talk(1_000, "a", "b", spent=10)
    talk.says("a", 5)
    talk.says("b", 7)
    talk.says("b", 7, 100)
    assert talk.told == [BudgetUsed(tokens(15), None, 1_000, None), BudgetUsed(tokens(22), None, 1_000, None)]


# --- When it is over


def test_it_is_not_over_while_anything_may_return() -> None:
    talk = Talk(100, "a", "b")
    talk.says("a", 0, short=80)
    talk.turn("a")
    talk.says("a", 0, 80)
    talk.says("b", 0, short=80)
    talk.turn("b")
    assert talk.purse.over() is None
    talk.says("a", 30)
    assert talk.purse.over() is None  # it may still use the other 50
    assert talk.turn("a") == 30
    assert talk.purse.over() is None  # it has not said so
    talk.says("a", 30)
    over = talk.purse.over()
    assert isinstance(over, BudgetSpent)
    assert (over.line, over.limit, over.spent, over.next) == ("tokens", 100, 30, 80)


def test_it_is_not_over_while_nobody_waits_or_somebodys_call_would_fit() -> None:
    talk = Talk(100, "a", "b", spent=50)
    assert talk.purse.over() is None
    talk.says("a", 0, short=51)
    assert talk.purse.over() is not None
    talk.says("b", 0, short=50)
    assert talk.purse.over() is None
    assert talk.turn("b") == 50


def test_the_reason_reads_as_that_of_one_process() -> None:
    lines, spent, most = Lines(max_calls=50, max_usd=1.5), Cost(12, 0, 1.48), Cost(1, 500, 0.03)
    purse = Purse(lines, spent, Events())
    purse.joined("a")
    purse.heard("a", News(short=most))
    over = purse.over()
    assert over is not None
    assert over.exit_code == EXIT_RESUMABLE
    assert str(over) == (
        "the budget is spent: $1.48 of --max-usd $1.50, and the next call may cost $0.03; "
        "the same command with a higher --max-usd resumes"
    )


@pytest.mark.parametrize("workers", [1, 3])
def test_calls_are_shared_whole(workers: int) -> None:
    purse = Purse(Lines(max_calls=10), NOTHING, Events())
    for i in range(workers):
        purse.joined(str(i))
    purse.heard("0", News(short=Cost(1), wants=Cost(50, 5_000, 5.0)))
    allowed = purse.allowed("0")
    # All of ten, or a third of them; of tokens and dollars nobody asks.
    assert allowed is not None
    assert allowed.calls == {1: 10, 3: 3}[workers]


def test_a_purse_begins_where_a_budget_of_one_process_would() -> None:
    budget = Budget(Lines(max_usd=1.0), Cost(3, 300, 0.25))
    purse = Purse(budget.lines, budget.spent, Events())
    assert purse.spent == Cost(3, 300, 0.25)
