"""`env`, `secrets` and `logging`."""

from typing import Annotated, Literal

from pydantic import Field

from tidegate.config.sections.base import Lazy, Names, Positive, Section, absent

LogLevel = Literal["silent", "fatal", "error", "warn", "info", "debug", "trace"]


class EnvSection(Section):
    """Variables for `${NAME}`, weaker than the process environment and the state directory's `.env`."""

    vars: dict[str, str] = Field(default_factory=dict, repr=False)
    """Name → value."""


class SecretProvider(Section):
    """A place that secrets are fetched from."""

    source: Literal["env", "file", "exec", "store"]
    """Kind of place; `store` is not available in this version."""
    allowlist: Names | None = None
    """`env`: variables that may be read; unset: any."""
    path: str | None = Field(default=None, min_length=1)
    """`file`: its path, relative to the configuration file."""
    mode: Literal["json", "singleValue"] = "json"
    """`file`: a JSON object addressed by pointers, or one secret that is the whole file."""
    command: str | None = Field(default=None, min_length=1)
    """`exec`: absolute path of the program; no shell is involved."""
    args: Names = ()
    """`exec`: its arguments."""
    pass_env: Names = ()
    """`exec`: variables it may see; it sees no others."""
    trusted_dirs: Names = ()
    """`exec`: folders the program must lie in; empty: any."""
    timeout_ms: Annotated[Positive, Field(le=120_000)] = 5000
    """Milliseconds until the attempt counts as failed."""
    max_bytes: Annotated[Positive, Field(le=20_971_520)] = 1_048_576
    """Bytes a file or an output may have."""


class SecretDefaults(Section):
    """Which provider `default` means, for each kind."""

    env: str | None = None
    """For environment variables; unset: the layered environment itself."""
    file: str | None = None
    """For files."""
    exec: str | None = None
    """For commands."""
    store: str | None = None
    """For the secret store."""


class SecretsSection(Section):
    """Places that secrets are fetched from."""

    providers: dict[str, Lazy[SecretProvider]] = Field(default_factory=dict)
    """Places by name."""
    defaults: Lazy[SecretDefaults] = absent(SecretDefaults)
    """Which provider `default` means."""


class LoggingSection(Section):
    """What is logged and where."""

    level: LogLevel = "info"
    """Least severe level that is kept."""
    console_level: LogLevel | None = None
    """The same for the terminal; unset: `level`."""
    console_style: Literal["pretty", "json"] = "pretty"
    """Form of lines on the terminal."""
    file: str | None = None
    """Log file; unset: `logs/gateway.log` in the state directory. Its lines are JSON."""
    max_file_bytes: Positive = 10 * 1024 * 1024
    """Size at which the file is rotated, bytes; one older file is kept as `<file>.1`."""
    redact_patterns: Names = ()
    """Regular expressions whose matches are masked, besides the built-in ones."""
