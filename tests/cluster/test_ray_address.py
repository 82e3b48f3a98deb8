"""Addresses of clusters as people write them, and what they are told when one is wrong."""

from __future__ import annotations

import socket

import pytest

from cts_async.cluster.ray_address import Address, address_meant, check_listening, read_address
from cts_async.errors import UsageError


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("auto", Address("auto")),
        (" auto ", Address("auto")),
        ("head:6379", Address("head:6379", "head", 6379)),
        ("10.0.0.1:6379", Address("10.0.0.1:6379", "10.0.0.1", 6379)),
        ("[fe80::1]:6379", Address("[fe80::1]:6379", "fe80::1", 6379)),
        ("ray://head:10001", Address("ray://head:10001", "head", 10001, client=True)),
    ],
)
def test_an_address_is_read(text: str, address: Address) -> None:
    assert read_address(text) == address


@pytest.mark.parametrize(
    ("typed", "variable", "meant"),
    [
        ("auto", {}, "auto"),
        ("auto", {"RAY_ADDRESS": " "}, "auto"),
        ("auto", {"RAY_ADDRESS": "auto"}, "auto"),
        ("auto", {"RAY_ADDRESS": "head:6379"}, "head:6379"),
        ("auto", {"RAY_ADDRESS": "ray://head:10001"}, "ray://head:10001"),
        ("other:6379", {"RAY_ADDRESS": "head:6379"}, "other:6379"),
    ],
)
def test_auto_is_what_the_environment_says(typed: str, variable: dict[str, str], meant: str) -> None:
    assert address_meant(typed, variable) == read_address(meant)


def test_an_environment_that_says_no_address_is_named() -> None:
    with pytest.raises(UsageError, match=r"^--ray auto: RAY_ADDRESS is head, which is no HOST:6379 or"):
        address_meant("auto", {"RAY_ADDRESS": "head"})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "local",
        "head",
        ":6379",
        "head:",
        "head:x",
        "head:99999",
        "http://head:80",
        "ray://",
        "me@head:1",
        "head:1/x",
    ],
)
def test_what_is_no_address_is_refused_with_examples(text: str) -> None:
    with pytest.raises(UsageError, match="write it as auto, HOST:6379 or ray://HOST:10001"):
        read_address(text)


def test_a_port_that_nobody_listens_at_is_told_at_once() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        with pytest.raises(
            UsageError, match=rf"--ray 127\.0\.0\.1:{port}: Connection refused; is Ray running there"
        ):
            check_listening(read_address(f"127.0.0.1:{port}"))


def test_a_host_that_takes_connections_will_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        check_listening(read_address(f"127.0.0.1:{server.getsockname()[1]}"))


def test_what_ray_finds_by_itself_is_left_to_it() -> None:
    check_listening(read_address("auto"))
