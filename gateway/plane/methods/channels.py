"""Channels: how they stand, connecting and disconnecting them, and who asked to be let in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from tidegate.config.paths import KeyPath
from tidegate.config.sections.base import normalize_id
from tidegate.config.store import REMOVED
from tidegate.gateway.connections import Connection, ConnectionState
from tidegate.gateway.plane.contract import Call, Code, Method, Params, RpcError, Scope, Text
from tidegate.gateway.plane.methods.desk import Desk
from tidegate.gateway.plane.methods.settings import Settings
from tidegate.gateway.ruleset import OWN_CHANNELS

_LOGIN_KEYS = ("botToken", "tokenFile")
_VARIABLES = {"telegram": "TELEGRAM_BOT_TOKEN"}
"""Variables that hold the token of a channel's account `default`."""


class ChannelsStatus(Params):
    """`channels.status`."""

    probe: bool | None = None
    timeoutMs: Annotated[int, Field(ge=0)] | None = None
    channel: Text | None = None


class Account(Params):
    """`channels.start`, `.stop`, `.logout`."""

    channel: Text
    accountId: str | None = None


class PairingList(Params):
    """`channels.pairing.list`."""

    channel: Text | None = None
    accountId: Text | None = None


class PairingDecision(Params):
    """`channels.pairing.approve` and `.dismiss`; the request id is the code that the sender was given."""

    channel: Text
    accountId: Text | None = None
    requestId: Text
    notify: bool = True
    bootstrapCommandOwner: bool | None = None


class Channels:
    """The methods."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def _rows(self) -> list[Connection]:
        return [row for row in self._desk.gateway.connections.all() if row.channel not in OWN_CHANNELS]

    async def status(self, call: Call) -> Any:
        """Return how every channel and account stands."""
        params: ChannelsStatus = call.params
        accounts: dict[str, list[dict[str, Any]]] = {}
        for row in self._rows():
            if params.channel in (None, row.channel):
                accounts.setdefault(row.channel, []).append(_account(row))
        order = sorted(accounts)
        issues = [
            {"channel": row.channel, "accountId": row.account, "kind": row.state.value, "message": row.reason}
            for row in self._rows()
            if row.state in (ConnectionState.STOPPED, ConnectionState.CONFLICT) and row.channel in accounts
        ]
        labels = {name: name.title() for name in order}
        return {
            "ts": self._desk.now(),
            "channelOrder": order,
            "channelLabels": labels,
            "channelDetailLabels": labels,
            "channelSystemImages": {},
            "channelMeta": [{"id": name, "label": labels[name], "detailLabel": labels[name]} for name in order],
            "channels": {name: {"configured": True, **_summary(accounts[name])} for name in order},
            "channelAccounts": accounts,
            "channelDefaultAccountId": {name: self._default(name) for name in order},
            "statusIssues": issues,
        }

    def _default(self, channel: str) -> str:
        names = [row.account for row in self._rows() if row.channel == channel]
        return "default" if "default" in names or not names else names[0]

    def _account(self, params: Account, method: str) -> tuple[str, str]:
        channel = params.channel.strip().lower()
        account = params.accountId or self._default(channel)
        known = {(row.channel, row.account) for row in self._rows()}
        if channel not in {name for name, _ in known}:
            raise RpcError(Code.INVALID_REQUEST, f"invalid {method} channel")
        if (channel, account) not in known:
            raise RpcError(Code.INVALID_REQUEST, f"{channel} has no account {account!r}")
        return channel, account

    async def stop(self, call: Call) -> Any:
        """Disconnect an account."""
        channel, account = self._account(call.params, call.method)
        stopped = await self._desk.gateway.accounts.stop(channel, account)
        return {"ok": True, "channel": channel, "accountId": account, "stopped": stopped}

    async def start(self, call: Call) -> Any:
        """Connect an account that was stopped."""
        channel, account = self._account(call.params, call.method)
        started = self._desk.gateway.accounts.start(channel, account)
        return {"ok": True, "channel": channel, "accountId": account, "started": started}

    async def logout(self, call: Call) -> Any:
        """Disconnect an account and take its token out of the configuration; one in a variable stays in force."""
        channel, account = self._account(call.params, call.method)
        await self._desk.gateway.accounts.stop(channel, account)
        settings = Settings(self._desk)
        plain, base_hash = await settings.read()
        changes: list[tuple[KeyPath, object]] = [(path, REMOVED) for path in _logins(plain, channel, account)]
        if changes:
            await settings.change(changes, base_hash, "channels-logout", f"logged out of {channel}")
        by_variable = account == "default" and bool(
            self._desk.gateway.loaded.environment.get(_VARIABLES.get(channel, ""))
        )
        about = {"cleared": bool(changes), "loggedOut": not by_variable, "envToken": by_variable}
        return {"channel": channel, "accountId": account, **about}

    async def pairing_list(self, call: Call) -> Any:
        """Return who asked to be let in."""
        params: PairingList = call.params
        rows = [
            {
                "requestId": row["code"],
                "code": row["code"],
                "channel": row["channel"],
                "accountId": row["account"],
                "senderId": row["sender"],
                "displayName": row["name"],
                "expiresAtMs": row["expires_at"] // 1000,
            }
            for row in await self._desk.gateway.control.pairing_list(params.channel or "")
            if params.accountId in (None, row["account"])
        ]
        return {"requests": rows, "pending": rows}

    async def pairing_approve(self, call: Call) -> Any:
        """Let somebody in."""
        params: PairingDecision = call.params
        try:
            done = await self._desk.gateway.control.pairing_approve(_where(params), params.requestId, params.notify)
        except ValueError as error:
            raise RpcError(Code.INVALID_REQUEST, str(error)) from error
        return {"ok": True, "requestId": params.requestId, **done}

    async def pairing_dismiss(self, call: Call) -> Any:
        """Forget a request."""
        params: PairingDecision = call.params
        try:
            done = await self._desk.gateway.control.pairing_reject(_where(params), params.requestId)
        except ValueError as error:
            raise RpcError(Code.INVALID_REQUEST, str(error)) from error
        return {"ok": True, "requestId": params.requestId, **done}


def _where(params: PairingDecision) -> str:
    return f"{params.channel}/{params.accountId}" if params.accountId else params.channel


def _account(row: Connection) -> dict[str, Any]:
    return {
        "accountId": row.account,
        "name": row.adapter.username if row.adapter is not None else "",
        "enabled": True,
        "configured": True,
        "running": row.state is not ConnectionState.STOPPED,
        "connected": row.state is ConnectionState.UP,
        "healthState": row.state.value,
        "lastError": row.reason or None,
        "lastInboundAt": row.alive_at // 1000 or None,
        "reconnectAttempts": row.failures,
    }


def _summary(accounts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    errors = [row["lastError"] for row in accounts if row["lastError"]]
    return {
        "running": any(row["running"] for row in accounts),
        "connected": all(row["connected"] for row in accounts),
        "lastError": errors[0] if errors else None,
    }


def _logins(plain: Mapping[str, Any], channel: str, account: str) -> list[KeyPath]:
    """Return where the configuration says how an account logs in."""
    section = (plain.get("channels") or {}).get(channel)
    if not isinstance(section, Mapping):
        return []
    found: list[KeyPath] = []
    accounts = section.get("accounts")
    for name, options in accounts.items() if isinstance(accounts, Mapping) else ():
        if normalize_id(name, "default") == account and isinstance(options, Mapping):
            found += [("channels", channel, "accounts", name, key) for key in _LOGIN_KEYS if key in options]
    if account == "default":
        found += [("channels", channel, key) for key in _LOGIN_KEYS if key in section]
    return found


def _approve_scope(params: PairingDecision) -> Scope:
    return Scope.ADMIN if params.bootstrapCommandOwner else Scope.PAIRING


def channel_methods(desk: Desk) -> list[Method]:
    """Return the methods."""
    c = Channels(desk)
    return [
        Method("channels.status", ChannelsStatus, c.status, Scope.READ),
        Method("channels.start", Account, c.start, Scope.ADMIN),
        Method("channels.stop", Account, c.stop, Scope.ADMIN),
        Method("channels.logout", Account, c.logout, Scope.ADMIN),
        Method("channels.pairing.list", PairingList, c.pairing_list, Scope.PAIRING),
        Method("channels.pairing.approve", PairingDecision, c.pairing_approve, _approve_scope),
        Method("channels.pairing.dismiss", PairingDecision, c.pairing_dismiss, Scope.PAIRING),
    ]
