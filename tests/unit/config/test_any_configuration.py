"""Whatever stands in the file, the loader answers with a configuration or with problems, never with a crash."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.config.known_keys import KeyTree, key_tree
from tidegate.config.load import Loaded, load_config
from tidegate.config.model import SECTIONS
from tidegate.config.problems import InvalidConfig

junk = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-1, 100_000)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "main", "default", "telegram", "5m", "${X}", "open", "*", "~", "x/y", "é"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["id", "agentId", "match", "channel", "$include", "main", "bogus"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)


@st.composite
def configurations(draw: st.DrawFn) -> dict[str, Any]:
    """Objects made of keys that exist, with fitting and unfitting values."""

    def grow(known: KeyTree, depth: int) -> Any:
        if not known or depth > 6 or draw(st.integers(0, 9)) == 0:
            return draw(junk)
        if "[]" in known:
            return [grow(known["[]"], depth + 1) for _ in range(draw(st.integers(0, 2)))]
        names = draw(st.lists(st.sampled_from(sorted(known)), max_size=4, unique=True))
        return {
            draw(st.sampled_from(["main", "b", "A b", "-100", "x"])) if name == "*" else name: grow(
                known[name], depth + 1
            )
            for name in names
        }

    sections = draw(
        st.lists(st.sampled_from([*SECTIONS, "bindings", "broadcast", "accessGroups"]), max_size=4, unique=True)
    )
    return {name: grow(key_tree()[name], 1) for name in sections}


@settings(max_examples=100, deadline=None)
@given(configurations())
def test_any_configuration_loads_or_is_refused(data: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tidegate.json"
        path.write_text(json.dumps(data), encoding="utf-8")
        outcome = attempt(path)
        assert outcome.warnings is not None
        if isinstance(outcome, Loaded):
            assert outcome.config.agents.roster()
            assert outcome.config.effective()
            if outcome.config.channels.telegram is not None:
                assert outcome.config.channels.telegram.account_options()
        else:
            assert all(str(problem).startswith(str(path)) for problem in outcome.problems)


def attempt(path: Path) -> Loaded | InvalidConfig:
    try:
        return load_config(path, environ={}, state_dir=path.parent)
    except InvalidConfig as error:
        return error
