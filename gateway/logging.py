"""Log lines: readable on a terminal, JSON otherwise; message text and secrets never."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Callable, Iterable, MutableMapping
from pathlib import Path
from typing import Any

import structlog

from tidegate.gateway.site import Site

LEVELS = {"silent": 100, "fatal": 50, "error": 40, "warn": 30, "warning": 30, "info": 20, "debug": 10, "trace": 10}
MAX_VALUE = 500
"""Characters of one logged value; more is cut."""

_SECRETS = re.compile(
    r"\b\d{6,}:[A-Za-z0-9_-]{20,}"  # Telegram bot tokens
    r"|\b(?:sk|xox[abpr]|ghp|gsk|xai)-[A-Za-z0-9_-]{8,}"
    r"|(?i:bearer)\s+[A-Za-z0-9._~+/=-]{8,}"
)


class Redactor:
    """Takes secrets out of every value that is logged."""

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        self._patterns = [_SECRETS]
        for pattern in patterns:
            try:
                self._patterns.append(re.compile(pattern))
            except re.error:
                continue
        self._literals: frozenset[str] = frozenset()

    def hide(self, secrets: Iterable[str]) -> None:
        """Also take out these exact texts; short ones are left alone, they would hit innocent words."""
        self._literals |= {secret for secret in secrets if len(secret) >= 8}

    def clean(self, text: str) -> str:
        """Return `text` without secrets, cut to a sane length."""
        for literal in self._literals:
            if literal in text:
                text = text.replace(literal, "[hidden]")
        for pattern in self._patterns:
            text = pattern.sub("[hidden]", text)
        return text if len(text) <= MAX_VALUE else text[:MAX_VALUE] + "…"

    def __call__(self, _logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        """Clean the values of one log event (a structlog processor)."""
        for key, value in event.items():
            if isinstance(value, str) and key != "exception":
                event[key] = self.clean(value)
            elif key == "exception" and isinstance(value, str):
                event[key] = self._clean_trace(value)
        return event

    def _clean_trace(self, text: str) -> str:
        for literal in self._literals:
            text = text.replace(literal, "[hidden]")
        for pattern in self._patterns:
            text = pattern.sub("[hidden]", text)
        return text[-4000:]


def configure_logging(
    level: str, style: str, redactor: Redactor, file: RotatingFile | None = None, *, console: str | None = "info"
) -> None:
    """Set up structlog and the standard library's logging.

    Args:
        level: One of `LEVELS`, for the file.
        style: Form of the lines on standard error: pretty, json, or auto (pretty on a terminal).
        file: Takes every line as one JSON object.
        console: Level of standard error; None keeps it silent.
    """
    pretty = style == "pretty" or (style == "auto" and sys.stderr.isatty())
    of_file = LEVELS.get(level, 20) if file is not None else 100
    of_console = LEVELS.get(console, 20) if console is not None else 100
    json_line = structlog.processors.JSONRenderer(ensure_ascii=False)
    processors: list[Any] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        redactor,
    ]
    if file is not None:
        processors.append(_ToFile(file, json_line, of_file))
    processors.append(_ForConsole(of_console))
    if pretty:
        processors.append(structlog.processors.TimeStamper(fmt="%Y-%m-%d %H:%M:%S", utc=False))
    processors.append(
        structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_event_to=24) if pretty else json_line
    )
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(min(of_file, of_console)),
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )
    # Libraries are quiet unless something is wrong; their lines pass the redactor too.
    logging.basicConfig(handlers=[_Bridge()], level=max(logging.WARNING, min(of_file, of_console)), force=True)


class RotatingFile:
    """A log file of bounded size: when it is full it becomes `<name>.1` and a new one begins.

    A line is one `write` to the system. What cannot be written (a full disk) is dropped: the gateway goes on.
    """

    def __init__(self, path: Path, max_bytes: int) -> None:
        """Open the file for appending, mode 0600. Raises OSError."""
        self.path = path
        self._max_bytes = max_bytes
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._file = self._open()

    def write(self, line: str) -> None:
        """Append one line."""
        data = line.encode("utf-8", "replace") + b"\n"
        try:
            if self._size + len(data) > self._max_bytes and self._size:
                self._rotate()
            self._size += os.write(self._file, data)
        except OSError:
            return

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _open(self) -> int:
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.fchmod(file, 0o600)
        self._size = os.fstat(file).st_size
        return file

    def _rotate(self) -> None:
        os.replace(self.path, self.path.with_name(f"{self.path.name}.1"))
        full, self._file = self._file, self._open()
        os.close(full)


def log_path(file: str | None, site: Site) -> Path:
    """Return where log lines are kept: `logging.file`, relative to the state directory, or the usual place in it."""
    return site.state_dir / Path(file).expanduser() if file else site.log_file


class _ToFile:
    """Writes events to the file and hands them on."""

    def __init__(self, file: RotatingFile, render: Callable[..., str | bytes], level: int) -> None:
        self._file = file
        self._render = render
        self._level = level

    def __call__(self, logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        if LEVELS.get(method, 50) >= self._level:
            self._file.write(str(self._render(logger, method, dict(event))))
        return event


class _ForConsole:
    """Ends the way of events that the console does not want."""

    def __init__(self, level: int) -> None:
        self._level = level

    def __call__(self, logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        if LEVELS.get(method, 50) < self._level:
            raise structlog.DropEvent
        return event


class _Bridge(logging.Handler):
    """Hands lines of the standard library's logging to structlog."""

    def emit(self, record: logging.LogRecord) -> None:
        logger = structlog.get_logger(record.name)
        logger.log(record.levelno, "library.message", text=record.getMessage()[:MAX_VALUE])
