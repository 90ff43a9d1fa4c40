"""The chat commands that exist: ours, and those of the config format we are compatible with.

The others are recognised so that they are answered ("not available here") and never sent to the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class CommandSpec:
    """One command.

    Attributes:
        name: Without the slash.
        aliases: Other spellings, without the slash.
        takes_arguments: Text after the command belongs to it; else such a message is ordinary text.
        is_supported: We do it; otherwise we only know of it.
    """

    name: str
    aliases: tuple[str, ...] = ()
    takes_arguments: bool = True
    is_supported: bool = False


_OURS: Final = (
    CommandSpec("help", takes_arguments=False, is_supported=True),
    CommandSpec("new", is_supported=True),
    CommandSpec("queue", is_supported=True),
    CommandSpec("reset", is_supported=True),
    CommandSpec("resume", is_supported=True),
    CommandSpec("status", is_supported=True),
    # "/stop right now!" must stop.
    CommandSpec("stop", is_supported=True),
    CommandSpec("whoami", aliases=("id",), takes_arguments=False, is_supported=True),
)
_ALIASED: Final = (
    CommandSpec("btw", aliases=("side",)),
    CommandSpec("elevated", aliases=("elev",)),
    CommandSpec("export-session", aliases=("export",)),
    CommandSpec("export-trajectory", aliases=("trajectory",)),
    CommandSpec("plugins", aliases=("plugin",)),
    CommandSpec("reasoning", aliases=("reason",)),
    CommandSpec("steer", aliases=("tell",)),
    CommandSpec("think", aliases=("thinking", "t")),
    CommandSpec("verbose", aliases=("v",)),
)
_WITH_ARGUMENTS: Final = (
    "acp activation allowlist approve bash compact config context dashboard debug diagnostics exec fast goal learn "
    "login loop mcp model models name openclaw send session skill subagents tools trace tts usage"
)
_WITHOUT_ARGUMENTS: Final = "agents commands restart tasks update"

COMMANDS: Final = (
    *_OURS,
    *_ALIASED,
    *(CommandSpec(name) for name in _WITH_ARGUMENTS.split()),
    *(CommandSpec(name, takes_arguments=False) for name in _WITHOUT_ARGUMENTS.split()),
)

BY_SPELLING: Final = {spelling: spec for spec in COMMANDS for spelling in (spec.name, *spec.aliases)}

ABORT_WORDS: Final = frozenset(
    {
        "stop", "esc", "abort", "exit", "interrupt", "halt", "/stop",
        "please stop", "stop please", "stop run", "stop the run", "stop current run", "stop action",
        "stop current action", "stop agent", "stop the agent", "stop openclaw", "openclaw stop",
        "stop tidegate", "tidegate stop", "stop doing anything", "stop do not do anything",
        "stop don't do anything", "do not do that",
        "anhalten", "aufhören", "hör auf", "hoer auf", "stopp",
        "arrête", "arrete", "detente", "detén", "deten", "deténte", "pare",
        "стоп", "останови", "остановись", "остановить", "прекрати",
        "停止", "やめて", "止めて", "रुको", "توقف",
    }
)  # fmt: skip
