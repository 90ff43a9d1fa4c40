"""Asks the gateway elsewhere, the one here through its socket, or does the work here when none runs."""

from __future__ import annotations

import http.client
import importlib
import json
import socket
import time
from collections.abc import Mapping
from typing import Any

from tidegate.errors import TidegateError
from tidegate.gateway.cli.call import Call
from tidegate.gateway.client.errors import Refused, Unreachable
from tidegate.gateway.lock import AlreadyRunning
from tidegate.gateway.site import Site

DEADLINE_SECONDS = 30.0
START_SECONDS = 5.0
"""How long a gateway that holds the state directory may take until it answers."""
MAX_ANSWER = 64 << 20


def ask(call: Call, method: str, **arguments: Any) -> Any:
    """Call a method of the control plane: of the gateway elsewhere, the one here, or the store when none runs here.

    Raises:
        ClientError: The gateway elsewhere cannot be used, or said no.
        Unreachable: A gateway holds the state directory and does not answer.
        Refused: The arguments do not fit.
    """
    if call.url:
        return importlib.import_module("tidegate.gateway.cli.remote").ask_there(call, method, arguments)
    until = time.monotonic() + START_SECONDS
    while True:
        try:
            return ask_running(call.site, method, arguments)
        except (FileNotFoundError, ConnectionRefusedError):
            pass
        except OSError as error:
            raise Unreachable(f"the gateway does not answer on {call.site.socket}: {error}") from error
        try:
            return importlib.import_module("tidegate.gateway.offline").ask_store(
                call.site, call.environ, method, arguments
            )
        except AlreadyRunning as error:
            if time.monotonic() > until:
                raise Unreachable(f"a gateway (pid {error.pid}) runs and does not answer; see its log") from error
            time.sleep(0.1)
        except ValueError as error:
            raise Refused(str(error)) from error


def ask_running(site: Site, method: str, arguments: Mapping[str, Any]) -> Any:
    """Call a method of a running gateway.

    Raises:
        OSError: It cannot be reached; FileNotFoundError or ConnectionRefusedError when none runs.
        Refused: It said no.
    """
    connection = _Connection(site)
    try:
        body = json.dumps(dict(arguments))
        connection.request("POST", f"/rpc/{method}", body, {"Content-Type": "application/json"})
        answer = json.loads(connection.getresponse().read(MAX_ANSWER))
    except (http.client.HTTPException, ValueError) as error:
        raise ConnectionError(f"it sent something unreadable ({type(error).__name__})") from error
    finally:
        connection.close()
    if not answer.get("ok"):
        raise Refused(str(answer.get("error", "the gateway refused without a reason")))
    return answer["result"]


def running_pid(site: Site) -> int | None:
    """Return the process id of the gateway that answers here, or None. Quick: it asks the socket only."""
    try:
        return int(ask_running(site, "tidegate.status", {}).get("pid", 0))
    except (OSError, TidegateError):
        return None


class _Connection(http.client.HTTPConnection):
    def __init__(self, site: Site) -> None:
        super().__init__("localhost", timeout=DEADLINE_SECONDS)
        self._path = str(site.socket)

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(DEADLINE_SECONDS)
        self.sock.connect(self._path)
