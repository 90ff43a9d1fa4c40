"""What is wrong with the configuration file, as plain data with places."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegate.config.load import Loaded, load_config
from tidegate.config.problems import InvalidConfig, Problem
from tidegate.config.view import redacted
from tidegate.gateway.model_names import strange_models
from tidegate.gateway.site import Site


def config_report(site: Site, environ: Mapping[str, str], *, effective: bool = False) -> dict[str, Any]:
    """Return every problem and warning of the file; with `effective` also what is in force, secrets masked."""
    problems: tuple[Problem, ...] = ()
    loaded: Loaded | None = None
    try:
        loaded = load_config(site.config_path, environ=environ, state_dir=site.state_dir)
        warnings = (*loaded.warnings, *strange_models(loaded, site.config_path))
    except InvalidConfig as error:
        problems, warnings = error.problems, error.warnings
    data: dict[str, Any] = {
        "file": str(site.config_path),
        "exists": site.config_path.exists(),
        "ok": not problems,
        "problems": [problem_row(problem) for problem in problems],
        "warnings": [problem_row(warning) for warning in warnings],
    }
    if effective and loaded is not None:
        data["effective"] = redacted(loaded.config.effective())
    return data


def problem_row(problem: Problem) -> dict[str, Any]:
    """Return a problem as plain data."""
    return {
        "file": str(problem.file),
        "line": problem.line,
        "column": problem.column,
        "path": problem.path,
        "kind": problem.kind.value,
        "message": problem.message,
        "hint": problem.hint,
    }
