"""What `doctor` finds."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import socket
from pathlib import Path

import pytest

from tidegate.clock import SystemClock
from tidegate.config.load import load_config
from tidegate.faults import Faults
from tidegate.gateway.doctor import ERROR, OK, WARNING, Finding, examine
from tidegate.gateway.model_names import strange_models
from tidegate.gateway.site import Site
from tidegate.sessions.sqlite.store import SqliteStore

TOKEN = "123456:" + "a" * 35


@pytest.fixture
def site(tmp_path: Path) -> Site:
    tmp_path.chmod(0o700)
    return Site(tmp_path, tmp_path / "tidegate.json", port=0)


def configure(site: Site, **sections: object) -> None:
    site.config_path.write_text(json.dumps(sections))
    site.config_path.chmod(0o600)


def look(site: Site, running_pid: int | None = None, **environ: str) -> list[Finding]:
    return examine(site, {"HOME": str(site.state_dir), **environ}, running_pid)


def found(site: Site, area: str, **environ: str) -> list[Finding]:
    return [finding for finding in look(site, **environ) if finding.area == area]


def levels(findings: list[Finding]) -> set[str]:
    return {finding.level for finding in findings}


def make_store(site: Site) -> None:
    async def make() -> None:
        store = SqliteStore(site.database, SystemClock(), Faults())
        await store.open()
        await store.close()

    asyncio.run(make())


def test_a_fresh_machine_has_no_errors(site: Site):
    assert ERROR not in levels(look(site))


def test_looking_changes_nothing(site: Site):
    configure(site, channels={"telegram": {"botToken": TOKEN}})
    make_store(site)
    before = {path.name: path.stat().st_mtime_ns for path in site.state_dir.iterdir()}
    look(site)
    assert {path.name: path.stat().st_mtime_ns for path in site.state_dir.iterdir()} == before


def test_every_problem_of_the_configuration_is_an_error_with_its_place(site: Site):
    site.config_path.write_text("{\n  gatway: {},\n  gateway: { port: 'x' },\n}\n")
    errors = [finding.text for finding in found(site, "config") if finding.level == ERROR]
    assert [f"{site.config_path}:{line}:" in text for line, text in zip((2, 3), errors, strict=True)] == [True, True]


def test_files_that_others_can_read_are_named_with_the_repair(site: Site):
    configure(site)
    site.config_path.chmod(0o644)
    site.state_dir.chmod(0o755)
    hints = {finding.hint for finding in look(site)}
    assert {f"chmod 600 {site.config_path}", f"chmod 700 {site.state_dir}"} <= hints


def test_a_sound_store_is_well_and_a_damaged_one_an_error(site: Site):
    make_store(site)
    assert levels(found(site, "store")) == {OK}
    with site.database.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 8192)
    assert ERROR in levels(found(site, "store"))


def test_a_port_in_use_is_an_error_unless_our_own_gateway_uses_it(site: Site):
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = Site(site.state_dir, site.config_path, other.getsockname()[1])
        assert levels(found(taken, "port")) == {ERROR}
        assert [finding for finding in look(taken, running_pid=1) if finding.area == "port"] == []


def test_a_stale_socket_is_told_from_a_gateway_that_hangs(site: Site):
    site.socket.touch()
    assert levels(found(site, "gateway")) == {WARNING}
    descriptor = os.open(site.state_dir / "gateway.lock", os.O_CREAT | os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    assert levels(found(site, "gateway")) == {ERROR}
    os.close(descriptor)


def test_a_path_too_long_for_a_socket_is_an_error(tmp_path: Path):
    deep = tmp_path / ("d" * 120)
    assert levels(found(Site(deep, deep / "c.json", 0), "state")) == {ERROR, OK}


@pytest.mark.parametrize(
    ("telegram", "level"),
    [
        ({"botToken": TOKEN}, OK),
        ({"botToken": "not-a-token"}, ERROR),
        ({"botToken": {"source": "env", "provider": "default", "id": "ABSENT"}}, ERROR),
        ({"tokenFile": "/nonexistent/token"}, ERROR),
    ],
)
def test_a_token_is_judged_without_the_network(site: Site, telegram: dict[str, object], level: str):
    configure(site, channels={"telegram": telegram})
    findings = found(site, "telegram/default")
    assert levels(findings) == {level}
    assert TOKEN not in str(findings)


def test_a_model_without_a_key_is_an_error_and_with_a_usable_fallback_a_warning(site: Site):
    configure(site, agents={"defaults": {"model": {"primary": "anthropic/m", "fallbacks": ["openai/m"]}}})
    assert levels(found(site, "agent main")) == {ERROR}
    assert levels(found(site, "agent main", OPENAI_API_KEY="k")) == {WARNING, OK}
    assert levels(found(site, "agent main", OPENAI_API_KEY="k", ANTHROPIC_API_KEY="k")) == {OK}


def test_one_admitted_person_without_an_owner_gets_the_line_that_makes_them_the_owner(site: Site):
    configure(site, channels={"telegram": {"botToken": TOKEN, "dmPolicy": "allowlist", "allowFrom": ["tg:4242"]}})
    (finding,) = found(site, "people")
    assert finding.hint == "tidegate config set commands.ownerAllowFrom '[\"telegram:4242\"]'"


def test_a_shared_main_session_is_told_only_where_it_is_shared(site: Site):
    def texts(*people: str) -> str:
        telegram = {"botToken": TOKEN, "dmPolicy": "allowlist", "allowFrom": list(people)}
        configure(site, session={"dmScope": "main"}, channels={"telegram": telegram})
        return str(found(site, "people"))

    assert "share one conversation" not in texts("1")
    assert "share one conversation" in texts("1", "2")


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("foo", "write it as provider/model"),
        ("anthropic", "did you mean anthropic/…?"),
        ("anthropc/foo", "did you mean 'anthropic'?"),
        ("hom/foo", "did you mean 'home'?"),
    ],
)
def test_a_model_that_names_no_provider_we_know_is_an_error_with_the_likely_one(site: Site, model: str, told: str):
    home = {"baseUrl": "http://127.0.0.1:1/v1", "models": [{"id": "m", "name": "m"}]}
    configure(site, agents={"defaults": {"model": model}}, models={"providers": {"home": home}})
    (finding,) = found(site, "agent main", ANTHROPIC_API_KEY="k")
    assert finding.level == ERROR
    assert told in finding.text
    loaded = load_config(site.config_path, environ={"HOME": str(site.state_dir)}, state_dir=site.state_dir)
    (warning,) = strange_models(loaded, site.config_path)
    assert (warning.path, warning.line) == ("agents.defaults.model", 1)
    assert told in warning.message


def test_a_missing_key_is_told_with_the_file_where_it_goes(site: Site):
    configure(site, agents={"defaults": {"model": "anthropic/m"}})
    (finding,) = found(site, "agent main")
    assert f"set ANTHROPIC_API_KEY in {site.state_dir / '.env'}" in finding.text
