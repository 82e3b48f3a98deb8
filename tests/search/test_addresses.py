"""Which addresses are visited: no spelling hides a private one, and no public one is refused."""

from __future__ import annotations

from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async.errors import ToolError
from cts_async.search.backends.addresses import (
    AllowList,
    canonical_host,
    checked_url,
    is_refused,
    spelled_address,
)

NOTHING = AllowList()


@pytest.mark.parametrize(
    "address",
    [
        *("0.0.0.0", "10.1.2.3", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.255.254"),
        *("168.63.129.16", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.192"),
        *("192.168.1.1", "198.18.0.1", "224.0.0.251", "239.255.255.250", "240.0.0.1", "255.255.255.255"),
        *("::", "::1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::127.0.0.1", "64:ff9b::7f00:1"),
        *("64:ff9b::808:808", "64:ff9b:1::1", "100::1", "2001::7f00:1", "2001:db8::1", "2002:7f00:1::"),
        *("3fff::1", "5f00::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%eth0"),
        *("2606:4700::1111%eth0", "fec0::1", "ff02::1"),
    ],
)
def test_non_public_address_is_refused(address: str) -> None:
    assert is_refused(ip_address(address))


@pytest.mark.parametrize(
    "address",
    [
        *("1.1.1.1", "99.255.255.255", "100.128.0.1", "172.32.0.1", "198.20.0.1", "223.255.255.255"),
        *("2001:4860:4860::8888", "2606:4700:4700::1111", "2a00:1450::1"),
    ],
)
def test_public_address_is_not_refused(address: str) -> None:
    assert not is_refused(ip_address(address))


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("0X7F.1", "127.0.0.1"),
        ("0", "0.0.0.0"),
        ("0x", "0.0.0.0"),
        ("169.254.43518", "169.254.169.254"),
        ("１２７.０.０.１", "127.0.0.1"),
        ("127。0。0。1", "127.0.0.1"),
        ("①②⑦.1", "127.0.0.1"),
        ("[::1]", "::1"),
        ("[0:0:0:0:0:ffff:7f00:1]", "::ffff:7f00:1"),
    ],
)
def test_every_spelling_of_an_address_is_recognised(host: str, address: str) -> None:
    assert canonical_host(host) == address


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("Example.ORG.", "example.org"),
        ("例え.jp", "xn--r8jz45g.jp"),
        ("中文.com", "xn--fiq228c.com"),
        ("a_b.example", "a_b.example"),
        ("ｌｏｃａｌｈｏｓｔ", "localhost"),
        ("8.example", "8.example"),
    ],
)
def test_name_is_canonicalised(host: str, name: str) -> None:
    assert (canonical_host(host), spelled_address(name)) == (name, None)


@pytest.mark.parametrize(
    "host",
    [
        *("256.1.1.1", "1.2.3.4.5", "08.1.1.1", "1.2.3.0xg", "a.b.8", "0x1_0.1", "[::g]"),
        *("", ".", "a..b", "-a.org", "a b.org", "a%2eb.org", "x" * 64 + ".org", "a." * 130),
    ],
)
def test_malformed_address_or_name_is_no_host(host: str) -> None:
    with pytest.raises(ValueError):
        canonical_host(host)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        *(
            (f"http://{host}/", "not a public address")
            for host in (
                "127.0.0.1",
                "2130706433",
                "0177.0.0.1",
                "127.1",
                "0x7f.0.0.1",
                "[::1]",
                "１２７.0.0.1",
            )
        ),
        ("http://[::ffff:10.0.0.1]/", "not a public address"),
        ("http://[fe80::1%25eth0]/", "not a public address"),
        ("https://169.254.169.254/latest/meta-data/", "not a public address"),
        *(
            (f"http://{host}/", "name of this machine")
            for host in (
                "localhost",
                "LOCALHOST.",
                "a.localhost",
                "metadata.google.internal",
                "printer.local",
            )
        ),
        ("http://8.8.8.8:22/", "port 22"),
        ("https://8.8.8.8:8443/", "port 8443"),
        ("http://user:pw@8.8.8.8/", "user names"),
        ("http://example.org@127.0.0.1/", "user names"),
        ("ftp://example.org/", "only http and https"),
        ("gopher://example.org/", "only http and https"),
        *(
            (url, "valid http or https")
            for url in (
                *("file:///etc/passwd", "javascript:alert(1)", "example.org", "", "http://"),
                *("http://example.org\\@127.0.0.1/", "http://exam\nple.org/", "http://example.org:99999/"),
                *("http://[::1", "http://[::1]@/", "http://[::1]x:80@/", "http://" + "a" * 9000),
            )
        ),
    ],
)
def test_address_is_refused_before_any_lookup(url: str, problem: str) -> None:
    with pytest.raises(ToolError, match=problem) as caught:
        checked_url(url, NOTHING)
    assert caught.value.reason == "refused address"


@pytest.mark.parametrize(
    ("url", "asked"),
    [
        ("http://Example.org/a b?q=ü#part", "http://example.org/a%20b?q=%C3%BC"),
        (" https://例え.jp/ ", "https://xn--r8jz45g.jp/"),
        ("http://16843009/x", "http://1.1.1.1/x"),
        ("https://[2606:4700:4700::1111]/", "https://[2606:4700:4700::1111]/"),
        ("http://example.org./", "http://example.org/"),
        ("http://example.org/a%2Fb%20c", "http://example.org/a%2Fb%20c"),
    ],
)
def test_checked_host_is_the_one_connected_to(url: str, asked: str) -> None:
    assert str(checked_url(url, NOTHING)) == asked


def test_allowed_hosts_may_be_private_and_at_any_port() -> None:
    allow = AllowList.parse(["wiki.lan", "10.1.0.0/16", "127.0.0.1", "fd00::/8", "Intranet.Example."])
    assert allow.hosts == {"wiki.lan", "intranet.example"}
    assert allow.permits("wiki.lan", ip_address("192.168.0.9"), 8080)
    assert allow.permits("any.example", ip_address("10.1.9.9"), 9000)
    assert allow.permits("127.0.0.1", ip_address("127.0.0.1"), 5000)
    assert not allow.permits("127.0.0.2", ip_address("127.0.0.2"), 80)
    assert not allow.permits("sub.wiki.lan", ip_address("192.168.0.9"), 80)
    assert not allow.permits("any.example", ip_address("8.8.8.8"), 8080)
    assert str(checked_url("http://2130706433:5000/", allow)) == "http://127.0.0.1:5000/"


@pytest.mark.parametrize("entry", ["10.1.0.1/16", "http://wiki.lan", "wiki.lan:80", "", "*.lan", "10.0.0"])
def test_invalid_allow_entry_is_named(entry: str) -> None:
    with pytest.raises(ValueError, match="neither a host nor a network"):
        AllowList.parse([entry])


# --- Laws -----------------------------------------------------------------------------------------------


def spellings(address: IPv4Address) -> list[str]:
    """`address` in decimal, octal and hexadecimal parts, and in one to four of them."""
    a, b, c, d = address.packed
    number = int(address)
    return [
        f"{a}.{b}.{c}.{d}",
        f"{a}.{b}.{c}.{d}.",
        f"{a}.{b}.{c * 256 + d}",
        f"{a}.{(b * 256 + c) * 256 + d}",
        f"{number}",
        f"0{number:o}",
        f"{number:#x}",
        f"{number:#X}",
        f"0{a:o}.0{b:o}.0{c:o}.0{d:o}",
        f"{a:#x}.{b:#x}.{c:#x}.{d:#x}",
        f"{a:#x}.0{b:o}.{c * 256 + d}",
    ]


V4 = [
    ip_network(network)
    for network in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "168.63.129.16/32", "169.254.0.0/16"),
        *("172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16"),
        *("198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
    )
]
V6 = [
    ip_network(network)
    for network in ("::/3", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "4000::/2", "8000::/1")
]
"""IANA's special-purpose registries, written down a second time."""
in_refused_v4 = st.sampled_from(V4).flatmap(lambda network: st.ip_addresses(network=network))
in_refused_v6 = st.sampled_from(V6).flatmap(lambda network: st.ip_addresses(network=network))


@given(in_refused_v4, st.integers(0, 10))
def test_no_spelling_hides_a_refused_address(address: IPv4Address, way: int) -> None:
    with pytest.raises(ToolError) as caught:
        checked_url(f"http://{spellings(address)[way]}/", NOTHING)
    assert caught.value.reason == "refused address"


@given(in_refused_v4)
def test_ipv6_does_not_hide_a_refused_ipv4_address(address: IPv4Address) -> None:
    number = int(address)
    for prefix in ("::ffff:0:0", "64:ff9b::", "::"):
        wide = IPv6Address(int(IPv6Address(prefix)) + number)
        assert is_refused(wide)
    assert is_refused(IPv6Address((0x2002 << 112) + (number << 80)))


@given(in_refused_v6)
def test_every_address_of_a_refused_ipv6_network_is_refused(address: IPv6Address) -> None:
    for text in (str(address), address.exploded):
        with pytest.raises(ToolError):
            checked_url(f"http://[{text}]/", NOTHING)


@given(st.ip_addresses(v=4).filter(lambda a: not any(a in network for network in V4)), st.integers(0, 10))
def test_global_ipv4_address_is_permitted_in_every_spelling(address: IPv4Address, way: int) -> None:
    assert checked_url(f"http://{spellings(address)[way]}/", NOTHING).host == str(address)


@given(st.ip_addresses(network="2000::/3").filter(lambda a: not any(a in network for network in V6)))
def test_global_ipv6_address_is_permitted(address: IPv6Address) -> None:
    assert checked_url(f"http://[{address.exploded}]/", NOTHING).host == str(address)


@given(st.text(max_size=40))
def test_any_text_is_a_host_or_refused(text: str) -> None:
    host = None
    with suppress(ToolError):
        host = checked_url(f"http://{text}", NOTHING).raw_host or ""
    assert host is None or host == canonical_host(host)
