"""From the command line, the environment and one file to a `Config`. Nothing else reads `os.environ`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate.config.checks import check_bindings, check_broadcast, check_roster, check_safety, check_workspaces
from tidegate.config.environment import MAX_DOTENV_BYTES, layered, parse_dotenv
from tidegate.config.json5 import Node, to_plain
from tidegate.config.model import Config
from tidegate.config.problems import InvalidConfig, Problem
from tidegate.config.secrets import SecretResolver
from tidegate.config.sections.agents import AgentsSection
from tidegate.config.sources import descend, read_tree
from tidegate.config.validate import Findings, Validator, plain_data

CONFIG_NAME = "tidegate.json"
CONFIG_VARIABLE = "TIDEGATE_CONFIG"
STATE_VARIABLE = "TIDEGATE_STATE_DIR"
TELEGRAM_VARIABLE = "TELEGRAM_BOT_TOKEN"


@dataclass(frozen=True, slots=True)
class Paths:
    """Where the configuration and the state are."""

    config: Path
    state_dir: Path


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration that may be used.

    `digest` is the SHA-256 of all source files; `files` are those to watch; `environment` is what `${NAME}`
    was filled in from.
    """

    config: Config
    warnings: tuple[Problem, ...]
    digest: str
    files: tuple[Path, ...]
    environment: Mapping[str, str]
    secrets: SecretResolver


def environment() -> Mapping[str, str]:
    """The process environment, for the composition root to pass on."""
    return dict(os.environ)


def home_dir(environ: Mapping[str, str]) -> Path:
    """The user's home: `HOME` of the given environment, else what the system says."""
    return Path(environ["HOME"]) if environ.get("HOME") else Path.home()


def locate(cli_config: str | Path | None, cli_state_dir: str | Path | None, environ: Mapping[str, str]) -> Paths:
    """Where to look.

    The command line wins over `TIDEGATE_CONFIG` and `TIDEGATE_STATE_DIR`, those over `~/.tidegate`.
    """
    home = home_dir(environ)
    state = _expand(cli_state_dir or environ.get(STATE_VARIABLE) or home / ".tidegate", home)
    config = _expand(cli_config or environ.get(CONFIG_VARIABLE) or state / CONFIG_NAME, home)
    return Paths(config, state)


def load_config(path: Path | None, *, environ: Mapping[str, str], state_dir: Path) -> Loaded:
    """Read and check the configuration; a missing file means the defaults.

    Raises:
        InvalidConfig: Something is wrong; it names everything that is, not only the first.
    """
    main = path if path is not None else state_dir / CONFIG_NAME
    tree = read_tree(main)
    findings = Findings(tree.root, main, tree.problems, tree.warnings)
    dotenv = state_dir / ".env"
    layers = layered(environ, _read_dotenv(dotenv), _config_vars(tree.root))
    data = plain_data(findings, layers, dotenv)
    config = _build(findings, data, layers, state_dir, home_dir(environ))
    files = (*tree.files, dotenv)
    if findings.problems:
        raise InvalidConfig(_in_order(findings.problems), _in_order(findings.warnings), files)
    resolver = SecretResolver(config.secrets, layers, main.parent)
    return Loaded(config, _in_order(findings.warnings), tree.digest, files, layers, resolver)


def _build(
    findings: Findings, data: dict[str, Any], environment: Mapping[str, str], state_dir: Path, home: Path
) -> Config:
    _add_telegram_token(data, environment)
    sections = Validator(findings, data).sections()
    has_roster = "agents" in sections or "agents" not in data
    agents = sections.pop("agents", None) or AgentsSection.model_construct()
    config = Config(**sections, agents=agents.placed(state_dir, home), raw=data)
    check_roster(findings, data)
    if has_roster:
        check_bindings(findings, config, data)
        check_broadcast(findings, config, data)
    check_safety(findings, config)
    check_workspaces(findings, config, state_dir)
    return config


def _add_telegram_token(data: dict[str, Any], environment: Mapping[str, str]) -> None:
    """A token in the environment serves the default bot of a Telegram section that names no other."""
    channels = data.get("channels")
    telegram = channels.get("telegram") if isinstance(channels, dict) else None
    token = environment.get(TELEGRAM_VARIABLE)
    if not token or not isinstance(telegram, dict) or not isinstance(channels, dict):
        return
    if not {"botToken", "tokenFile", "accounts"} & telegram.keys():
        channels["telegram"] = {**telegram, "botToken": token}


def _read_dotenv(path: Path) -> dict[str, str]:
    try:
        with path.open("rb") as file:
            return parse_dotenv(file.read(MAX_DOTENV_BYTES).decode("utf-8-sig", "replace"))
    except OSError:
        return {}


def _config_vars(root: Node | None) -> dict[str, str]:
    node = descend(root, ("env", "vars"))
    values = to_plain(node) if node is not None else {}
    if not isinstance(values, dict):
        return {}
    return {name: value for name, value in values.items() if isinstance(value, str)}


def _in_order(problems: list[Problem]) -> tuple[Problem, ...]:
    return tuple(sorted(problems, key=lambda problem: (str(problem.file), problem.line, problem.column)))


def _expand(path: str | Path, home: Path) -> Path:
    text = str(path)
    if text == "~" or text.startswith("~/"):
        return home / text[2:]
    return Path(text).absolute()
