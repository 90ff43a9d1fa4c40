"""No text ever reaches another address, whatever happens in between."""

from __future__ import annotations

import asyncio
import random
import re
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.platform import Platform
from harness.stage import stage
from tidegate.errors import DeliveryDeferred, DeliveryUnavailable, DeliveryUnknown
from tidegate.events import PeerKind
from tidegate.sessions.wakeups import DeafWakeups, LocalWakeups

SECRET = re.compile(r"secret-(\S+?)-(\S+?)-end")
MODES = ("collect", "steer", "followup", "interrupt", "steer-backlog")


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10_000), mode=st.sampled_from(MODES), deaf=st.booleans())
def test_R032_what_is_said_in_one_chat_never_appears_in_another(seed: int, mode: str, deaf: bool) -> None:
    async def run(state_dir: Path) -> None:
        chance = random.Random(seed)
        platform, second = Platform(), Platform(account="second")
        more = f'messages: {{ queue: {{ mode: "{mode}", debounceMs: 10, cap: 4 }} }},'
        more += 'session: { reset: { mode: "none" } }'
        async with stage(state_dir, platform, second, more=more) as play:
            for _ in range(chance.randint(1, 3)):
                wakeups = DeafWakeups() if deaf else LocalWakeups()
                async with play.gateway(wakeups=wakeups, drain=chance.random() < 0.5):
                    for _ in range(chance.randint(5, 25)):
                        where = chance.choice([platform, second])
                        act(chance, where)
                        await asyncio.sleep(chance.choice([0, 0, 0.002, 0.02]))
            async with play.gateway():
                await platform.until(lambda: not play.rows("SELECT 1 FROM sessions WHERE head_seq > done_seq"), 20)
            for where in (platform, second):
                for bubble in where.bubbles:
                    home = (bubble.address.account, bubble.address.chat + (bubble.address.thread or ""))
                    for account, chat in SECRET.findall(bubble.text):
                        assert (account, chat) == home, bubble
            assert not play.rows("SELECT key FROM sessions WHERE owner IS NOT NULL")

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder)))


def act(chance: random.Random, where: Platform) -> None:
    """Let somebody do something, or the platform fail."""
    chat = str(chance.randint(1, 5))
    roll = chance.random()
    if roll < 0.1:
        fault = chance.choice([DeliveryDeferred("slow", 0.01), DeliveryUnavailable("down"), DeliveryUnknown("lost")])
        where.faults.append(fault)
    elif roll < 0.2:
        where.say(chat, chance.choice(["/stop", "/new", "/status", "/queue followup", "/resume"]))
    elif roll < 0.4:
        group = f"-{chat}"
        thread = chance.choice([None, "7"])
        home = f"{group}{thread or ''}"
        text = f"secret-{where.account}-{home}-end"
        where.say(group, text, sender=chat, kind=PeerKind.GROUP, thread=thread, mention=chance.random() < 0.7)
    else:
        where.say(chat, f"secret-{where.account}-{chat}-end")
