"""What methods work with, and how they find the session that a client means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from tidegate.clock import Clock
from tidegate.config.load import Loaded
from tidegate.gateway.accounts import Accounts
from tidegate.gateway.agents import AgentFactory
from tidegate.gateway.connections import Connections
from tidegate.gateway.control import Control
from tidegate.gateway.inbound import Inbound
from tidegate.gateway.plane.contract import Code, RpcError
from tidegate.gateway.plane.facts import GatewayFacts
from tidegate.gateway.plane.hub import Hub
from tidegate.gateway.plane.nodes import NodeBook
from tidegate.gateway.plane.runs import Runs
from tidegate.gateway.plane.streams import Streams
from tidegate.gateway.session_settings import SessionSettings
from tidegate.gateway.site import Site
from tidegate.routing import keys
from tidegate.sessions.blobs import BlobStore
from tidegate.sessions.store import Store
from tidegate.sessions.wakeups import Wakeups

MAX_KEY = 512


class OperatedGateway(Protocol):
    """The gateway as its operators use it."""

    site: Site
    loaded: Loaded
    store: Store
    control: Control
    inbound: Inbound
    connections: Connections
    accounts: Accounts
    clock: Clock
    wakeups: Wakeups
    settings: SessionSettings
    blobs: BlobStore

    @property
    def agents(self) -> AgentFactory:
        """The agents of the configuration in force."""
        ...


@dataclass(frozen=True, slots=True)
class Desk:
    """Everything that methods need."""

    gateway: OperatedGateway
    hub: Hub
    runs: Runs
    streams: Streams
    facts: GatewayFacts
    nodes: NodeBook

    @property
    def store(self) -> Store:
        """The store."""
        return self.gateway.store

    def now(self) -> int:
        """Return the present, in milliseconds UTC."""
        return self.gateway.clock.now() // 1000

    def defaults(self) -> Mapping[str, Any]:
        """Return which agent and session are meant when none is named."""
        return self.facts.session_defaults()

    def agents(self) -> list[str]:
        """Return the ids of the configured agents."""
        return list(self.gateway.loaded.config.agents.members())

    def agent(self, name: str | None, what: str = "agent") -> str:
        """Return the id of an agent, the default one for None. Raises RpcError when it is not configured."""
        agent = (name or str(self.defaults()["defaultAgentId"])).strip().lower()
        if agent not in self.agents():
            raise RpcError(Code.INVALID_REQUEST, f'invalid {what} params: unknown agent id "{name}"')
        return agent

    def key(self, text: str, agent: str | None = None) -> tuple[str, str]:
        """Return the canonical key of a session and its agent.

        `main` is the main session; a text that is no whole key is one of the default agent, or of `agent`.

        Raises:
            RpcError: The agent is not configured, or the key cannot be one.
        """
        text = text.strip()
        if not text or len(text) > MAX_KEY or any(ord(letter) < 32 for letter in text):
            raise RpcError(Code.INVALID_REQUEST, "invalid session key")
        parsed = keys.parse(text)
        if parsed is None and text.lower().startswith("agent:"):
            raise RpcError(Code.INVALID_REQUEST, f"invalid session key {text!r}")
        if parsed is None:
            owner = self.agent(agent, "session")
            if text.lower() == "main":
                return self.main_key(owner), owner
            parsed = keys.parse(f"agent:{owner}:{text}")
            if parsed is None:
                raise RpcError(Code.INVALID_REQUEST, f"invalid session key {text!r}")
        if parsed.agent not in self.agents():
            message = f'Agent "{parsed.agent}" no longer exists in configuration'
            raise RpcError(Code.INVALID_REQUEST, message)
        if agent and agent.strip().lower() != parsed.agent:
            message = f'session key agent "{parsed.agent}" does not match agentId "{agent}"'
            raise RpcError(Code.INVALID_REQUEST, message)
        return str(parsed), parsed.agent

    def main_key(self, agent: str) -> str:
        """Return the key of an agent's main session."""
        defaults = self.defaults()
        if agent == defaults["defaultAgentId"]:
            return str(defaults["mainSessionKey"])
        return f"agent:{agent}:main"
