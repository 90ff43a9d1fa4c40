"""`tidegate service`: systemd or launchd runs the gateway, with the very program, files and state of this call."""

from __future__ import annotations

import getpass
import os
import pwd
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tidegate.config.load import CONFIG_NAME, STATE_VARIABLE
from tidegate.errors import TidegateError
from tidegate.gateway.cli.call import Call, warn
from tidegate.gateway.cli.parser import Arguments
from tidegate.gateway.cli.rpc import running_pid
from tidegate.gateway.program import NAME, hint
from tidegate.gateway.service_files import Condition, Manager, Plan, Service, Step, condition, plan

COMMAND_SECONDS = 90.0
"""How long a service manager may take: a stop waits for answers that run."""
MAX_REASON = 500
"""Characters of what a service manager says about a failure."""


class ServiceProblem(TidegateError):
    """The service cannot be installed or removed; the text says what to do."""


@dataclass(frozen=True, slots=True)
class _Target:
    """One service on this machine."""

    service: Service
    plan: Plan
    found: Condition


def install(arguments: Arguments) -> int:
    """Write the unit, enable and start it; 1 when the service manager said no."""
    call = Call.of(arguments)
    target = _target(call)
    unit, wanted = target.plan.path, target.plan
    if arguments.dry_run:
        call.show({**_dry(target, wanted.apply), "content": wanted.content}, lambda _: _dry_lines(target))
        return 0
    _refuse_edited(target, force=arguments.force)
    _refuse_occupied(call, target)
    target.service.state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    if target.service.user:
        _hand_over(target.service)
    if target.found is Condition.EDITED:
        unit.replace(unit.with_name(f"{unit.name}.bak"))
    _write(unit, wanted.content)
    done, rest = _run(wanted.apply)
    data = {"unit": str(unit), "command": list(target.service.command), "started": not rest}
    call.show(data, lambda _: _installed(target, done=not rest))
    return _told(done, rest)


def remove(arguments: Arguments) -> int:
    """Stop the service and delete its unit; 1 when the service manager said no."""
    call = Call.of(arguments)
    target = _target(call)
    unit, wanted = target.plan.path, target.plan
    steps = (*wanted.stop, Step(("rm", str(unit))), *wanted.after_removal)
    if arguments.dry_run:
        gone = f"# {unit} ({target.found.value}) goes, with"
        call.show(_dry(target, steps), lambda _: [gone, *_commands(steps)])
        return 0
    if target.found is Condition.ABSENT:
        call.show({"unit": str(unit), "removed": False}, lambda _: [f"nothing to remove: {unit} does not exist"])
        return 0
    _refuse_edited(target, force=arguments.force)
    done, rest = _run(wanted.stop)
    if target.found is Condition.EDITED:
        unit.replace(unit.with_name(f"{unit.name}.bak"))
    else:
        unit.unlink()
    if rest:
        rest = (*rest, *wanted.after_removal)
    else:
        done, rest = _run(wanted.after_removal)
    call.show({"unit": str(unit), "removed": True}, lambda _: [f"{unit} is gone; the state stays as it is"])
    return _told(done, rest)


def status(arguments: Arguments) -> int:
    """Say whether the service is installed and runs; 1 when it is not or does not."""
    call = Call.of(arguments)
    target = _target(call)
    is_active = target.found is not Condition.ABSENT and _ends_well(target.plan.look)
    data = {
        "unit": str(target.plan.path),
        "installed": target.found is not Condition.ABSENT,
        "condition": target.found.value,
        "active": is_active,
        "command": list(target.service.command),
    }
    call.show(data, lambda _: _status_lines(target, is_active=bool(is_active)))
    return 0 if is_active else 1


def _status_lines(target: _Target, *, is_active: bool) -> Iterator[str]:
    if target.found is Condition.ABSENT:
        yield f"not installed ({target.plan.path} does not exist); {hint('service install')} does it"
        return
    yield f"{target.plan.path}: {'runs' if is_active else 'does not run'}"
    if target.found is Condition.OUTDATED:
        yield f"it was written for another program or other files; {hint('service install')} writes it anew"
    elif target.found is Condition.EDITED:
        yield "it was changed by hand"


def _target(call: Call) -> _Target:
    arguments, site = call.arguments, call.site
    user = _run_as(arguments) if arguments.system else ""
    home, state, config = Path(call.environ.get("HOME") or Path.home()), site.state_dir, site.config_path
    if arguments.run_as and not arguments.system:
        raise ServiceProblem("--run-as goes with --system; a service of your own runs as you")
    if user and not arguments.state_dir and not call.environ.get(STATE_VARIABLE):
        home = Path(pwd.getpwnam(user).pw_dir)
        config = config if config != state / CONFIG_NAME else home / f".{NAME}" / CONFIG_NAME
        state = home / f".{NAME}"
    command = [*_program(), "gateway", "run", "--state-dir", str(state.absolute())]
    if config.exists() or config != state / CONFIG_NAME:
        command += ["--config", str(config.absolute())]
    service = Service(tuple(command), state.absolute(), user)
    xdg = call.environ.get("XDG_CONFIG_HOME")
    wanted = plan(_manager(), service, home, Path(xdg) if xdg else None, os.getuid())
    try:
        found = wanted.path.read_text(encoding="utf-8")
    except FileNotFoundError:
        found = None
    return _Target(service, wanted, condition(found, wanted))


def _manager() -> Manager:
    if sys.platform == "darwin":
        return Manager.LAUNCHD
    if sys.platform.startswith("linux"):
        return Manager.SYSTEMD
    raise ServiceProblem(f"no service manager is known on {sys.platform}; run {hint('gateway run')} with yours")


def _run_as(arguments: Arguments) -> str:
    user = arguments.run_as or os.environ.get("SUDO_USER") or getpass.getuser()
    try:
        found = pwd.getpwnam(user)
    except KeyError:
        raise ServiceProblem(f"there is no user {user!r}") from None
    if found.pw_uid == 0:
        raise ServiceProblem("the gateway must not run as root: name another user with --run-as")
    return user


def _program() -> tuple[str, ...]:
    """Return the words that start this very installation from anywhere."""
    started = Path(sys.argv[0])
    if started.name == NAME:
        path = shutil.which(NAME) if started == Path(NAME) else str(started)
        if path is not None and os.access(path, os.X_OK):
            return (os.path.abspath(path),)
    return (os.path.abspath(sys.executable), "-m", NAME)


def _refuse_edited(target: _Target, *, force: bool) -> None:
    if target.found is Condition.EDITED and not force:
        raise ServiceProblem(
            f"{target.plan.path} was changed by hand or written by somebody else; "
            "--force goes on all the same and keeps it as .bak"
        )


def _refuse_occupied(call: Call, target: _Target) -> None:
    """Refuse to start beside a gateway that somebody runs by hand: the service would fail again and again."""
    pid = running_pid(call.site) if target.service.state_dir == call.site.state_dir.absolute() else None
    if pid and not (target.found is not Condition.ABSENT and _ends_well(target.plan.look)):
        raise ServiceProblem(f"a gateway (pid {pid}) uses {target.service.state_dir} already; stop it first")


def _hand_over(service: Service) -> None:
    """Give a state directory that was just made to the user who will work in it."""
    owner = pwd.getpwnam(service.user)
    if os.getuid() == 0 and not any(service.state_dir.iterdir()):
        os.chown(service.state_dir, owner.pw_uid, owner.pw_gid)


def _write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_text(content, encoding="utf-8")
    fresh.chmod(0o644)
    fresh.replace(path)


def _run(steps: Sequence[Step]) -> tuple[str, Sequence[Step]]:
    """Run commands in order; returns why one could not be done, and those that are left to do."""
    for index, step in enumerate(steps):
        reason = _reason(step)
        if reason and not step.may_fail:
            return reason, steps[index:]
    return "", ()


def _reason(step: Step) -> str:
    """Run a command; returns why it failed, or nothing."""
    if shutil.which(step.words[0]) is None:
        return f"{step.words[0]} is not here"
    try:
        done = subprocess.run(step.words, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"{step.words[0]} did not end in time"
    said = " ".join(done.stderr.split())[:MAX_REASON]
    return "" if done.returncode == 0 else said or f"{step.words[0]} ended with {done.returncode}"


def _ends_well(step: Step) -> bool:
    return not _reason(step)


def _told(reason: str, rest: Sequence[Step]) -> int:
    """Tell what is left to do by hand."""
    if not rest:
        return 0
    warn(f"{reason}; what is left to do:")
    for line in _commands(rest):
        print(f"  {line}", file=sys.stderr)
    return 1


def _installed(target: _Target, *, done: bool) -> Iterator[str]:
    yield f"{target.plan.path} is written{' and started' if done else ''}"
    yield f"it runs {shlex.join(target.service.command)}"
    if done and not target.service.is_system and _manager() is Manager.SYSTEMD:
        yield "so that it also runs while you are not logged in: loginctl enable-linger"


def _dry(target: _Target, steps: Sequence[Step]) -> dict[str, object]:
    commands = [list(step.words) for step in steps]
    return {"unit": str(target.plan.path), "condition": target.found.value, "commands": commands}


def _dry_lines(target: _Target) -> Iterator[str]:
    yield f"# {target.plan.path} ({target.found.value})"
    yield target.plan.content
    yield "# then"
    yield from _commands(target.plan.apply)


def _commands(steps: Sequence[Step]) -> list[str]:
    return [shlex.join(step.words) for step in steps]
