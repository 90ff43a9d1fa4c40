"""The built-in tools over a real folder."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tidegate.agent_runtime.messages import Message, ToolCall
from tidegate.agent_runtime.tools.base import SessionFacts
from tidegate.agent_runtime.tools.builtin import builtin_tools
from tidegate.agent_runtime.tools.invoke import Toolbox
from tidegate.agent_runtime.tools.registry import ToolRegistry
from tidegate.agent_runtime.workspace import WorkspaceFiles
from tidegate.clock import ManualClock

Invoke = Callable[..., Message]


@pytest.fixture
def invoke(tmp_path: Path) -> Invoke:
    registry = ToolRegistry(builtin_tools(WorkspaceFiles(tmp_path), ManualClock()))
    box = Toolbox(registry, SessionFacts("agent:a:main", "a", "telegram", "Europe/Berlin", "demo/offline"))

    def call(name: str, **arguments: object) -> Message:
        async def run() -> Message:
            prepared = await box.prepare(ToolCall("c", name, json.dumps(arguments)))
            return prepared if isinstance(prepared, Message) else await prepared.run(None)

        return asyncio.run(run())

    return call


def test_write_then_read(invoke: Invoke) -> None:
    assert invoke("write", path="a/b.md", content="one\ntwo\n").text == "Created a/b.md (8 bytes)."
    assert invoke("write", path="a/b.md", content="one\ntwo\n").text.startswith("Replaced")
    assert invoke("read", path="a/b.md").text == "one\ntwo\n"


def test_read_goes_by_lines_and_tells_how_to_go_on(invoke: Invoke) -> None:
    invoke("write", path="n.txt", content="\n".join(str(n) for n in range(1, 11)))
    assert invoke("read", path="n.txt", offset=3, limit=2).text == "3\n4\n\n[more: offset=5 of 10 lines]"
    assert invoke("read", path="n.txt", offset=10).text == "10"
    assert invoke("read", path="n.txt", offset=99).text == "(the file has only 10 lines)"


def test_read_goes_through_one_very_long_line_by_characters(invoke: Invoke) -> None:
    content = "".join(chr(97 + n % 26) for n in range(40_000))
    invoke("write", path="long.txt", content=content)
    seen, cursor = "", 0
    while True:
        part, _, note = invoke("read", path="long.txt", cursor=cursor).text.partition("\n[more: cursor=")
        seen += part
        if not note:
            break
        cursor = int(note.split(" ")[0])
    assert seen == content


def test_read_says_what_is_wrong(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "bin").write_bytes(b"\xff\xfe\x00")
    assert invoke("read", path="bin").text == "'bin' is not a UTF-8 text file"
    assert invoke("read", path="none").is_error
    assert not invoke("read", path="none", optional=True).is_error
    assert invoke("read", path="../x", optional=True).is_error


def test_edit_changes_all_places_or_none(invoke: Invoke) -> None:
    invoke("write", path="a", content="x = 1\ny = 2\n")
    edits = [{"oldText": "x = 1", "newText": "x = 3"}, {"oldText": "z", "newText": ""}]
    result = invoke("edit", path="a", edits=edits)
    assert result.is_error
    assert "edit 2: oldText was not found" in result.text
    assert invoke("read", path="a").text == "x = 1\ny = 2\n"
    assert not invoke("edit", path="a", edits=edits[:1]).is_error
    assert invoke("read", path="a").text == "x = 3\ny = 2\n"


def test_edit_wants_text_that_occurs_once(invoke: Invoke) -> None:
    invoke("write", path="a", content="same same")
    assert "occurs 2 times" in invoke("edit", path="a", edits=[{"oldText": "same", "newText": ""}]).text


def test_edit_keeps_windows_line_ends(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "w").write_bytes(b"one\r\ntwo\r\nthree\r\n")
    invoke("edit", path="w", edits=[{"oldText": "one\ntwo", "newText": "1\n2"}])
    assert (tmp_path / "w").read_bytes() == b"1\r\n2\r\nthree\r\n"


def test_ls_lists_by_name_and_goes_on_after_one(invoke: Invoke) -> None:
    for name in ("c", "a", "b/x"):
        invoke("write", path=name, content="")
    assert invoke("ls").text == "a\nb/\nc"
    assert invoke("ls", limit=1).text == "a\n[2 more: after='a']"
    assert invoke("ls", after="b/").text == "c"
    assert invoke("ls", path="b").text == "x"


def test_find_finds(invoke: Invoke) -> None:
    invoke("write", path="x/a.md", content="")
    assert invoke("find", pattern="*.md").text == "x/a.md"
    assert invoke("find", pattern="*.py").text == "(nothing found)"


def test_session_status_tells_the_time_in_the_zone_of_the_session(invoke: Invoke) -> None:
    text = invoke("session_status").text
    assert text.startswith("Time: Friday, 2027-01-15 09:00 Europe/Berlin (UTC+0100)")
    assert "Session: agent:a:main" in text
    assert invoke("session_status", sessionKey="agent:b:main").is_error


def test_arguments_that_are_out_of_range_are_refused(invoke: Invoke) -> None:
    assert invoke("read", path="a", offset=0).is_error
    assert invoke("ls", limit=0).is_error
    assert invoke("edit", path="a", edits=[]).is_error
