"""Answers for the vectors about the configuration.

The vectors name the place of a mistake less exactly than we do. What their convention says is applied to our
exact places here, so that the comparison stays strict: an unknown key is named by the object that holds it,
anything wrong with a binding by the binding, and anything wrong with an agent list by the roster.
"""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any

from tidegate.config.durations import parse_duration_ms
from tidegate.config.environment import substitute
from tidegate.config.load import load_config
from tidegate.config.paths import format_path, parse_path
from tidegate.config.problems import InvalidConfig, Problem, ProblemKind

_BINDING_MISTAKE = re.compile(r"(bindings\[\d+\])\..*")


def answer_loader(row: dict[str, Any]) -> dict[str, Any]:
    """Whether a configuration loads, with its agents, or the places of its mistakes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tidegate.json"
        path.write_text(json.dumps(row["config"]), encoding="utf-8")
        try:
            config = load_config(path, environ={}, state_dir=Path(folder)).config
        except InvalidConfig as error:
            places = [place for problem in error.problems for place in _places(problem)]
            return {"accepts": False, "paths": list(dict.fromkeys(places))}
    answer: dict[str, Any] = {"accepts": True, "agentIds": [agent.id for agent in config.agents.roster()]}
    if config.agents.ownership is not None:
        answer["ownership"] = config.agents.ownership
    elif any(entry.default for entry in config.agents.members().values()):
        answer["systemAgent"] = config.agents.default_agent_id
    return answer


def _places(problem: Problem) -> list[str]:
    is_unknown = problem.kind is ProblemKind.UNKNOWN_KEY
    path = format_path(parse_path(problem.path)[:-1]) if is_unknown else problem.path
    if path.startswith("agents.list"):
        return ["agents", "agents.entries"]
    binding = _BINDING_MISTAKE.fullmatch(path)
    return [binding[1]] if binding else [path]


def answer_duration(row: dict[str, Any]) -> Any:
    """Milliseconds, or that it is no duration."""
    arguments = row["input"]
    try:
        return parse_duration_ms(arguments["raw"], arguments.get("defaultUnit") or "ms")
    except ValueError as error:
        return {"error": str(error)}


def answer_env_subst(row: dict[str, Any]) -> dict[str, Any]:
    """The text with its variables filled in, and those that are missing."""
    value, missing = substitute(row["input"]["value"], row["input"]["env"])
    return {"value": value, "missing": list(missing)}
