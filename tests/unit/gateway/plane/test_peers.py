from __future__ import annotations

from ipaddress import IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy

from tidegate.gateway.plane.peers import (
    FORWARDING_HEADERS,
    host_is_ours,
    origin_is_allowed,
    parse_networks,
    peer_of,
)

PROXY = parse_networks(["10.0.0.0/8", "::1"])


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1"])
def test_a_direct_connection_from_loopback_is_local(address: str) -> None:
    assert peer_of(address, {}, ()).is_local


def test_a_silent_proxy_on_this_machine_that_passes_the_host_on_is_not_local() -> None:
    assert not peer_of("127.0.0.1", {"Host": "gate.example"}, ()).is_local
    assert not peer_of("127.0.0.1", {"Host": "192.0.2.1"}, ()).is_local
    assert peer_of("127.0.0.1", {"Host": "127.0.0.1:18790"}, ()).is_local
    assert peer_of("::1", {"Host": "[::1]:18790"}, ()).is_local


@pytest.mark.parametrize("address", ["192.0.2.1", "10.0.0.1", "::ffff:192.0.2.1", "", "nonsense", "0.0.0.0"])
def test_other_addresses_are_not(address: str) -> None:
    assert not peer_of(address, {}, ()).is_local


@given(st.sampled_from(FORWARDING_HEADERS), st.text(max_size=30), st.sampled_from(["127.0.0.1", "::1"]))
def test_no_forwarding_header_leaves_a_connection_local(name: str, value: str, address: str) -> None:
    assert not peer_of(address, {name: value}, ()).is_local
    assert not peer_of(address, {name: value}, PROXY).is_local


@pytest.mark.parametrize(
    ("forwarded", "client"),
    [
        ("198.51.100.7", "198.51.100.7"),
        ("1.1.1.1, 198.51.100.7", "198.51.100.7"),
        ("198.51.100.7, 10.1.1.1", "198.51.100.7"),
        ("198.51.100.7, nonsense", "10.0.0.9"),
        ("10.1.1.1", "10.0.0.9"),
        ("", "10.0.0.9"),
    ],
)
def test_behind_a_proxy_the_last_untrusted_hop_is_the_client(forwarded: str, client: str) -> None:
    peer = peer_of("10.0.0.9", {"X-Forwarded-For": forwarded}, PROXY)
    assert (peer.ip, peer.proxied_by_trusted) == (client, True)


def test_anybody_elses_forwarding_header_is_not_believed() -> None:
    peer = peer_of("192.0.2.1", {"X-Forwarded-For": "198.51.100.7"}, PROXY)
    assert (peer.ip, peer.proxied_by_trusted) == ("192.0.2.1", False)


@pytest.mark.parametrize(
    "host", ["127.0.0.1:18790", "[::1]:1", "localhost", "LOCALHOST:5", "192.0.2.4", None, "ours.example:1"]
)
def test_our_hosts_are_accepted(host: str | None) -> None:
    assert host_is_ours(host, ["https://ours.example"])


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "", ":80", "127.0.0.1.evil.example", "a@evil.example"]
)
def test_other_hosts_are_not(host: str) -> None:
    assert not host_is_ours(host, ["https://ours.example"])


def test_a_name_with_a_trailing_dot_is_the_same_name() -> None:
    assert host_is_ours("localhost.", [])
    assert not host_is_ours("evil.example.", [])


def test_an_origin_must_be_ours_or_configured() -> None:
    assert origin_is_allowed("http://127.0.0.1:5", "127.0.0.1:5", [])
    assert origin_is_allowed("https://Ours.example", "other", ["https://ours.example/"])
    assert not origin_is_allowed("http://127.0.0.1:6", "127.0.0.1:5", [])
    assert not origin_is_allowed("http://ours.example", "other", ["https://ours.example"])
    assert not origin_is_allowed("null", "null", ["*"])
    assert not origin_is_allowed("file:///x", None, [])


@given(st.text(max_size=40), st.text(max_size=40))
def test_no_header_makes_the_checks_fail_otherwise_than_by_an_answer(host: str, origin: str) -> None:
    assert isinstance(host_is_ours(host, []), bool)
    assert isinstance(origin_is_allowed(origin, host, []), bool)


@given(st.ip_addresses(v=6), st.integers(0, 2**64 - 1))
def test_all_addresses_of_a_customer_count_as_one(address: IPv6Address, host: int) -> None:
    neighbour = IPv6Address((int(address) >> 64 << 64) | host)
    if address.ipv4_mapped or neighbour.ipv4_mapped or address.is_loopback or neighbour.is_loopback:
        return
    assert peer_of(str(neighbour), {}, ()).neighbourhood == peer_of(str(address), {}, ()).neighbourhood


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("192.0.2.1", "192.0.2.2"),
        ("2001:db8::1", "2001:db8:0:1::1"),
        ("::1", "::2"),
        ("127.0.0.1", "192.0.2.1"),
        ("", "x"),
    ],
)
def test_others_do_not(one: str, other: str) -> None:
    assert peer_of(one, {}, ()).neighbourhood != peer_of(other, {}, ()).neighbourhood


def test_this_machine_is_apart_from_what_comes_through_a_proxy_on_it() -> None:
    assert peer_of("127.0.0.1", {}, ()).neighbourhood == peer_of("::1", {}, ()).neighbourhood
    through = peer_of("127.0.0.1", {"X-Forwarded-For": "9.9.9.9"}, ())
    assert through.neighbourhood != peer_of("127.0.0.1", {}, ()).neighbourhood


def test_a_proxy_that_adds_a_line_of_its_own_is_believed_and_not_the_line_above_it() -> None:
    lines = CIMultiDict([("X-Forwarded-For", "198.51.100.1"), ("X-Forwarded-For", "203.0.113.9")])
    assert peer_of("10.0.0.5", CIMultiDictProxy(lines), PROXY).ip == "203.0.113.9"
