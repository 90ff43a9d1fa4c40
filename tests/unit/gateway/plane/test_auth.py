from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fakes.event_loop import on_loop
from tidegate.clock import ManualClock
from tidegate.config.sections.gateway import GatewaySection
from tidegate.errors import ConfigError
from tidegate.gateway.plane.auth import AuthSettings, Doorkeeper, Offered, keep_secret, read_settings, same
from tidegate.gateway.plane.contract import RpcError
from tidegate.gateway.plane.limits import AttemptLimiter, AttemptRules
from tidegate.gateway.plane.peers import Peer, parse_networks

HERE = Peer("127.0.0.1", True)
THERE = Peer("192.0.2.1", False)
QUICK = AttemptRules(local_delay=0.001, local_delay_max=0.001)


def settings(state: Path, environ: dict[str, str] | None = None, **gateway: Any) -> AuthSettings:
    return read_settings(GatewaySection.model_validate(gateway), state, environ or {})


def keeper(mode: Any, secret: str = "", **fields: Any) -> Doorkeeper:
    found = AuthSettings(mode, secret, rules=QUICK, **fields)
    return Doorkeeper(found, AttemptLimiter(ManualClock(), found.rules))


def test_without_a_configured_token_one_is_made_and_kept_private(tmp_path: Path) -> None:
    first = settings(tmp_path)
    assert first.mode == "token"
    assert len(first.secret) >= 32
    assert settings(tmp_path).secret == first.secret
    assert (tmp_path / "gateway.token").stat().st_mode & 0o777 == 0o600


def test_the_file_wins_over_the_environment_and_that_over_a_made_token(tmp_path: Path) -> None:
    environ = {"TIDEGATE_GATEWAY_TOKEN": "from the environment"}
    assert settings(tmp_path, environ).secret == "from the environment"
    assert settings(tmp_path, environ, auth={"token": "from the file"}).secret == "from the file"
    assert not (tmp_path / "gateway.token").exists()


def test_mode_password_without_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"gateway\.auth\.password"):
        settings(tmp_path, auth={"mode": "password"})


def test_a_proxy_that_is_no_address_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"gateway\.trustedProxies"):
        settings(tmp_path, trustedProxies=["nonsense"])


@pytest.mark.parametrize(
    "gateway",
    [
        {"bind": "lan"},
        {"bind": "auto"},
        {"bind": "custom", "customBindHost": "0.0.0.0"},
        {"bind": "custom", "customBindHost": "::"},
        {"bind": "custom", "customBindHost": "127.0.0.1.example"},
        {"bind": "lan", "customBindHost": "127.0.0.1"},
    ],
)
def test_cve_2026_28395_listening_beyond_this_machine_without_encryption_is_refused(
    tmp_path: Path, gateway: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError, match="in the clear"):
        settings(tmp_path, **gateway)
    assert settings(tmp_path, **gateway, trustedProxies=["10.0.0.2"]).trusted_proxies


@pytest.mark.parametrize(
    "gateway",
    [
        {},
        {"bind": "tailnet"},
        {"bind": "custom", "customBindHost": "127.0.0.1"},
        {"bind": "custom", "customBindHost": "::1"},
    ],
)
def test_listening_on_this_machine_is_not(tmp_path: Path, gateway: dict[str, Any]) -> None:
    assert settings(tmp_path, **gateway).secret


def test_mode_trusted_proxy_without_a_proxy_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="needs the address of the proxy"):
        settings(tmp_path, auth={"mode": "trusted-proxy"})


def test_an_emptied_secret_file_is_refused_and_not_taken_as_the_secret(tmp_path: Path) -> None:
    (tmp_path / "gateway.token").write_text("")
    with pytest.raises(ConfigError, match="holds no secret"):
        keep_secret(tmp_path / "gateway.token")


def test_a_secret_is_not_shown_by_printing_the_settings(tmp_path: Path) -> None:
    assert "hidden" not in repr(settings(tmp_path, auth={"token": "hidden"}))
    assert "hidden" not in repr(Offered(token="hidden", device_token="hidden"))


@pytest.mark.parametrize(
    ("mode", "offered", "method"),
    [
        ("token", Offered(token="s"), "token"),
        ("token", Offered(password="s"), "token"),
        ("token", Offered(token="s", password="x"), "token"),
        ("token", Offered(token="x", password="s"), None),
        ("password", Offered(password="s"), "password"),
        ("password", Offered(token="s"), "password"),
        ("password", Offered(token="s", password="x"), None),
        ("token", Offered(device_token="s"), None),
        ("token", Offered(), None),
    ],
)
def test_the_secret_may_come_in_either_field(mode: str, offered: Offered, method: str | None) -> None:
    assert keeper(mode, "s").method_of(HERE, offered, {}) == method


def test_an_empty_secret_opens_nothing() -> None:
    assert keeper("token", "").method_of(HERE, Offered(), {}) is None


def test_without_authentication_only_this_machine_comes_in() -> None:
    assert keeper("none").method_of(HERE, Offered(), {}) == "none"
    with pytest.raises(RpcError, match="unauthorized"):
        keeper("none").method_of(THERE, Offered(), {})


def test_a_person_is_known_by_the_proxys_header_from_the_proxy_only() -> None:
    proxy = Peer("192.0.2.1", False, True)
    door = keeper("trusted-proxy", trusted_proxies=parse_networks(["192.0.2.1"]), allow_users=("ann",))
    assert door.method_of(proxy, Offered(), {"x-forwarded-user": "ann"}) == "trusted-proxy"
    for peer, headers in ((proxy, {"x-forwarded-user": "bob"}), (proxy, {}), (THERE, {"x-forwarded-user": "ann"})):
        with pytest.raises(RpcError):
            door.method_of(peer, Offered(), headers)


@on_loop
async def test_http_takes_the_bearer_token_and_nothing_else() -> None:
    door = keeper("token", "s")
    assert await door.check_http(HERE, "Bearer s", {}) == "token"
    assert await door.check_http(HERE, "bearer  s ", {}) == "token"
    for header, code in (
        ("Bearer x", "AUTH_TOKEN_MISMATCH"),
        ("Basic s", "AUTH_TOKEN_MISSING"),
        (None, "AUTH_TOKEN_MISSING"),
    ):
        with pytest.raises(RpcError) as caught:
            await door.check_http(HERE, header, {})
        assert (caught.value.details or {})["code"] == code


def test_comparing_takes_any_text() -> None:
    assert same("ä\ud800", "ä\ud800")
    assert not same("ä", "a")


def test_a_changed_secret_is_told_apart_from_other_changes() -> None:
    door = keeper("token", "s")
    assert not door.use(AuthSettings("token", "s", allowed_origins=("https://a",)))
    assert door.use(AuthSettings("token", "t"))
    assert door.use(AuthSettings("password", "t"))
