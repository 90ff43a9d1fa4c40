"""Recordings of the control plane: the client's side is played to a fresh gateway, ours is what comes back.

Nonces, times, ids and tokens of the recording are exchanged for those of this run; device blocks are signed again.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import logging
import re
import tempfile
from collections.abc import Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import structlog
from Crypto.Signature import eddsa

from harness.brain import Brain
from plane.mock_model import mock
from tidegate.config.load import load_config
from tidegate.faults import Faults
from tidegate.gateway.app import Site, open_gateway
from tidegate.gateway.plane.connection import Timing

Row = dict[str, Any]
TOKEN = "golden-token-0123456789abcdef-golden"
QUICK = Timing(handshake=0.8, ping=0.25, tick=0.3, health=0.5, close=0.5)
"""The protocol's times, about a hundred times faster; the order of what a client does is not touched by them."""
CONFIG = """{ gateway: { auth: { mode: "token", token: "%s" }, nodes: { pairing: { autoApproveLocal: %s } } }, %s }"""
MODEL = """agents: { defaults: { model: "mock/mock-1" } }, models: { providers: { mock: {
  baseUrl: "%s", apiKey: "k", api: "openai-completions", models: [{ id: "mock-1", contextWindow: 128000 }] } } }"""
PACE = 0.02
"""Seconds between two pieces of an answer of the model."""
QUIET = 1.5
"""Seconds of silence after which no further event of a run is waited for: pieces are joined otherwise here."""
RUN = frozenset({"agent", "chat", "session.tool", "session.message", "sessions.changed"})
"""Events of runs."""
WAIT = 8.0
TIMERS = frozenset({"tick", "health", "presence", "voicewake.changed", "voicewake.routing.changed"})
"""Events that come by the clock or by what other clients do, at no fixed place in the order."""
FEATURES = frozenset({"health", "status", "config.get", "config.patch", "system-presence", "skills.bins"})
"""Methods whose successful results describe the product; they are compared by shape."""
_EXCHANGED = frozenset({"requestId", "deviceToken", "nonce", "token"})
"""Fields with values of one run that the client sends back."""
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_CUT_UUID = re.compile(r"(requestId: )[0-9a-f-]{20,36}\)?$")


def replay(lines: list[Row]) -> list[Row]:
    """Play a recording and return our server side, in the order of the recording, normalised."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    return asyncio.run(_Replay(lines).run())


def server_side(lines: Iterable[Row]) -> list[Row]:
    """Return the server side of a recording, normalised, without what comes by the clock."""
    rows = list(lines)
    methods, devices = _methods(rows), _devices(rows)
    kept = [row for row in rows if row["dir"] == "s2c" and not _is_timer(row)]
    return [normalise(row, methods, devices) for row in kept]


def timers(lines: Iterable[Row]) -> set[str]:
    """Return the kinds of things that came by the clock."""
    return {
        "ping" if "ping" in row else row["frame"]["event"] for row in lines if row["dir"] == "s2c" and _is_timer(row)
    }


def _is_timer(row: Row) -> bool:
    return "ping" in row or row.get("frame", {}).get("event") in TIMERS


def _methods(rows: Iterable[Row]) -> dict[str, str]:
    found = {}
    for row in rows:
        frame = row.get("frame")
        if row["dir"] == "c2s" and isinstance(frame, dict) and isinstance(frame.get("id"), str):
            found[f"{row['conn']}:{frame['id']}"] = str(frame.get("method"))
    return found


def _devices(rows: Iterable[Row]) -> set[str]:
    params = (row["frame"].get("params") or {} for row in rows if row["dir"] == "c2s" and "frame" in row)
    return {p["device"]["id"] for p in params if isinstance(p.get("device"), dict)}


def normalise(row: Row, methods: dict[str, str], devices: set[str]) -> Row:
    """Return a row of the server side without what changes from run to run."""
    if "close" in row:
        reason = _CUT_UUID.sub(r"\1<uuid>", row["close"]["reason"])
        return {"conn": row["conn"], "close": {"code": row["close"]["code"], "reason": reason}}
    frame = row["frame"]
    payload = frame.get("payload")
    if frame.get("event") == "connect.challenge":
        return {"conn": row["conn"], "event": "connect.challenge", "keys": sorted({*payload} - {"capabilities"})}
    if isinstance(payload, dict) and payload.get("type") == "hello-ok":
        return {"conn": row["conn"], "id": frame["id"], "hello": _hello(payload)}
    method = methods.get(f"{row['conn']}:{frame.get('id')}", "")
    if frame.get("ok") and method in FEATURES:
        return {"conn": row["conn"], "id": frame["id"], "result": f"<{type(payload).__name__}>"}
    if method == "device.pair.list" and frame.get("ok"):
        # Devices that an earlier recording left in the recorded gateway are not this one's.
        payload = {**payload, "paired": [d for d in payload["paired"] if d["deviceId"] in devices]}
        frame = {**frame, "payload": payload}
    plain = {name: value for name, value in frame.items() if name not in ("recipientProfileId", "seq")}
    return {"conn": row["conn"], "frame": _plain(plain)}


def _plain(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _plain(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item, key) for item in value]
    if key in ("ts", "timeoutMs") or key.endswith(("AtMs", "AfterMs")):
        return "<ms>"
    if key in ("deviceToken", "token"):
        return "<token>"
    if key in ("deviceId", "publicKey"):
        return f"<{key}>"
    return _UUID.sub("<uuid>", value) if isinstance(value, str) else value


def _hello(payload: Row) -> Row:
    """Return what of a hello-ok is the protocol's and not the product's."""
    snapshot, auth, policy = payload["snapshot"], payload["auth"], payload["policy"]
    return {
        "protocol": payload["protocol"],
        "server": {name: bool(payload["server"].get(name)) for name in ("version", "connId")},
        "features": {name: isinstance(payload["features"][name], list) for name in ("methods", "events")},
        "snapshot": {
            "seesPresence": bool(snapshot["presence"]),
            "health": isinstance(snapshot["health"], dict),
            "stateVersion": sorted(snapshot["stateVersion"]),
            "uptimeMs": isinstance(snapshot["uptimeMs"], int),
            "suspension": snapshot["suspension"],
            "sessionDefaults": snapshot["sessionDefaults"]["mainSessionKey"],
            "placesToldToAdmin": sorted({"configPath", "stateDir", "authMode"} & set(snapshot)),
        },
        "auth": {
            name: _plain(auth[name], name)
            for name in ("method", "role", "scopes", "deviceToken", "issuedAtMs")
            if name in auth
        },
        "policy": {name: policy[name] for name in ("maxPayload", "maxBufferedBytes")},
    }


class _Socket:
    """One socket of the recording, in this run."""

    def __init__(self, number: int, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.number = number
        self.socket = socket
        self.rows: list[Row] = []
        self.taken: set[int] = set()
        self.arrived = asyncio.Event()
        self.ended = False
        self.quiet_at = -1

    async def listen(self) -> None:
        """Keep everything that comes."""
        while True:
            message = await self.socket.receive()
            row: Row = {"dir": "s2c", "conn": self.number}
            if message.type is aiohttp.WSMsgType.TEXT:
                row["frame"] = json.loads(message.data)
            elif message.type is aiohttp.WSMsgType.PING:
                await self.socket.pong()
                row["ping"] = ""
            else:
                closing = message.type is aiohttp.WSMsgType.CLOSE
                row["close"] = {
                    "code": message.data if closing else 1005,
                    "reason": message.extra or "" if closing else "",
                }
                self.rows.append(row)
                self.ended = True
                self.arrived.set()
                await self.socket.close()
                return
            self.rows.append(row)
            self.arrived.set()

    async def match(self, wanted: Row) -> Row | None:
        """Return what came for a row of the recording, or None when it does not come."""
        is_of_run = wanted.get("frame", {}).get("event") in RUN
        try:
            async with asyncio.timeout(WAIT):
                while True:
                    for index, row in enumerate(self.rows):
                        if index not in self.taken and _same_kind(row, wanted):
                            self.taken.add(index)
                            return row
                    if self.ended or (is_of_run and self.quiet_at == self._said()):
                        return None
                    self.arrived.clear()
                    if is_of_run:
                        await self._wait_for_more()
                    else:
                        await self.arrived.wait()
        except TimeoutError:
            return None

    def _said(self) -> int:
        """Return how much came that does not come by the clock."""
        return sum(not _is_timer(row) for row in self.rows)

    async def _wait_for_more(self) -> None:
        """Wait until something comes, or it has been quiet for long enough."""
        before = self._said()
        try:
            async with asyncio.timeout(QUIET):
                while self._said() == before:
                    self.arrived.clear()
                    await self.arrived.wait()
        except TimeoutError:
            self.quiet_at = before

    def left(self) -> list[Row]:
        """Return what came and was not expected."""
        return [
            row for i, row in enumerate(self.rows) if i not in self.taken and not _is_timer(row) and "close" not in row
        ]


def _same_kind(row: Row, wanted: Row) -> bool:
    if "frame" not in row or "frame" not in wanted:
        return ("close" in row) == ("close" in wanted) and ("ping" in row) == ("ping" in wanted)
    ours, theirs = row["frame"], wanted["frame"]
    return bool(
        (ours["type"], ours.get("id"), ours.get("event")) == (theirs["type"], theirs.get("id"), theirs.get("event"))
    )


class _Replay:
    """Plays one recording."""

    def __init__(self, lines: list[Row]) -> None:
        self.lines = lines
        self.sockets: dict[int, _Socket] = {}
        self.exchanged: dict[str, str] = {}
        self.times: dict[int, tuple[int, int]] = {}
        self.signed: dict[int, str] = {}
        self.keys = _Keys()
        self.methods, self.devices = _methods(lines), _devices(lines)

    async def run(self) -> list[Row]:
        """Play it against a gateway of its own."""
        asks = any('"PAIRING_REQUIRED"' in json.dumps(line) for line in self.lines)
        async with AsyncExitStack() as stack:
            place = stack.enter_context(tempfile.TemporaryDirectory())
            state_dir = Path(place)
            config = state_dir / "tidegate.json"
            runs = any(line.get("frame", {}).get("event") in ("agent", "chat") for line in self.lines)
            model = await stack.enter_async_context(Brain(mock)) if runs else None
            if model is not None:
                model.pace = PACE
            config.write_text(CONFIG % (TOKEN, "false" if asks else "true", MODEL % model.url if model else ""))
            loaded = load_config(config, environ={"HOME": place}, state_dir=state_dir)
            site, stop = Site(state_dir, config, port=0), asyncio.Event()
            async with open_gateway(site, loaded, Faults(), accounts=lambda *_: [], timing=QUICK) as gateway:
                async with asyncio.TaskGroup() as group, aiohttp.ClientSession() as http:
                    group.create_task(gateway.run(stop))
                    await gateway.ready.wait()
                    try:
                        return await self._play(http, f"http://127.0.0.1:{gateway.port}/", group)
                    finally:
                        for opened in self.sockets.values():
                            await opened.socket.close()
                        stop.set()

    async def _play(self, http: aiohttp.ClientSession, url: str, group: asyncio.TaskGroup) -> list[Row]:
        out: list[Row] = []
        idles = any("ping" in line for line in self.lines)
        for line in self.lines:
            number = line["conn"]
            if line["dir"] == "meta":
                note = str(line.get("note", ""))
                if note.startswith("signed payload: "):
                    self.signed[number] = note.removeprefix("signed payload: ")
                continue
            if number not in self.sockets:
                # Pings of the server are recorded, so they are answered by hand.
                socket = await http.ws_connect(url, autoping=False, max_msg_size=0, autoclose=False)
                self.sockets[number] = _Socket(number, socket)
                group.create_task(self.sockets[number].listen())
            if line["dir"] == "c2s":
                await self._send(line)
            elif _is_timer(line):
                if idles and await self.sockets[number].match(line) is not None:
                    out.append(line | {"timer": True})
            else:
                out.append(await self._expect(line))
        for opened in self.sockets.values():
            out += [normalise(row, self.methods, self.devices) for row in opened.left()]
        return out

    async def _expect(self, line: Row) -> Row:
        opened = self.sockets[line["conn"]]
        if "close" in line and line["close"]["code"] == 1005:
            # The client went by itself.
            await opened.socket.close(code=1000)
            return {"conn": line["conn"], "close": {"code": 1005, "reason": ""}}
        found = await opened.match(line)
        if found is None:
            return {"conn": line["conn"], "missing": normalise(line, self.methods, self.devices)}
        if "frame" in line:
            self._learn(line["conn"], line["frame"].get("payload"), found["frame"].get("payload"))
            self._learn(line["conn"], line["frame"].get("error"), found["frame"].get("error"))
        return normalise(found, self.methods, self.devices)

    def _learn(self, number: int, theirs: Any, ours: Any) -> None:
        """Remember which of our values stands for one of the recording."""
        if not (isinstance(theirs, dict) and isinstance(ours, dict)):
            return
        for name, value in theirs.items():
            is_invoke = name == "id" and "paramsJSON" in theirs
            if (name in _EXCHANGED or is_invoke) and isinstance(ours.get(name), str):
                self.exchanged[value] = ours[name]
            elif name == "ts" and "nonce" in theirs:
                self.times[number] = (value, ours[name])
            else:
                self._learn(number, value, ours.get(name))

    async def _send(self, line: Row) -> None:
        socket = self.sockets[line["conn"]].socket
        if "close" in line:
            return
        if "oversized_bytes" in line:
            head, tail = '{"type":"req","id":"big","method":"health","params":{"x":"', '"}}'
            fill = line["oversized_bytes"] - len(head) - len(tail)
            try:
                await socket.send_str(head + "x" * fill + tail)
            except ConnectionError:
                return
        elif "raw" in line:
            await socket.send_str(line["raw"])
        else:
            frame = line["frame"]
            if frame.get("method") == "connect" and (frame.get("params") or {}).get("device"):
                frame = self._sign(line["conn"], frame)
            await socket.send_str(self._exchange(json.dumps(frame)))

    def _exchange(self, text: str) -> str:
        for theirs, ours in self.exchanged.items():
            text = text.replace(theirs, ours)
        return text

    def _sign(self, number: int, frame: Row) -> Row:
        """Return a connect frame whose device block fits this run, or is wrong in the way it was wrong before."""
        device = frame["params"]["device"]
        recorded = self.signed.get(number) or _statement(frame["params"])
        before, now = self.times[number]
        signed_at = device["signedAt"] + now - before
        key_id = recorded.split("|")[1]
        key = self.keys.find(key_id)
        changed = {**device, "signedAt": signed_at}
        if key.id != key_id:
            # The recorded client kept its key to itself; one of ours takes its place.
            self.exchanged[key_id] = key.id
            changed["publicKey"] = key.public
        text = self._exchange(recorded).replace(str(device["signedAt"]), str(signed_at))
        was_right = self.keys.was_right(key_id, recorded, device["signature"])
        changed["signature"] = key.sign(text if was_right else f"{text} but not this")
        return {**frame, "params": {**frame["params"], "device": changed}}


def _statement(params: Row) -> str:
    """Return what a client signed that did not write it down."""
    client, auth, device = params["client"], params.get("auth") or {}, params["device"]
    token = auth.get("token") or auth.get("deviceToken") or auth.get("bootstrapToken") or ""
    scopes = ",".join(params.get("scopes") or [])
    head = ["v3", device["id"], client["id"], client["mode"], params.get("role", "operator"), scopes]
    about = [client["platform"].lower(), client.get("deviceFamily", "").lower()]
    return "|".join([*head, str(device["signedAt"]), token, device["nonce"], *about])


class _Key:
    def __init__(self, seed: bytes) -> None:
        self._key = eddsa.import_private_key(seed)
        raw = self._key.public_key().export_key(format="raw")
        self.public = base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
        self.id = hashlib.sha256(raw).hexdigest()

    def sign(self, text: str) -> str:
        """Return the signature of a text in base64url."""
        signature = eddsa.new(self._key, "rfc8032").sign(text.encode())
        return base64.urlsafe_b64encode(signature).rstrip(b"=").decode()


class _Keys:
    """Keys of the recordings: a repeated byte, or one of ours where the recorded client kept its own."""

    def __init__(self) -> None:
        self._known: dict[str, _Key] = {}
        for seed in range(256):
            key = _Key(bytes([seed]) * 32)
            self._known[key.id] = key

    def find(self, device: str) -> _Key:
        """Return the key that stands for a device of the recording."""
        if device not in self._known:
            self._known[device] = _Key(hashlib.sha256(device.encode()).digest())
        return self._known[device]

    def was_right(self, device: str, text: str, signature: str) -> bool:
        """Return whether the recorded signature was valid; one of an unknown key is taken to be."""
        key = self.find(device)
        return key.id != device or key.sign(text) == signature
