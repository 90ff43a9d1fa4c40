"""Our client and TLS: a certificate that nobody vouches for is refused before anything secret is said."""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from fakes.event_loop import on_loop
from tidegate.gateway.client.address import read_address
from tidegate.gateway.client.dial import Door, Kind, Secret, connected
from tidegate.gateway.client.errors import TlsFailed
from tidegate.gateway.client.identity import Identity

READ = Kind(("operator.read",))
pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="certificates are made with openssl")


def certificate(folder: Path, name: str) -> Path:
    """Make a certificate that vouches for itself; key and certificate are one file."""
    file = folder / f"{name}.pem"
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    places = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    subject = ["-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}"]
    subprocess.run([*made, *places, *subject], check=True, capture_output=True)
    file.write_text((folder / "key.pem").read_text() + (folder / "cert.pem").read_text())
    return file


@asynccontextmanager
async def gateway_behind_tls(file: Path, heard: list[str]) -> AsyncIterator[int]:
    """A gateway that greets everybody and keeps what it heard."""

    async def answer(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_json({"type": "event", "event": "connect.challenge", "payload": {"nonce": "n", "ts": 1}})
        asked = (await socket.receive()).data
        heard.append(asked)
        hello = {"type": "hello-ok", "protocol": 4, "auth": {"scopes": ["operator.read"], "deviceToken": "t"}}
        await socket.send_json({"type": "res", "id": json.loads(asked)["id"], "ok": True, "payload": hello})
        await socket.receive()
        return socket

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    app = web.Application()
    app.router.add_get("/", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@on_loop
async def test_a_certificate_of_nobody_or_of_another_name_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[str] = []
    for name, trusted in (("localhost", False), ("other.example", True)):
        file = certificate(tmp_path, name)
        if trusted:
            monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
        async with gateway_behind_tls(file, heard) as port:
            door = Door(read_address(f"wss://localhost:{port}"), identity=Identity(tmp_path), secret=Secret("s"))
            with pytest.raises(TlsFailed, match="the certificate of localhost was not accepted"):
                async with connected(door, READ):
                    pass
    assert heard == []


@on_loop
async def test_an_authority_of_ones_own_is_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[str] = []
    file = certificate(tmp_path, "localhost")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    async with gateway_behind_tls(file, heard) as port:
        door = Door(read_address(f"wss://localhost:{port}"), identity=Identity(tmp_path), secret=Secret("s"))
        async with connected(door, READ) as line:
            assert line.scopes == ("operator.read",)
    assert len(heard) == 1


@on_loop
async def test_a_plain_port_is_told_from_a_wrong_certificate(tmp_path: Path) -> None:
    app = web.Application()
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        door = Door(read_address(f"wss://localhost:{runner.addresses[0][1]}"), identity=Identity(tmp_path))
        with pytest.raises(TlsFailed, match="perhaps this port speaks plain ws://"):
            async with connected(door, READ):
                pass
    finally:
        await runner.cleanup()
