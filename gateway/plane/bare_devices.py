"""The devices of a gateway that does not run: nobody is connected, nobody can come in."""

from __future__ import annotations

from pathlib import Path

from tidegate.clock import Clock
from tidegate.gateway.plane.auth import AuthSettings, Doorkeeper
from tidegate.gateway.plane.contract import Method
from tidegate.gateway.plane.device_methods import device_methods
from tidegate.gateway.plane.devices import DeviceBook
from tidegate.gateway.plane.hub import Hub
from tidegate.gateway.plane.limits import AttemptLimiter
from tidegate.sessions.devices import DeviceStore


def bare_device_methods(store: DeviceStore, state_dir: Path, clock: Clock) -> list[Method]:
    """Return the methods about devices, over a bare store."""
    settings = AuthSettings("none")
    keeper = Doorkeeper(settings, AttemptLimiter(clock, settings.rules))
    return device_methods(DeviceBook(store, Hub(clock), keeper, clock, state_dir))
