"""What is read from a gateway's messages and rows."""

from __future__ import annotations

from tidegate.gateway.tui.entries import Kind, entries_of, older_offset, row_of


def test_an_answer_that_was_stopped_keeps_its_words_and_a_failure_tells_its_reason():
    cut = {"role": "assistant", "content": [{"type": "text", "text": "half"}], "stopReason": "aborted"}
    failed = {"role": "assistant", "content": [{"type": "text", "text": "No key."}], "stopReason": "error"}
    assert [(entry.kind, entry.text) for entry in entries_of([cut, failed, "no message"])] == [
        (Kind.ASSISTANT, "half"),
        (Kind.NOTE, "stopped"),
        (Kind.ERROR, "No key."),
    ]


def test_a_row_is_read_as_far_as_it_makes_sense():
    row = row_of({"key": "agent:main:main", "isMain": True, "createdAt": 5, "queued": -1, "updatedAt": "soon"})
    assert (row.key, row.is_main, row.began, row.queued, row.updated) == ("agent:main:main", True, 5, 0, 0)
    assert row_of({"isMain": "yes"}).is_main is False


def test_there_is_an_older_page_only_where_the_gateway_says_so():
    assert older_offset({"hasMore": True, "nextOffset": 60}) == 60
    assert older_offset({"hasMore": False, "nextOffset": 60}) is None
    assert older_offset({"hasMore": True}) is None
