"""Commands against a gateway elsewhere (`--url`), and those here that need a connection rather than one answer."""

from __future__ import annotations

import asyncio
import getpass
import os
import stat
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from tidegate.gateway.cli.call import Call, warn
from tidegate.gateway.cli.terminal import printable
from tidegate.gateway.client.address import read_address
from tidegate.gateway.client.again import PAIRING_SECONDS, Patience
from tidegate.gateway.client.connection import Connection
from tidegate.gateway.client.dial import Door, Kind, Secret, connected
from tidegate.gateway.client.errors import BadAddress, Denied, Forbidden, NotPaired, Unreachable, WrongSecret
from tidegate.gateway.client.identity import Identity, StoredToken
from tidegate.gateway.client.refusals import approval
from tidegate.gateway.client.shape import fields, items

T = TypeVar("T")
Work = Callable[[Connection], Awaitable[T]]

URL_VARIABLE = "TIDEGATE_GATEWAY_URL"
TOKEN_VARIABLE, PASSWORD_VARIABLE = "TIDEGATE_GATEWAY_TOKEN", "TIDEGATE_GATEWAY_PASSWORD"
USUAL = ("operator.read", "operator.write")
"""What a new device asks for, besides what its first command needs."""
_NEEDS = (
    ("tidegate.pairing.", "operator.pairing"),
    ("device.", "operator.pairing"),
    ("config.set", "operator.admin"),
)
_HELPS = (("device.", "operator.admin"),)
"""With it a device manages others, and not only itself."""
PAIRING_LIFE, UPGRADE_SECONDS = 300.0, 320.0
"""A request waits five minutes for a person."""
MAX_SECRET = 4096


def door_of(call: Call) -> Door:
    """Return where a command goes: the address that was given, else the private socket.

    Raises:
        BadAddress: The address may not be used.
        ClientError: A file with a secret cannot be used.
    """
    if not call.url:
        return Door(socket=call.site.socket)
    address = read_address(call.url, insecure=call.arguments.insecure)
    return Door(address, identity=Identity(call.site.state_dir), secret=_secret(call))


def _secret(call: Call) -> Secret:
    arguments, environ = call.arguments, call.environ
    token = _from_file(arguments.token_file) if arguments.token_file else ""
    password = _from_file(arguments.password_file) if arguments.password_file else ""
    if token or password:
        return Secret(token, password)
    told = environ.get(URL_VARIABLE, "").strip()
    if told and told != call.url:
        # The secrets of the environment are those of the gateway that the environment names.
        return Secret()
    return Secret(environ.get(TOKEN_VARIABLE, "").strip(), environ.get(PASSWORD_VARIABLE, "").strip())


def _from_file(name: str) -> str:
    path = Path(name).expanduser()
    with path.open("rb") as file:
        if stat.S_ISREG(mode := os.fstat(file.fileno()).st_mode) and mode & 0o077:
            warn(f"{path} can be read by others; `chmod 600` it")
        secret = file.read(MAX_SECRET).decode("utf-8", "replace").strip()
    if not secret or not secret.isprintable():
        raise BadAddress(f"{path} holds no secret")
    return secret


def needs(method: str) -> tuple[str, ...]:
    """Return the scopes that a command asks for to call a method."""
    return (*USUAL, *(scope for prefix, scope in _NEEDS if method.startswith(prefix)))


def helps(method: str) -> tuple[str, ...]:
    """Return the scopes with which a method does more, where this device holds them."""
    return tuple(scope for prefix, scope in _HELPS if method.startswith(prefix))


def ask_there(call: Call, method: str, params: Mapping[str, Any]) -> Any:
    """Call one method of the gateway elsewhere. Raises ClientError."""

    async def work(line: Connection) -> Any:
        return await line.call(method, dict(params))

    answer = run(call, Kind(needs(method), helps(method)), work)
    return answer if call.arguments.json else harmless(answer)


def harmless(value: Any) -> Any:
    """Return data of somebody else's gateway whose text can do nothing to a terminal."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {printable(str(name)): harmless(item) for name, item in value.items()}
    return [harmless(item) for item in value] if isinstance(value, list) else value


def run(call: Call, kind: Kind, work: Work[T]) -> T:
    """Connect, do some work, and leave. Raises ClientError."""
    entry = Entry(call, kind)
    return let_in(entry, lambda: once(entry, work))


def let_in(entry: Entry, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Like `with_secret`, and where a person has to approve this device, wait for them. Raises ClientError."""
    while True:
        try:
            return with_secret(entry, work)
        except NotPaired as error:
            entry.check_waits(error)
            time.sleep(PAIRING_SECONDS)


def with_secret(entry: Entry, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run some work on a loop; where a secret is missing, ask for it and run it again. Raises ClientError.

    The question is asked outside the loop, so that Ctrl-C ends it as everywhere.
    """
    while True:
        try:
            return asyncio.run(work())
        except WrongSecret as error:
            if not entry.ask_secret(error):
                raise


def stay(call: Call, kind: Kind, work: Work[T], seconds: float | None = None) -> T:
    """Like `run`, but work that a break cut off is begun again until it ends.

    Args:
        seconds: Time for all of it, from when the work was first begun; waiting for a person does not count.

    Raises:
        ClientError: It cannot be done.
        TimeoutError: The time is over.
    """

    entry = Entry(call, kind)

    async def again() -> T:
        async with asyncio.timeout(None) as limit:
            return await attempts(limit)

    async def attempts(limit: asyncio.Timeout) -> T:
        patience, was_in, was_told = Patience(), False, False

        async def counted(line: Connection) -> T:
            nonlocal was_in, was_told
            if seconds is not None and not was_in:
                limit.reschedule(asyncio.get_running_loop().time() + seconds)
            was_in, was_told = True, False
            patience.reset()
            return await work(line)

        while True:
            try:
                return await once(entry, counted)
            except Unreachable as error:
                pause = patience.seconds(error) if was_in else None
                if pause is None:
                    raise
                if not was_told:
                    warn(f"{error}; trying again")
                was_told = True
                await asyncio.sleep(pause)

    return let_in(entry, again)


class Entry:
    """How one command comes in: what it was told, and what it was asked for on the way.

    Attributes:
        kind: What it is to the gateway.
    """

    def __init__(self, call: Call, kind: Kind) -> None:
        self.door = door_of(call)
        self.kind = kind
        self._was_asked = False
        self._was_widened = False
        self._waits_for = ""
        self._waits_until = 0.0

    def ask_secret(self, error: WrongSecret) -> bool:
        """Ask the person for the secret that is missing; False when there is nobody, or they were asked before."""
        what = {"AUTH_TOKEN_MISSING": "token", "AUTH_PASSWORD_MISSING": "password"}.get(error.code)
        if self._was_asked or not (sys.stdin.isatty() and sys.stderr.isatty()):
            return False
        if error.is_device_token and self.door.shows_token:
            # Without it the gateway says which secret it wants instead.
            self.door = replace(self.door, shows_token=False)
            return True
        if what is None:
            return False
        self._was_asked = True
        typed = getpass.getpass(f"The {what} of {self.door.name}: ").strip()
        self.door = replace(self.door, secret=Secret(**{what: typed}))
        return bool(typed)

    def check_waits(self, error: NotPaired) -> None:
        """Say once what is waited for. Raises Denied where nobody sees that, or the time is up."""
        if not sys.stderr.isatty():
            secret = "password" if self.door.secret.password else "token"
            raise Denied(
                f"{error.what}. {error.where(error.command)} within five minutes, then run this again, "
                f"with the {secret} once more",
                error.code,
            ) from error
        now = time.monotonic()
        if not self._waits_for:
            self._waits_until = now + PAIRING_LIFE
        elif now > self._waits_until:
            raise Denied("nobody approved this device within five minutes; run this again to ask once more")
        if error.request != self._waits_for:
            self._waits_for = error.request
            _tell_wait(error.what, error.command)

    async def widen(self, line: Connection, error: Forbidden) -> bool:
        """Ask for a right that this device lacks and wait for the answer; False when that is no way.

        Raises:
            Denied: A person said no, or nobody said anything.
        """
        auth, door = fields(line.hello.get("auth")), self.door
        is_device = auth.get("method") == "device-token" and door.address is not None and door.identity is not None
        if self._was_widened or not is_device or not error.scope:
            return False
        if not sys.stderr.isatty():
            # Nobody would see whom to ask, and the token that an approval makes has to be waited for.
            raise Denied(f"{error}; run this once in a terminal to ask for it, or show the gateway's token") from error
        self._was_widened = True
        asked = fields(await line.call("device.scopes.requestUpgrade", {"scopes": [error.scope]}))
        request = str(asked.get("requestId", ""))
        _tell_wait(f"this needs {error.scope}", approval(request))
        answer = fields(await line.call("device.scopes.waitUpgrade", {"requestId": request}, seconds=UPGRADE_SECONDS))
        if answer.get("status") != "approved":
            why = {"rejected": "was turned down", "expired": "was not answered in time"}
            raise Denied(f"{error.scope} was not given: the request {why.get(str(answer.get('status')), 'is gone')}")
        assert door.address is not None
        assert door.identity is not None
        # The token changed with its rights; the old one is worth nothing now.
        scopes = tuple(map(str, items(answer.get("scopes"))))
        door.identity.keep(door.address.url, StoredToken(str(answer.get("deviceToken", "")), scopes))
        self.kind = replace(self.kind, scopes=tuple(dict.fromkeys((*self.kind.scopes, error.scope))))
        return True


def _tell_wait(what: str, command: str) -> None:
    warn(f"{what}; waiting five minutes for `{command}` on the gateway's machine (Ctrl-C gives up)")


async def once(entry: Entry, work: Work[T]) -> T:
    """Connect and do some work; a right that is missing is asked for once. Raises ClientError."""
    while True:
        async with connected(entry.door, entry.kind) as line:
            try:
                return await work(line)
            except Forbidden as error:
                if not await entry.widen(line, error):
                    raise
