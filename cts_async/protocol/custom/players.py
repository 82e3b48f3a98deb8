"""Opening custom roles for a run: functions are imported, commands and endpoints connected, the gateway started."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, redirect_stdout
from typing import Any, Final

import aiohttp

from cts_async.custom import RoleName
from cts_async.engine.events import Events, Notice
from cts_async.engine.lane import Lane, LaneLimits
from cts_async.llm.http import ConnectionPool, HttpEndpoint
from cts_async.protocol.custom.calls import ONCE, Call, CustomPlayer, Host, Perform, function_call
from cts_async.protocol.custom.command import Command
from cts_async.protocol.custom.endpoint import Endpoint
from cts_async.protocol.custom.gateway import Gateway
from cts_async.protocol.custom.sources import CustomRole, load_function
from cts_async.protocol.custom.wire import View, reply_value, view_json

MAX_CONCURRENCY: Final = 64
"""Requests that a command or an endpoint is sent at once, at most."""
Roles = Mapping[str, Mapping[RoleName, CustomRole]]
"""Custom players by label and role."""
Request = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]


@asynccontextmanager
async def open_players(
    players: Sequence[CustomRole],
    host: Host,
    environ: Mapping[str, str],
    events: Events,
    lane_of: Callable[[str, str, LaneLimits], Lane],
    *,
    models: Callable[[], list[str]],
    max_outage_s: float,
) -> AsyncIterator[Mapping[tuple[str, RoleName], CustomPlayer]]:
    """Players by label and role. What functions print goes to standard error: standard output has the results."""
    async with AsyncExitStack() as stack:
        opened: dict[tuple[str, RoleName], CustomPlayer] = {}
        requests: dict[str, Request] = {}
        gateway = Gateway(models)
        if any(player.kind != "function" for player in players):
            await stack.enter_async_context(gateway.serving())
        if any(player.kind == "function" for player in players):
            stack.enter_context(redirect_stdout(sys.stderr))
        for player in players:
            if player.kind == "function":
                perform = function_call(load_function(player))
                opened[player.label, player.role] = CustomPlayer(player, perform, host, policy=ONCE)
                continue
            if player.name not in requests:
                requests[player.name] = await _connected(player, environ, events, stack)
            limits = LaneLimits(
                requests_per_min=None,
                max_concurrency=MAX_CONCURRENCY,
                max_outage_s=max_outage_s,
                raisable=False,
            )
            lane = lane_of(player.name, player.label, limits)
            perform = _request_call(player, requests[player.name], gateway)
            opened[player.label, player.role] = CustomPlayer(player, perform, host, lane)
        try:
            yield opened
        finally:
            for one in opened.values():
                if notice := one.replays.notice(one.player.name):
                    events.emit(Notice(notice))


async def _connected(
    player: CustomRole, environ: Mapping[str, str], events: Events, stack: AsyncExitStack
) -> Request:
    if player.kind == "command":
        command = Command(player, environ, events)
        stack.push_async_callback(command.close)
        return command.request
    session = await stack.enter_async_context(aiohttp.ClientSession(connector=ConnectionPool(environ)))
    return Endpoint(player, HttpEndpoint(session, player.name)).request


def _request_call(player: CustomRole, request: Request, gateway: Gateway) -> Perform:
    """Ask a command or an endpoint, which is given the gateway's addresses for the time of the call."""

    async def perform(call: Call, view: View) -> Any:
        with gateway.lease(call) as addresses:
            fields = {"role": player.role, "view": view_json(view), **addresses}
            return reply_value(player.role, await request(fields), player.name)

    return perform
