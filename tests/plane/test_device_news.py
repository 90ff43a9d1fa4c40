"""Who hears that the list of devices changed, and wrong secrets that a restart does not forgive."""

from __future__ import annotations

from pathlib import Path

from fakes.event_loop import on_loop
from plane.client import ALL, TOKEN, Key, connect_params, plane, with_rules
from tidegate.clock import SystemClock
from tidegate.gateway.plane.auth import AuthSettings
from tidegate.sessions.memory.store import MemoryStore


@on_loop
async def test_a_change_of_the_list_of_devices_is_told_to_those_who_decide_and_not_to_who_made_it(
    tmp_path: Path,
) -> None:
    async with plane(tmp_path) as running:
        maker, watcher = await running.connect(ALL), await running.connect(["operator.pairing"])
        reader = await running.connect(["operator.read"])
        key = Key(70)
        device = await running.open()
        assert (await device.connect_device(key, client="openclaw-tui", mode="ui", scopes=["operator.read"]))["ok"]
        assert (await watcher.event("device.pair.changed"))["payload"]["deviceId"] == key.id
        await maker.event("device.pair.changed")
        await maker.call("device.pair.rename", {"deviceId": key.id, "label": "phone"})
        await watcher.event("device.pair.changed")
        await maker.call("device.token.revoke", {"deviceId": key.id, "role": "operator"})
        await watcher.event("device.pair.changed")
        await maker.call("device.pair.remove", {"deviceId": key.id})
        await watcher.event("device.pair.changed")
        for client in (maker, reader):
            await client.call("health")
            assert not [e for e in client.events if e["event"] == "device.pair.changed"]


@on_loop
async def test_an_address_that_is_locked_out_stays_so_over_a_restart(tmp_path: Path) -> None:
    settings = with_rules(AuthSettings("token", TOKEN), max_attempts=2, exempt_loopback=False)
    store = MemoryStore(SystemClock())
    async with plane(tmp_path, settings=settings, store=store) as running:
        for _ in range(2):
            client = await running.open()
            answer = await client.say_connect(connect_params(auth={"token": "wrong"}))
            assert answer["error"]["details"]["code"] == "AUTH_TOKEN_MISMATCH"
    async with plane(tmp_path, settings=settings, store=store) as running:
        client = await running.open()
        answer = await client.say_connect(connect_params())
        assert answer["error"]["details"]["code"] == "AUTH_RATE_LIMITED"
        assert 0 < answer["error"]["retryAfterMs"] <= 300_000
