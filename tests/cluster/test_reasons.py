"""Why work ended travels as two words, and is the same at the other end."""

from __future__ import annotations

import pytest

from cts_async.cluster.reasons import reason_of, told_reason
from cts_async.errors import BudgetSpent, Interrupted, ProviderRefused, RunStopped, StorageFull


@pytest.mark.parametrize("kind", [RunStopped, StorageFull, ProviderRefused, Interrupted])
def test_a_reason_is_the_same_at_the_other_end(kind: type[RunStopped]) -> None:
    told = told_reason(kind("because"))
    assert told == (kind.__name__, "because")
    reason = reason_of(told)
    assert type(reason) is kind
    assert str(reason) == "because"


def test_what_needs_more_than_its_text_keeps_the_text() -> None:
    spent = BudgetSpent("the budget is spent", line="calls", limit=9.0, spent=9.0, next=1.0)
    told = told_reason(spent)
    assert told is not None
    assert str(reason_of(told)) == "the budget is spent"
    assert type(reason_of(told)) is RunStopped


def test_no_reason_is_none() -> None:
    assert told_reason(None) is None


def test_an_error_that_is_no_stop_is_one_here() -> None:
    assert type(reason_of(("UsageError", "odd"))) is RunStopped
    assert type(reason_of(("Path", "odd"))) is RunStopped
