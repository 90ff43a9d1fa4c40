"""Puts the control plane of a gateway together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from tidegate.config.load import Loaded
from tidegate.gateway.plane.auth import Doorkeeper, read_settings
from tidegate.gateway.plane.connection import Timing
from tidegate.gateway.plane.contract import Method, MethodTable
from tidegate.gateway.plane.core_methods import core_methods
from tidegate.gateway.plane.device_methods import device_methods
from tidegate.gateway.plane.devices import DeviceBook
from tidegate.gateway.plane.facts import GatewayFacts, ObservedGateway
from tidegate.gateway.plane.hub import Hub
from tidegate.gateway.plane.limits import AttemptLimiter
from tidegate.gateway.plane.reach import reach
from tidegate.gateway.plane.server import NodeArrivals, PlaneServer
from tidegate.gateway.site import Site


class ReachedGateway(ObservedGateway, Protocol):
    """A gateway that listens on a port, once it runs."""

    port: int


@dataclass(frozen=True, slots=True)
class Plane:
    """The control plane and what its methods work with."""

    server: PlaneServer
    hub: Hub
    doorkeeper: Doorkeeper
    devices: DeviceBook
    facts: GatewayFacts

    async def load(self) -> None:
        """Take up what an earlier process left behind. Raises StoreError."""
        await self.doorkeeper.limiter.load()

    def reload(self, loaded: Loaded, site: Site) -> None:
        """Take over the settings of another configuration, at once. Raises ConfigError and changes nothing then."""
        settings = read_settings(loaded.config.gateway, site.state_dir, loaded.environment)
        self.server.use_auth(settings)


def build_plane(
    gateway: ReachedGateway,
    hub: Hub,
    methods: Iterable[Method] = (),
    capabilities: Iterable[str] = (),
    nodes: NodeArrivals | None = None,
    timing: Timing | None = None,
) -> Plane:
    """Return the control plane of a gateway.

    Args:
        methods: More methods than those about the gateway itself and its devices.
        capabilities: Names for `features.capabilities`.
        nodes: Hears of nodes that connect.
        timing: Other times than the protocol's, for tests.

    Raises:
        ConfigError: The settings cannot be used.
    """
    loaded, state_dir, clock = gateway.loaded, gateway.site.state_dir, gateway.clock
    config = loaded.config.gateway
    settings = read_settings(config, state_dir, loaded.environment)
    doorkeeper = Doorkeeper(settings, AttemptLimiter(clock, settings.rules, gateway.store))
    facts = GatewayFacts(gateway)
    devices = DeviceBook(
        gateway.store,
        hub,
        doorkeeper,
        clock,
        state_dir,
        loopback_only=config.bind == "loopback",
        reach=lambda: reach(gateway.loaded, gateway.port),
        has_page=lambda: gateway.loaded.config.gateway.control_ui.enabled,
    )
    table = MethodTable([*core_methods(hub, facts), *device_methods(devices), *methods])
    server = PlaneServer(
        table,
        hub,
        facts,
        doorkeeper,
        devices,
        clock,
        capabilities=tuple(capabilities),
        nodes=nodes,
        timing=timing,
    )
    return Plane(server, hub, doorkeeper, devices, facts)
