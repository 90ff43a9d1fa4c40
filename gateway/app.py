"""The composition root: builds every object from the configuration and runs them. Start reading here."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from typing import Any

import aiohttp
import structlog
from aiohttp import web
from tzlocal import get_localzone_name

from tidegate.adapters.base import AdapterHooks
from tidegate.adapters.registry import AccountSpec, AdapterServices, configured_accounts
from tidegate.adapters.terminal.adapter import ACCOUNT, CHANNEL, TerminalAdapter, TerminalHub
from tidegate.adapters.terminal.adapter import render as render_terminal
from tidegate.adapters.webchat import adapter as webchat_adapter
from tidegate.adapters.webchat.adapter import WebchatAdapter
from tidegate.adapters.webchat.adapter import render as render_webchat
from tidegate.agent_runtime.models.demo import DEMO_MODEL
from tidegate.clock import Clock, SystemClock
from tidegate.config.load import Loaded
from tidegate.events import Address, MessageEvent
from tidegate.faults import Faults
from tidegate.gateway.accounts import Accounts
from tidegate.gateway.admission import Judge
from tidegate.gateway.agents import AgentFactory, StoredCooldowns
from tidegate.gateway.bus import EventBus
from tidegate.gateway.chat_commands import COMMAND_MENU, ChatCommands
from tidegate.gateway.client_tools import HandedTools
from tidegate.gateway.connections import Connections, ConnectionState
from tidegate.gateway.control import Control
from tidegate.gateway.delivery import Outbox
from tidegate.gateway.http.listen import bind_host
from tidegate.gateway.http.local import local_app
from tidegate.gateway.http.public import public_app
from tidegate.gateway.http.server import bind, serve, serve_unix
from tidegate.gateway.inbound import Inbound
from tidegate.gateway.media import InboundMedia, OutboundMedia
from tidegate.gateway.people import People
from tidegate.gateway.plane.build import build_plane
from tidegate.gateway.plane.connection import Timing
from tidegate.gateway.plane.hub import Hub
from tidegate.gateway.plane.methods.desk import Desk
from tidegate.gateway.plane.methods.table import CAPABILITIES, build_desk, desk_methods
from tidegate.gateway.plane.page_methods import page_methods
from tidegate.gateway.planning import claim_rules
from tidegate.gateway.presence import Presence
from tidegate.gateway.rendering import Renderers
from tidegate.gateway.reports import TroubleReporter
from tidegate.gateway.ruleset import Ruleset, build_ruleset
from tidegate.gateway.session_settings import SessionSettings
from tidegate.gateway.site import Site
from tidegate.gateway.supervisor import Supervisor
from tidegate.gateway.turns import TurnRunner, TurnServices
from tidegate.ids import new_id
from tidegate.sessions.blobs import BlobStore
from tidegate.sessions.model import CursorUpdate, PendingCommand
from tidegate.sessions.sqlite.store import SqliteStore
from tidegate.sessions.store import Store
from tidegate.sessions.wakeups import LocalWakeups, Wakeups
from tidegate.sessions.worker import SessionWorkers

DRAIN_TURNS_SECONDS = 30.0
DRAIN_OUTBOX_SECONDS = 5.0
KEEPALIVE_SECONDS = 60.0
"""How long an unused connection to a platform or model stays open: a new one costs a TLS handshake."""
SWITCH_INTERVAL = 0.0005
"""Seconds after which a busy thread gives up the interpreter: the store's writer must not wait long for it."""

FindAccounts = Callable[[Loaded, AdapterServices], list[AccountSpec]]
"""Finds the accounts that a configuration asks for."""

log = structlog.get_logger("gateway")


class Gateway:
    """One running gateway: all objects, and the tasks that own them."""

    def __init__(
        self,
        site: Site,
        loaded: Loaded,
        *,
        store: Store,
        http: aiohttp.ClientSession,
        clock: Clock,
        faults: Faults,
        wakeups: Wakeups,
        accounts: FindAccounts = configured_accounts,
        timing: Timing | None = None,
    ) -> None:
        self._find_accounts = accounts
        self.site = site
        self.loaded = loaded
        self.store = store
        self.bus = EventBus()
        self.hub = TerminalHub()
        self.connections = Connections()
        self.handed_tools = HandedTools()
        self.renderers = Renderers()
        self.ready = asyncio.Event()
        self.port = 0
        self.notes: list[str] = []
        self._http = http
        self.clock = clock
        self._faults = faults
        self.wakeups = wakeups
        self._owner = new_id()
        self._started_at = clock.now()
        self._zone = _local_zone()
        self.blobs = BlobStore(site.state_dir / "blobs")
        self._cooldowns = StoredCooldowns(store)
        self._people = People(store)
        self.settings = SessionSettings(store)
        self._adapter_services = AdapterServices(http, clock, site.state_dir)
        self._rules: Ruleset = build_ruleset(loaded)
        self._agents = self._agent_factory(loaded)
        self.accounts = Accounts(self.connections, self._supervisor)
        self._build()
        methods = [*desk_methods(self._desk), *page_methods(self)]
        self.plane = build_plane(self, self._desk.hub, methods, CAPABILITIES, self._desk.nodes, timing=timing)

    def _build(self) -> None:
        store, clock, wakeups, bus = self.store, self.clock, self.wakeups, self.bus
        max_age = self.loaded.config.messages.outbox.max_age.total_seconds()
        self.outbox = Outbox(
            store,
            self.connections,
            wakeups,
            self.blobs,
            bus,
            clock,
            self._faults,
            owner=self._owner,
            max_age=max_age,
        )
        self._desk: Desk = build_desk(self, Hub(clock))
        bus.listen(self._desk.streams.take)
        services = TurnServices(
            store=store,
            outbox_store=store,
            connections=self.connections,
            outbox=self.outbox,
            presence=Presence(self.connections, self.outbox),
            inbound_media=InboundMedia(self.connections, self.blobs, store),
            outbound_media=OutboundMedia(self.blobs),
            bus=bus,
            clock=clock,
            render=self.renderers.render,
            wake_lane=self.outbox.wake,
            handed_tools=self.handed_tools,
        )
        self._runner = TurnRunner(services, self._rules, self._agents)
        self.workers = SessionWorkers(
            store,
            wakeups,
            clock,
            owner=self._owner,
            rules=lambda _key: claim_rules(self._rules, self._agents.timezone),
            run=self._runner.run,
            fail=self._runner.fail,
            ended=self._runner.ended,
            max_concurrent=self.loaded.config.agents.defaults.max_concurrent,
        )
        self.inbound = Inbound(store, store, wakeups, bus, self._judge)
        self._commands = ChatCommands(
            store,
            store,
            self.settings,
            wakeups,
            self._judge,
            self.renderers.render,
            self._status_line,
            self._agents.timezone,
        )
        self._reporter = TroubleReporter(store, store, wakeups, self._owner_identities, self.renderers.render)
        self.control = Control(
            store,
            clock,
            wakeups,
            self._people,
            self.connections,
            self.renderers,
            facts=self._facts,
            may_own=lambda: not self._rules.owners,
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set, then drain and end."""
        # First of all, so that a port in use is told before anything happens elsewhere.
        with closing(self._listener()) as listener:
            await self._run(stop, listener)

    async def _run(self, stop: asyncio.Event, listener: socket.socket) -> None:
        await self._people.load()
        await self.settings.load()
        await self.plane.load()
        specs = self._find_accounts(self.loaded, self._adapter_services)
        self.renderers.use(specs)
        async with asyncio.TaskGroup() as group:
            self.accounts.begin(group, [*self._own_accounts(), *specs])
            owned = [
                group.create_task(self.workers.run(), name="workers"),
                group.create_task(self.outbox.run(), name="outbox"),
                group.create_task(self._commands.run(), name="commands"),
                group.create_task(self._reporter.run(), name="reports"),
                group.create_task(self.plane.server.run(), name="plane"),
                group.create_task(self._desk.streams.run(), name="plane.streams"),
            ]
            try:
                async with (
                    self.plane.server.lasting,
                    serve_unix(self._local_app(), self.site.socket),
                    self._serve_http(listener) as self.port,
                ):
                    self.ready.set()
                    log.info("gateway.ready", port=self.port, channels=[f"{s.channel}/{s.account}" for s in specs])
                    await stop.wait()
                    await self._drain()
            finally:
                self.accounts.cancel()
                for task in owned:
                    task.cancel()

    def _local_app(self) -> web.Application:
        server = self.plane.server
        return local_app(self, server.methods, server.serve_owner)

    def _listener(self) -> socket.socket:
        config = self.loaded.config.gateway
        return bind(bind_host(config), self.site.port if self.site.port is not None else config.port)

    def _serve_http(self, listener: socket.socket) -> AbstractAsyncContextManager[int]:
        return serve(public_app(self, self._readiness, lambda: self._agents), listener)

    async def _drain(self) -> None:
        """Stop taking messages, let running turns and outgoing parts end, each within its time."""
        log.info("gateway.draining", running=self.workers.stats().running)
        self.ready.clear()
        self.accounts.stop_reading()
        if not await self.workers.drain(DRAIN_TURNS_SECONDS):
            log.warning("gateway.turns_cut", running=self.workers.stats().running)
        await self.outbox.drain(DRAIN_OUTBOX_SECONDS)

    def _own_accounts(self) -> list[AccountSpec]:
        """Return the places to talk that every gateway has: the terminal, and clients of the control plane."""
        return [
            AccountSpec(CHANNEL, ACCOUNT, lambda hooks: TerminalAdapter(self.hub, hooks), render_terminal, ""),
            AccountSpec(webchat_adapter.CHANNEL, webchat_adapter.ACCOUNT, self._webchat, render_webchat, ""),
        ]

    def _supervisor(self, spec: AccountSpec) -> Supervisor:
        return Supervisor(
            spec.channel,
            spec.account,
            spec.build,
            receive=self._receive,
            store=self.store,
            connections=self.connections,
            bus=self.bus,
            clock=self.clock,
            faults=self._faults,
            commands=COMMAND_MENU,
        )

    def _webchat(self, hooks: AdapterHooks) -> WebchatAdapter:
        return WebchatAdapter(self._desk.streams.show, hooks)

    async def _receive(self, events: Sequence[MessageEvent], cursor: CursorUpdate | None) -> None:
        await self.inbound.receive(events, cursor)

    @property
    def agents(self) -> AgentFactory:
        """The agents of the configuration in force."""
        return self._agents

    def _agent_factory(self, loaded: Loaded) -> AgentFactory:
        return AgentFactory(
            loaded,
            http=self._http,
            blobs=self.blobs,
            cooldowns=self._cooldowns,
            clock=self.clock,
            local_zone=self._zone,
        )

    def apply(self, loaded: Loaded) -> None:
        """Go on with another configuration: rules and agents at once, accounts where theirs changed."""
        # What it refuses leaves everything as it was.
        self.plane.reload(loaded, self.site)
        self.loaded = loaded
        self._rules = build_ruleset(loaded)
        self._agents = self._agent_factory(loaded)
        self._runner.use(self._rules, self._agents)
        self.outbox.max_age = loaded.config.messages.outbox.max_age.total_seconds()
        specs = self._find_accounts(loaded, self._adapter_services)
        self.renderers.use(specs)
        self.accounts.use([*self._own_accounts(), *specs])

    def _judge(self) -> Judge:
        return Judge(
            self._rules,
            self._people,
            self.renderers.render,
            self.clock,
            self._username,
            self.settings.get,
        )

    def _username(self, address: Address) -> str | None:
        adapter = self.connections.adapter_for(address)
        return (adapter.username or None) if adapter is not None else None

    def _owner_identities(self) -> frozenset[str]:
        return frozenset(self._rules.owners) | self._people.owners

    def _status_line(self, pending: PendingCommand) -> str:
        stats = self.workers.stats()
        return (
            f"Agent {pending.agent}, model {self._model_of(pending.agent)}\n"
            f"Gateway: {stats.running} turns running, {stats.backlog} sessions in line"
        )

    def _model_of(self, agent: str) -> str:
        options = self._agents.options(agent)
        return (options.model.primary if options is not None else None) or DEMO_MODEL

    def _readiness(self) -> tuple[bool, dict[str, Any]]:
        rows = [
            {"channel": row.channel, "account": row.account, "state": row.state.value, "alive_at": row.alive_at}
            for row in self.connections.all()
        ]
        up = all(row.state is not ConnectionState.STOPPED for row in self.connections.all())
        # The first attempt of a start is not a failure.
        fine = (ConnectionState.UP, ConnectionState.CONNECTING)
        failing = [f"{row.channel}/{row.account}" for row in self.connections.all() if row.state not in fine]
        uptime = (self.clock.now() - self._started_at) // 1000
        facts = {"failing": failing, "uptimeMs": uptime, "connections": rows, "all_accounts_usable": up}
        return self.ready.is_set(), facts

    def _facts(self) -> Mapping[str, Any]:
        stats = self.workers.stats()
        return {
            "running": True,
            "pid": os.getpid(),
            "port": self.port,
            "started_at": self._started_at,
            "config": str(self.site.config_path),
            "model": self._model_of(str(self._desk.defaults()["defaultAgentId"])),
            "notes": list(self.notes),
            "workers": {"active": stats.active, "running": stats.running, "backlog": stats.backlog},
        }


def _local_zone() -> str:
    try:
        return str(get_localzone_name()) or "UTC"
    except (LookupError, ValueError, OSError):
        return "UTC"


@asynccontextmanager
async def open_gateway(
    site: Site,
    loaded: Loaded,
    faults: Faults,
    *,
    wakeups: Wakeups | None = None,
    accounts: FindAccounts = configured_accounts,
    timing: Timing | None = None,
) -> AsyncIterator[Gateway]:
    """Open the store and the HTTP client and build a gateway; the caller holds the state lock."""
    sys.setswitchinterval(SWITCH_INTERVAL)
    clock = SystemClock()
    store = SqliteStore(site.database, clock, faults)
    await store.open()
    try:
        connector = aiohttp.TCPConnector(limit=0, ttl_dns_cache=300, keepalive_timeout=KEEPALIVE_SECONDS)
        async with aiohttp.ClientSession(connector=connector) as http:
            yield Gateway(
                site,
                loaded,
                store=store,
                http=http,
                clock=clock,
                faults=faults,
                wakeups=wakeups or LocalWakeups(),
                accounts=accounts,
                timing=timing,
            )
    finally:
        await store.close()
