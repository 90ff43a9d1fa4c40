"""`tools`: what an agent may do."""

from typing import Literal

from pydantic import Field, model_validator

from tidegate.config.sections.base import Count, Flag, Lazy, Names, Positive, Section, ToolNames, absent

Profile = Literal["minimal", "coding", "messaging", "full"]


class ProviderTools(ToolNames):
    """Tool limits for one provider or model."""

    profile: Profile | None = None
    """Set of tools to begin with."""


class LoopDetection(Section):
    """Stopping an agent that repeats itself."""

    enabled: Flag = True
    """Watch for repeated tool calls and end the turn with an explanation."""


class FileTools(Section):
    """Tools that read and write files."""

    workspace_only: Flag = True
    """Keep them inside the agent's workspace."""


class ExecTool(Section):
    """The tool that runs commands."""

    host: Literal["auto", "sandbox", "gateway", "node"] = "auto"
    """Where commands run; `auto`: in a sandbox if there is one."""
    mode: Literal["deny", "allowlist", "ask", "auto", "full"] | None = None
    """Short form of `security` and `ask`; unset: those two count."""
    security: Literal["deny", "allowlist", "full"] = "allowlist"
    """Which commands may run."""
    ask: Literal["off", "on-miss", "always"] = "on-miss"
    """When a person is asked first."""
    timeout_seconds: Positive = 1800
    """Seconds a command may run."""
    background_ms: Positive = 10_000
    """Milliseconds until a running command goes on in the background."""
    path_prepend: Names = ()
    """Folders put before PATH."""
    safe_bins: Names = ()
    """Commands that never need approval while they only read standard input."""
    strict_inline_eval: Flag = False
    """Ask for `python -c` and the like even if the interpreter is allowed."""
    notify_on_exit: Flag = True
    """Tell the agent when a background command ends."""
    approval_running_notice_ms: Count = 10_000
    """Milliseconds until a note says that an approved command still runs; 0: no note."""


class AgentTools(ProviderTools):
    """Tool settings of one agent, laid over `tools`."""

    by_provider: dict[str, Lazy[ProviderTools]] = Field(default_factory=dict)
    """Limits for providers (`openai`) or models (`openai/gpt-5.4-mini`)."""
    tools_by_sender: dict[str, Lazy[ToolNames]] = Field(default_factory=dict)
    """Limits for senders; the first specific match counts, `*` for all others."""
    exec: Lazy[ExecTool] | None = None
    """The tool that runs commands; unset: as for all agents."""
    fs: Lazy[FileTools] | None = None
    """File tools; unset: as for all agents."""
    loop_detection: Lazy[LoopDetection] | None = None
    """Loop detection; unset: as for all agents."""

    @model_validator(mode="after")
    def _one_way_to_allow(self) -> "AgentTools":
        if self.allow is not None and self.also_allow:
            raise ValueError("allow and alsoAllow exclude each other; put everything in allow")
        return self


class ToolsSection(ProviderTools):
    """What an agent may do."""

    by_provider: dict[str, Lazy[ProviderTools]] = Field(default_factory=dict)
    """Limits for providers (`openai`) or models (`openai/gpt-5.4-mini`)."""
    tools_by_sender: dict[str, Lazy[ToolNames]] = Field(default_factory=dict)
    """Limits for senders; the first specific match counts, `*` for all others."""
    loop_detection: Lazy[LoopDetection] = absent(LoopDetection)
    """Stopping an agent that repeats itself; on by default."""
    fs: Lazy[FileTools] = absent(FileTools)
    """File tools."""
    exec: Lazy[ExecTool] = absent(ExecTool)
    """The tool that runs commands."""

    @model_validator(mode="after")
    def _one_way_to_allow(self) -> "ToolsSection":
        if self.allow is not None and self.also_allow:
            raise ValueError("allow and alsoAllow exclude each other; put everything in allow")
        return self
