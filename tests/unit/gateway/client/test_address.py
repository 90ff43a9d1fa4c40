"""Addresses of gateways."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.gateway.client.address import is_loopback, read_address
from tidegate.gateway.client.errors import BadAddress


@pytest.mark.parametrize(
    ("typed", "url"),
    [
        ("wss://gateway.example.org", "wss://gateway.example.org:443/"),
        ("https://gateway.example.org/tide/", "wss://gateway.example.org:443/tide/"),
        ("gateway.example.org", "wss://gateway.example.org:18790/"),
        ("ws://127.0.0.1:18791", "ws://127.0.0.1:18791/"),
        ("http://localhost", "ws://localhost:18790/"),
        ("127.0.0.1", "ws://127.0.0.1:18790/"),
        ("[::1]:7", "ws://[::1]:7/"),
        ("ws://[::1]:7", "ws://[::1]:7/"),
    ],
)
def test_what_somebody_types_becomes_one_address(typed: str, url: str):
    assert read_address(typed).url == url


@pytest.mark.parametrize("typed", ["ws://gateway.example.org", "http://10.0.0.1:18790", "ws://127.0.0.1.example.org"])
def test_plain_text_to_another_machine_is_refused_unless_it_is_wanted(typed: str):
    with pytest.raises(BadAddress, match="in the clear"):
        read_address(typed)
    assert read_address(typed, insecure=True).url.startswith("ws://")


@pytest.mark.parametrize(
    "typed",
    ["wss://me:secret@host", "wss://host/?token=secret", "wss://host/#token=secret", "wss://secret@host"],
)
def test_an_address_carries_no_secret_and_the_refusal_does_not_repeat_it(typed: str):
    with pytest.raises(BadAddress) as refusal:
        read_address(typed)
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize(
    "typed", ["", "ftp://host", "wss://", "wss://host:99999", "wss://ho st", "wss://[::1", "x:y:z"]
)
def test_what_is_no_address_is_refused(typed: str):
    with pytest.raises(BadAddress):
        read_address(typed)


@given(st.text(max_size=60))
def test_no_text_leads_to_plain_text_elsewhere(typed: str):
    try:
        found = read_address(typed)
    except BadAddress:
        return
    assert found.is_encrypted or is_loopback(found.host)
