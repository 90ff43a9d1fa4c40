"""`up` and `chat` in a pseudo-terminal, against a real gateway."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import threading
import time
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
        write_model(state, server.getsockname()[1])
        yield


def write_model(state: Path, port: int) -> None:
    """Configure a model of a server on this machine."""
    provider = {
        "baseUrl": f"http://127.0.0.1:{port}/v1",
        "api": "openai-completions",
        "apiKey": "unused-key",
        "models": [{"id": "m", "name": "m"}],
    }
    config = {"agents": {"defaults": {"model": "home/m"}}, "models": {"providers": {"home": provider}}}
    (state / "tidegate.json").write_text(json.dumps(config))


def test_a_stopped_account_and_a_configuration_that_breaks_are_told_in_the_chat(state: Path):
    file = state / "tidegate.json"
    file.write_text('{ channels: { telegram: { botToken: "${NO_SUCH_TOKEN}" } } }')
    with Terminal("up", "--port", "0", state=state) as terminal:
        terminal.wait_for("! telegram/default: ")
        file.write_text("{\n  gatway: {},\n}")
        terminal.wait_for("! the configuration is broken")
        terminal.wait_for("config check")
        assert f"{file}:2:3:" in terminal.text.replace("\n", "")
        shown = tidegate("status", state=state).stdout
        assert f"{file}:2:3:" in shown
        file.write_text("{}")
        terminal.wait_for("in order again")
        terminal.type("/quit\r")
        assert terminal.wait_for_end() == 0


def test_the_last_good_copy_in_use_is_told_at_the_start(state: Path):
    (state / "tidegate.json").write_text("{ session: {} }")
    with running_gateway(state):
        pass
    (state / "tidegate.json").write_text("{\n  gatway: {},\n}")
    with Terminal("up", "--port", "0", state=state) as terminal:
        terminal.wait_for("! the configuration is broken, the last good copy is in use")
        terminal.type("\x03")
        assert terminal.wait_for_end() == 0


def test_a_turn_that_fails_shows_the_owner_why(state: Path):
    (state / "tidegate.json").write_text('{ agents: { defaults: { model: "anthropic/m" } } }')
    with Terminal("up", "--port", "0", state=state) as terminal:
        terminal.wait_for("Tidegate is up")
        terminal.type("hello\r")
        terminal.wait_for("✗ no model of agent 'main' has a usable key")
        terminal.wait_for("says what to check")
        terminal.type("\x03")
        assert terminal.wait_for_end() == 0


def test_what_is_typed_in_one_window_appears_in_the_other_with_its_answer(state: Path):
    with running_gateway(state), Terminal("chat", state=state) as one, Terminal("chat", state=state) as two:
        one.wait_for("talking to your agent")
        two.wait_for("talking to your agent")
        # Who was answered is attached; the greeting comes before that.
        two.type("here\r")
        two.wait_for("You wrote: “here”")
        one.type("good morning\r")
        two.wait_for("(from another window) good morning")
        two.wait_for("You wrote: “good morning”")
        one.wait_for("You wrote: “good morning”")
        assert "(from another window) good morning" not in one.text


def test_help_in_the_terminal_names_its_own_keys_as_well(state: Path):
    with running_gateway(state), Terminal("chat", state=state) as terminal:
        terminal.wait_for("talking to your agent")
        terminal.type("/help\r")
        terminal.wait_for("/quit or Ctrl-C leaves")
        terminal.wait_for("/stop")


def test_an_endless_fast_answer_is_stopped_at_once_and_what_was_said_stays(state: Path):
    with endless_model(state), Terminal("up", "--port", "0", state=state) as terminal:
        terminal.wait_for("Tidegate is up")
        terminal.type("talk\r")
        terminal.wait_for("and on and on")
        terminal.read_for(1)
        began = time.monotonic()
        terminal.type("/stop\r")
        terminal.wait_for("Stopped.")
        # Under a second on an idle machine of two cores; tests run beside others.
        assert time.monotonic() - began < 3.0
        terminal.read_for(0.2)
        terminal.type("\x03")
        assert terminal.wait_for_end() == 0
    assert "and on [stopped here]" in " ".join(terminal.text.split())


def test_an_answer_that_a_kill_cut_off_is_not_called_stopped_because_it_goes_on(state: Path):
    with endless_model(state), running_gateway(state) as gateway, Terminal("chat", state=state) as terminal:
        terminal.wait_for("talking to your agent")
        terminal.type("talk\r")
        terminal.wait_for("and on and on")
        gateway.kill()
        terminal.wait_for("The gateway is away")
        terminal.type("/quit\r")
        assert terminal.wait_for_end() == 0
    said = " ".join(terminal.text.split())
    assert "and on [cut off; it goes on when the gateway is back]" in said
    assert "stopped here" not in said


@contextlib.contextmanager
def endless_model(state: Path):
    """Configure a model whose server streams as fast as it can, for ever, from a thread."""
    head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
    piece = 'data: {"choices": [{"index": 0, "delta": {"content": "and on "}}]}\n\n'

    def serve(server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = server.accept()
                with client, contextlib.suppress(OSError):
                    client.recv(1 << 20)
                    client.sendall(head.encode())
                    while True:
                        client.sendall(piece.encode() * 20)

    with socket.create_server(("127.0.0.1", 0)) as server:
        write_model(state, server.getsockname()[1])
        thread = threading.Thread(target=serve, args=(server,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join(5)


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
