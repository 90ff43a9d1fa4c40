"""Every command with its words and help. Nothing heavy is imported here: `--help` has to be quick."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from tidegate import __version__
from tidegate.gateway.program import program

EPILOG = """\
exit codes: 0 well, 1 a problem was found, 2 wrong usage, 3 time-out, 4 the gateway cannot be reached
start here: `{program} up` starts the gateway with a chat; `{program} doctor` says what is wrong"""

Subparsers = Any
"""argparse keeps the type of its sub-parser collection to itself."""


class Arguments(argparse.Namespace):
    """What was asked for.

    Attributes:
        handler: `module:function` inside this package that carries the command out; empty for a word that only
            groups commands.
        parser: The parser of the command, which knows its help.
    """

    handler: str = ""
    parser: Parser
    config: str | None = None
    state_dir: str | None = None
    json: bool = False
    no_color: bool = False
    url: str | None = None
    token_file: str | None = None
    password_file: str | None = None
    insecure: bool = False


class Parser(argparse.ArgumentParser):
    """A parser that guesses what a mistyped command was meant to be."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        choices = action.choices
        if isinstance(action, argparse._SubParsersAction) and choices is not None and value not in choices:
            raise argparse.ArgumentError(None, f"there is no command {value!r}{guess(str(value), choices)}")
        super()._check_value(action, value)

    def parse_fully(self, words: Iterable[str]) -> Arguments:
        """Read all words; a word that is left over is told with the usage of the command that it stands behind."""
        arguments, rest = self.parse_known_args(list(words), namespace=Arguments())
        if rest:
            options = [name for name in arguments.parser._option_string_actions if name.startswith("--")]
            hint = guess(rest[0].partition("=")[0], options)
            arguments.parser.error(f"{' '.join(rest)} {'is' if len(rest) == 1 else 'are'} not known here{hint}")
        return arguments

    def error(self, message: str) -> NoReturn:
        """Print the usage of this very command and the message; ends with code 2."""
        self.print_usage(sys.stderr)
        self.exit(2, f"tidegate: {message}\n")


def guess(word: str, candidates: Iterable[str]) -> str:
    """Return `; did you mean …?` for a mistyped word, or nothing."""
    close = difflib.get_close_matches(word, list(candidates), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def build_parser() -> Parser:
    """Return the parser of the whole command line."""
    common = _common()
    parser = Parser(
        prog="tidegate",
        description="Your AI agents in every chat app you use, behind one gateway.",
        epilog=EPILOG.format(program=program()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[common],
    )
    parser.add_argument("--version", action="version", version=f"tidegate {__version__}")
    parser.set_defaults(parser=parser)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    add = _adder(commands, common)
    _running(add, common)
    _service(add, common)
    _looking(add, common)
    _people(add, common)
    _config(add, common)
    _routing(add, common)
    _about(add)
    return parser


Add = Callable[..., Parser]


def _common() -> argparse.ArgumentParser:
    """The options that stand before or after any command. Absent ones leave the namespace as it is."""
    common = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    group = common.add_argument_group("everywhere")
    group.add_argument("--config", metavar="FILE", help="configuration file (default: <state>/tidegate.json)")
    group.add_argument("--state-dir", metavar="DIR", help="state directory (default: ~/.tidegate)")
    group.add_argument("--json", action="store_true", help="print JSON for programs")
    group.add_argument("--no-color", action="store_true", help="print without colours (also: NO_COLOR=1)")
    there = common.add_argument_group("a gateway elsewhere")
    there.add_argument("--url", metavar="URL", help="its address, as wss://HOST (default: TIDEGATE_GATEWAY_URL)")
    there.add_argument("--token-file", metavar="FILE", help="file with its token (default: TIDEGATE_GATEWAY_TOKEN)")
    there.add_argument("--password-file", metavar="FILE", help="file with its password (or TIDEGATE_GATEWAY_PASSWORD)")
    there.add_argument("--insecure", action="store_true", help="allow ws:// to another machine, readable on the way")
    return common


def _adder(commands: Subparsers, common: argparse.ArgumentParser) -> Add:
    def add(name: str, handler: str, text: str, **more: Any) -> Parser:
        parser: Parser = commands.add_parser(
            name, help=text, description=f"{text[0].upper()}{text[1:]}.", parents=[common], **more
        )
        parser.set_defaults(handler=handler, parser=parser)
        return parser

    return add


def _group(add: Add, common: argparse.ArgumentParser, name: str, text: str) -> Add:
    """Add a command that only groups others."""
    parser = add(name, "", text)
    actions = parser.add_subparsers(title="actions", metavar="ACTION")
    return _adder(actions, common)


def _running(add: Add, common: argparse.ArgumentParser) -> None:
    up = add("up", "up:up", "start the gateway here and, in a terminal, a chat with the agent")
    up.add_argument("--port", type=_port, metavar="N", help="listen on this port; 0 picks a free one")
    gateway = _group(add, common, "gateway", "run the gateway as a service")
    run = gateway("run", "run:run", "run the gateway in the foreground; needs no terminal, logs to standard error")
    run.add_argument("--port", type=_port, metavar="N", help="listen on this port; 0 picks a free one")
    web = add("web", "web:web", "print a link that lets one browser into the web chat, once")
    web.add_argument("--open", action="store_true", help="open it in this machine's browser")
    chat = add("chat", "chat:chat", "talk to the agent of the running gateway")
    chat.add_argument("--once", metavar="TEXT", help="send TEXT, print the answer, exit")
    chat.add_argument("--timeout", type=_seconds, metavar="SECONDS", help="give up on an answer (default: 300)")
    tui = add("tui", "tui:tui", "talk to agents in a full-screen chat with all sessions")
    tui.add_argument("--session", metavar="KEY", help="begin in this session (default: the main one)")
    agent = add("agent", "agent:agent", "let an agent carry out one turn and print what it says")
    agent.add_argument("--message", required=True, metavar="TEXT", help="what to say; - reads standard input")
    agent.add_argument("--agent", metavar="ID", help="which agent (default: the default one)")
    agent.add_argument("--session", metavar="KEY", help="in which session (default: the agent's main one)")
    agent.add_argument("--timeout", type=_seconds, metavar="SECONDS", help="end the turn after this (default: 600)")
    agent.add_argument("--key", metavar="KEY", help="names this turn: the same key again never runs it twice")


def _service(add: Add, common: argparse.ArgumentParser) -> None:
    service = _group(add, common, "service", "let systemd or launchd run the gateway")
    install = service("install", "service:install", "write the unit of this installation, enable and start it")
    remove = service("remove", "service:remove", "stop the service and delete its unit; the state stays")
    status = service("status", "service:status", "say whether it is installed and runs")
    for parser in (install, remove, status):
        parser.add_argument("--system", action="store_true", help="the service of the whole system, not only yours")
        parser.add_argument("--run-as", metavar="USER", help="with --system: who it runs as (default: who calls sudo)")
    for parser in (install, remove):
        parser.add_argument("--dry-run", action="store_true", help="print what would be written and run")
        parser.add_argument("--force", action="store_true", help="also when the unit was edited; it is kept as .bak")


def _looking(add: Add, common: argparse.ArgumentParser) -> None:
    status = add("status", "status:status", "say how the gateway stands and what needs a person")
    status.add_argument("--watch", action="store_true", help="again every two seconds until Ctrl-C")
    doctor = add("doctor", "doctor:doctor", "look for everything that could be wrong; changes nothing")
    doctor.add_argument("--crash-points", action="store_true", help="list the points for TIDEGATE_CRASH_AT")
    logs = add("logs", "logs:logs", "show the gateway's log")
    logs.add_argument("-f", "--follow", action="store_true", help="go on with what is written, until Ctrl-C")
    logs.add_argument("-n", "--lines", type=_count, default=50, metavar="N", help="lines to begin with (default: 50)")
    levels = ("debug", "info", "warn", "error")
    logs.add_argument("--level", choices=levels, default="debug", help="least severe level to show")
    channels = _group(add, common, "channels", "look at the channels")
    channels("status", "channels:channels_status", "say how each channel and account stands")
    sessions = _group(add, common, "sessions", "look at sessions and what was said in them")
    listing = sessions("list", "sessions:sessions_list", "list the sessions, the most recently used first")
    listing.add_argument("--limit", type=_count, default=50, metavar="N", help="how many (default: 50)")
    show = sessions("show", "sessions:sessions_show", "show one session and its last messages")
    show.add_argument("key", metavar="KEY", help="the session's key as `sessions list` prints it, or its end: notes")
    show.add_argument("--conversation", metavar="ID", help="an earlier conversation (default: the current one)")
    show.add_argument("--limit", type=_count, default=20, metavar="N", help="messages to show (default: 20)")


def _people(add: Add, common: argparse.ArgumentParser) -> None:
    _devices(add, common)
    pairing = _group(add, common, "pairing", "let people in who asked to talk to the agent")
    listing = pairing("list", "people:pairing_list", "list those who wait to be let in")
    listing.add_argument("channel", nargs="?", metavar="CHANNEL", help="only this channel")
    approve = pairing("approve", "people:pairing_approve", "let somebody in")
    approve.add_argument("channel", metavar="CHANNEL", help="for example telegram")
    approve.add_argument("code", metavar="CODE", help="the code that they were shown")
    approve.add_argument("--quiet", action="store_true", help="do not tell them")
    reject = pairing("reject", "people:pairing_reject", "forget a request")
    reject.add_argument("channel", metavar="CHANNEL", help="for example telegram")
    reject.add_argument("code", metavar="CODE", help="the code that they were shown")
    _deliveries(add, common)
    send = add("send", "sessions:send", "send a message to a chat, through the outbox")
    send.add_argument("--channel", required=True, metavar="C", help="for example telegram")
    send.add_argument("--to", required=True, metavar="CHAT", help="the chat's id on that platform")
    send.add_argument("--account", metavar="A", help="which of our accounts (default: default)")
    send.add_argument("--thread", metavar="T", help="thread or topic in the chat")
    send.add_argument("text", nargs="+", metavar="TEXT", help="what to say, as Markdown; - reads standard input")


def _devices(add: Add, common: argparse.ArgumentParser) -> None:
    devices = _group(add, common, "devices", "let devices steer the gateway, and see those that may")
    devices("list", "devices:devices_list", "list the devices that wait and those that are paired")
    approve = devices("approve", "devices:approve", "let a device in with what it asks for")
    reject = devices("reject", "devices:reject", "turn a request down")
    for parser in (approve, reject):
        parser.add_argument("request", nargs="?", metavar="REQUEST", help="the request, as `devices list` prints it")
        parser.add_argument("--latest", action="store_true", help="the only one that waits")
    revoke = devices("revoke", "devices:revoke", "take a device's rights away and end its connections")
    revoke.add_argument("--role", choices=("operator", "node"), help="only this role (default: all)")
    remove = devices("remove", "devices:remove", "forget a device; it may ask again like a new one")
    rename = devices("rename", "devices:rename", "give a device a name")
    for parser in (revoke, remove, rename):
        parser.add_argument("device", metavar="DEVICE", help="its id, or the beginning of it")
    rename.add_argument("name", metavar="NAME", help="the name")
    for parser in (approve, revoke, remove):
        parser.add_argument("--yes", action="store_true", help="do not ask")
    code = devices("code", "setup_code:code", "print a link, also as a QR code, that lets one phone in, once")
    code.add_argument("--address", metavar="URL", help="where the phone reaches it, https://… (default: found)")
    code.add_argument("--app", action="store_true", help="the code for OpenClaw's apps, not the link for a browser")
    code.add_argument("--node", action="store_true", help="like --app, for a node: a machine that offers commands")
    code.add_argument("--no-qr", action="store_true", help="print the text only")


def _deliveries(add: Add, common: argparse.ArgumentParser) -> None:
    deliveries = _group(add, common, "deliveries", "look at messages that went out, or did not")
    listing = deliveries("list", "deliveries:deliveries_list", "list outgoing parts, the newest first")
    states = ("due", "sending", "sent", "unknown", "dead", "expired")
    listing.add_argument(
        "--state", choices=states, action="append", help="only this state; repeatable (default: those in trouble)"
    )
    listing.add_argument("--limit", type=_count, default=50, metavar="N", help="how many (default: 50)")
    show = deliveries("show", "deliveries:deliveries_show", "show one part and what its state means")
    show.add_argument("id", type=_count, metavar="ID", help="its number, as `deliveries list` prints it")


def _config(add: Add, common: argparse.ArgumentParser) -> None:
    config = _group(add, common, "config", "look at the configuration, check it, change single keys")
    check = config("check", "config:check", "name every problem with file, line and column")
    check.add_argument("--effective", action="store_true", help="also print every setting, defaults filled in")
    get = config("get", "config:get", "print a setting, secrets masked")
    get.add_argument("path", nargs="?", metavar="PATH", help="for example session.dmScope (default: everything)")
    put = config("set", "config:put", "change one setting; comments and layout stay")
    put.add_argument("path", metavar="PATH", help="for example agents.defaults.model")
    put.add_argument("value", metavar="VALUE", help="JSON5, or plain text")
    unset = config("unset", "config:unset", "take one setting away")
    unset.add_argument("path", metavar="PATH", help="for example bindings[0]")
    config("schema", "config:schema", "print the JSON schema of the file")
    config("path", "config:path", "print where the file is")


def _routing(add: Add, common: argparse.ArgumentParser) -> None:
    route = _group(add, common, "route", "see who answers a message, and why")
    explain = route("explain", "route:explain", "explain who would answer one imagined message, in which session")
    explain.add_argument("--channel", required=True, metavar="C", help="for example telegram")
    explain.add_argument("--account", metavar="A", help="which of our accounts (default: default)")
    explain.add_argument(
        "--peer", required=True, type=_peer, metavar="KIND:ID", help="direct:7, group:-100 or channel:C1"
    )
    explain.add_argument("--parent", type=_peer, metavar="KIND:ID", help="what a thread hangs under")
    explain.add_argument("--guild", metavar="G", help="guild (server)")
    explain.add_argument("--role", action="append", default=[], metavar="R", help="a role of the sender; repeatable")
    explain.add_argument("--team", metavar="T", help="team (workspace)")
    explain.add_argument("--thread", metavar="T", help="thread or topic in the chat")
    explain.add_argument("--sender", metavar="ID", help="who wrote it (default: the peer of a direct chat)")


def _about(add: Add) -> None:
    about = add("help", "about:help_", "print the help of a command")
    about.add_argument("words", nargs="*", metavar="COMMAND", help="for example: config set")
    add("version", "about:version", "print the version")
    completion = add("completion", "completion:completion", "print the completion script of a shell")
    completion.add_argument("shell", choices=("bash", "zsh", "fish"), help="which shell")


def _peer(text: str) -> tuple[str, str]:
    kind, colon, peer = text.partition(":")
    if kind not in ("direct", "group", "channel") or not colon or not peer.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not KIND:ID; kinds are direct, group and channel")
    return kind, peer


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port (0 to 65535)")
    return int(text)


def _count(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return value
