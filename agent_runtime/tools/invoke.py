"""One tool call: repair, validate, policy, deadline, run, cap the output. The only way a tool is ever run."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from pydantic import ValidationError

from tidegate.agent_runtime.history import CHARS_PER_TOKEN, tool_result
from tidegate.agent_runtime.messages import Message, ToolCall
from tidegate.agent_runtime.models.base import ToolDefinition
from tidegate.agent_runtime.models.repair import repair_arguments, repair_tool_name
from tidegate.agent_runtime.policy import Subject, ToolPolicy, decide_tool
from tidegate.agent_runtime.tools.base import AnyTool, SessionFacts, ToolArgs, ToolContext
from tidegate.agent_runtime.tools.registry import ToolRegistry
from tidegate.errors import ToolError, ToolFailure, ToolTimeout
from tidegate.events import clean_text

MAX_RESULT_CHARS = 16_000
"""Most characters of a result that the model sees; the middle of a longer one is cut out."""

_log = logging.getLogger(__name__)


class Toolbox:
    """The tools that one run may use, with the policy in front of them."""

    def __init__(
        self,
        registry: ToolRegistry,
        session: SessionFacts,
        policy: ToolPolicy | None = None,
        *,
        max_result_chars: int = MAX_RESULT_CHARS,
        report: Callable[[str], None] | None = None,
    ) -> None:
        self._registry = registry
        self._session = session
        self._max_result_chars = max_result_chars
        self._report = report
        self._policy = policy or ToolPolicy()
        self._subject = Subject(session.is_owner, session.model)
        self._allowed = tuple(name for name in registry.names if self._refusal(name) is None)

    def definitions(self) -> tuple[ToolDefinition, ...]:
        """Return the tools that the model may see: those that policy lets this run call."""
        return tuple(self._registry.definition(name) for name in self._allowed)

    def is_known(self, name: str) -> bool:
        """Tell whether `name` is, or can be read as, one of these tools."""
        return self._find(name) is not None

    def is_read_only(self, name: str) -> bool:
        """Tell whether the tool only reads."""
        tool = self._find(name)
        return tool is not None and tool.effect == "read"

    async def prepare(self, call: ToolCall) -> ReadyCall | Message:
        """Return the call ready to run, or an error result that tells the model what was wrong."""
        tool = self._find(call.name)
        if tool is None:
            known = ", ".join(self._allowed) or "none"
            return _refused(call, f"There is no tool {call.name[:80]!r}. Tools: {known}.")
        refusal = self._refusal(tool.name)
        if refusal is not None:
            return _refused(call, refusal)
        arguments = repair_arguments(call.arguments)
        if arguments is None:
            return _refused(call, "The arguments are not a JSON object (perhaps cut off). Nothing was done.")
        try:
            args = tool.args.model_validate(arguments)
        except ValidationError as error:
            return _refused(call, f"Wrong arguments: {_explain(error)}. Nothing was done.")
        return ReadyCall(call, tool, args, self._session, self._max_result_chars, self._report)

    def _find(self, name: str) -> AnyTool | None:
        return self._registry.get(name) or self._registry.get(repair_tool_name(name, self._registry.names))

    def _refusal(self, name: str) -> str | None:
        tool = self._registry.get(name)
        assert tool is not None
        decision = decide_tool(tool.name, tool.effect, self._subject, self._policy)
        return None if decision.allowed else f"The tool {name} is not allowed here ({decision.reason})."


@dataclass(frozen=True, slots=True)
class ReadyCall:
    """A call that was understood and allowed."""

    call: ToolCall
    tool: AnyTool
    args: ToolArgs
    session: SessionFacts
    max_result_chars: int
    report: Callable[[str], None] | None

    @property
    def summary(self) -> str:
        """The tool and the first thing it was given, short enough for one line."""
        for value in self.args.model_dump(exclude_none=True).values():
            if isinstance(value, str) and value:
                return f"{self.tool.name} {value.splitlines()[0][:80]}" if value.strip() else self.tool.name
        return self.tool.name

    async def run(self, seconds: float | None) -> Message:
        """Run the tool and return its result; whatever goes wrong is an error result."""
        limit = self.tool.seconds if seconds is None else min(self.tool.seconds, seconds)
        try:
            return tool_result(self.call.id, cap_text(await self._result(limit), self.max_result_chars))
        except ToolError as error:
            text = cap_text(clean_text(str(error)), self.max_result_chars)
            return tool_result(self.call.id, text, is_error=True)

    async def _result(self, seconds: float) -> str:
        context = ToolContext(self.session, seconds)
        if self.report is not None:
            context = ToolContext(self.session, seconds, self.report)
        try:
            async with asyncio.timeout(seconds):
                result = await self.tool.run(self.args, context)
        except TimeoutError as error:
            raise ToolTimeout(f"{self.tool.name} did not finish within {seconds:.0f} s") from error
        except ToolError:
            raise
        except Exception as error:  # named boundary: a bug in a tool must not end the run
            _log.exception("tool.crashed tool=%s", self.tool.name)
            raise ToolFailure(f"{self.tool.name} failed unexpectedly ({type(error).__name__})") from error
        return clean_text(result.text)


def result_chars(window: int) -> int:
    """Return how many characters of a result a model with a window of so many tokens is shown.

    16,000, from 100,000 tokens on twice and from 200,000 on four times that, but at most 30 % of the window.
    """
    chars = MAX_RESULT_CHARS * (4 if window >= 200_000 else 2 if window >= 100_000 else 1)
    return min(chars, window * CHARS_PER_TOKEN * 3 // 10)


def cap_text(text: str, limit: int) -> str:
    """Return `text`, with its middle cut out when it has more than `limit` characters."""
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    tail = limit - head
    return f"{text[:head]}\n[… {len(text) - limit} characters left out …]\n{text[-tail:]}"


def _refused(call: ToolCall, text: str) -> Message:
    return tool_result(call.id, clean_text(text), is_error=True)


def _explain(error: ValidationError) -> str:
    """Say what is wrong without repeating the values."""
    problems = error.errors(include_url=False, include_input=False, include_context=False)[:5]
    return "; ".join(
        f"{'.'.join(str(part) for part in problem['loc']) or 'arguments'}: {problem['msg']}" for problem in problems
    )
