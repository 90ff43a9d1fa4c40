from __future__ import annotations

import base64
from contextlib import suppress
from dataclasses import replace

import pytest
from Crypto.PublicKey import ECC
from Crypto.Signature import eddsa
from hypothesis import given
from hypothesis import strategies as st

from tidegate.gateway.plane.identity import BadKey, Statement, device_id, encode_key, is_signed, read_public_key

# The example of the protocol: a key from 32 bytes of 0x0b.
KEY = eddsa.import_private_key(bytes([11]) * 32)
RAW = KEY.public_key().export_key(format="raw")
ID = "fdf72a088f18f7399e8c52bce448441501f759a595a86980e5d9a422a01e5d55"
SAID = Statement(ID, "cli", "cli", "operator", ("operator.read",), 1, "token", "nonce", " Linux ", "Mac")


def sign(text: str) -> str:
    return encode_key(eddsa.new(KEY, "rfc8032").sign(text.encode()))


def test_the_example_key_has_its_known_id_and_text() -> None:
    assert device_id(RAW) == ID
    assert encode_key(RAW) == "Zr5-Myx6RTMyvZ0Kf32wVfXF7xoGraZtmLOftoEMRzo"


def test_a_key_may_come_in_base64_base64url_and_pem() -> None:
    pem = ECC.import_key(KEY.public_key().export_key(format="DER")).export_key(format="PEM")
    for text in (encode_key(RAW), base64.b64encode(RAW).decode(), f"{encode_key(RAW)}=", pem):
        assert read_public_key(text) == RAW


@pytest.mark.parametrize("text", ["", "AAAA", "nö", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----"])
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(BadKey):
        read_public_key(text)


@given(st.text(max_size=80))
def test_any_text_is_a_key_or_refused(text: str) -> None:
    with suppress(BadKey):
        assert len(read_public_key(text)) == 32


def test_the_signed_texts_are_those_of_the_protocol() -> None:
    assert SAID.text("v2") == f"v2|{ID}|cli|cli|operator|operator.read|1|token|nonce"
    assert SAID.text("v3") == f"v3|{ID}|cli|cli|operator|operator.read|1|token|nonce|linux|mac"


def test_only_ascii_letters_of_platform_and_family_are_lowered() -> None:
    assert replace(SAID, platform="ÄI").text("v3").split("|")[-2] == "Äi"


@pytest.mark.parametrize("version", ["v2", "v3"])
def test_both_versions_are_accepted_and_changes_are_not(version: str) -> None:
    signature = sign(SAID.text(version))
    assert is_signed(SAID, signature, RAW)
    for changed in (
        replace(SAID, scopes=("operator.admin",)),
        replace(SAID, role="node"),
        replace(SAID, nonce="other"),
        replace(SAID, token=""),
        replace(SAID, signed_at=2),
    ):
        assert not is_signed(changed, signature, RAW)


@given(st.text(max_size=100))
def test_no_text_is_a_signature_by_chance(signature: str) -> None:
    assert not is_signed(SAID, signature, RAW)
