"""`up` and `chat` in a pseudo-terminal, against a real gateway."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
from pathlib import Path

from cli.driver import Terminal, running_gateway, tidegate
from fakes.tiny_terminal import TinyTerminal


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


def test_a_port_in_use_ends_up_with_one_line_and_a_working_terminal(state: Path):
    with running_gateway(state):
        port = str(json.loads(tidegate("status", "--json", state=state).stdout)["port"])
        with Terminal("up", "--port", port, state=state / "other") as terminal:
            terminal.wait_for(f"cannot listen on 127.0.0.1:{port}")
            assert terminal.wait_for_end() == 1
    assert "Traceback" not in terminal.text


def test_a_broken_configuration_is_told_by_up_line_by_line(state: Path):
    (state / "tidegate.json").write_text("{ gatway: {}, gateway: { port: 'x' } }")
    with Terminal("up", state=state) as terminal:
        assert terminal.wait_for_end() == 1
    assert terminal.text.count("tidegate: ") == 2
    assert "Traceback" not in terminal.text


def test_sigterm_ends_the_chat_and_the_gateway(state: Path):
    with Terminal("up", "--port", "0", state=state) as terminal:
        terminal.wait_for("Tidegate is up")
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.wait_for_end() == 0
    assert "gateway.draining" in (state / "logs" / "gateway.log").read_text()


def test_an_answer_is_on_the_screen_once_after_it_was_streamed(state: Path):
    with Terminal("up", "--port", "0", state=state) as terminal:
        terminal.wait_for("Tidegate is up")
        terminal.type("good morning\r")
        terminal.wait_for("to talk to a real one.\n")
        terminal.type("/quit\r")
        assert terminal.wait_for_end() == 0
    screen = TinyTerminal()
    screen.write(terminal.output.replace("\r\n", "\n"))
    assert screen.text.count("I am Tidegate's offline demo model") == 1
    assert screen.text.count("› good morning") == 1


@contextlib.contextmanager
def model_that_never_answers(state: Path):
    """Configure a model whose server takes the request and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        provider = {
            "baseUrl": f"http://127.0.0.1:{server.getsockname()[1]}/v1",
            "api": "openai-completions",
            "apiKey": "unused-key",
            "models": [{"id": "m", "name": "m"}],
        }
        config = {"agents": {"defaults": {"model": "home/m"}}, "models": {"providers": {"home": provider}}}
        (state / "tidegate.json").write_text(json.dumps(config))
        yield


def test_a_running_answer_can_be_stopped_by_typing(state: Path):
    with model_that_never_answers(state), Terminal("up", "--port", "0", state=state) as terminal:
        terminal.wait_for("Tidegate is up")
        terminal.type("think for ever\r")
        terminal.wait_for("…")
        terminal.type("/stop\r")
        terminal.wait_for("Stopped.")
        terminal.type("\x03")
        assert terminal.wait_for_end() == 0


def test_a_second_ctrl_c_does_not_wait_for_a_running_answer(state: Path):
    with model_that_never_answers(state), Terminal("up", "--port", "0", state=state) as terminal:
        terminal.wait_for("Tidegate is up")
        terminal.type("think for ever\r")
        terminal.wait_for("…")
        terminal.type("\x03")
        terminal.wait_for("stopping the gateway")
        terminal.type("\x03")
        assert terminal.wait_for_end(timeout=10) == 130


def test_a_chat_with_a_gateway_that_hangs_can_be_left(state: Path):
    with running_gateway(state) as gateway, Terminal("chat", state=state) as terminal:
        terminal.wait_for("talking to your agent")
        gateway.send_signal(signal.SIGSTOP)
        try:
            terminal.type("anybody there?\r\x03")
            assert terminal.wait_for_end(timeout=10) == 0
        finally:
            gateway.send_signal(signal.SIGCONT)
