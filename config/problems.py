"""What is wrong with a configuration, each thing at its place in a file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tidegate.errors import ConfigError


class ProblemKind(StrEnum):
    """What sort of problem it is, for those who count or filter; the message says the rest."""

    SYNTAX = "syntax"
    INCLUDE = "include"
    UNKNOWN_KEY = "unknown-key"
    UNSUPPORTED = "unsupported"
    INVALID = "invalid"
    MISSING_VALUE = "missing-value"
    ROSTER = "roster"
    BINDING = "binding"
    SAFETY = "safety"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing an operator should look at.

    `line` and `column` count from 1. `path` is the dotted path of the key, `""` for the file as a whole;
    `hint` is the shortest repair we know, or `""`.
    """

    file: Path
    line: int
    column: int
    path: str
    message: str
    hint: str = ""
    kind: ProblemKind = ProblemKind.INVALID

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}:{self.column}: "
        what = f"{self.path}: {self.message}" if self.path else self.message
        return f"{where}{what} ({self.hint})" if self.hint else f"{where}{what}"


class InvalidConfig(ConfigError):
    """The configuration was refused.

    Attributes:
        problems: Everything found wrong, in file order, never empty.
        warnings: What would have been told as well if the configuration had been accepted.
        files: The files read until then, so that a watcher knows where a repair may happen.
    """

    def __init__(
        self,
        problems: Iterable[Problem],
        warnings: Iterable[Problem] = (),
        files: Iterable[Path] = (),
    ) -> None:
        self.problems = tuple(problems)
        self.warnings = tuple(warnings)
        self.files = tuple(files)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class WriteRefused(ConfigError):
    """A change of the configuration file was not made; the file is as it was."""
