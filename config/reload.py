"""What a changed configuration means for a running gateway, and noticing that the files changed."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate.config.model import Config
from tidegate.config.paths import KeyPath, format_path
from tidegate.config.sources import read_tree

NONE = "none"
GATEWAY = "gateway"
EVERY_ACCOUNT = "*"

POLL_SECONDS = 0.5
QUIET_SECONDS = 0.5
Sleep = Callable[[float], Awaitable[None]]

_MAX_WATCHED_BYTES = 4 * 1024 * 1024

_HOT = """
$schema meta wizard env accessGroups acp agents approvals auth bindings broadcast browser commands cron hooks
logging mcp media memory messages models plugins secrets session skills surfaces talk telemetry tools tts ui update
channels.defaults channels.modelByChannel gateway.http.endpoints gateway.nodes gateway.reload gateway.remote
gateway.roles gateway.terminal gateway.tools gateway.trustedProxies gateway.auth.password gateway.auth.rateLimit
gateway.auth.token gateway.controlUi.allowedOrigins gateway.controlUi.enabled
"""
_RESTART = "gateway secrets.egressProxy"
RULES: Mapping[KeyPath, str] = {
    tuple(path.split(".")): effect for paths, effect in ((_HOT, NONE), (_RESTART, GATEWAY)) for path in paths.split()
}
"""Effect by prefix; the longest prefix of a changed path counts, a path without any restarts the gateway."""

HOT_CHANNEL_KEYS = frozenset(
    {
        "ackReaction",
        "ackReactionScope",
        "allowFrom",
        "configWrites",
        "contextVisibility",
        "defaultAccount",
        "defaultTo",
        "direct",
        "dmHistoryLimit",
        "dmPolicy",
        "dms",
        "errorPolicy",
        "execApprovals",
        "groupAllowFrom",
        "groupPolicy",
        "groups",
        "historyLimit",
        "mentionPatterns",
        "replyToMode",
        "responsePrefix",
        "streaming",
        "textChunkLimit",
    }
)
"""Channel settings that are read for each message, so that a change needs no new connection."""


@dataclass(frozen=True, slots=True)
class Change:
    """One changed path and what must restart for it.

    `effect` is `none`, `gateway`, or `channel:<id>:<account>` where the account may be `*` for all.
    """

    path: str
    effect: str


def diff(before: Config, after: Config) -> tuple[Change, ...]:
    """What changed, path by path in order; objects are compared key by key, lists as wholes."""
    return tuple(
        Change(format_path(path), effect_of(path)) for path in sorted(_changed(before.raw, after.raw, ()), key=str)
    )


def restarts(changes: Sequence[Change]) -> frozenset[str]:
    """What must restart; a restart of the gateway covers all others."""
    effects = frozenset(change.effect for change in changes) - {NONE}
    return frozenset({GATEWAY}) if GATEWAY in effects else effects


def effect_of(path: KeyPath) -> str:
    """What a change at a path needs."""
    for length in range(len(path), 0, -1):
        effect = RULES.get(path[:length])
        if effect is not None:
            return effect
    if len(path) >= 2 and path[0] == "channels":
        return _channel_effect(path)
    return GATEWAY


def _channel_effect(path: KeyPath) -> str:
    channel, rest = path[1], path[2:]
    account = EVERY_ACCOUNT
    if len(rest) >= 2 and rest[0] == "accounts":
        account, rest = str(rest[1]), rest[2:]
    if rest and rest[0] in HOT_CHANNEL_KEYS:
        return NONE
    return f"channel:{channel}:{account}"


def _changed(before: Any, after: Any, path: KeyPath) -> list[KeyPath]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        found: list[KeyPath] = []
        for key in [*before, *(key for key in after if key not in before)]:
            found.extend(_changed(before.get(key, _ABSENT), after.get(key, _ABSENT), (*path, key)))
        return found
    if before is _ABSENT and isinstance(after, Mapping) and after:
        return _changed({}, after, path)
    if after is _ABSENT and isinstance(before, Mapping) and before:
        return _changed(before, {}, path)
    # Equal numbers of different types (1 and true) are a change as well.
    return [] if before == after and type(before) is type(after) else [path]


_ABSENT = object()


async def watch(
    files: Sequence[Path], *, digest: str | None = None, sleep: Sleep = asyncio.sleep
) -> AsyncIterator[None]:
    """Yield each time the files' contents changed and then were left alone for half a second.

    Editors write in several steps (a new file renamed over the old one, or emptied and filled), so a change
    counts once nothing moved any more; one that leaves the contents as they were does not count at all.
    """
    # Taken at once, so that a change between the load and the first poll is not missed for ever.
    known = await asyncio.to_thread(_contents, files)
    seen = _prints(files)
    if digest is not None and (await asyncio.to_thread(read_tree, files[0])).digest != digest:
        yield
    while True:
        await sleep(POLL_SECONDS)
        current = _prints(files)
        if current == seen:
            continue
        while True:
            seen = current
            await sleep(QUIET_SECONDS)
            current = _prints(files)
            if current == seen:
                break
        contents = await asyncio.to_thread(_contents, files)
        if contents != known:
            known = contents
            yield


def _prints(files: Sequence[Path]) -> tuple[tuple[int, int, int] | None, ...]:
    return tuple(_print(path) for path in files)


def _print(path: Path) -> tuple[int, int, int] | None:
    try:
        info = os.stat(path)
    except OSError:
        return None
    return info.st_mtime_ns, info.st_size, info.st_ino


def _contents(files: Sequence[Path]) -> tuple[bytes, ...]:
    return tuple(_content(path) for path in files)


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return hashlib.sha256(file.read(_MAX_WATCHED_BYTES)).digest()
    except OSError:
        return b""
