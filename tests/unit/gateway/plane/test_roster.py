from __future__ import annotations

from tidegate.clock import ManualClock
from tidegate.gateway.plane.contract import Caller, ClientInfo, Role
from tidegate.gateway.plane.roster import MAX_ROWS, Roster


def caller(client: str = "openclaw-tui", instance: str = "i", device: str = "") -> Caller:
    about = ClientInfo(client, "ui", "1", "linux", instance_id=instance)
    return Caller("c", Role.OPERATOR, frozenset({"operator.read"}), about, device=device)


def test_the_gateway_is_the_first_row() -> None:
    assert [row["mode"] for row in Roster(ManualClock()).rows()] == ["gateway"]


def test_one_shot_commands_do_not_show_up() -> None:
    roster = Roster(ManualClock())
    assert not roster.joined(caller("cli"))
    assert not roster.joined(caller("gateway-client"))
    assert not roster.left(caller("cli"))
    assert (roster.version, len(roster.rows())) == (1, 1)


def test_a_screen_comes_and_goes_and_is_forgotten_later() -> None:
    clock = ManualClock()
    roster = Roster(clock)
    assert roster.joined(caller(device="d"))
    assert roster.rows()[1] | {"ts": 0, "text": ""} == {
        "host": "openclaw-tui",
        "clientId": "openclaw-tui",
        "version": "1",
        "platform": "linux",
        "mode": "ui",
        "roles": ["operator"],
        "scopes": ["operator.read"],
        "deviceId": "d",
        "instanceId": "i",
        "reason": "connect",
        "ts": 0,
        "text": "",
    }
    assert roster.left(caller(device="d"))
    assert roster.rows()[1]["reason"] == "disconnect"
    assert roster.version == 3
    clock.advance(301)
    assert len(roster.rows()) == 1


def test_rows_are_bounded() -> None:
    roster = Roster(ManualClock())
    for number in range(MAX_ROWS + 5):
        roster.joined(caller(instance=str(number)))
    assert len(roster.rows()) == MAX_ROWS + 1
