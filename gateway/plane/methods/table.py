"""All methods that are about what the gateway does, in one list."""

from __future__ import annotations

from tidegate.gateway.plane.contract import Method
from tidegate.gateway.plane.facts import GatewayFacts
from tidegate.gateway.plane.hub import Hub
from tidegate.gateway.plane.methods.agents import agent_methods
from tidegate.gateway.plane.methods.approvals import approval_methods
from tidegate.gateway.plane.methods.catalog import catalog_methods
from tidegate.gateway.plane.methods.channels import channel_methods
from tidegate.gateway.plane.methods.desk import Desk, OperatedGateway
from tidegate.gateway.plane.methods.empty import empty_methods
from tidegate.gateway.plane.methods.history import history_methods
from tidegate.gateway.plane.methods.node_events import NodeEvents
from tidegate.gateway.plane.methods.own import config_methods, control_methods
from tidegate.gateway.plane.methods.reports import report_methods
from tidegate.gateway.plane.methods.rows import row_of
from tidegate.gateway.plane.methods.sending import sending_methods
from tidegate.gateway.plane.methods.sessions import session_methods
from tidegate.gateway.plane.methods.settings import settings_methods
from tidegate.gateway.plane.methods.talk import Talk, talk_methods
from tidegate.gateway.plane.methods.tools import tool_methods
from tidegate.gateway.plane.methods.usage import usage_methods
from tidegate.gateway.plane.node_commands import NodeRules
from tidegate.gateway.plane.node_invokes import Invokes
from tidegate.gateway.plane.node_methods import node_methods
from tidegate.gateway.plane.nodes import NodeBook
from tidegate.gateway.plane.runs import Runs
from tidegate.gateway.plane.streams import Streams

CAPABILITIES = ("published-model-catalog",)
"""For `features.capabilities`."""


def build_desk(gateway: OperatedGateway, hub: Hub) -> Desk:
    """Return what the methods of a gateway work with."""
    runs = Runs()
    streams = Streams(hub, runs, gateway.clock, lambda key: row_of(desk, key))
    nodes = NodeBook(gateway.store, hub, gateway.clock, lambda: _node_rules(gateway))
    desk = Desk(gateway, hub, runs, streams, GatewayFacts(gateway), nodes)
    return desk


def _node_rules(gateway: OperatedGateway) -> NodeRules:
    """Return what the configuration in force allows nodes to be asked for."""
    commands = gateway.loaded.config.gateway.nodes.commands
    return NodeRules(commands.allow, commands.deny)


def desk_methods(desk: Desk, *, without: frozenset[str] = frozenset()) -> list[Method]:
    """Return the methods; `without` names those of the empty lists that somebody else answers."""
    talk = Talk(desk)
    return [
        *talk_methods(talk),
        *history_methods(desk),
        *session_methods(desk, talk),
        *settings_methods(desk),
        *channel_methods(desk),
        *sending_methods(desk),
        *catalog_methods(desk),
        *agent_methods(desk),
        *report_methods(desk),
        *usage_methods(desk),
        *tool_methods(desk),
        *approval_methods(desk),
        *node_methods(desk.nodes, Invokes(desk.store, desk.hub, desk.nodes), NodeEvents(desk, talk, desk.nodes).hear),
        *control_methods(desk.gateway.control),
        *config_methods(desk.gateway),
        *empty_methods(desk, without=without),
    ]
