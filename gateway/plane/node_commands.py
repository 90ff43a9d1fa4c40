"""Which commands a node may be asked for: those that are usual on its platform, and those that the operator allows.

A name that stands in no list needs `gateway.nodes.commands.allow`. That goes for everything that watches, records,
sends or writes: a node may declare what it likes, it is not asked for it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tidegate.gateway.plane.contract import Scope

_EVERYWHERE = frozenset({"device.info", "device.status", "system.notify"})
_PROGRAMS = frozenset({"system.run", "system.run.prepare", "system.which", "browser.proxy"})
_CANVAS = frozenset(
    {
        "canvas.present",
        "canvas.hide",
        "canvas.navigate",
        "canvas.eval",
        "canvas.snapshot",
        "canvas.a2ui.push",
        "canvas.a2ui.pushJSONL",
        "canvas.a2ui.reset",
    }
)
_DESKTOP = _EVERYWHERE | _PROGRAMS | {"location.get"}
_PHONE = _EVERYWHERE | _CANVAS | {"camera.list", "location.get"}
_USUAL = {
    "linux": _DESKTOP,
    "windows": _DESKTOP,
    "macos": _DESKTOP | _CANVAS | {"camera.list"},
    "ios": _PHONE,
    "android": _PHONE,
}
_NAMES = {
    "linux": "linux",
    "win": "windows",
    "mac": "macos",
    "darwin": "macos",
    "ios": "ios",
    "ipad": "ios",
    "iphone": "ios",
    "android": "android",
}


@dataclass(frozen=True, slots=True)
class NodeRules:
    """What the configuration says: exact names, and `deny` counts more."""

    allow: Collection[str] = ()
    deny: Collection[str] = ()

    def may_ask(self, platform: str, command: str) -> bool:
        """Return whether a node of a platform may be asked for a command at all."""
        return command not in self.deny and (command in self.allow or command in usual(platform))

    def offered(self, platform: str, commands: Sequence[str]) -> tuple[str, ...]:
        """Return those of a node's commands that it may be asked for, each once, in its order."""
        return tuple(name for name in dict.fromkeys(commands) if self.may_ask(platform, name))


def usual(platform: str) -> frozenset[str]:
    """Return the commands that nodes of a platform may be asked for without more ado; few for an unknown one."""
    lowered = platform.strip().lower()
    family = next((name for start, name in _NAMES.items() if lowered.startswith(start)), "")
    return _USUAL.get(family, _EVERYWHERE)


def runs_programs(command: str) -> bool:
    """Return whether a command can run anything on the node's machine, or reach into its browser."""
    return command in _PROGRAMS or command.startswith(("system.run", "browser.proxy"))


def scopes_to_approve(commands: Sequence[str]) -> tuple[Scope, ...]:
    """Return what a person needs to approve that a node offers these commands."""
    if any(runs_programs(name) for name in commands):
        return Scope.PAIRING, Scope.ADMIN
    return (Scope.PAIRING, Scope.WRITE) if commands else (Scope.PAIRING,)


def scope_to_ask(command: str) -> Scope:
    """Return what an operator needs to ask a node for a command."""
    only_looks = command in ("system.which", "system.run.prepare")
    if (runs_programs(command) and not only_looks) or command in ("fs.listDir", "terminal.upload"):
        return Scope.ADMIN
    return Scope.WRITE
