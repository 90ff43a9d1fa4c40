"""Devices and their requests as clients see them. Tokens never contain the secret."""

from __future__ import annotations

from typing import Any

from tidegate.sessions.devices import Device, DeviceRequest, DeviceToken


def _without_empty(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value not in ("", None, 0)}


def _about(found: Device | DeviceRequest) -> dict[str, Any]:
    about = found.about
    return _without_empty(
        {
            "displayName": about.label or about.name,
            "platform": about.platform,
            "deviceFamily": about.family,
            "clientId": about.client_id,
            "clientMode": about.client_mode,
        }
    )


def request_row(request: DeviceRequest) -> dict[str, Any]:
    """Return a pending request."""
    row = {
        "requestId": request.id,
        "deviceId": request.device,
        "publicKey": request.public_key,
        **_about(request),
        "role": request.role,
        "roles": [request.role],
        "scopes": list(request.scopes),
    }
    if request.remote_ip:
        row["remoteIp"] = request.remote_ip
    return row | {"silent": False, "isRepair": request.is_repair, "ts": request.created_at // 1000}


def device_row(device: Device, *, connected: bool | None = None) -> dict[str, Any]:
    """Return a paired device; `connected` is left out where it does not matter."""
    row = {
        "deviceId": device.id,
        "publicKey": device.public_key,
        **_about(device),
        "role": device.roles[0] if device.roles else "",
        "roles": list(device.roles),
        "scopes": list(device.scopes),
        "approvedVia": device.approved_via,
        "createdAtMs": device.created_at // 1000,
        "approvedAtMs": device.approved_at // 1000,
    }
    if device.seen_at:
        row |= {"lastSeenAtMs": device.seen_at // 1000, "lastSeenReason": "connect"}
    if connected is not None:
        row["connected"] = connected
    return row | {"tokens": [_token_row(token) for token in device.tokens]}


def _token_row(token: DeviceToken) -> dict[str, Any]:
    return {"role": token.role, "scopes": list(token.scopes)} | _without_empty(
        {
            "createdAtMs": token.created_at // 1000,
            "rotatedAtMs": token.rotated_at // 1000,
            "revokedAtMs": token.revoked_at // 1000,
            "lastUsedAtMs": token.used_at // 1000,
        }
    )
