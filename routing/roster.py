"""The agents of a config and the one that answers when no binding says who."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.errors import RoutingError
from tidegate.routing import normalize


@dataclass(frozen=True, slots=True)
class Roster:
    """The agents that exist.

    Attributes:
        agents: Canonical agent ids in config order. None (no agents section) or an empty tuple lets a binding name
            any agent; unmatched messages then go to `main` or to nobody. The config loader supplies `main`.
        marked: Agents with `default: true`.
        is_explicit: `ownership: "explicit"` switches the markers off.
        system_agent: `agents.defaults.systemAgent.agentId`.
    """

    agents: tuple[str, ...] | None = (normalize.DEFAULT_AGENT,)
    marked: tuple[str, ...] = ()
    is_explicit: bool = False
    system_agent: str | None = None

    def admits(self, agent: str) -> bool:
        """Return whether a binding may name `agent`; `main` is always accepted."""
        return not self.agents or agent == normalize.DEFAULT_AGENT or agent in self.agents

    def default_agent(self) -> str | None:
        """Return the agent that answers what no binding matches, or None when nobody may."""
        agents = (normalize.DEFAULT_AGENT,) if self.agents is None else self.agents
        if len(agents) == 1:
            return agents[0]
        if not self.is_explicit:
            return self.marked[0] if len(self.marked) == 1 else None
        if self.system_agent is not None:
            system = normalize.agent_id(self.system_agent)
            return system if system in agents else None
        return None

    def require_default(self) -> str:
        """Return the default agent.

        Raises:
            RoutingError: Nobody owns unmatched messages; it is never guessed.
        """
        if self.agents == ():
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
