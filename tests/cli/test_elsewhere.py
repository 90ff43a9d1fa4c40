"""The commands with `--url`: against a real gateway on a real port, from another state directory."""

from __future__ import annotations

import json
import re
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from cli.driver import Terminal, running_gateway, tidegate
from tidegate.gateway.client.dial import who_here

ASK_FIRST = "{ gateway: { nodes: { pairing: { autoApproveLocal: false } } } }"


TOKEN_ONCE_MORE = "run this again, with the gateway's token once more (TIDEGATE_GATEWAY_TOKEN or --token-file)"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@dataclass
class There:
    """A gateway elsewhere, as far as one machine has such a thing.

    Attributes:
        home: Its state directory.
        here: The state directory of the one who calls it.
    """

    home: Path
    here: Path
    port: int

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    @property
    def token(self) -> str:
        return (self.home / "gateway.token").read_text().strip()

    def run(self, *words: str, token: str | None = "", stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command against it; its token is shown unless another or none is."""
        shown = self.token if token == "" else token
        env = {"TIDEGATE_GATEWAY_TOKEN": shown} if shown else {}
        return tidegate(*words, "--url", self.url, state=self.here, stdin=stdin, env=env)

    def ok(self, *words: str, token: str | None = "") -> str:
        done = self.run(*words, token=token)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def at_home(self, *words: str) -> subprocess.CompletedProcess[str]:
        return tidegate(*words, state=self.home)


@contextmanager
def elsewhere(state: Path, config: str = "{}") -> Iterator[There]:
    home, here = state / "home", state / "here"
    home.mkdir()
    (home / "tidegate.json").write_text(config)
    there = There(home, here, free_port())
    with running_gateway(home, "--port", str(there.port)):
        yield there


def without_times(text: str) -> str:
    return re.sub(r"\d+ (s|min) ago|for \d+ s|just now", "T", text)


def test_what_is_printed_is_the_same_here_and_elsewhere(state: Path):
    with elsewhere(state) as there:
        assert there.at_home("chat", "--once", "remember the milk").returncode == 0
        for words in (
            ("sessions", "list"),
            ("sessions", "show", "agent:main:main"),
            ("deliveries", "list"),
            ("pairing", "list"),
            ("channels", "status"),
            ("config", "get", "session.dmScope"),
            ("config", "get", "gateway.port"),
            ("config", "schema"),
            ("config", "check", "--effective"),
            ("sessions", "show", "agent:main:none"),
        ):
            mine, theirs = there.at_home(*words), there.run(*words)
            assert (theirs.returncode, without_times(theirs.stdout), theirs.stderr) == (
                mine.returncode,
                without_times(mine.stdout),
                mine.stderr,
            ), words
        status = there.ok("status")
        assert re.search(rf"gateway runs \(pid \d+, port {there.port}", status)
        assert str(there.home) not in status
        assert json.loads(there.ok("status", "--json"))["attention"] == []


def test_a_message_is_answered_and_a_turn_is_carried_out(state: Path):
    with elsewhere(state) as there:
        said = json.loads(there.ok("chat", "--once", "good morning", "--json"))["replies"]
        assert ["You wrote: “good morning”" in reply["text"] for reply in said] == [True]
        assert "You wrote: “hello”" in there.ok("agent", "--message", "hello")
        final = json.loads(there.ok("agent", "--message", "again", "--session", "notes", "--key", "k1", "--json"))
        same = json.loads(there.ok("agent", "--message", "again", "--session", "notes", "--key", "k1", "--json"))
        assert final == same
        assert final["result"]["meta"]["agentMeta"]["sessionKey"] == "agent:main:notes"
        unknown = there.run("agent", "--message", "hello", "--agent", "nobody")
        assert (unknown.returncode, 'unknown agent id "nobody"' in unknown.stderr) == (1, True)
        there.ok("send", "--channel", "terminal", "--to", "local", "hello")


def test_a_chat_that_is_over_leaves_nothing_open(state: Path):
    with elsewhere(state) as there:
        for once in (there.run("chat", "--once", "hello"), there.run("chat", stdin="hello\n")):
            assert (once.returncode, once.stderr) == (0, "")
            assert once.stdout.count("You wrote: “hello") == 1


def test_settings_are_changed_there_and_a_comment_stays(state: Path):
    with elsewhere(state, "{\n  // mine\n  session: { dmScope: 'main' },\n}\n") as there:
        changed = there.ok("config", "set", "session.dmScope", "per-peer")
        assert changed.startswith("session.dmScope is set in ")
        assert there.ok("config", "get", "session.dmScope") == "per-peer\n"
        assert "// mine" in (there.home / "tidegate.json").read_text()
        assert "is started again" in there.ok("config", "set", "gateway.port", str(there.port))
        there.ok("config", "unset", "session.dmScope")
        assert there.ok("config", "get", "session.dmScope") == "null\n"
        refused = there.run("config", "set", "session.dmScope", "per-human")
        assert (refused.returncode, "session" in refused.stderr) == (1, True)
        gone = there.run("config", "unset", "session.dmScope")
        assert "is not set there" in gone.stderr
        (there.home / "tidegate.json").write_text("{ nonsense: 1 }")
        broken = there.run("config", "check")
        assert (broken.returncode, f"{there.home}/tidegate.json:1:3" in broken.stdout) == (1, True)


def test_a_new_device_waits_is_approved_and_needs_no_token_afterwards(state: Path):
    with elsewhere(state, ASK_FIRST) as there:
        first = there.run("status")
        found = re.search(r"devices approve (\S+?)`", first.stderr)
        assert first.returncode == 4
        assert found is not None, first.stderr
        assert "within five minutes, then run this again, with the token once more" in first.stderr
        assert first.stderr.count("\n") == 1
        listed = there.at_home("devices", "list").stdout
        assert found[1] in listed
        assert "read, write" in listed
        status = there.at_home("status")
        waiting = f"asks to be let in as a device: `tidegate devices approve {found[1]}`"
        assert (status.returncode, waiting in status.stdout) == (1, True)
        with Terminal("chat", state=there.home) as terminal:
            terminal.wait_for(f"! {who_here()} ")
            terminal.wait_for(waiting)
        approved = there.at_home("devices", "approve", found[1])
        assert "asks for:" in approved.stdout
        assert "may connect now" in approved.stdout
        # The gateway's token once more: with the answer comes the device's own.
        assert there.run("sessions", "list").returncode == 0
        assert there.run("sessions", "list", token=None).returncode == 0
        more = there.run("config", "set", "session.dmScope", "per-peer")
        assert "this device asks for more rights (read, write, admin)" in more.stderr
        approved = there.at_home("devices", "approve", "--latest", "--yes").stdout
        assert "everything, also the configuration and other devices" in approved
        assert there.run("config", "set", "session.dmScope", "per-peer").returncode == 0
        assert there.ok("config", "get", "session.dmScope", token=None) == "per-peer\n"


def token_of(there: There) -> dict[str, str]:
    return {"TIDEGATE_GATEWAY_TOKEN": there.token}


def test_a_new_device_in_a_terminal_waits_and_goes_on_by_itself(state: Path):
    with elsewhere(state, ASK_FIRST) as there:
        words = ("sessions", "list", "--url", there.url)
        with Terminal(*words, state=there.here, env=token_of(there)) as terminal:
            terminal.wait_for("this device is new there and asks for: read, write; waiting five minutes for")
            terminal.wait_for("`tidegate devices approve 01")
            terminal.wait_for("` on the gateway's machine (Ctrl-C gives up)")
            assert "may connect now" in there.at_home("devices", "approve", "--latest", "--yes").stdout
            terminal.wait_for("there are no sessions yet")
            assert terminal.wait_for_end() == 0
        assert terminal.text.count("waiting five minutes") == 1
        assert there.run("sessions", "list", token=None).returncode == 0


def test_a_device_that_is_turned_down_hears_so_and_asks_no_more(state: Path):
    with elsewhere(state, ASK_FIRST) as there:
        words = ("chat", "--url", there.url)
        with Terminal(*words, state=there.here, env=token_of(there)) as terminal:
            terminal.wait_for("waiting five minutes for")
            assert "was turned down" in there.at_home("devices", "reject", "--latest").stdout
            terminal.wait_for("was turned down; run this again to ask once more")
            assert terminal.wait_for_end() == 4
        assert "none waits" in there.at_home("devices", "list").stdout
        assert "is new there" in there.run("status").stderr
        there.at_home("devices", "reject", "--latest")
        assert "was turned down" in there.run("status").stderr
        assert "is new there" in there.run("status").stderr


def test_a_device_that_is_approved_again_shows_the_token_once_more(state: Path):
    with elsewhere(state) as there:
        there.ok("sessions", "list")
        device = json.loads(there.at_home("devices", "list", "--json").stdout)["paired"][0]["deviceId"]
        there.at_home("devices", "revoke", device)
        again = there.run("sessions", "list")
        assert "this device asks to come in again. On the gateway's machine: `tidegate devices" in again.stderr
        assert "then run this again, with the token once more" in again.stderr
        there.at_home("devices", "approve", "--latest", "--yes")
        dead = there.run("sessions", "list", token=None)
        assert (dead.returncode, TOKEN_ONCE_MORE in dead.stderr) == (4, True)
        with Terminal("sessions", "list", "--url", there.url, state=there.here) as terminal:
            terminal.wait_for("The token of")
            terminal.type(there.token + "\n")
            assert terminal.wait_for_end() == 0
        there.ok("sessions", "list", token=None)


def test_a_right_that_is_missing_is_told_where_nobody_can_answer(state: Path):
    with elsewhere(state) as there:
        there.ok("sessions", "list")
        denied = there.run("pairing", "list", token=None)
        assert denied.returncode == 4
        assert "does not hold operator.pairing; run this once in a terminal" in denied.stderr


def test_a_right_that_is_missing_is_asked_for_in_a_terminal(state: Path):
    with elsewhere(state) as there:
        there.ok("sessions", "list")
        with Terminal("devices", "list", "--url", there.url, state=there.here) as terminal:
            terminal.wait_for("this needs operator.pairing; waiting five minutes for `tidegate devices approve")
            assert "asks to be let in" not in there.ok("status", token=None)
            assert "may connect now" in there.at_home("devices", "approve", "--latest", "--yes").stdout
            assert terminal.wait_for_end() == 0
        assert "pairing" in there.ok("devices", "list", token=None)


def test_devices_are_named_revoked_and_forgotten(state: Path):
    with elsewhere(state) as there:
        there.ok("sessions", "list")
        assert f"  {who_here()}  " in there.at_home("devices", "list").stdout
        device = json.loads(there.at_home("devices", "list", "--json").stdout)["paired"][0]["deviceId"]
        assert "is called my laptop now" in there.at_home("devices", "rename", device[:12], "my laptop").stdout
        assert "my laptop" in there.at_home("devices", "list").stdout
        assert "no paired device has" in there.at_home("devices", "revoke", "ffffffffffff").stderr
        assert "may not connect any more" in there.at_home("devices", "revoke", device[:12]).stdout
        revoked = there.run("sessions", "list", token=None)
        assert revoked.returncode == 4
        assert TOKEN_ONCE_MORE in revoked.stderr
        assert "operator revoked" in there.at_home("devices", "list").stdout
        assert "is forgotten" in there.at_home("devices", "remove", device).stdout
        assert "no device is paired" in there.at_home("devices", "list").stdout


def test_a_device_that_holds_admin_manages_the_others(state: Path):
    with elsewhere(state) as there:
        there.ok("sessions", "list")
        there.ok("config", "set", "session.dmScope", "per-peer")
        mine = json.loads(there.ok("devices", "list", "--json"))["paired"][0]["deviceId"]
        other = There(there.home, state / "other", there.port)
        other.ok("sessions", "list")
        theirs = next(row["deviceId"] for row in both(there) if row["deviceId"] != mine)
        assert "is called phone now" in there.ok("devices", "rename", theirs[:12], "phone", token=None)
        assert "may not connect any more" in there.ok("devices", "revoke", theirs[:12], token=None)
        assert other.run("sessions", "list").returncode == 4
        assert theirs[:12] in there.ok("devices", "list", token=None)
        assert "may connect now" in there.ok("devices", "approve", "--latest", "--yes", token=None)
        other.ok("sessions", "list")
        # What this machine remembers of its rights may be older than they are.
        tokens = there.here / "client" / "tokens.json"
        tokens.write_text(tokens.read_text().replace(',\n    "operator.admin"', ""))
        assert "admin" not in tokens.read_text()
        assert len(both(there)) == 2
        # Neither does the gateway's token give a device more than it holds.
        other.ok("devices", "list")
        assert "  read, write, pairing\n" in other.ok("devices", "list", token=None)


def both(there: There) -> list[dict[str, str]]:
    rows: list[dict[str, str]] = json.loads(there.ok("devices", "list", "--json", token=None))["paired"]
    return rows


def test_a_device_that_sees_only_itself_is_told_so(state: Path):
    with elsewhere(state) as there:
        there.ok("devices", "list")
        other = There(there.home, state / "other", there.port)
        other.ok("sessions", "list")
        listed = there.ok("devices", "list", token=None)
        assert "(only this device: managing others needs operator.admin or the gateway's token)" in listed
        for words in (
            ("approve", "--latest", "--yes"),
            ("reject", "--latest"),
            ("approve", "01a2aaaa-aaaa"),
            ("revoke", "ffffffffffff"),
        ):
            refused = there.run("devices", *words, token=None)
            assert (refused.returncode, refused.stdout) == (1, "")
            assert "this device sees only itself: managing others needs operator.admin or" in refused.stderr


def test_a_request_that_was_answered_in_another_way_waits_no_more(state: Path):
    with elsewhere(state, ASK_FIRST) as there:
        there.run("sessions", "list")
        there.at_home("devices", "approve", "--latest", "--yes")
        there.ok("sessions", "list")
        with Terminal("devices", "list", "--url", there.url, state=there.here) as terminal:
            terminal.wait_for("waiting five minutes for")
            (there.home / "tidegate.json").write_text("{}")
            there.at_home("config", "set", "gateway.nodes.pairing.autoApproveLocal", "true")
        waits = json.loads(there.at_home("devices", "list", "--json").stdout)["pending"]
        assert [row["scopes"] for row in waits] == [["operator.pairing"]]
        while there.run("devices", "list").returncode:
            pass
        assert json.loads(there.at_home("devices", "list", "--json").stdout)["pending"] == []


def test_only_one_waiting_device_is_the_latest(state: Path):
    with elsewhere(state, ASK_FIRST) as there:
        nobody = there.at_home("devices", "approve", "--latest", "--yes")
        assert "no device waits" in nobody.stderr
        there.run("status")
        assert "say --yes" in there.at_home("devices", "approve", "--latest").stderr
        (there.here / "client").rename(there.here / "other")
        there.run("status")
        two = there.at_home("devices", "approve", "--latest", "--yes")
        assert "2 devices wait" in two.stderr
        assert "name the request, or say --latest" in there.at_home("devices", "approve").stderr
        waiting = json.loads(there.at_home("devices", "list", "--json").stdout)["pending"]
        assert "was turned down" in there.at_home("devices", "reject", waiting[0]["requestId"]).stdout
        with Terminal("devices", "approve", "--latest", state=there.home) as terminal:
            terminal.wait_for("let it in? [y/N]")
            terminal.type("n\n")
            terminal.wait_for("nothing was changed")
            assert terminal.wait_for_end() == 1
    assert "may connect now" in tidegate("devices", "approve", "--latest", "--yes", state=there.home).stdout


Case = tuple[tuple[str, ...], int, str]


@pytest.mark.parametrize(
    "case",
    [
        (("status", "--url", "ws://gateway.example.org"), 1, "would send the token in the clear"),
        (("status", "--url", "wss://x/?token=abc"), 1, "carries no name, password or token"),
        (("status", "--url", "ws://127.0.0.1:1"), 4, "no gateway answers on ws://127.0.0.1:1: start it there"),
        (("status", "--url", "wss://name.invalid"), 4, "the name name.invalid leads nowhere"),
        (("--url", "wss://x", "doctor"), 1, "`tidegate doctor` is about this machine: leave out --url"),
        (("status", "--url", "ws://127.0.0.1:1", "--token-file", "/nonexistent"), 1, "/nonexistent cannot be used"),
        (("agent", "--message", "x"), 4, "no gateway runs here; start one with `tidegate up`"),
        (("channels", "status"), 4, "no gateway runs here; start one with `tidegate up`"),
    ],
    ids=lambda case: " ".join(case[0]),
)
def test_what_is_in_the_way_is_one_line_that_says_what_to_do(state: Path, case: Case):
    words, code, told = case
    done = tidegate(*words, state=state)
    assert (done.returncode, told in done.stderr, done.stderr.count("\n")) == (code, True, 1), done.stderr


def test_a_wrong_token_is_told(state: Path):
    with elsewhere(state) as there:
        wrong = there.run("status", token="wrong")
        assert (wrong.returncode, "the token is not this gateway's" in wrong.stderr) == (4, True)
        missing = there.run("status", token=None)
        assert "set TIDEGATE_GATEWAY_TOKEN or name a file with --token-file" in missing.stderr
        file = there.here / "token"
        file.write_text(there.token)
        file.chmod(0o600)
        assert there.run("status", "--token-file", str(file), token=None).returncode == 0


def test_secrets_of_the_environment_go_to_the_gateway_of_the_environment_only(state: Path):
    with elsewhere(state) as there:
        env = {"TIDEGATE_GATEWAY_TOKEN": there.token, "TIDEGATE_GATEWAY_URL": there.url}
        assert tidegate("status", state=there.here, env=env).returncode == 0
        other = {**env, "TIDEGATE_GATEWAY_URL": "wss://another.example.org"}
        refused = tidegate("status", "--url", there.url, state=state / "fresh", env=other)
        assert "this gateway wants its token" in refused.stderr
        # What is about this machine stays here.
        assert str(there.here) in tidegate("config", "path", state=there.here, env=env).stdout


def test_a_missing_token_is_asked_for_in_a_terminal_and_not_shown(state: Path):
    with elsewhere(state) as there, Terminal("sessions", "list", "--url", there.url, state=there.here) as terminal:
        terminal.wait_for(f"The token of {there.url}:")
        terminal.type(there.token + "\n")
        terminal.wait_for("there are no sessions yet")
        assert terminal.wait_for_end() == 0
        assert there.token not in terminal.text


def test_ctrl_c_ends_the_question_for_a_token(state: Path):
    with elsewhere(state) as there, Terminal("sessions", "list", "--url", there.url, state=there.here) as terminal:
        terminal.wait_for("The token of")
        terminal.type("\x03")
        assert terminal.wait_for_end() == 130
        assert "Traceback" not in terminal.text


def restarted(there: There, while_away: Callable[[], None]) -> None:
    """Not a restart of the same process: the port is what counts."""
    with running_gateway(there.home, "--port", str(there.port)):
        while_away()


def test_a_chat_goes_on_over_a_restart_and_loses_and_repeats_nothing(state: Path):
    with elsewhere(state) as there:
        there.ok("sessions", "list")
        terminal = Terminal("chat", "--url", there.url, state=there.here)
        terminal.wait_for("talking to your agent")
        terminal.type("one\r")
        terminal.wait_for("You wrote: “one”")
    with terminal:
        terminal.wait_for("The gateway is away")
        terminal.type("two\r")
        terminal.wait_for("› two")

        def talk() -> None:
            terminal.wait_for("The gateway is back")
            terminal.wait_for("You wrote: “two”")
            terminal.type("list files\r")
            terminal.wait_for("⚙ ls")
            terminal.wait_for("(Offline demo model.)")
            terminal.type("/quit\r")
            assert terminal.wait_for_end() == 0

        restarted(there, talk)
    assert terminal.text.count("You wrote: “two”") == 1
    assert terminal.text.count("You wrote: “one”") == 1


def test_a_chat_whose_device_is_revoked_ends_and_says_so(state: Path):
    with elsewhere(state) as there:
        there.ok("sessions", "list")
        device = json.loads(there.at_home("devices", "list", "--json").stdout)["paired"][0]["deviceId"]
        with Terminal("chat", "--url", there.url, state=there.here) as terminal:
            terminal.wait_for("talking to your agent")
            there.at_home("devices", "revoke", device)
            terminal.wait_for(TOKEN_ONCE_MORE)
            assert terminal.wait_for_end() == 4


def test_the_status_and_the_log_are_watched_over_a_restart(state: Path):
    with elsewhere(state) as there:
        there.ok("sessions", "list")
        status = Terminal("status", "--watch", "--url", there.url, state=there.here)
        log = Terminal("logs", "-f", "-n", "1", "--url", there.url, state=there.here)
        status.wait_for("gateway runs")
        log.wait_for("device")
    with status, log:
        status.wait_for("trying again")

        def look() -> None:
            status.wait_for("gateway runs")
            log.wait_for("gateway.ready")
            for terminal in (status, log):
                terminal.type("\x03")
                assert terminal.wait_for_end() == 130

        restarted(there, look)
