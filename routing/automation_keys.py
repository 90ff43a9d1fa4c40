"""Session keys of runs that no chat message started: cron jobs, hooks and sub-agents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tidegate.routing import keys, normalize
from tidegate.routing.normalize import fold, trim

_SESSION_TARGET: Final = "session:"


def cron_key(agent: str, requested: str | None) -> str:
    """Return the session key for a cron job's request; blank or `main` is the agent's main session."""
    text = trim(requested or "")
    if not text or text.lower() == normalize.DEFAULT_AGENT:
        return keys.main_session_key(agent)
    parsed = keys.parse(text)
    if parsed is not None:
        return str(parsed)
    return f"agent:{normalize.agent_id(agent)}:{keys.fold_rest(text)}"


def cron_run_key(agent: str, job: str, run: str) -> str:
    """Return the key of the session in which one run of a cron job happens."""
    return f"agent:{normalize.agent_id(agent)}:cron:{job.lower()}:run:{run.lower()}"


def session_target(target: str) -> str | None:
    """Return the session named by a `session:<id>` target, or None for the modes main, isolated and current.

    Raises:
        ValueError: The target says `session:` and names none.
    """
    if not target.startswith(_SESSION_TARGET):
        return None
    name = trim(target[len(_SESSION_TARGET) :])
    if not name:
        raise ValueError("a session target needs an id after 'session:'")
    return name


def subagent_key(agent: str, run: str) -> str:
    """Return the key of a sub-agent's session; nesting is recorded elsewhere and does not show in the key."""
    return f"agent:{normalize.agent_id(agent)}:subagent:{run.lower()}"


@dataclass(frozen=True, slots=True)
class HookKeyPolicy:
    """What the config lets a webhook say about its session.

    Attributes:
        allowed_prefixes: Empty allows every key.
    """

    default_key: str | None = None
    allow_requested: bool = False
    allowed_prefixes: tuple[str, ...] = ()

    def problem(self) -> str | None:
        """Return why this policy contradicts itself, or None."""
        if self.allowed_prefixes and self.default_key is None and not self._is_allowed("hook:"):
            return "allowedSessionKeyPrefixes leaves out 'hook:' and there is no defaultSessionKey"
        if self.allowed_prefixes and self.default_key is not None and not self._is_allowed(self.default_key):
            return "defaultSessionKey does not begin with one of allowedSessionKeyPrefixes"
        return None

    def _is_allowed(self, key: str) -> bool:
        prefixes = tuple(fold(prefix) for prefix in self.allowed_prefixes if fold(prefix))
        return not prefixes or fold(key).startswith(prefixes)

    def choose(self, requested: str | None, fresh_id: str) -> str | None:
        """Return the session key for a hook call, or None when the call asks for one it may not have."""
        wanted = trim(requested or "")
        if wanted:
            return wanted if self.allow_requested and self._is_allowed(wanted) else None
        return self.default_key or f"hook:{fresh_id}"


def hook_dispatch_key(key: str, agent: str | None) -> str:
    """Return a hook's session key moved to the agent it is sent to; keys without an agent stay as they are."""
    parsed = keys.parse(key)
    if parsed is None or agent is None:
        return trim(key)
    return f"agent:{normalize.agent_id(agent)}:{parsed.rest}"
