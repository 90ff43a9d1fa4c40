"""Looks for everything that could be wrong with an installation. It changes nothing."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import socket
import sqlite3
import stat
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from tidegate.agent_runtime.models.catalog import PROVIDERS
from tidegate.agent_runtime.models.refs import parse_model_ref
from tidegate.config.load import Loaded, load_config
from tidegate.config.problems import InvalidConfig
from tidegate.config.secrets import SecretUnavailable
from tidegate.config.sections.telegram import TelegramAccount
from tidegate.errors import StoreUnavailable
from tidegate.gateway.model_names import name_problem
from tidegate.gateway.offline import StoredPeople, look_at_people, look_into
from tidegate.gateway.program import command, hint
from tidegate.gateway.site import Site
from tidegate.routing.access import ANYBODY

OK, WARNING, ERROR = "ok", "warning", "error"
MAX_SOCKET_PATH = 107
"""Bytes of a Unix socket's path that Linux takes (man 7 unix: `sun_path`)."""
LOW_DISK, NO_DISK = 1 << 30, 64 << 20
"""Free bytes below which a warning or an error is due."""
MAX_KEY_FILE = 4096

_BOT_TOKEN = re.compile(r"\d{3,}:[A-Za-z0-9_-]{20,}")
"""What a Telegram bot token looks like (https://core.telegram.org/bots/api#authorizing-your-bot)."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        level: ok, warning or error.
        hint: What to do; empty where all is well.
    """

    level: str
    area: str
    text: str
    hint: str = ""


def examine(site: Site, environ: Mapping[str, str], running_pid: int | None) -> list[Finding]:
    """Return what was found, in the order in which it is worth repairing.

    Args:
        running_pid: Process id of the gateway that answers on this state directory, or None.
    """
    loaded, findings = _configuration(site, environ)
    findings += _state(site)
    findings += _process(site, running_pid)
    findings += _database(site)
    if loaded is not None:
        if running_pid is None:
            findings += _port(site, loaded)
        findings += _telegram(loaded, site.state_dir / ".env")
        findings += _models(loaded, site.state_dir / ".env")
        try:
            findings += _people(loaded, look_at_people(site))
        except StoreUnavailable as error:
            findings.append(Finding(ERROR, "store", str(error)))
    return findings


def _configuration(site: Site, environ: Mapping[str, str]) -> tuple[Loaded | None, list[Finding]]:
    path = site.config_path
    try:
        loaded = load_config(path, environ=environ, state_dir=site.state_dir)
    except InvalidConfig as error:
        found = [Finding(ERROR, "config", str(problem)) for problem in error.problems]
        return None, [*found, *(Finding(WARNING, "config", str(problem)) for problem in error.warnings)]
    found = [Finding(WARNING, "config", str(problem)) for problem in loaded.warnings]
    if not path.exists():
        text = f"{path} does not exist; the defaults are in use"
        return loaded, [*found, Finding(OK, "config", text)]
    if _others_may_read(path):
        found.append(Finding(WARNING, "config", f"other users can read {path}", f"chmod 600 {path}"))
    return loaded, found or [Finding(OK, "config", f"{path} is in order")]


def _state(site: Site) -> Iterator[Finding]:
    folder = site.state_dir
    if len(os.fsencode(site.socket)) > MAX_SOCKET_PATH:
        text = f"the path {site.socket} is too long for a Unix socket ({MAX_SOCKET_PATH} bytes)"
        yield Finding(ERROR, "state", text, "choose a shorter --state-dir")
    if not folder.exists():
        yield Finding(OK, "state", f"{folder} does not exist yet; the first start makes it")
        return
    if not folder.is_dir() or not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        yield Finding(
            ERROR, "state", f"{folder} is not a folder that this user can write", "check its owner and rights"
        )
        return
    open_to_others = [path for path in (folder, site.database, folder / ".env") if _others_may_read(path)]
    for path in open_to_others:
        mode = "700" if path.is_dir() else "600"
        yield Finding(WARNING, "state", f"other users can read {path}", f"chmod {mode} {path}")
    if not open_to_others:
        yield Finding(OK, "state", f"{folder} belongs to this user alone")
    free = shutil.disk_usage(folder).free
    if free < LOW_DISK:
        text = f"only {free >> 20} MiB are free under {folder}"
        yield Finding(
            ERROR if free < NO_DISK else WARNING, "disk", text, "make room: what cannot be stored is not taken"
        )
    else:
        yield Finding(OK, "disk", f"{free / (1 << 30):.1f} GiB are free")


def _others_may_read(path: Path) -> bool:
    try:
        return bool(path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO))
    except OSError:
        return False


def _process(site: Site, running_pid: int | None) -> Iterator[Finding]:
    if running_pid is not None:
        yield Finding(OK, "gateway", f"a gateway runs (pid {running_pid})")
    elif _is_locked(site.state_dir / "gateway.lock"):
        text = "a process holds the state directory and does not answer on its socket"
        yield Finding(ERROR, "gateway", text, f"look into {hint('logs')}; restart it if it stays so")
    elif site.socket.exists():
        text = f"{site.socket} was left behind by a gateway that ended at once"
        yield Finding(WARNING, "gateway", text, "nothing to do: the next start replaces it")
    else:
        yield Finding(OK, "gateway", "no gateway runs")


def _is_locked(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def _database(site: Site) -> Iterator[Finding]:
    path = site.database
    if not path.exists():
        yield Finding(OK, "store", "nothing is stored yet")
        return
    try:
        with closing(look_into(site)) as connection:
            verdicts = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(20)")]
            broken = connection.execute("PRAGMA foreign_key_check").fetchmany(20)
    except sqlite3.Error as error:
        yield Finding(ERROR, "store", f"{path}: {error}", _restore(path))
        return
    if verdicts != ["ok"]:
        yield Finding(ERROR, "store", f"{path} is damaged: {verdicts[0]}", _restore(path))
    elif broken:
        yield Finding(ERROR, "store", f"{path}: rows of {broken[0][0]} refer to rows that are gone", _restore(path))
    else:
        yield Finding(OK, "store", f"{path} is sound ({path.stat().st_size / (1 << 20):.1f} MiB)")


def _restore(path: Path) -> str:
    return f"stop the gateway, keep a copy, then `sqlite3 {path} .recover`, or take the newest {path.name}.v*.bak"


def _port(site: Site, loaded: Loaded) -> Iterator[Finding]:
    port = site.port if site.port is not None else loaded.config.gateway.port
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError as error:
            text = f"port {port} cannot be used: {error.strerror}"
            yield Finding(ERROR, "port", text, "set gateway.port to a free one, or stop what uses it")
            return
    yield Finding(OK, "port", f"port {port} is free")


def _telegram(loaded: Loaded, dotenv: Path) -> Iterator[Finding]:
    telegram = loaded.config.channels.telegram
    for account, options in telegram.account_options().items() if telegram is not None else ():
        if not options.enabled:
            continue
        where = f"telegram/{account}"
        try:
            token = _token(options, loaded)
        except (SecretUnavailable, OSError) as error:
            yield Finding(
                ERROR,
                where,
                f"its token cannot be had: {error}",
                f"set botToken or tokenFile, or the variable in {dotenv}",
            )
            continue
        if not _BOT_TOKEN.fullmatch(token):
            repair = "copy it again from @BotFather; it reads 123456:letters"
            yield Finding(ERROR, where, "its token does not look like a bot token", repair)
        else:
            yield Finding(OK, where, f"has a token (bot {token.partition(':')[0]})")


def _token(options: TelegramAccount, loaded: Loaded) -> str:
    if options.bot_token is not None:
        return loaded.secrets.resolve_secret(options.bot_token).strip()
    if options.token_file:
        with Path(options.token_file).expanduser().open("rb") as file:
            return file.read(MAX_KEY_FILE).decode("utf-8", "replace").strip()
    raise SecretUnavailable("none is configured")


def _models(loaded: Loaded, dotenv: Path) -> Iterator[Finding]:
    for agent in loaded.config.agents.roster():
        where = f"agent {agent.id}"
        if agent.model.primary is None:
            text = "no model is configured, so the offline demo model answers"
            yield Finding(WARNING, where, text, command(["config", "set", "agents.defaults.model", "provider/model"]))
            continue
        refs = (agent.model.primary, *(agent.model.fallbacks or ()))
        problems = {ref: _model_problem(ref, loaded, dotenv) for ref in refs}
        usable = [ref for ref, problem in problems.items() if not problem]
        for ref, problem in problems.items():
            if problem:
                yield Finding(WARNING if usable else ERROR, where, f"{ref} cannot answer: {problem}")
        if usable:
            yield Finding(OK, where, f"{', '.join(usable)} has all it needs (nobody was asked)")


def _model_problem(ref: str, loaded: Loaded, dotenv: Path) -> str:
    """Return why a model cannot be asked, or empty. No network is used."""
    if problem := name_problem(ref, loaded):
        return problem
    parsed = parse_model_ref(ref, "")
    assert parsed is not None
    configured = loaded.config.models.providers.get(parsed.provider)
    known = PROVIDERS.get(parsed.provider)
    try:
        if configured is not None and configured.api_key is not None:
            loaded.secrets.resolve_secret(configured.api_key)
        elif known is not None and known.key_env and not any(loaded.environment.get(name) for name in known.key_env):
            return f"set {known.key_env[0]} in {dotenv} or the environment"
    except SecretUnavailable as error:
        return str(error)
    return ""


def _people(loaded: Loaded, people: StoredPeople) -> Iterator[Finding]:
    config = loaded.config
    telegram = config.channels.telegram
    accounts = telegram.account_options() if telegram is not None else {}
    active = {name: options for name, options in accounts.items() if options.enabled}
    named = {f"telegram:{_bare(entry)}" for options in active.values() for entry in options.allow_from}
    paired = {f"{where[0]}:{sender}" for where, senders in people.allowed.items() for sender in senders}
    owners = {*config.commands.owner_allow_from, *people.owners}
    admitted = named | paired
    is_open = any(options.dm_policy == "open" for options in active.values())
    if config.session.dm_scope == "main" and (len(admitted) > 1 or f"telegram:{ANYBODY}" in admitted or is_open):
        yield Finding(
            WARNING,
            "people",
            'session.dmScope is "main" and more than one person is admitted: they share one conversation',
            f"{hint('config unset session.dmScope')} gives everybody but the owner a conversation of their own",
        )
    if owners:
        yield Finding(OK, "people", f"the owner is {', '.join(sorted(owners))}")
    elif (
        len(named) == 1 and (only := next(iter(named))) != f"telegram:{ANYBODY}" and "accessgroup:" not in only.lower()
    ):
        repair = command(["config", "set", "commands.ownerAllowFrom", f'["{only}"]'])
        yield Finding(WARNING, "people", f"{only} is admitted and nobody is the owner, so they are a guest", repair)
    elif active:
        repair = (
            f"the first one let in by {hint('pairing approve')} becomes the owner"
            if any(options.dm_policy == "pairing" for options in active.values())
            else command(["config", "set", "commands.ownerAllowFrom", '["telegram:YOUR_ID"]'])
        )
        yield Finding(WARNING, "people", "nobody is the owner", repair)


def _bare(entry: str) -> str:
    prefix, colon, rest = entry.strip().partition(":")
    return rest if colon and prefix.lower() in ("telegram", "tg") else entry.strip()
