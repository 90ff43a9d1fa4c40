"""The agents of a config and the one that answers when no binding says who."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.errors import RoutingError
from tidegate.routing import normalize


@dataclass(frozen=True, slots=True)
class Roster:
    """The agents that exist.

    Attributes:
        agents: Canonical agent ids in config order. Without any, a binding may name whom it likes and unmatched
            messages are refused; the config loader supplies `main`, so that this is only seen in tests.
        marked: Agents with `default: true`.
        is_explicit: `ownership: "explicit"` switches the markers off.
        system_agent: `agents.defaults.systemAgent.agentId`.
    """

    agents: tuple[str, ...] = (normalize.DEFAULT_AGENT,)
    marked: tuple[str, ...] = ()
    is_explicit: bool = False
    system_agent: str | None = None

    def admits(self, agent: str) -> bool:
        """Return whether a binding may name `agent`; `main` is always accepted."""
        return not self.agents or agent == normalize.DEFAULT_AGENT or agent in self.agents

    def default_agent(self) -> str | None:
        """Return the agent that answers what no binding matches, or None when nobody may."""
        if len(self.agents) == 1:
            return self.agents[0]
        if not self.is_explicit:
            return self.marked[0] if len(self.marked) == 1 else None
        if self.system_agent is not None:
            system = normalize.agent_id(self.system_agent)
            return system if system in self.agents else None
        return None

    def require_default(self) -> str:
        """Return the default agent.

        Raises:
            RoutingError: Nobody owns unmatched messages; it is never guessed.
        """
        if not self.agents:
            raise RoutingError("no agents are configured", "NO_AGENTS_CONFIGURED")
        agent = self.default_agent()
        if agent is None:
            raise RoutingError(
                "several agents and no default: mark one with `default: true` or bind this conversation",
                "AGENT_SELECTION_REQUIRED",
            )
        return agent

    def require(self, agent: str) -> str:
        """Return `agent` in canonical form.

        Raises:
            RoutingError: There is no such agent.
        """
        name = normalize.agent_id(agent)
        if not self.admits(name):
            raise RoutingError(f"there is no agent {name!r}", "AGENT_SELECTION_REQUIRED")
        return name
