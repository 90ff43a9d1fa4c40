"""What the screen knows, event by event."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tidegate.gateway.tui.entries import Kind, Step
from tidegate.gateway.tui.model import MAX_ENTRIES, MAX_SESSIONS, Model

KEY = "agent:main:main"


def opened() -> Model:
    model = Model()
    model.list_sessions([{"key": KEY, "updatedAt": 2}, {"key": "agent:main:notes", "updatedAt": 1}])
    model.open(KEY)
    return model


def shown(model: Model) -> list[tuple[str, str, str]]:
    return [(entry.kind.value, entry.text, entry.step.value) for entry in model.entries]


def agent(run: str, stream: str, session: str = KEY, **data: Any) -> dict[str, Any]:
    return {"sessionKey": session, "runId": run, "stream": stream, "data": data}


def chat(run: str, state: str, text: str = "", session: str = KEY, **more: Any) -> dict[str, Any]:
    message = {"message": {"role": "assistant", "content": [{"type": "text", "text": text}]}} if text else {}
    return {"sessionKey": session, "runId": run, "state": state, **message, **more}


def test_a_run_with_a_tool_is_told_in_the_order_in_which_it_happened():
    model = opened()
    mine = model.say("r", "look")
    model.step(mine, Step.WAITING)
    for name, payload in (
        ("agent", agent("r", "lifecycle", phase="start")),
        ("agent", agent("r", "assistant", itemId="1", text="Let me")),
        ("agent", agent("r", "assistant", itemId="1", text="Let me look.")),
        ("chat", chat("r", "delta", "Let me look.")),
        ("agent", agent("r", "tool", phase="start", toolCallId="c", name="ls", args={"path": "."})),
        ("agent", agent("r", "tool", phase="result", toolCallId="c", isError=False)),
        ("agent", agent("r", "assistant", itemId="2", text="Done.")),
    ):
        model.take(name, payload, 1000)
    assert list(model.runs) == ["r"]
    model.take("agent", agent("r", "lifecycle", phase="end"), 2000)
    model.take("chat", chat("r", "final", "Let me look.\n\nDone."), 2000)
    assert shown(model) == [
        ("user", "look", "done"),
        ("assistant", "Let me look.", "done"),
        ("tool", "ls", "done"),
        ("assistant", "Done.", "done"),
    ]
    assert model.entries[2].about == "."
    assert model.runs == {}


def test_an_answer_that_was_never_streamed_is_shown_at_its_end():
    model = opened()
    model.say("r", "/status")
    model.take("chat", chat("r", "final", "all is well"), 1)
    assert shown(model) == [("user", "/status", "done"), ("assistant", "all is well", "done")]


def test_a_run_that_is_stopped_or_fails_leaves_nothing_running():
    model = opened()
    model.take("agent", agent("r", "tool", phase="start", toolCallId="c", name="ls"), 1)
    model.take("chat", chat("r", "aborted", "so far"), 2)
    assert shown(model) == [("tool", "ls", "failed"), ("note", "stopped", "done")]
    model.take("agent", agent("s", "lifecycle", phase="start"), 3)
    model.take("chat", chat("s", "error", errorMessage="no key"), 4)
    assert shown(model)[-1] == ("error", "no key", "done")
    assert model.runs == {}


def waiting(model: Model, run: str, text: str) -> None:
    model.step(model.say(run, text), Step.WAITING)


def test_a_stop_marks_the_cut_answer_and_the_message_that_waited_behind_it():
    model = opened()
    waiting(model, "one", "first")
    model.take("agent", agent("one", "lifecycle", phase="start"), 1)
    model.take("agent", agent("one", "assistant", itemId="1", text="half an"), 1)
    waiting(model, "two", "second")
    model.take("chat", chat("one", "aborted", "half an"), 1)
    model.take("chat", chat("two", "final"), 1)
    cut = [("user", "first", "done"), ("assistant", "half an", "done"), ("note", "stopped", "done")]
    assert shown(model) == [*cut, ("user", "second", "aside")]
    # It keeps its place when the transcript is loaded again, with what came meanwhile.
    messages = [
        {"role": "user", "content": "first"},
        {"role": "assistant", "content": [{"type": "text", "text": "half an"}], "stopReason": "aborted"},
        {"role": "user", "content": "third"},
    ]
    model.load({"messages": messages}, 2)
    assert shown(model) == [*cut, ("user", "second", "aside"), ("user", "third", "done")]
    model.load({"messages": messages}, 2)
    assert shown(model) == [*cut, ("user", "second", "aside"), ("user", "third", "done")]
    # Also when somebody looks into another session meanwhile.
    model.open("agent:main:notes")
    assert shown(model) == []
    model.open(KEY)
    model.load({"messages": messages}, 2)
    assert shown(model) == [*cut, ("user", "second", "aside"), ("user", "third", "done")]


def test_a_message_that_joins_a_running_answer_is_not_set_aside():
    model = opened()
    waiting(model, "zero", "x")
    model.take("chat", chat("zero", "aborted"), 1)
    waiting(model, "one", "first")
    model.take("agent", agent("one", "lifecycle", phase="start"), 1)
    waiting(model, "two", "second")
    model.take("chat", chat("two", "final"), 1)
    assert shown(model)[-1] == ("user", "second", "done")


def test_a_transcript_tells_failures_and_stops():
    model = opened()
    model.load(
        {
            "messages": [
                {"role": "user", "content": "one"},
                {"role": "assistant", "content": [], "stopReason": "error", "errorMessage": "No key."},
                {"role": "user", "content": "two"},
                {"role": "assistant", "content": [], "stopReason": "aborted"},
            ]
        },
        1,
    )
    assert [row[:2] for row in shown(model)] == [
        ("user", "one"),
        ("error", "No key."),
        ("user", "two"),
        ("note", "stopped"),
    ]


def test_sessions_that_are_not_open_are_marked_running_and_unread():
    model = opened()
    notes = model.row("agent:main:notes")
    assert notes is not None
    model.take("chat", chat("n", "delta", "…", session=notes.key), 1)
    assert (notes.is_running, notes.is_unread) == (True, False)
    model.take("chat", chat("n", "final", "…", session=notes.key), 2)
    assert (notes.is_running, notes.is_unread) == (False, True)
    model.open(notes.key)
    assert notes.is_unread is False
    model.take("sessions.changed", {"sessionKey": KEY, "reason": "delete"}, 3)
    assert [row.key for row in model.rows] == [notes.key]


def test_sessions_of_api_requests_that_come_meanwhile_are_listed_only_when_asked_for():
    model = opened()
    asked = {"key": "agent:main:openai:x", "updatedAt": 5, "viaApi": True}
    model.change_session("agent:main:openai:x", asked)
    assert model.row("agent:main:openai:x") is None
    model.shows_api = True
    model.change_session("agent:main:openai:x", asked)
    assert model.row("agent:main:openai:x") is not None


def test_what_was_missed_while_the_line_was_broken_is_unread():
    model = opened()
    model.list_sessions([{"key": KEY, "updatedAt": 9}, {"key": "agent:main:notes", "updatedAt": 8}])
    assert {row.key: row.is_unread for row in model.rows} == {KEY: False, "agent:main:notes": True}


def test_a_transcript_joins_calls_with_their_results_and_keeps_what_is_not_sent():
    model = opened()
    model.say("k", "not sent")
    call = {"type": "toolCall", "id": "c", "name": "read", "arguments": {"path": "a"}}
    page = {
        "messages": [
            {"role": "user", "content": "read a", "__openclaw": {"runId": "old"}},
            {"role": "assistant", "content": [{"type": "text", "text": "Well."}, call], "timestamp": 5},
            {"role": "toolResult", "toolCallId": "c", "isError": True, "content": [], "timestamp": 9},
        ],
        "hasMore": True,
        "nextOffset": 3,
        "inFlightRun": {"runId": "f", "text": "half"},
    }
    model.load(page, 100)
    assert shown(model) == [
        ("user", "read a", "done"),
        ("assistant", "Well.", "done"),
        ("tool", "read", "failed"),
        ("assistant", "half", "running"),
        ("user", "not sent", "unsent"),
    ]
    assert (model.older, model.runs) == (3, {"f": 100})
    model.take("agent", agent("f", "assistant", itemId="1", text="half and more"), 101)
    assert [entry.text for entry in model.entries if entry.run == "f"] == ["half and more"]
    model.load_older({"messages": [{"role": "user", "content": "first"}], "hasMore": False})
    assert (shown(model)[0], model.older) == (("user", "first", "done"), None)


def test_of_a_run_that_goes_on_what_stands_in_the_transcript_is_not_shown_twice():
    model = opened()
    call = {"type": "toolCall", "id": "c", "name": "ls", "arguments": {}}
    messages = [
        {"role": "user", "content": "look"},
        {"role": "assistant", "content": [{"type": "text", "text": "Let me look."}, call], "timestamp": 5},
    ]
    model.load({"messages": messages, "inFlightRun": {"runId": "r", "text": "Let me look.\n\nWell"}}, 9)
    assert shown(model) == [
        ("user", "look", "done"),
        ("assistant", "Let me look.", "done"),
        ("tool", "ls", "running"),
        ("assistant", "Well", "running"),
    ]


def test_what_is_said_elsewhere_is_shown_and_ours_is_not_shown_twice():
    model = opened()
    model.say("mine", "hello")
    for run in ("mine", "theirs"):
        message = {"role": "user", "content": "hello", "__openclaw": {"runId": run}}
        model.take("session.message", {"sessionKey": KEY, "message": message}, 1)
    assert [entry.run for entry in model.entries] == ["mine", "theirs"]


def test_a_new_session_is_called_by_what_was_said_in_it_first():
    model = opened()
    model.change_session("agent:main:dashboard:1", {"key": "agent:main:dashboard:1", "updatedAt": 9})
    model.open("agent:main:dashboard:1")
    model.say("k", "a new subject")
    assert model.rows[0].title == "a new subject"


SIMPLE = st.one_of(st.none(), st.booleans(), st.integers(-2, 9), st.sampled_from(["", "r", "s", "c", KEY, "start"]))
FIELDS = ("sessionKey", "runId", "stream", "state", "data", "message", "session", "reason", "phase", "toolCallId")
FIELDS_TOO = (
    "itemId",
    "text",
    "name",
    "args",
    "isError",
    "role",
    "content",
    "key",
    "updatedAt",
    "queued",
    "errorMessage",
)
PAYLOADS = st.recursive(
    SIMPLE,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(FIELDS + FIELDS_TOO), inner, max_size=6)
    ),
    max_leaves=12,
)
EVENTS = st.tuples(
    st.sampled_from(["chat", "agent", "session.message", "sessions.changed", "presence"]),
    st.dictionaries(st.sampled_from(FIELDS), PAYLOADS, max_size=6),
)


@given(st.lists(EVENTS, max_size=20))
def test_nothing_that_a_gateway_says_breaks_the_screen(events: list[tuple[str, dict[str, Any]]]):
    model = opened()
    for name, payload in events:
        model.take(name, {"sessionKey": KEY, **payload}, 1)
        model.load({"messages": [payload]}, 1)
        model.list_sessions([payload])
    assert len(model.entries) <= MAX_ENTRIES
    assert all(entry.kind in Kind for entry in model.entries)


def test_memory_is_bounded():
    model = opened()
    for number in range(MAX_ENTRIES + 10):
        model.note(str(number))
    model.list_sessions({"key": f"agent:main:{number}", "updatedAt": number} for number in range(MAX_SESSIONS + 10))
    assert len(model.entries) == MAX_ENTRIES
    assert model.entries[-1].text == str(MAX_ENTRIES + 9)
    assert len(model.rows) <= MAX_SESSIONS + 1
