from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.gateway.plane.contract import Scope
from tidegate.gateway.plane.node_commands import NodeRules, scope_to_ask, scopes_to_approve, usual

PLATFORMS = ("linux", "Linux 6", "macos", "darwin", "windows", "win32", "ios 19", "iPadOS", "android", "")
WATCHING = ("camera.snap", "camera.clip", "screen.record", "sms.send", "contacts.add", "terminal.upload", "fs.listDir")


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("command", WATCHING)
def test_what_watches_sends_or_writes_is_allowed_by_name_only(platform: str, command: str) -> None:
    assert not NodeRules().may_ask(platform, command)
    assert NodeRules(allow=(command,)).may_ask(platform, command)
    assert not NodeRules(allow=(command,), deny=(command,)).may_ask(platform, command)


def test_a_phone_shows_pages_and_a_server_runs_programs() -> None:
    assert "canvas.navigate" in usual("ios")
    assert "canvas.navigate" not in usual("linux")
    assert "system.run" in usual("Linux 6.1")
    assert "system.run" not in usual("android")
    assert usual("toaster") == usual("")


def test_commands_that_run_programs_are_for_an_admin() -> None:
    assert scopes_to_approve(["location.get", "system.which"]) == (Scope.PAIRING, Scope.ADMIN)
    assert scopes_to_approve(["location.get"]) == (Scope.PAIRING, Scope.WRITE)
    assert scopes_to_approve([]) == (Scope.PAIRING,)
    assert scope_to_ask("system.run") is Scope.ADMIN
    assert scope_to_ask("browser.proxy.fetch") is Scope.ADMIN
    assert scope_to_ask("location.get") is Scope.WRITE
    assert scope_to_ask("system.which") is Scope.WRITE
    assert scope_to_ask("system.run.anything") is Scope.ADMIN


@given(st.text(), st.lists(st.text()), st.lists(st.text()), st.lists(st.text()))
def test_nothing_is_offered_that_was_not_declared_or_is_denied(
    platform: str, declared: list[str], allow: list[str], deny: list[str]
) -> None:
    offered = NodeRules(allow, deny).offered(platform, declared)
    assert set(offered) <= set(declared) - set(deny)
    assert set(offered) <= set(allow) | usual(platform)
    assert len(set(offered)) == len(offered)
