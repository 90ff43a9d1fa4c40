"""Secrets that live outside the configuration file, fetched when they are needed and not before."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import stat
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from tidegate.config.environment import unresolved_names
from tidegate.config.sections.base import SecretRef
from tidegate.config.sections.system import SecretProvider, SecretsSection
from tidegate.errors import ConfigError

PROTOCOL_VERSION = 1


class SecretUnavailable(ConfigError):
    """A secret cannot be had now; what needs it cannot start. The message never holds the secret."""


class SecretResolver:
    """Fetches secrets from the environment, files and commands."""

    def __init__(self, secrets: SecretsSection, environment: Mapping[str, str], base_dir: Path) -> None:
        """`base_dir` is the folder that relative paths of file providers start from."""
        self._secrets = secrets
        self._environment = environment
        self._base_dir = base_dir

    def resolve_secret(self, value: str | SecretRef) -> str:
        """The secret itself. May read a file or run a command, so it can take seconds: call it in a thread.

        Raises:
            SecretUnavailable: It cannot be had; the message says why and what to do.
        """
        if isinstance(value, str):
            missing = unresolved_names(value)
            if missing:
                raise SecretUnavailable(f"the variable {missing[0]} is not set")
            return value
        provider = self._provider(value)
        if value.source == "env":
            return self._from_environment(value, provider)
        if provider is None:
            raise SecretUnavailable(f"there is no secrets.providers.{value.provider} for source '{value.source}'")
        if value.source == "file":
            return self._from_file(value, provider)
        if value.source == "exec":
            return self._from_command(value, provider)
        raise SecretUnavailable("the secret store is not available in this version")

    def _provider(self, ref: SecretRef) -> SecretProvider | None:
        alias = ref.provider
        if alias == "default" and alias not in self._secrets.providers:
            alias = getattr(self._secrets.defaults, ref.source) or alias
        provider = self._secrets.providers.get(alias)
        if provider is None and alias != "default":
            raise SecretUnavailable(f"there is no secrets.providers.{alias}")
        if provider is not None and provider.source != ref.source:
            raise SecretUnavailable(f"secrets.providers.{alias} is of source '{provider.source}', not '{ref.source}'")
        return provider

    def _from_environment(self, ref: SecretRef, provider: SecretProvider | None) -> str:
        if provider is not None and provider.allowlist is not None and ref.id not in provider.allowlist:
            raise SecretUnavailable(f"the variable {ref.id} is not in the allowlist of its provider")
        value = self._environment.get(ref.id, "")
        if not value:
            raise SecretUnavailable(f"the variable {ref.id} is not set")
        return value

    def _from_file(self, ref: SecretRef, provider: SecretProvider) -> str:
        if provider.path is None:
            raise SecretUnavailable(f"secrets.providers.{ref.provider} has no path")
        path = self._place(provider.path)
        text = read_private_file(path, provider.max_bytes)
        if provider.mode == "singleValue":
            if ref.id != "value":
                raise SecretUnavailable("a file with a single value is addressed by the id 'value'")
            return _nonempty(text.strip(), str(path))
        try:
            value = _pointer(json.loads(text), ref.id)
        except (ValueError, RecursionError, LookupError) as error:
            raise SecretUnavailable(f"{path} holds no secret at {ref.id!r}") from error
        if not isinstance(value, str):
            raise SecretUnavailable(f"what {path} holds at {ref.id!r} is not text")
        return _nonempty(value, str(path))

    def _from_command(self, ref: SecretRef, provider: SecretProvider) -> str:
        command = self._command(provider)
        request = {"protocolVersion": PROTOCOL_VERSION, "provider": ref.provider, "ids": [ref.id]}
        seen = {name: self._environment[name] for name in provider.pass_env if name in self._environment}
        output = _run([str(command), *provider.args], seen, json.dumps(request), provider)
        try:
            answer = json.loads(output)
            value = answer["values"][ref.id]
        except (ValueError, RecursionError, LookupError, TypeError) as error:
            raise SecretUnavailable(f"{command} gave no secret for {ref.id!r}") from error
        if not isinstance(value, str):
            raise SecretUnavailable(f"what {command} gave for {ref.id!r} is not text")
        return _nonempty(value, str(command))

    def _command(self, provider: SecretProvider) -> Path:
        command = Path(provider.command or "")
        if not command.is_absolute():
            raise SecretUnavailable("the command of an exec provider must be an absolute path")
        real = command.resolve()
        trusted = [self._place(folder).resolve() for folder in provider.trusted_dirs]
        if trusted and not any(real.is_relative_to(folder) for folder in trusted):
            raise SecretUnavailable(f"{command} does not lie in one of the provider's trustedDirs")
        try:
            mode = real.stat()
        except OSError as error:
            raise SecretUnavailable(f"{command} cannot be run: {error.strerror}") from error
        if mode.st_mode & (stat.S_IWGRP | stat.S_IWOTH) or mode.st_uid not in (0, os.geteuid()):
            raise SecretUnavailable(f"{command} can be changed by other users; fix its owner and mode")
        return command

    def _place(self, spelled: str) -> Path:
        if spelled.startswith("~/"):
            home = self._environment.get("HOME")
            return (Path(home) if home else Path.home()) / spelled[2:]
        return self._base_dir / spelled


def read_private_file(path: Path, max_bytes: int) -> str:
    """A file that only its owner can read, without following a symbolic link.

    Raises:
        SecretUnavailable: It is missing, open to others, no regular file, or too large.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise SecretUnavailable(f"{path} cannot be read: {error.strerror}") from error
    with os.fdopen(descriptor, "rb") as file:
        info = os.fstat(file.fileno())
        if not stat.S_ISREG(info.st_mode):
            raise SecretUnavailable(f"{path} is not a regular file")
        if info.st_uid not in (0, os.geteuid()) or info.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise SecretUnavailable(f"{path} can be read by other users; run: chmod 600 {path}")
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise SecretUnavailable(f"{path} is larger than {max_bytes} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SecretUnavailable(f"{path} is not UTF-8") from error


def _run(command: list[str], environment: Mapping[str, str], request: str, provider: SecretProvider) -> bytes:
    """Run a provider's program under its deadline and take no more output than allowed."""
    deadline = time.monotonic() + provider.timeout_ms / 1000
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=dict(environment),
            start_new_session=True,
        )
    except OSError as error:
        raise SecretUnavailable(f"{command[0]} cannot be run: {error.strerror}") from error
    with process:
        try:
            output = _exchange(process, request.encode(), deadline, provider.max_bytes)
            if len(output) > provider.max_bytes:
                raise SecretUnavailable(f"{command[0]} gave more than {provider.max_bytes} bytes")
            code = process.wait(timeout=max(0.0, deadline - time.monotonic()))
        except (TimeoutError, subprocess.TimeoutExpired) as error:
            raise SecretUnavailable(f"{command[0]} gave no answer within {provider.timeout_ms} ms") from error
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    if code != 0:
        raise SecretUnavailable(f"{command[0]} failed with exit code {code}")
    return output


def _exchange(process: subprocess.Popen[bytes], request: bytes, deadline: float, max_bytes: int) -> bytes:
    """Hand over the request, which is far smaller than a pipe's buffer, and read the answer up to the limit.

    Raises:
        TimeoutError: The deadline passed.
    """
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(request)
        process.stdin.close()
    output = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while len(output) <= max_bytes:
            if not selector.select(max(0.0, deadline - time.monotonic())):
                raise TimeoutError
            chunk = os.read(process.stdout.fileno(), 65_536)
            if not chunk:
                return output
            output += chunk
    return output


def _pointer(document: object, pointer: str) -> object:
    """Follow a JSON pointer (RFC 6901)."""
    if not pointer.startswith("/"):
        raise LookupError(pointer)
    value = document
    for token in pointer[1:].split("/"):
        token = token.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = value[token]
        elif isinstance(value, list) and token.isascii() and token.isdecimal():
            value = value[int(token)]
        else:
            raise LookupError(pointer)
    return value


def _nonempty(value: str, where: str) -> str:
    if not value:
        raise SecretUnavailable(f"the secret from {where} is empty")
    return value
