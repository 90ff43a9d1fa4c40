"""`up` and `chat` in a pseudo-terminal, against a real gateway."""

from __future__ import annotations

from pathlib import Path

from cli.driver import Terminal, running_gateway, tidegate


def test_up_starts_a_gateway_shows_the_answer_once_and_stops_it_when_left(state: Path):
    with Terminal("up", "--port", "0", state=state) as terminal:
        terminal.wait_for("Tidegate is up")
        terminal.type("good morning\r")
        terminal.wait_for("offline demo model: no account")
        terminal.wait_for("to talk to a real one.")
        terminal.type("/quit\r")
        terminal.wait_for("stopping the gateway")
        assert terminal.wait_for_end() == 0
    assert "gateway.ready" in (state / "logs" / "gateway.log").read_text()
    assert "gateway.ready" not in terminal.text
    assert not (state / "gateway.sock").exists()


def test_a_tool_call_is_one_line_and_its_answer_follows(state: Path):
    with Terminal("up", "--port", "0", state=state) as terminal:
        terminal.wait_for("Tidegate is up")
        terminal.type("list files\r")
        terminal.wait_for("⚙ ls")
        terminal.wait_for("(Offline demo model.)")
        terminal.type("\x03")
        assert terminal.wait_for_end() == 0


def test_a_second_up_attaches_and_leaves_the_first_one_running(state: Path):
    with running_gateway(state) as gateway, Terminal("up", state=state) as terminal:
        terminal.wait_for(f"runs already (pid {gateway.pid})")
        terminal.type("hello\r")
        terminal.wait_for("talk to a real one.")
        terminal.type("\x04")
        assert terminal.wait_for_end() == 0
        assert gateway.poll() is None


def test_a_message_typed_while_the_gateway_is_away_is_answered_when_it_is_back(state: Path):
    with running_gateway(state):
        terminal = Terminal("chat", state=state)
        terminal.wait_for("talking to your agent")
        terminal.type("one\r")
        terminal.wait_for("You wrote: “one”")
    with terminal:
        terminal.wait_for("The gateway is away")
        terminal.type("two\r")
        terminal.wait_for("› two")
        with running_gateway(state):
            terminal.wait_for("The gateway is back")
            terminal.wait_for("You wrote: “two”")
            terminal.type("/quit\r")
            assert terminal.wait_for_end() == 0


def test_an_answer_to_somebody_else_at_the_same_agent_is_shown_unasked(state: Path):
    with running_gateway(state), Terminal("chat", state=state) as terminal:
        terminal.wait_for("talking to your agent")
        assert tidegate("chat", "--once", "from elsewhere", state=state).returncode == 0
        terminal.wait_for("You wrote: “from elsewhere”")
        terminal.type("\x03")
        assert terminal.wait_for_end() == 0


def test_chat_without_a_gateway_says_what_to_do(state: Path):
    with Terminal("chat", state=state) as terminal:
        terminal.wait_for("no gateway runs here; `tidegate up`")
        assert terminal.wait_for_end() == 4


def test_without_a_terminal_up_is_the_gateway_alone(state: Path):
    with running_gateway(state):
        second = tidegate("up", state=state)
    assert second.returncode == 1
    assert "another gateway" in second.stderr
    assert "Traceback" not in second.stderr
