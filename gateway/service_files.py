"""The files that make a service manager run the gateway: systemd units and a launchd property list. No I/O.

Sources: systemd.service(5), systemd.unit(5) and systemd.syntax(7); launchd.plist(5).
"""

from __future__ import annotations

import hashlib
import plistlib
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

NAME = "tidegate"
LABEL = "ai.tidegate.gateway"
STOP_SECONDS = 50
"""Time to end in order: answers that run (30 s), the outbox (5 s), and room for a slow disk."""
RESTART_SECONDS = 3
CHECKSUM = "tidegate-checksum"

_HEAD = f"Written by `{NAME} service install`. What you change here is kept: it is written anew only with --force."
_SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=@+,~")


class Manager(StrEnum):
    """Who runs services here."""

    SYSTEMD = "systemd"
    LAUNCHD = "launchd"


class Condition(StrEnum):
    """How a file stands to the one that would be written."""

    ABSENT = "absent"
    CURRENT = "current"
    OUTDATED = "outdated"
    EDITED = "edited"
    """Changed by hand, or not written by us."""


@dataclass(frozen=True, slots=True)
class Service:
    """What is to run.

    Attributes:
        command: The program and its words; the program's path is absolute.
        state_dir: Where it keeps its things.
        user: Who it runs as, for the service of the whole system; empty for a user's own.
    """

    command: tuple[str, ...]
    state_dir: Path
    user: str = ""

    @property
    def is_system(self) -> bool:
        """Whether it belongs to the whole system."""
        return bool(self.user)


@dataclass(frozen=True, slots=True)
class Step:
    """One command of the service manager. What `may_fail` is done only in case there is something to do."""

    words: tuple[str, ...]
    may_fail: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """A service as one manager wants it.

    Attributes:
        apply: Makes the manager run what the file says, also when it runs an older one.
        stop: Ends it and forgets it.
        after_removal: What follows once the file is gone.
        look: Ends with 0 when it runs.
    """

    path: Path
    content: str
    apply: tuple[Step, ...]
    stop: tuple[Step, ...]
    after_removal: tuple[Step, ...]
    look: Step


def plan(manager: Manager, service: Service, home: Path, config_home: Path | None = None, uid: int = 0) -> Plan:
    """Return what installing a service means.

    Args:
        home: Home of the user whose service it is.
        config_home: `XDG_CONFIG_HOME`; None for the usual place.
        uid: Of that user; launchd names its domains by it.
    """
    if manager is Manager.LAUNCHD:
        return _launchd(service, home, uid)
    folder = Path("/etc/systemd/system") if service.is_system else (config_home or home / ".config") / "systemd/user"
    ctl = ("systemctl",) if service.is_system else ("systemctl", "--user")
    unit = f"{NAME}.service"
    return Plan(
        folder / unit,
        _signed(unit_text(service), "# "),
        (Step((*ctl, "daemon-reload")), Step((*ctl, "enable", unit)), Step((*ctl, "restart", unit))),
        (Step((*ctl, "disable", "--now", unit)),),
        (Step((*ctl, "daemon-reload")),),
        Step((*ctl, "is-active", unit)),
    )


def condition(found: str | None, wanted: Plan) -> Condition:
    """Return how the file that was found stands to the one that is wanted."""
    if found is None:
        return Condition.ABSENT
    if found == wanted.content:
        return Condition.CURRENT
    head, mark, rest = found.partition(f"{CHECKSUM}: ")
    written, _, body = rest.partition("\n")
    is_ours = bool(mark) and head.count("\n") <= 4 and written.split(" ")[0] == _digest(body)
    return Condition.OUTDATED if is_ours else Condition.EDITED


def unit_text(service: Service) -> str:
    """Return a systemd unit, without the lines that tell whether it was edited."""
    network = "After=network-online.target\nWants=network-online.target\n" if service.is_system else ""
    return f"""[Unit]
Description=Tidegate, a gateway for AI agents in chat apps
{network}StartLimitIntervalSec=300
StartLimitBurst=20

[Service]
Type=exec
ExecStart={" ".join(map(quoted, service.command))}
ExecReload=/bin/kill -HUP $MAINPID
Restart=always
RestartSec={RESTART_SECONDS}
# 2: the command line is wrong, which no restart mends.
RestartPreventExitStatus=2
KillMode=mixed
TimeoutStopSec={STOP_SECONDS}
UMask=0077
LimitNOFILE=65536
NoNewPrivileges=yes
{_system_only(service) if service.is_system else ""}
[Install]
WantedBy={"multi-user.target" if service.is_system else "default.target"}
"""


def _system_only(service: Service) -> str:
    return f"""User={service.user}
CapabilityBoundingSet=
LockPersonality=yes
PrivateTmp=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectSystem=full
RestrictRealtime=yes
RestrictSUIDSGID=yes
"""


def quoted(word: str) -> str:
    """Return one word of a command line as systemd reads it."""
    plain = word.replace("%", "%%").replace("$", "$$")
    if word and set(word) <= _SAFE:
        return plain
    escaped = plain.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'


def _launchd(service: Service, home: Path, uid: int) -> Plan:
    folder = Path("/Library/LaunchDaemons") if service.is_system else home / "Library/LaunchAgents"
    domain = "system" if service.is_system else f"gui/{uid}"
    path = folder / f"{LABEL}.plist"
    target = f"{domain}/{LABEL}"
    return Plan(
        path,
        _signed_plist(property_list(service)),
        (
            # Loading what is loaded fails, so an older one goes first.
            Step(("launchctl", "bootout", target), may_fail=True),
            Step(("launchctl", "enable", target)),
            Step(("launchctl", "bootstrap", domain, str(path))),
        ),
        (Step(("launchctl", "bootout", target), may_fail=True),),
        (),
        Step(("launchctl", "print", target)),
    )


def property_list(service: Service) -> str:
    """Return a launchd property list, without the lines that tell whether it was edited."""
    data: dict[str, Any] = {
        "Label": LABEL,
        "ProgramArguments": list(service.command),
        "RunAtLoad": True,
        "KeepAlive": True,
        "ThrottleInterval": RESTART_SECONDS,
        "ExitTimeOut": STOP_SECONDS,
        "ProcessType": "Interactive",
        "Umask": 0o077,
        "WorkingDirectory": str(service.state_dir),
        # The gateway keeps a log of its own that does not grow for ever; launchd's would.
        "StandardOutPath": "/dev/null",
        "StandardErrorPath": "/dev/null",
    }
    if service.is_system:
        data["UserName"] = service.user
    return plistlib.dumps(data, sort_keys=False).decode()


def _signed_plist(text: str) -> str:
    head, _, body = text.partition("\n")
    return f"{head}\n<!-- {_HEAD.replace('--', '')} -->\n<!-- {CHECKSUM}: {_digest(body)} -->\n{body}"


def _signed(body: str, mark: str) -> str:
    return f"{mark}{_HEAD}\n{mark}{CHECKSUM}: {_digest(body)}\n{body}"


def _digest(body: str) -> str:
    return "sha256:" + hashlib.sha256(body.encode()).hexdigest()
