"""Questions to the head travel together, each once, and whoever asked hears the answer."""

from __future__ import annotations

import asyncio

import pytest
from virtual_time import run_virtual

from cts_async.cluster.lookups import Lookups
from cts_async.errors import Interrupted


def test_who_asks_the_same_asks_once_and_all_are_answered() -> None:
    async def main() -> None:
        woken: list[bool] = []
        lookups = Lookups(lambda: woken.append(True))
        asking = [asyncio.ensure_future(lookups.ask(*what)) for what in ((0, "x"), (0, "x"), (1, "x"))]
        await asyncio.sleep(0)
        assert len(woken) == 2
        assert lookups.taken() == ((0, "x"), (1, "x"))
        assert lookups.taken() == ()
        lookups.answer({(0, "x"): b'{"response":1}', (1, "x"): None})
        assert await asyncio.gather(*asking) == [{"response": 1}, {"response": 1}, None]

    run_virtual(main)


def test_who_does_not_wait_any_more_takes_nobody_with_it() -> None:
    async def main() -> None:
        lookups = Lookups(lambda: None)
        first, second = (asyncio.ensure_future(lookups.ask(0, "x")) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        lookups.answer({(0, "x"): b'{"response":1}'})
        assert await second == {"response": 1}

    run_virtual(main)


def test_without_a_head_nobody_waits() -> None:
    async def main() -> None:
        lookups = Lookups(lambda: None)
        asking = asyncio.ensure_future(lookups.ask(0, "x"))
        await asyncio.sleep(0)
        lookups.lose(Interrupted("the head is gone"))
        with pytest.raises(Interrupted):
            await asking
        with pytest.raises(Interrupted):
            await lookups.ask(0, "y")

    run_virtual(main)
