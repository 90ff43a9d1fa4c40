"""The stored identity of this machine."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tidegate.gateway.client.identity import BadIdentity, Identity, StoredToken
from tidegate.gateway.plane.identity import Statement, is_signed, read_public_key

URL = "wss://host:443/"


def test_the_key_is_made_once_and_only_this_user_can_read_it(tmp_path: Path):
    state = tmp_path / "state"
    first = Identity(state).key()
    assert Identity(state).key().id == first.id
    file = state / "client" / "device.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [stat.S_IMODE(place.stat().st_mode) for place in (state, file.parent)] == [0o700, 0o700]
    assert sorted(path.name for path in file.parent.iterdir()) == ["device.json"]


def test_its_signature_is_one_that_a_gateway_accepts(tmp_path: Path):
    key = Identity(tmp_path).key()
    statement = Statement(key.id, "cli", "cli", "operator", ["operator.read"], 1, "t", "n", "linux")
    assert is_signed(statement, key.sign(statement), read_public_key(key.public))


def test_many_who_make_the_key_at_once_get_the_same_one(tmp_path: Path):
    with ThreadPoolExecutor(8) as pool:
        keys = list(pool.map(lambda _: Identity(tmp_path).key().id, range(16)))
    assert len(set(keys)) == 1


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_a_key_that_others_can_read_is_not_used(tmp_path: Path, mode: int):
    Identity(tmp_path).key()
    (tmp_path / "client" / "device.json").chmod(mode)
    with pytest.raises(BadIdentity, match=f"can be read by others \\(mode {mode:o}\\).*chmod 600"):
        Identity(tmp_path).key()


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"version":1,"seed":"AA=="}', '{"version":1,"seed":7}', '{"version":2}']
)
def test_a_damaged_key_is_told_and_left_as_it_is(tmp_path: Path, text: str):
    Identity(tmp_path).key()
    file = tmp_path / "client" / "device.json"
    file.write_text(text)
    with pytest.raises(BadIdentity, match="is damaged: delete it"):
        Identity(tmp_path).key()
    assert file.read_text() == text


def test_tokens_are_kept_for_each_gateway_and_forgotten_one_by_one(tmp_path: Path):
    identity = Identity(tmp_path)
    assert identity.token(URL) is None
    assert not (tmp_path / "client").exists()
    identity.keep(URL, StoredToken("one", ("operator.read",)))
    identity.keep("wss://other:443/", StoredToken("two"))
    assert identity.token(URL) == StoredToken("one", ("operator.read",))
    identity.forget(URL)
    assert (identity.token(URL), identity.token("wss://other:443/")) == (None, StoredToken("two"))
    assert stat.S_IMODE((tmp_path / "client" / "tokens.json").stat().st_mode) == 0o600


def test_tokens_that_are_kept_at_once_are_all_kept(tmp_path: Path):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: Identity(tmp_path).keep(f"wss://h{n}:1/", StoredToken(str(n))), range(24)))
    assert [Identity(tmp_path).token(f"wss://h{n}:1/") for n in range(24)] == [StoredToken(str(n)) for n in range(24)]


@pytest.mark.parametrize("text", ["{", "[]", '{"version":1}', '{"version":9,"gateways":{}}'])
def test_damaged_tokens_are_told_and_never_overwritten(tmp_path: Path, text: str):
    Identity(tmp_path).keep(URL, StoredToken("one"))
    file = tmp_path / "client" / "tokens.json"
    file.write_text(text)
    with pytest.raises(BadIdentity, match="is damaged"):
        Identity(tmp_path).keep(URL, StoredToken("two"))
    assert file.read_text() == text


def test_a_secret_is_in_no_representation():
    assert "hidden" not in repr(StoredToken("hidden"))
