"""An outage opens the circuit, one probe at a time looks, an answer closes it."""

from __future__ import annotations

from cts_async.engine.circuit import Circuit


def opened(circuit: Circuit, now: float = 0.0) -> Circuit:
    for i in range(circuit.threshold):
        circuit.failed(now, f"step{i}", "HTTP 503", unreachable=False)
    return circuit


def test_failures_in_a_row_open_it_and_one_success_between_does_not() -> None:
    circuit = Circuit(threshold=3)
    for key in ("a", "b"):
        assert not circuit.failed(0.0, key, "HTTP 500", unreachable=False)
    circuit.succeeded()
    for key in ("a", "b"):
        assert not circuit.failed(0.0, key, "HTTP 500", unreachable=False)
    assert circuit.failed(0.0, "c", "HTTP 500", unreachable=False)


def test_one_poisoned_request_alone_is_no_outage() -> None:
    circuit = Circuit(threshold=3)
    assert not any(circuit.failed(0.0, "same", "HTTP 500", unreachable=False) for _ in range(20))


def test_a_server_that_cannot_be_reached_is_one_even_for_a_single_request() -> None:
    circuit = Circuit(threshold=3)
    assert [circuit.failed(0.0, "same", "refused", unreachable=True) for _ in range(3)] == [
        False,
        False,
        True,
    ]


def test_one_probe_at_a_time_ever_more_rarely() -> None:
    circuit = opened(Circuit(threshold=3, first_probe_s=1.0, max_probe_s=4.0))
    waits = []
    for now in (0.0, 120.0, 180.0, 900.0):
        circuit.sending(now)
        assert circuit.wait_s(now) > 0, "a second one would have to wait for the probe"
        circuit.failed(now, "probe", "HTTP 503", unreachable=False, probe=True)
        waits.append(circuit.wait_s(now))
    # A sixtieth of the outage so far, but 1 s at least and 4 s at most.
    assert waits == [1.0, 2.0, 3.0, 4.0]


def test_a_probe_that_hangs_keeps_the_next_from_looking_for_a_few_seconds_only() -> None:
    circuit = opened(Circuit(threshold=3))
    circuit.sending(1.0)
    assert circuit.wait_s(1.0) == 5.0
    assert circuit.wait_s(6.0) == 0.0


def test_a_cancelled_probe_lets_another_look_at_once() -> None:
    circuit = opened(Circuit(threshold=3))
    circuit.sending(1.0)
    circuit.abandoned(1.5)
    assert circuit.wait_s(1.5) == 0.0


def test_late_failures_of_earlier_requests_do_not_postpone_the_probe() -> None:
    circuit = opened(Circuit(threshold=3, first_probe_s=1.0))
    for _ in range(10):
        circuit.failed(0.5, "late", "reset", unreachable=False)
    assert circuit.wait_s(1.0) == 0.0


def test_an_answer_closes_it() -> None:
    circuit = opened(Circuit(threshold=3))
    assert circuit.succeeded()
    assert circuit.wait_s(0.0) == 0.0
    assert not circuit.is_open
