"""Every provider that litellm knows, for those who installed it. Imported on the first call only: it is heavy."""

from __future__ import annotations

import asyncio
import importlib
import json
from types import ModuleType
from typing import Any

from tidegate.agent_runtime.models.base import ModelReply, ModelRequest, OnText
from tidegate.agent_runtime.models.failures import failure_of_kind, failure_of_status
from tidegate.agent_runtime.models.openai_chat import StreamedAnswer
from tidegate.agent_runtime.models.openai_wire import Dialect, encode_request
from tidegate.agent_runtime.models.transport import IDLE_CLOUD, TOTAL, LoadBlob
from tidegate.errors import ModelRefused

INSTALL = 'pip install "tidegate[litellm]"'


class LiteLLM:
    """Models reached through litellm; `request.model` is litellm's own name, such as `bedrock/...`."""

    def __init__(self, provider: str, api_key: str = "", load_blob: LoadBlob | None = None) -> None:
        self._provider = provider
        self._api_key = api_key
        self._load_blob = load_blob

    async def complete(self, request: ModelRequest, on_text: OnText) -> ModelReply:
        """Stream one reply to `on_text` and return it whole.

        Raises:
            ModelRefused: litellm is not installed; the message holds the command that installs it.
            ModelError: See `ModelProvider.complete`.
        """
        litellm, openai = await asyncio.to_thread(_load_litellm, self._provider)
        body: dict[str, Any] = json.loads(await encode_request(request, self._provider, Dialect(), self._load_blob))
        body["timeout"] = TOTAL
        if self._api_key:
            body["api_key"] = self._api_key
        answer = StreamedAnswer(self._provider, request, on_text)
        try:
            async with asyncio.timeout(TOTAL):
                async with asyncio.timeout(IDLE_CLOUD):
                    stream = (await litellm.acompletion(**body)).__aiter__()
                while True:
                    async with asyncio.timeout(IDLE_CLOUD):
                        chunk = await anext(stream, None)
                    if chunk is None:
                        break
                    answer.take_event(chunk.model_dump_json().encode())
        except TimeoutError as error:
            raise failure_of_kind(self._provider, "timeout", "no answer in time") from error
        except openai.OpenAIError as error:  # litellm's own errors all derive from these
            raise _failure(self._provider, error) from error
        answer.take_event(b"[DONE]")
        return answer.reply()


def _load_litellm(provider: str) -> tuple[ModuleType, ModuleType]:
    try:
        return importlib.import_module("litellm"), importlib.import_module("openai")
    except ImportError as error:
        raise ModelRefused(f"{provider} needs litellm: {INSTALL}", "not_found") from error


def _failure(provider: str, error: Exception) -> Exception:
    status = getattr(error, "status_code", None)
    if not isinstance(status, int):
        return failure_of_kind(provider, "network", type(error).__name__)
    return failure_of_status(provider, status, {}, str(error).encode("utf-8", "replace"), 0.0)
