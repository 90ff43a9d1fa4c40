"""A request as OpenAI's Chat Completions API and its many relatives take it.

Source: https://platform.openai.com/docs/api-reference/chat/create
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any

from tidegate.agent_runtime.messages import Image, Message, Role
from tidegate.agent_runtime.models.base import ModelRequest
from tidegate.agent_runtime.models.transport import LoadBlob

IMAGE_GONE = "[a picture that is no longer available]"


@dataclass(frozen=True, slots=True)
class Dialect:
    """Where OpenAI-compatible servers differ.

    Attributes:
        usage_option: The server wants to be asked for a usage chunk.
        max_tokens_key: The name of the output limit.
        keeps_reasoning: Reasoning text must be sent back with tool calls (DeepSeek).
        reasoning_effort: The server takes `reasoning_effort`.
    """

    usage_option: bool = True
    max_tokens_key: str = "max_tokens"
    keeps_reasoning: bool = False
    reasoning_effort: bool = True


async def encode_request(request: ModelRequest, provider: str, dialect: Dialect, load_blob: LoadBlob | None) -> bytes:
    """Return the body of a streamed request as compact JSON."""
    messages: list[dict[str, Any]] = []
    system = "\n\n".join(part for part in request.system if part)
    if system:
        messages.append({"role": "system", "content": system})
    for message in request.messages:
        if message.images:
            messages.append(await _with_images(message, load_blob))
        else:
            messages.append(_encode(message, provider, dialect))
    body: dict[str, Any] = {"model": request.model, "messages": messages, "stream": True}
    if dialect.usage_option:
        body["stream_options"] = {"include_usage": True}
    if request.tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters,
                },
            }
            for tool in request.tools
        ]
    if request.max_output_tokens:
        body[dialect.max_tokens_key] = request.max_output_tokens
    if request.thinking != "off" and dialect.reasoning_effort:
        body["reasoning_effort"] = request.thinking
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _encode(message: Message, provider: str, dialect: Dialect) -> dict[str, Any]:
    if message.role is Role.TOOL:
        return {"role": "tool", "tool_call_id": message.tool_call_id, "content": message.text}
    if message.role is Role.USER or not (message.tool_calls or message.opaque):
        return {"role": message.role.value, "content": message.text}
    encoded: dict[str, Any] = {"role": "assistant", "content": message.text or None}
    kept = _kept_state(message.opaque, provider)
    extras = kept.get("extra_content", {})
    if message.tool_calls:
        encoded["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments or "{}"},
                **({"extra_content": extras[str(index)]} if str(index) in extras else {}),
            }
            for index, call in enumerate(message.tool_calls)
        ]
        if dialect.keeps_reasoning and "reasoning_content" in kept:
            encoded["reasoning_content"] = kept["reasoning_content"]
    if "reasoning_details" in kept:
        encoded["reasoning_details"] = kept["reasoning_details"]
    return encoded


def _kept_state(opaque: str, provider: str) -> dict[str, Any]:
    """Return what this very provider asked us to send back."""
    if not opaque:
        return {}
    state = json.loads(opaque)
    return state if isinstance(state, dict) and state.get("provider") == provider else {}


async def _with_images(message: Message, load_blob: LoadBlob | None) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    if message.text:
        parts.append({"type": "text", "text": message.text})
    for image in message.images:
        data = await load_image(image, load_blob)
        if data is None:
            parts.append({"type": "text", "text": IMAGE_GONE})
        else:
            url = f"data:{image.mime};base64,{data}"
            parts.append({"type": "image_url", "image_url": {"url": url}})
    return {"role": message.role.value, "content": parts}


async def load_image(image: Image, load_blob: LoadBlob | None) -> str | None:
    """Return a picture in base64, or None when it cannot be loaded."""
    if load_blob is None:
        return None
    try:
        return base64.b64encode(await load_blob(image.blob)).decode("ascii")
    except (LookupError, OSError):
        return None
