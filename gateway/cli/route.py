"""`tidegate route explain`: one imagined message, every level, and who would answer in which session."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from tidegate.config.load import Loaded, load_config
from tidegate.config.sections.channels import KNOWN_CHANNELS
from tidegate.config.sources import descend, read_tree
from tidegate.errors import RoutingError
from tidegate.events import Address, MessageEvent, Peer, PeerKind, Sender
from tidegate.gateway.cli.call import Call
from tidegate.gateway.cli.parser import Arguments
from tidegate.gateway.cli.terminal import Style, printable, table
from tidegate.gateway.offline import StoredPeople, look_at_people
from tidegate.gateway.ruleset import TERMINAL, Ruleset, build_ruleset
from tidegate.gateway.site import Site
from tidegate.routing.access import Allow, Approach, Deny, Identity, decide_access, is_owner
from tidegate.routing.bindings import Binding
from tidegate.routing.explain import Explanation, LevelReport, shadowed
from tidegate.routing.explain import explain as explain_route
from tidegate.routing.sessions import ResolvedSession, query_of, resolve_session, shared_with
from tidegate.routing.table import RouteTable


@dataclass(frozen=True, slots=True)
class Answer:
    """All that is known about the message. Either `session` or `error` is set."""

    event: MessageEvent
    owner: bool
    access: dict[str, str]
    explanation: Explanation
    session: ResolvedSession | None
    error: RoutingError | None
    table: RouteTable


def explain(arguments: Arguments) -> int:
    """Explain a route; 1 when nobody would answer."""
    call = Call.of(arguments)
    loaded = load_config(call.site.config_path, environ=call.environ, state_dir=call.site.state_dir)
    answer = ask(loaded, call.site, imagine(arguments), look_at_people(call.site))
    data = to_data(answer)
    call.show(data, lambda style: lines(data, style))
    return 0 if data["error"] is None else 1


def imagine(arguments: Arguments) -> MessageEvent:
    """Return the message that the options describe."""
    kind, peer_id = arguments.peer
    channel = str(arguments.channel).strip().lower()
    peer, chat, parent = Peer(PeerKind(kind), peer_id), peer_id, None
    if arguments.parent is not None:
        parent = Peer(PeerKind(arguments.parent[0]), arguments.parent[1])
    if channel == "telegram" and arguments.thread and peer.kind is not PeerKind.DIRECT and ":topic:" not in peer_id:
        # A Telegram topic is a peer of its own that hangs under its group.
        peer, parent = Peer(peer.kind, f"{peer_id}:topic:{arguments.thread}"), parent or peer
    return MessageEvent(
        address=Address(channel, arguments.account or "default", chat, arguments.thread),
        peer=peer,
        sender=Sender(arguments.sender or (peer_id if peer.kind is PeerKind.DIRECT else "")),
        message_id="",
        text="",
        parent_peer=parent,
        guild=arguments.guild,
        team=arguments.team,
        roles=tuple(arguments.role),
    )


def ask(loaded: Loaded, site: Site, event: MessageEvent, people: StoredPeople) -> Answer:
    """Ask the rules of a configuration about a message."""
    rules = build_ruleset(loaded)
    placed = _placed(rules.table, site)
    owners = rules.command_policy(people.owners).owners
    owner = event.address.channel == TERMINAL or is_owner(Identity(event.address.channel, event.sender.id), owners)
    explanation = explain_route(query_of(event), placed)
    access = _access(rules, event, people)
    try:
        session = resolve_session(event, placed, rules.resolve, is_owner=owner)
    except RoutingError as error:
        return Answer(event, owner, access, explanation, None, error, placed)
    return Answer(event, owner, access, explanation, session, None, placed)


def _placed(table: RouteTable, site: Site) -> RouteTable:
    """Return the table with the place of each binding in its file."""
    root = read_tree(site.config_path).root
    bindings = []
    for binding in table.bindings:
        node = descend(root, ("bindings", binding.index))
        where = ""
        if node is not None:
            line, column = node.source.position(node.start)
            where = f"{node.source.file}:{line}:{column}"
        bindings.append(replace(binding, where=where))
    return RouteTable.compile(bindings, table.roster, table.scopes)


def _access(rules: Ruleset, event: MessageEvent, people: StoredPeople) -> dict[str, str]:
    where = (event.address.channel, event.address.account)
    if where not in rules.channels:
        return {"verdict": "absent", "reason": f"{'/'.join(where)} is not configured"}
    if not event.sender.id:
        return {"verdict": "unknown", "reason": "name the sender with --sender to learn whether they are heard"}
    verdict = decide_access(Approach.of(event), rules.channels[where].access, people.allowed.get(where, frozenset()))
    name = "allow" if isinstance(verdict, Allow) else "deny" if isinstance(verdict, Deny) else "pair"
    return {"verdict": name, "reason": verdict.reason.value}


def to_data(answer: Answer) -> dict[str, Any]:
    """Return the answer as plain data, as `--json` prints it."""
    event, session = answer.event, answer.session
    decided = False
    levels = []
    for report in answer.explanation.levels:
        levels.append(_level(report, decides=report.winner is not None and not decided))
        decided = decided or report.winner is not None
    return {
        "message": {
            "channel": event.address.channel,
            "account": event.address.account,
            "peer": f"{event.peer.kind}:{event.peer.id}",
            "parent": f"{event.parent_peer.kind}:{event.parent_peer.id}" if event.parent_peer else None,
            "guild": event.guild,
            "team": event.team,
            "roles": list(event.roles),
            "thread": event.address.thread,
            "sender": event.sender.id or None,
            "is_owner": answer.owner,
        },
        "access": answer.access,
        "answered": session is not None and _may_be_heard(answer.access),
        "levels": levels,
        "agent": session.agent if session else None,
        "session": session.key if session else None,
        "parent_session": session.parent_key if session else None,
        "matched_by": session.matched_by.value if session else None,
        "binding": str(session.route.binding) if session and session.route.binding else None,
        "dm_scope": session.dm_scope.value if session else None,
        "shared_with": list(shared_with(session, event, answer.table)) if session else [],
        "error": {"code": answer.error.code, "message": str(answer.error)} if answer.error else None,
        "never_matching": [
            {**_binding(row.binding), "reason": row.reason}
            for row in shadowed(answer.table, {*KNOWN_CHANNELS, TERMINAL})
        ],
    }


def _may_be_heard(access: dict[str, str]) -> bool:
    """Tell whether an answer is not ruled out; a sender that was not named may be anybody."""
    return access["verdict"] in ("allow", "unknown")


def _level(report: LevelReport, *, decides: bool) -> dict[str, Any]:
    return {
        "level": report.level.value,
        "decides": decides,
        "note": report.note,
        "candidates": [
            {**_binding(candidate.binding), "fits": not candidate.reason, "reason": candidate.reason}
            for candidate in report.candidates
        ],
    }


def _binding(binding: Binding) -> dict[str, Any]:
    return {"binding": f"bindings[{binding.index}]", "where": binding.where, "agent": binding.agent}


def lines(data: dict[str, Any], style: Style) -> Iterator[str]:
    """Yield the lines for people."""
    message = data["message"]
    owner = " (the owner)" if message["is_owner"] else ""
    yield style.bold(printable(f"{message['channel']}/{message['account']} {message['peer']}")) + (
        printable(f", from {message['sender']}{owner}") if message["sender"] else ""
    )
    yield f"heard     {_verdict(data['access'], style)}"
    if data["error"]:
        yield f"goes to   {style.paint('nobody', 'red')}: {printable(data['error']['message'])}"
    else:
        via = data["binding"] or "no binding matches, so the default agent answers"
        if data["access"]["verdict"] == "allow":
            yield f"goes to   agent {style.bold(data['agent'])}, {data['matched_by']}: {printable(via)}"
        else:
            if not data["answered"]:
                yield f"goes to   {style.paint('nobody', 'red')}, because it is not heard"
            agent = f"agent {style.bold(data['agent'])}"
            yield f"if heard  it would go to {agent}, {data['matched_by']}: {printable(via)}"
        yield f"session   {style.bold(printable(data['session']))}"
        if data["parent_session"]:
            yield f"parent    {printable(data['parent_session'])}"
        for index, line in enumerate(data["shared_with"] or ["nobody else"]):
            yield f"{'shared' if not index else '':<10}{printable(line)}"
    yield ""
    yield from table(style, ("LEVEL", "BINDING", "AGENT", "RESULT"), _rows(data, style))
    if data["never_matching"]:
        yield ""
        yield style.paint("These bindings can never decide anything:", "yellow")
        for row in data["never_matching"]:
            yield printable(
                f"  {row['binding']} ({row['where']}) to {row['agent'] or 'the default agent'}: {row['reason']}"
            )


def _verdict(access: dict[str, str], style: Style) -> str:
    words = {
        "allow": style.paint("yes", "green"),
        "deny": style.paint("no", "red"),
        "pair": style.paint("not yet, gets a pairing code", "yellow"),
        "absent": style.paint("no", "red"),
        "unknown": "unknown",
    }
    return f"{words[access['verdict']]} ({printable(access['reason'])})"


def _rows(data: dict[str, Any], style: Style) -> Iterator[tuple[str, str, str, str]]:
    decided = False
    is_heard = data["access"]["verdict"] == "allow"
    decides = style.paint("✓ decides", "green") if is_heard else style.dim("would decide")
    for level in data["levels"]:
        name = style.bold(level["level"]) if level["decides"] else level["level"]
        if not level["candidates"]:
            yield name, "-", "", style.dim(level["note"] or "no binding of this kind")
        is_won = False
        for row in level["candidates"]:
            if row["fits"] and level["decides"] and not is_won:
                result, is_won = decides, True
            elif row["fits"]:
                result = style.dim(
                    "fits, but a stronger one decides" if decided else "fits, but an earlier one decides"
                )
            else:
                result = printable(row["reason"])
            yield name, row["binding"], printable(row["agent"] or "(default)"), result
            name = ""
        decided = decided or level["decides"]
    won = "" if decided else style.paint("✗ nobody is the default", "yellow") if data["error"] else decides
    yield "default", "-", "" if decided or data["error"] else data["agent"], won or style.dim("not needed")
