"""Log lines: readable on a terminal, JSON otherwise; message text and secrets never."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterable, MutableMapping
from pathlib import Path
from typing import Any, TextIO

import structlog

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


def configure_logging(level: str, style: str, redactor: Redactor, file: Path | None = None) -> TextIO:
    """Set up structlog and the standard library's logging; returns the stream that lines go to.

    Args:
        level: One of `LEVELS`.
        style: pretty, json, or auto (pretty on a terminal).
        file: Where lines go instead of standard error; opened for appending with mode 0600.
    """
    stream: TextIO = sys.stderr
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        stream = file.open("a", encoding="utf-8", buffering=1)
        file.chmod(0o600)
    pretty = style == "pretty" or (style == "auto" and stream.isatty())
    number = LEVELS.get(level, 20)
    shared: list[Any] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=not pretty),
        structlog.processors.format_exc_info,
        redactor,
    ]
    last: Any = (
        structlog.dev.ConsoleRenderer(colors=stream.isatty(), pad_event_to=24)
        if pretty
        else structlog.processors.JSONRenderer(ensure_ascii=False)
    )
    structlog.configure(
        processors=[*shared, last],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(file=stream),
        cache_logger_on_first_use=True,
    )
    # Libraries are quiet unless something is wrong; their lines pass the redactor too.
    handler = _Bridge()
    logging.basicConfig(handlers=[handler], level=max(logging.WARNING, number), force=True)
    return stream


class _Bridge(logging.Handler):
    """Hands lines of the standard library's logging to structlog."""

    def emit(self, record: logging.LogRecord) -> None:
        logger = structlog.get_logger(record.name)
        logger.log(record.levelno, "library.message", text=record.getMessage()[:MAX_VALUE])
