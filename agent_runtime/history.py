"""Turns whatever was recorded into a transcript that every provider accepts. Pure functions.

Rules a valid transcript keeps: each tool result directly follows the assistant message that asked for it,
in the order of the calls; every call has exactly one result; no message is empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from tidegate.agent_runtime.messages import Message, Role, ToolCall

OUTCOME_UNKNOWN = (
    "Outcome unknown: the run was interrupted and no result of this call was recorded. "
    "It may or may not have taken effect. It was not repeated; check before you call it again."
)
"""What the model is told about a call that has no recorded end."""

IMAGE_REFUSED = "[a picture that the model did not accept]"

CHARS_PER_TOKEN = 4
"""A rough average over languages and code; real counts come back with each reply."""

MESSAGE_OVERHEAD_TOKENS = 8
IMAGE_TOKENS = 1_000

Estimate = Callable[[Message], int]
"""Tokens that a message will cost, roughly."""


def tool_result(call_id: str, text: str, *, is_error: bool = False) -> Message:
    """Return the tool message that answers `call_id`."""
    return Message(Role.TOOL, text, tool_call_id=call_id, is_error=is_error)


@dataclass(slots=True)
class _Group:
    """A message and, for an assistant message with calls, a slot for each result."""

    message: Message
    results: dict[str, Message | None] = field(default_factory=dict)


def valid_history(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Return `messages` as a valid transcript.

    Orphan and repeated results are dropped (the first one counts), missing results are filled in with
    `OUTCOME_UNKNOWN`, results move up to their call, and empty messages vanish.
    """
    groups: list[_Group] = []
    open_calls: dict[str, _Group] = {}
    for message in messages:
        if message.role is Role.TOOL:
            group = open_calls.get(message.tool_call_id)
            if group is not None and group.results[message.tool_call_id] is None:
                group.results[message.tool_call_id] = message
        elif message.role is Role.ASSISTANT and message.tool_calls:
            group = _open_group(message)
            groups.append(group)
            open_calls.update(dict.fromkeys(group.results, group))
        elif message.text.strip() or message.images:
            groups.append(_Group(message))
    return tuple(_flatten(groups))


def _open_group(message: Message) -> _Group:
    """Start a group for an assistant message, keeping the first call of each id."""
    calls: dict[str, ToolCall] = {}
    for call in message.tool_calls:
        calls.setdefault(call.id, call)
    if len(calls) < len(message.tool_calls):
        message = replace(message, tool_calls=tuple(calls.values()))
    return _Group(message, dict.fromkeys(calls))


def _flatten(groups: Iterable[_Group]) -> Iterable[Message]:
    for group in groups:
        yield group.message
        for call_id, result in group.results.items():
            yield result or tool_result(call_id, OUTCOME_UNKNOWN, is_error=True)


def without_images(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return `messages` with a note in place of each picture."""
    return tuple(
        replace(message, images=(), text=f"{message.text}\n{IMAGE_REFUSED}".strip()) if message.images else message
        for message in messages
    )


def estimate_tokens(message: Message, chars_per_token: int = CHARS_PER_TOKEN) -> int:
    """Return a rough token count of one message."""
    chars = len(message.text) + len(message.opaque)
    for call in message.tool_calls:
        chars += len(call.name) + len(call.arguments)
    return chars // chars_per_token + MESSAGE_OVERHEAD_TOKENS + IMAGE_TOKENS * len(message.images)


def trim_history(messages: Sequence[Message], budget: int, estimate: Estimate = estimate_tokens) -> tuple[Message, ...]:
    """Return the newest part of a valid transcript that fits `budget` tokens.

    Whole turns go first, oldest first. When the last turn alone is too long, its oldest steps (an assistant
    message with its results) go; its user messages and its last step always stay, even over budget.

    The cut moves in blocks of a quarter of the budget, so that it stays where it is while the conversation
    grows by less than a block and a provider's prompt cache stays warm. `messages` must begin where the
    conversation begins for this to hold.
    """
    costs = [estimate(message) for message in messages]
    if sum(costs) <= budget:
        return tuple(messages)
    turns = _turn_starts(messages)
    last = turns[-1] if turns else 0
    start = _cut(costs, turns, budget)
    if start < last or sum(costs[last:]) <= budget:
        return tuple(messages[start:])
    return _trim_steps(messages[last:], costs[last:], budget)


def _trim_steps(messages: Sequence[Message], costs: list[int], budget: int) -> tuple[Message, ...]:
    """Drop the oldest steps of one turn, keeping what the user said at its start."""
    steps = [index for index, message in enumerate(messages) if message.role is Role.ASSISTANT]
    if not steps:
        return tuple(messages)
    head = steps[0]
    start = _cut(costs[head:], [step - head for step in steps], budget - sum(costs[:head])) + head
    return (*messages[:head], *messages[start:])


def _turn_starts(messages: Sequence[Message]) -> list[int]:
    """Return the index of each user message that follows something other than a user message."""
    return [
        index
        for index, message in enumerate(messages)
        if message.role is Role.USER and (index == 0 or messages[index - 1].role is not Role.USER)
    ]


def _cut(costs: list[int], boundaries: Sequence[int], budget: int) -> int:
    """Return the first boundary before which enough lies to drop, rounded up to whole blocks."""
    excess = sum(costs) - budget
    if excess <= 0 or not boundaries:
        return boundaries[0] if boundaries else 0
    block = max(budget // 4, 1)
    to_drop = -(-excess // block) * block
    dropped, index = 0, 0
    for boundary in boundaries:
        dropped += sum(costs[index:boundary])
        index = boundary
        if dropped >= to_drop:
            return boundary
    return boundaries[-1]
