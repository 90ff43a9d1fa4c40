"""Clients that others wrote, from npm, in a folder that is kept between runs."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

CACHE = Path(os.environ.get("TIDEGATE_PEERS", Path.home() / ".cache" / "tidegate" / "peers"))
INSTALL_SECONDS = 900
ASK_SECONDS = 30
NODE = "node@24"
OPENCLAW = "openclaw@2026.9.6"
OPENCLAW_NODE = "openclaw-node@0.14.0"


class Unreachable(Exception):
    """The packages cannot be fetched here."""


@dataclass(frozen=True)
class Peers:
    """What is installed.

    Attributes:
        node: The Node binary.
        openclaw: The command line of OpenClaw.
        library: The folder in whose `node_modules` the library `openclaw-node` is.
    """

    node: Path
    openclaw: Path
    library: Path


def install(cache: Path = CACHE) -> Peers:
    """Install below a folder what is not there yet; some minutes, once. Raises Unreachable."""
    peers = Peers(
        cache / "node" / "node_modules" / ".bin" / "node",
        cache / "openclaw" / "node_modules" / "openclaw" / "openclaw.mjs",
        cache / "openclaw-node",
    )
    library = peers.library / "node_modules" / "openclaw-node" / "package.json"
    # The install scripts refuse an older Node than the one that runs npm; only Node's own is needed.
    for name, package, made, more in (
        ("node", NODE, peers.node, ()),
        ("openclaw", OPENCLAW, peers.openclaw, ("--ignore-scripts",)),
        ("openclaw-node", OPENCLAW_NODE, library, ("--ignore-scripts",)),
    ):
        if not made.exists():
            _fetch(cache / name, package, more)
    return peers


def _fetch(folder: Path, package: str, more: tuple[str, ...]) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise Unreachable("npm is not installed")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text('{"private": true}\n')
    _run([npm, "view", package, "version"], folder, ASK_SECONDS, f"{package} is not to be had")
    print(f"installing {package} into {folder} ...", flush=True)
    words = [npm, "install", "--no-audit", "--no-fund", *more, package]
    _run(words, folder, INSTALL_SECONDS, f"{package} cannot be installed")


def _run(words: list[str], folder: Path, seconds: int, failure: str) -> None:
    try:
        subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True, timeout=seconds)
    except subprocess.CalledProcessError as error:
        raise Unreachable(f"{failure}: {error.stderr.strip()[-300:]}") from error
    except subprocess.TimeoutExpired as error:
        raise Unreachable(f"{failure}: no answer within {seconds} s") from error
