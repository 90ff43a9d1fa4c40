"""The single lines of the chat."""

from __future__ import annotations

from tidegate.gateway.cli.conversation import MAX_TOOL_LINE, file_line, tool_line
from tidegate.gateway.cli.terminal import Style


def test_a_tool_is_named_once_on_one_short_line():
    assert tool_line({"tool": "ls", "summary": "ls ."}) == "  ⚙ ls ."
    assert tool_line({"tool": "write", "summary": "a.txt"}) == "  ⚙ write a.txt"
    assert tool_line({"tool": "read", "summary": ""}) == "  ⚙ read"
    long = tool_line({"tool": "exec", "summary": "echo one\n\x1b[2Jtwo " + "x" * 500})
    assert "\n" not in long
    assert "\x1b" not in long
    assert len(long) <= MAX_TOOL_LINE + 4


def test_a_file_is_a_line_with_its_place():
    frame = {"file": "/s/blobs/ab", "file_name": "report\x07.pdf"}
    assert file_line(frame, Style(colour=False)) == "[report\ufffd.pdf: /s/blobs/ab]"
