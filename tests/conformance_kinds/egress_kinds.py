"""Vectors about silence and prefixes."""

from __future__ import annotations

import re
from typing import Any

from conformance_kinds.routing_kinds import Row
from tidegate.gateway import egress, silence
from tidegate.gateway.egress import Deliver, EgressRules, PrefixContext

_GENERATED = re.compile(r"(?P<head>\S+) \+ (?P<count>\d+) chars of (?P<sign>.)")
_ACK_CHARS = 300


def answer_silent_tokens(row: Row) -> Any:
    """Answer a row about silent words."""
    raw = row["input"]
    match row["fn"]:
        case "isSilentReplyText":
            return silence.is_silent_text(raw.get("text") or "")
        case "isSilentReplyPayloadText":
            return silence.is_silent_payload(raw.get("text") or "")
        case "isSilentReplyPrefixText":
            return silence.is_silent_prefix(raw.get("text") or "")
        case "isHeartbeatContentEffectivelyEmpty":
            return silence.is_scratch_empty(raw.get("content"))
        case "stripHeartbeatToken":
            return _heartbeat(raw)
    return _payload(raw)


def _heartbeat(raw: Row) -> Row:
    text = raw.get("text") or ""
    generated = _GENERATED.fullmatch(text) if raw.get("generated") else None
    if generated:
        text = f"{generated['head']} {generated['sign'] * int(generated['count'])}"
    # The 300 characters are that product's default; ours is 0, so that what is said beside the word is heard.
    found = silence.strip_heartbeat(text, _ACK_CHARS if raw.get("mode") == "heartbeat" else None)
    answer: Row = {"shouldSkip": found.is_silent, "didStrip": found.was_stripped}
    return answer | ({"len": len(found.text)} if generated else {"text": found.text})


def _payload(raw: Row) -> Row:
    payload = raw["payload"]
    media = {name: payload[name] for name in ("mediaUrl", "mediaUrls") if payload.get(name)}
    rules = EgressRules(prefix=raw.get("responsePrefix") or "", has_media=bool(media))
    found = egress.normalize_reply(payload.get("text") or "", rules)
    if isinstance(found, Deliver):
        return {"kind": "deliver", "text": found.text, **media}
    return {"kind": "suppress", "reason": found.reason.value}


def answer_response_prefix(row: Row) -> Any:
    """Answer a row about prefixes."""
    raw = row["input"]
    match row["fn"]:
        case "resolveResponsePrefixTemplate":
            context = raw.get("context") or {}
            return egress.resolve_prefix(
                raw["template"],
                PrefixContext(
                    context.get("model"),
                    context.get("modelFull"),
                    context.get("provider"),
                    context.get("thinkingLevel"),
                    context.get("identityName"),
                ),
            )
        case "extractShortModelName":
            return egress.short_model_name(raw["model"])
    answer = _payload(raw)
    return answer["text"] if answer["kind"] == "deliver" else answer
