"""Where a gateway keeps its things on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Site:
    """Where a gateway lives.

    Attributes:
        port: Overrides the configured port; None leaves it, 0 picks a free one.
    """

    state_dir: Path
    config_path: Path
    port: int | None = None

    @property
    def socket(self) -> Path:
        """The Unix socket of the local command line."""
        return self.state_dir / "gateway.sock"

    @property
    def database(self) -> Path:
        """The store's file."""
        return self.state_dir / "tidegate.db"

    @property
    def log_file(self) -> Path:
        """Where log lines are kept unless `logging.file` says otherwise."""
        return self.state_dir / "logs" / "gateway.log"
