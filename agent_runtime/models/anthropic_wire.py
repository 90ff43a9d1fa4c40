"""A request as Anthropic's Messages API takes it.

Source: https://docs.anthropic.com/en/api/messages
"""

from __future__ import annotations

import json
from typing import Any

from tidegate.agent_runtime.messages import Message, Role
from tidegate.agent_runtime.models.base import ModelRequest
from tidegate.agent_runtime.models.openai_wire import IMAGE_GONE, load_image
from tidegate.agent_runtime.models.repair import repair_arguments
from tidegate.agent_runtime.models.transport import LoadBlob

PROVIDER_STATE = "anthropic"
"""Marks opaque state as ours: every server that speaks this API signs its own thinking."""
DEFAULT_MAX_TOKENS = 8192
THINKING_TOKENS = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16_384, "xhigh": 32_768}
_CACHE = {"cache_control": {"type": "ephemeral"}}


async def encode_request(request: ModelRequest, load_blob: LoadBlob | None) -> bytes:
    """Return the body of a streamed request as compact JSON.

    Two cache marks: the end of the stable system prompt (which covers the tools before it) and the last user
    block.
    """
    messages = await _encode_messages(request.messages, load_blob)
    if messages:
        messages[-1]["content"][-1].update(_CACHE)
    limit = request.max_output_tokens or DEFAULT_MAX_TOKENS
    body: dict[str, Any] = {"model": request.model, "stream": True}
    budget = THINKING_TOKENS.get(request.thinking, 0) if _may_think(request.messages) else 0
    if budget:
        body["thinking"] = {"type": "enabled", "budget_tokens": budget}
        limit += budget
    body["max_tokens"] = limit
    stable, volatile = request.system
    system: list[dict[str, Any]] = []
    if stable:
        system.append({"type": "text", "text": stable, **_CACHE})
    if volatile:
        system.append({"type": "text", "text": volatile})
    if system:
        body["system"] = system
    if request.tools:
        body["tools"] = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
            for tool in request.tools
        ]
    body["messages"] = messages
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _may_think(messages: tuple[Message, ...]) -> bool:
    """Tell whether thinking may be on: every tool step since the user spoke must bring its thinking along.

    Steps of another model have none; the server refuses such a request while thinking is on.
    """
    for message in reversed(messages):
        if message.role is Role.USER:
            break
        if message.tool_calls and not _thinking_blocks(message):
            return False
    return True


def _thinking_blocks(message: Message) -> list[dict[str, Any]]:
    if not message.opaque:
        return []
    state = json.loads(message.opaque)
    if not isinstance(state, dict) or state.get("provider") != PROVIDER_STATE:
        return []
    return list(state["blocks"])


async def _encode_messages(messages: tuple[Message, ...], load_blob: LoadBlob | None) -> list[dict[str, Any]]:
    """Return messages with strictly alternating roles, beginning and ending with the user."""
    encoded: list[dict[str, Any]] = []
    for message in messages:
        role = "assistant" if message.role is Role.ASSISTANT else "user"
        blocks = await _blocks(message, load_blob)
        if encoded and encoded[-1]["role"] == role:
            encoded[-1]["content"].extend(blocks)
        elif blocks:
            encoded.append({"role": role, "content": blocks})
    if encoded and encoded[0]["role"] == "assistant":
        encoded.insert(0, _note("(The conversation goes on from here.)"))
    if encoded and encoded[-1]["role"] == "assistant":
        encoded.append(_note("(Go on.)"))
    return encoded


def _note(text: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": text}]}


async def _blocks(message: Message, load_blob: LoadBlob | None) -> list[dict[str, Any]]:
    if message.role is Role.TOOL:
        result: dict[str, Any] = {"type": "tool_result", "tool_use_id": message.tool_call_id}
        result["content"] = message.text or "(nothing)"
        if message.is_error:
            result["is_error"] = True
        return [result]
    blocks: list[dict[str, Any]] = []
    if message.tool_calls:
        blocks.extend(_thinking_blocks(message))
    if message.text.strip():
        blocks.append({"type": "text", "text": message.text})
    for image in message.images:
        data = await load_image(image, load_blob)
        if data is None:
            blocks.append({"type": "text", "text": IMAGE_GONE})
        else:
            source = {"type": "base64", "media_type": image.mime, "data": data}
            blocks.append({"type": "image", "source": source})
    for call in message.tool_calls:
        arguments = repair_arguments(call.arguments) or {}
        blocks.append({"type": "tool_use", "id": call.id, "name": call.name, "input": arguments})
    return blocks
