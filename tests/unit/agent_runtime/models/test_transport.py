"""Deadlines and addresses of model servers."""

from __future__ import annotations

import pytest

from tidegate.agent_runtime.models.transport import IDLE_CLOUD, IDLE_LOCAL, Endpoint, is_local


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://127.0.0.1:11434/v1", True),
        ("http://localhost:1234", True),
        ("http://[::1]:1234", True),
        ("https://api.example.org/v1", False),
        ("https://localhost.example.org", False),
        ("http://192.168.1.2:1234", False),
    ],
)
def test_this_machine_is_recognised(url: str, local: bool) -> None:
    assert is_local(url) is local


def test_a_local_model_may_be_silent_for_longer() -> None:
    assert Endpoint("p", "http://127.0.0.1:1").idle_seconds == IDLE_LOCAL
    assert Endpoint("p", "https://api.example.org").idle_seconds == IDLE_CLOUD
    assert Endpoint("p", "https://api.example.org", idle=7).idle_seconds == 7


def test_a_key_is_in_no_representation() -> None:
    assert "sk-secret" not in repr(Endpoint("p", "https://x", "sk-secret", {"x": "sk-secret"}))
