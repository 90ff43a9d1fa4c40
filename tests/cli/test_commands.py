"""The commands against a real gateway over its socket, and against a bare store while none runs."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import stat
import subprocess
import time
from contextlib import nullcontext
from pathlib import Path

import pytest

from cli.driver import PYTHON, Terminal, clean_environment, running_gateway, tidegate
from tidegate.clock import SystemClock
from tidegate.events import Address, MessageEvent, Peer, PeerKind, Sender
from tidegate.faults import Faults
from tidegate.sessions.model import EventState, NewEvent, PairingRequest, Record
from tidegate.sessions.sqlite.store import SqliteStore

EXAMPLES = sorted((Path(__file__).parents[1] / "data" / "configs").glob("0[1-6]-*.json5"))
EXAMPLES = [path for path in EXAMPLES if "-part-" not in path.name]


def ask_to_be_let_in(state: Path, sender: str, code: str) -> None:
    """Leave a pairing request in the store, as an unknown sender's message does."""

    async def store_it() -> None:
        clock = SystemClock()
        store = SqliteStore(state / "tidegate.db", clock, Faults())
        await store.open()
        now = clock.now()
        event = MessageEvent(
            Address("telegram", "default", sender), Peer(PeerKind.DIRECT, sender), Sender(sender, "Ana"), code, ""
        )
        request = PairingRequest("telegram", "default", sender, "Ana", code, now, now + 3_600_000_000)
        record = Record(EventState.PAIRING, "pairing required", keep_text=False, pairing=request, pairing_limit=3)
        await store.append_events([NewEvent(event, record)])
        await store.close()

    asyncio.run(store_it())


def result(done: subprocess.CompletedProcess[str]) -> object:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("online", [True, False])
def test_a_person_is_let_in_by_code_with_and_without_a_gateway(state: Path, online: bool):
    ask_to_be_let_in(state, "77", "AB2CD3EF")
    with running_gateway(state) if online else nullcontext():
        (waiting,) = result(tidegate("pairing", "list", "--json", state=state))
        assert (waiting["sender"], waiting["code"]) == ("77", "AB2CD3EF")
        assert "AB2CD3EF" in tidegate("pairing", "list", state=state).stdout
        for channel in ("telegram", "telegram/default"):
            assert "AB2CD3EF" in tidegate("pairing", "list", channel, state=state).stdout
        assert "nobody waits" in tidegate("pairing", "list", "telegram/other", state=state).stdout
        elsewhere = tidegate("pairing", "approve", "telegram/other", "AB2CD3EF", state=state)
        assert "no pending request on telegram/other" in elsewhere.stderr
        wrong = tidegate("pairing", "approve", "telegram", "WRONG", state=state)
        assert wrong.returncode == 1
        assert "see `tidegate pairing list`" in wrong.stderr
        done = tidegate("pairing", "approve", "telegram/default", "ab2cd3ef", state=state)
        assert done.stdout.strip() == "Ana (77) may talk to the agent on telegram and is now the owner"
        assert result(tidegate("pairing", "list", "--json", state=state)) == []
        assert (
            result(tidegate("status", "--json", state=state) if online else ok_offline(state))["deliveries"]["due"] == 1
        )


def ok_offline(state: Path) -> subprocess.CompletedProcess[str]:
    """Status says 1 while no gateway runs, because that needs a person."""
    done = tidegate("status", "--json", state=state)
    assert done.returncode == 1
    done.returncode = 0
    return done


@pytest.mark.parametrize("online", [True, False])
def test_a_request_can_be_turned_down(state: Path, online: bool):
    ask_to_be_let_in(state, "77", "AB2CD3EF")
    with running_gateway(state) if online else nullcontext():
        assert "is gone" in tidegate("pairing", "reject", "telegram", "AB2CD3EF", state=state).stdout
        assert "nobody waits" in tidegate("pairing", "list", state=state).stdout


def test_sessions_are_listed_and_shown_with_and_without_a_gateway(state: Path):
    with running_gateway(state):
        assert "You wrote: “remember the milk”" in tidegate("chat", "--once", "remember the milk", state=state).stdout
        online = result(tidegate("sessions", "list", "--json", state=state))
        shown = tidegate("sessions", "show", "agent:main:main", state=state).stdout
    offline = result(tidegate("sessions", "list", "--json", state=state))
    assert [row["key"] for row in online] == [row["key"] for row in offline] == ["agent:main:main"]
    assert "remember the milk" in shown
    assert "remember the milk" in tidegate("sessions", "show", "agent:main:main", state=state).stdout
    assert "remember the milk" in tidegate("sessions", "show", "Main", state=state).stdout
    assert re.search(r"TITLE\nagent:main:main .* remember the milk\n", tidegate("sessions", "list", state=state).stdout)
    missing = tidegate("sessions", "show", "agent:none", state=state)
    assert (missing.returncode, "there is no session" in missing.stderr) == (1, True)


def test_a_message_sent_without_a_gateway_is_delivered_by_the_next_one(state: Path):
    sent = tidegate("send", "--channel", "terminal", "--to", "local", "left", "for", "later", state=state)
    assert (sent.returncode, sent.stdout.strip()) == (0, "queued 1 part for terminal local")
    with running_gateway(state):
        replies = result(tidegate("chat", "--once", "hello", "--json", state=state))["replies"]
    assert "left for later" in [reply["text"] for reply in replies]


def test_a_channel_that_does_not_exist_is_guessed_and_one_without_an_account_says_what_to_do(state: Path):
    wrong = tidegate("send", "--channel", "telegramm", "--to", "1", "hi", state=state)
    assert "there is no channel 'telegramm'; did you mean 'telegram'? configured: terminal/default" in wrong.stderr
    bare = tidegate("send", "--channel", "telegram", "--to", "1", "hi", state=state)
    assert "telegram account 'default' is not configured" in bare.stderr
    assert "`tidegate doctor` says what telegram needs" in bare.stderr


def test_an_account_stands_under_the_same_word_everywhere_and_no_hint_shows_a_token(state: Path):
    with running_gateway(state):
        none = tidegate("channels", "status", state=state).stdout
        assert "write a line TELEGRAM_BOT_TOKEN=… into .env" in none
        assert "enabled true`" in none
        (state / ".env").write_text("TELEGRAM_BOT_TOKEN=1234:" + "A" * 35)
        assert (
            tidegate(
                "config", "set", "channels.telegram", "{ enabled: true, apiRoot: 'http://127.0.0.1:9' }", state=state
            ).returncode
            == 0
        )
        told = ""
        until = time.monotonic() + 20
        while "telegram/default" not in told and time.monotonic() < until:
            told = tidegate("channels", "status", state=state).stdout
        words = re.findall(r"telegram/default +(\w+)", told + tidegate("status", state=state).stdout)
        assert words == ["retrying", "retrying"]


def test_send_refuses_accounts_that_are_not_configured(state: Path):
    with running_gateway(state):
        online = tidegate("send", "--channel", "matrix", "--to", "x", "hi", state=state)
    offline = tidegate("send", "--channel", "matrix", "--to", "x", "hi", state=state)
    assert online.returncode == offline.returncode == 1
    assert online.stderr == offline.stderr
    assert "configured: terminal/default" in online.stderr


def test_looking_creates_nothing(state: Path):
    for words in (("status",), ("sessions", "list"), ("pairing", "list"), ("doctor",), ("config", "check")):
        assert "Traceback" not in tidegate(*words, state=state).stderr
    assert list(state.iterdir()) == []


def test_status_says_what_runs(state: Path):
    with running_gateway(state) as gateway:
        done = tidegate("status", state=state)
        assert done.returncode == 0
        assert f"gateway runs (pid {gateway.pid}, port " in done.stdout
        assert "terminal/default  up" in done.stdout
        assert "messages    none\n" in done.stdout
        assert "model       demo/offline\n" in done.stdout
        tidegate("chat", "--once", "hello", state=state)
        assert "messages    1 in all: answered 1\n" in tidegate("status", state=state).stdout
        status = result(tidegate("status", "--json", state=state))
        assert status["attention"] == []
    done = tidegate("status", state=state)
    assert done.returncode == 1
    assert "no gateway runs" in done.stdout


def test_chat_answers_a_pipe_and_colours_nothing(state: Path):
    with running_gateway(state):
        done = tidegate("chat", state=state, stdin="list files\n")
    assert done.returncode == 0
    assert "AGENTS.md" in done.stdout
    assert "\x1b" not in done.stdout


def test_a_reader_that_has_gone_ends_a_chat_without_a_word(state: Path):
    reading, writing = os.pipe()
    os.close(reading)
    with running_gateway(state):
        done = subprocess.run(
            [*PYTHON, "chat", "--once", "hello", "--state-dir", str(state)],
            stdout=writing,
            stderr=subprocess.PIPE,
            timeout=30,
            check=False,
            env=clean_environment(HOME=str(state)),
        )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


def test_the_owner_reads_on_standard_error_why_an_answer_failed(state: Path):
    (state / "tidegate.json").write_text('{ agents: { defaults: { model: "anthropic/m" } } }')
    with running_gateway(state):
        done = tidegate("chat", "--once", "hello", state=state)
    assert "I cannot answer: no model of agent 'main' has a usable key" in done.stdout
    assert "doctor" in done.stdout
    assert "✗ no model of agent 'main'" in done.stderr


def test_a_silent_command_and_an_empty_message_end_at_once(state: Path):
    with running_gateway(state):
        assert "new conversation" in tidegate("chat", "--once", "/new", state=state).stdout
        assert tidegate("chat", "--once", " ", state=state).returncode == 1


def test_chat_has_its_exit_codes(state: Path):
    assert tidegate("chat", "--once", "x", state=state).returncode == 4
    with running_gateway(state) as gateway:
        gateway.send_signal(signal.SIGSTOP)
        try:
            late = tidegate("chat", "--once", "x", "--timeout", "0.5", state=state)
        finally:
            gateway.send_signal(signal.SIGCONT)
    assert late.returncode == 3
    assert "did not take the message" in late.stderr


def test_logs_show_the_file_that_every_gateway_writes(state: Path):
    none = tidegate("logs", state=state)
    assert (none.returncode, "no gateway has run" in none.stderr) == (1, True)
    with running_gateway(state):
        pass
    shown = tidegate("logs", "-n", "100", state=state).stdout
    assert "gateway.ready" in shown
    assert "gateway.draining" in shown
    assert tidegate("logs", "--level", "error", state=state).stdout == ""
    last = tidegate("logs", "-n", "1", "--json", state=state).stdout
    assert json.loads(last)["event"] == "gateway.draining"
    assert stat.S_IMODE((state / "logs" / "gateway.log").stat().st_mode) == 0o600


def test_logs_are_followed_over_a_rotation(state: Path):
    file = state / "logs" / "gateway.log"
    file.parent.mkdir()
    file.write_text('{"event": "one", "level": "info"}\n')
    follower = subprocess.Popen(
        [*PYTHON, "logs", "-f", "--json", "--state-dir", str(state)],
        stdout=subprocess.PIPE,
        text=True,
        env=clean_environment(HOME=str(state)),
        # A job that a script puts into the background starts with SIGINT ignored, and its children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert follower.stdout is not None
    try:
        assert json.loads(follower.stdout.readline())["event"] == "one"
        with file.open("a") as log:
            log.write('{"event": "two", "level": "info"}\n')
        assert json.loads(follower.stdout.readline())["event"] == "two"
        file.rename(file.with_name("gateway.log.1"))
        file.write_text('{"event": "three", "level": "info"}\n')
        assert json.loads(follower.stdout.readline())["event"] == "three"
        follower.send_signal(signal.SIGINT)
        assert follower.wait(10) == 130
    finally:
        follower.kill()
        follower.wait()
        follower.stdout.close()


def test_a_setting_is_changed_and_the_comments_stay(state: Path):
    file = state / "tidegate.json"
    file.write_text("{\n  // how long we talk\n  session: { dmScope: 'main' }, // shared\n}\n")
    assert tidegate("config", "set", "session.dmScope", "per-peer", state=state).returncode == 0
    assert tidegate("config", "set", "gateway.port", "19000", state=state).returncode == 0
    text = file.read_text()
    assert "// how long we talk" in text
    assert "// shared" in text
    assert tidegate("config", "get", "session.dmScope", state=state).stdout.strip() == "per-peer"
    assert tidegate("config", "get", "gateway.port", state=state).stdout.strip() == "19000"
    assert tidegate("config", "unset", "gateway.port", state=state).returncode == 0
    assert tidegate("config", "get", "gateway.port", state=state).stdout.strip() == "18790"


def test_a_setting_that_needs_a_new_start_is_said_to_need_it_while_a_gateway_runs(state: Path):
    words = ("config", "set", "gateway.port", "19000")
    assert "started again" not in tidegate(*words, state=state).stdout
    with running_gateway(state):
        assert "started again" in tidegate(*words, state=state).stdout
        assert "started again" not in tidegate("config", "set", "session.dmScope", "main", state=state).stdout


def test_a_broken_setting_is_refused_with_its_place_and_nothing_is_written(state: Path):
    file = state / "tidegate.json"
    file.write_text("{\n  gateway: { port: 19000 },\n}\n")
    before = file.read_text()
    done = tidegate("config", "set", "gateway.port", "a lot", state=state)
    assert done.returncode == 1
    assert f"{file}:2:" in done.stderr
    assert done.stderr.startswith("tidegate: nothing was changed")
    assert "Traceback" not in done.stderr
    assert file.read_text() == before


def test_a_setting_with_which_the_gateway_would_not_start_is_refused(state: Path):
    for words in (("gateway.bind", "lan"), ("gateway.auth.mode", "password"), ("gateway.trustedProxies", "[proxy]")):
        done = tidegate("config", "set", *words, state=state)
        assert done.returncode == 1, words
        assert not (state / "tidegate.json").exists()


def test_a_change_is_in_force_when_the_command_ends(state: Path):
    with running_gateway(state):
        for prefix in ("one", "two", "three"):
            assert tidegate("config", "set", "messages.responsePrefix", prefix, state=state).returncode == 0
            assert tidegate("chat", "--once", "hello", state=state).stdout.startswith(f"{prefix} ")


def test_naming_a_first_agent_tells_that_the_one_before_is_gone(state: Path):
    done = tidegate("config", "set", "agents.entries.helper", "{}", state=state)
    assert "the agent main was there only because no other was named; helper answers now" in done.stdout
    done = tidegate("config", "set", "agents.entries.main", "{default: true}", state=state)
    assert "was there only" not in done.stdout
    assert "was there only" not in tidegate("config", "set", "agents.entries.third", "{}", state=state).stdout


def test_what_check_would_warn_about_is_told_at_once(state: Path):
    done = tidegate("config", "set", "agents.defaults.model", "antropic/claude", state=state)
    assert done.returncode == 0
    assert "did you mean 'anthropic'" in done.stdout


def test_a_setting_that_is_not_there_is_told_with_what_was_meant(state: Path):
    done = tidegate("config", "get", "gateway.prt", state=state)
    assert done.returncode == 1
    assert "did you mean gateway.port?" in done.stderr


def test_config_check_names_every_problem(state: Path):
    (state / "tidegate.json").write_text("{\n  gatway: {},\n  gateway: { port: 'x' },\n}\n")
    done = tidegate("config", "check", state=state)
    assert done.returncode == 1
    assert "tidegate.json:2:" in done.stdout
    assert "tidegate.json:3:" in done.stdout
    data = json.loads(tidegate("config", "check", "--json", state=state).stdout)
    assert [(problem["line"], problem["path"]) for problem in data["problems"]] == [(2, "gatway"), (3, "gateway.port")]
    started = tidegate("gateway", "run", "--port", "0", state=state)
    assert started.returncode == 1
    assert started.stderr.count("tidegate: ") == 2


def test_secrets_are_never_shown(state: Path):
    secret = "123456:" + "A" * 35
    (state / "tidegate.json").write_text(json.dumps({"channels": {"telegram": {"botToken": secret}}}))
    for words in (("config", "get"), ("config", "check", "--effective"), ("doctor",), ("doctor", "--json")):
        done = tidegate(*words, state=state)
        assert secret not in done.stdout + done.stderr, words
        assert "telegram" in done.stdout


def test_schema_and_path_are_printed(state: Path):
    assert "gateway" in json.loads(tidegate("config", "schema", state=state).stdout)["properties"]
    assert tidegate("config", "path", state=state).stdout.strip() == str(state / "tidegate.json")


@pytest.mark.parametrize("config", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_configuration_explains_a_route(state: Path, config: Path):
    words = ("route", "explain", "--config", str(config), "--channel", "telegram", "--peer", "direct:1001")
    people = tidegate(*words, state=state)
    data = json.loads(tidegate(*words, "--json", state=state).stdout)
    is_heard = data["access"]["verdict"] == "allow"
    assert people.returncode == 0, people.stderr
    assert ("goes to   agent " in people.stdout) is is_heard
    assert people.stdout.count("✓ decides" if is_heard else "would decide") == 1
    assert data["session"].startswith(f"agent:{data['agent']}:")
    assert data["levels"][0]["level"] == "binding.peer"


def test_a_gateway_is_not_started_twice_and_says_how_to_reach_the_first(state: Path):
    with running_gateway(state) as gateway:
        second = tidegate("gateway", "run", "--port", "0", state=state)
    assert second.returncode == 1
    assert f"pid {gateway.pid}" in second.stderr
    assert "Traceback" not in second.stderr


def test_a_port_in_use_is_one_line(state: Path):
    with running_gateway(state):
        port = str(json.loads(tidegate("status", "--json", state=state).stdout)["port"])
        other = state / "other"
        started = time.monotonic()
        done = subprocess.run(
            [*PYTHON, "gateway", "run", "--state-dir", str(other), "--port", port],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
            env=clean_environment(HOME=str(state)),
        )
    assert done.returncode == 1
    assert done.stderr.startswith(f"tidegate: gateway.port: cannot listen on 127.0.0.1:{port}")
    assert done.stderr.count("\n") == 1
    assert time.monotonic() - started < 30


def test_somebody_whose_tunnel_has_the_port_is_asked_whether_a_chat_was_meant(state: Path):
    with socket.socket() as tunnel:
        tunnel.bind(("127.0.0.1", 0))
        tunnel.listen()
        port = str(tunnel.getsockname()[1])
        env = {"TIDEGATE_GATEWAY_URL": f"ws://127.0.0.1:{port}"}
        asked = "TIDEGATE_GATEWAY_URL is set: did you mean `tidegate chat`?"
        piped = tidegate("up", "--port", port, state=state, env=env)
        assert (piped.returncode, asked in piped.stderr, piped.stderr.count("\n")) == (1, True, 1)
        with Terminal("up", "--port", port, state=state, env=env) as terminal:
            terminal.wait_for(f"cannot listen on 127.0.0.1:{port}")
            terminal.wait_for(asked)
            assert terminal.wait_for_end() == 1
        assert asked not in tidegate("up", "--port", port, state=state).stderr


def test_the_bash_completion_completes(state: Path):
    script = tidegate("completion", "bash", state=state).stdout
    for typed, at, offered in (
        ("--json config s", 3, ["set", "schema"]),
        ("logs --level w", 3, ["warn"]),
        ("deliveries list --state s", 4, ["sending", "sent"]),
        ("completion z", 2, ["zsh"]),
    ):
        ask = f'COMP_WORDS=(tidegate {typed}); COMP_CWORD={at}; _tidegate; echo "${{COMPREPLY[@]}}"'
        done = subprocess.run(["bash", "-c", f"{script}\n{ask}"], capture_output=True, text=True, check=False)
        assert (done.stdout.split(), done.stderr) == (offered, "")


def test_a_reader_that_goes_away_is_no_error(state: Path):
    done = subprocess.run(
        f"{' '.join(PYTHON)} config schema | head -1",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
        env=clean_environment(HOME=str(state)),
    )
    assert done.stdout.strip() == "{"
    assert done.stderr == ""
