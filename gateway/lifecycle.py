"""A gateway's life: the lock, the configuration, ordered start, reload, and the two signals that end it."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from collections.abc import Mapping, Sequence

import structlog

from tidegate.config.load import Loaded, load_config
from tidegate.config.problems import InvalidConfig
from tidegate.config.reload import diff, restarts, watch
from tidegate.config.store import load_or_last_good, save_last_good
from tidegate.errors import ConfigError
from tidegate.faults import Faults
from tidegate.gateway.app import Gateway, open_gateway
from tidegate.gateway.bus import Fact
from tidegate.gateway.http.idle import allow_descriptors, tell_accept_failures_once
from tidegate.gateway.lock import StateLock
from tidegate.gateway.logging import Redactor, RotatingFile, configure_logging, log_path
from tidegate.gateway.program import hint
from tidegate.gateway.site import Site

CRASH_VARIABLE = "TIDEGATE_CRASH_AT"
GC_THRESHOLDS = (10_000, 20, 20)
"""Objects between collections. A turn makes some thousands that reference counting frees; the default of 700 would
collect many times a turn."""
HARD_EXIT = 130
"""Exit code when a second signal ends the process at once, as after Ctrl-C in a shell."""

log = structlog.get_logger("gateway")


class Life:
    """Runs one gateway until it is told to stop.

    Args:
        environ: The process environment.
        console: Log lines also go to standard error; without, to the log file only.
        json_lines: Lines on standard error are JSON whatever the configuration says.
    """

    def __init__(
        self, site: Site, environ: Mapping[str, str], *, console: bool = True, json_lines: bool = False
    ) -> None:
        self._site = site
        self._environ = environ
        self._console = console
        self._json_lines = json_lines
        self._stop = asyncio.Event()
        self._reload = asyncio.Event()
        self._signals = 0
        self._is_last_good = False
        self.gateway: Gateway | None = None
        self.ready = asyncio.Event()

    def stop(self) -> None:
        """End in order; a second call ends the process at once."""
        self._signals += 1
        if self._signals > 1:
            os._exit(HARD_EXIT)
        self._stop.set()

    async def run(self, *, handle_signals: bool = True) -> None:
        """Start, run and end the gateway.

        Raises:
            AlreadyRunning: Another process holds the state directory.
            ConfigError: The configuration cannot be used and there is no last good one.
            StoreError: The store cannot be opened.
        """
        gc.disable()
        allow_descriptors()
        tell_accept_failures_once(asyncio.get_running_loop())
        faults = Faults(self._environ.get(CRASH_VARIABLE))
        self._site.state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        with StateLock(self._site.state_dir):
            started = load_or_last_good(self._site.config_path, environ=self._environ, state_dir=self._site.state_dir)
            loaded = started.loaded
            self._begin_logging(loaded)
            if handle_signals:
                self._install_signals()
            async with open_gateway(self._site, loaded, faults) as gateway:
                self.gateway = gateway
                self._is_last_good = started.is_last_good
                gateway.control.use_reload(self.reload)
                self._tell_problems(gateway, started.problems, loaded)
                await self._run_watched(gateway, is_last_good=started.is_last_good)

    async def _run_watched(self, gateway: Gateway, *, is_last_good: bool) -> None:
        async with asyncio.TaskGroup() as group:
            running = group.create_task(gateway.run(self._stop), name="gateway")
            helpers = [
                group.create_task(self._when_ready(gateway, is_last_good=is_last_good), name="ready"),
                group.create_task(self._watch_config(gateway), name="config.watch"),
                group.create_task(self._reload_on_signal(), name="config.signal"),
            ]
            try:
                await running
            finally:
                for helper in helpers:
                    helper.cancel()

    async def _when_ready(self, gateway: Gateway, *, is_last_good: bool) -> None:
        await gateway.ready.wait()
        self.ready.set()
        _settle_memory()
        if not is_last_good:
            await self._keep_as_good(gateway.loaded)

    def _begin_logging(self, loaded: Loaded) -> None:
        settings = loaded.config.logging
        console = (settings.console_level or settings.level) if self._console else None
        style = "json" if self._json_lines else _style(settings.console_style)
        path, failure, file = log_path(settings.file, self._site), None, None
        try:
            file = RotatingFile(path, settings.max_file_bytes)
        except OSError as error:
            failure = error
        configure_logging(settings.level, style, Redactor(settings.redact_patterns), file, console=console)
        if failure is not None:
            log.warning("log.no_file", path=str(path), error=str(failure))

    async def _keep_as_good(self, loaded: Loaded) -> None:
        try:
            await asyncio.to_thread(save_last_good, self._site.config_path, self._site.state_dir, loaded.digest)
        except OSError as error:
            log.warning("config.no_last_good", error=str(error))

    def _install_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        loop.add_signal_handler(signal.SIGHUP, self._reload.set)

    def _tell_problems(self, gateway: Gateway, problems: object, loaded: Loaded) -> None:
        broken = list(problems) if isinstance(problems, tuple) else []
        if broken:
            gateway.notes.append(_broken("the last good copy is in use", broken))
            for problem in broken:
                log.error("config.broken", problem=str(problem))
            log.error("config.last_good_in_use", hint="fix the file; it is read again when it changes")
        for warning in loaded.warnings:
            log.warning("config.warning", problem=str(warning))

    async def _watch_config(self, gateway: Gateway) -> None:
        while True:
            files = gateway.loaded.files
            # The last good copy differs from the broken file by nature; only a change of the file counts then.
            async for _ in watch(files, digest=None if self._is_last_good else gateway.loaded.digest):
                await self._file_changed(gateway)
                if gateway.loaded.files != files:
                    break

    async def _file_changed(self, gateway: Gateway) -> None:
        """Apply a changed file; with `gateway.reload.mode: "off"` only check it."""
        if gateway.loaded.config.gateway.reload.mode != "off":
            await self.reload()
            return
        try:
            await self._load()
        except InvalidConfig as error:
            self._tell_broken(gateway, "it is not in force yet", error.problems)
            return
        gateway.notes[:] = ["the configuration was changed; it comes into force at the next start"]
        gateway.bus.publish(Fact("config.reloaded", data={"notes": list(gateway.notes)}))
        log.info("config.changed", hint="gateway.reload.mode is off: the change waits for the next start")

    async def _reload_on_signal(self) -> None:
        while True:
            await self._reload.wait()
            self._reload.clear()
            await self.reload()

    async def reload(self) -> Mapping[str, object]:
        """Read the configuration again: valid, it is in force at once; broken, nothing changes."""
        gateway = self.gateway
        assert gateway is not None
        try:
            loaded = await self._load()
        except InvalidConfig as error:
            self._tell_broken(gateway, "the one before it stays in force", error.problems)
            return {"reloaded": False, "problems": [str(problem) for problem in error.problems]}
        self._is_last_good = False
        changes = diff(gateway.loaded.config, loaded.config)
        try:
            gateway.apply(loaded)
        except ConfigError as error:
            log.error("config.not_applied", problem=str(error))
            gateway.notes[:] = [f"the changed configuration is not in force: {error}"]
            gateway.bus.publish(Fact("config.broken", data={"notes": list(gateway.notes)}))
            return {"reloaded": False, "problems": [str(error)]}
        needs = sorted(restarts(changes))
        gateway.notes[:] = ["a changed setting needs a restart of the gateway"] if "gateway" in needs else []
        gateway.bus.publish(Fact("config.reloaded", data={"notes": list(gateway.notes)}))
        await self._keep_as_good(gateway.loaded)
        log.info("config.reloaded", changed=[change.path for change in changes][:20], restarts=needs or None)
        return {"reloaded": True, "changed": [change.path for change in changes], "restarts": needs}

    async def _load(self) -> Loaded:
        return await asyncio.to_thread(
            load_config, self._site.config_path, environ=self._environ, state_dir=self._site.state_dir
        )

    def _tell_broken(self, gateway: Gateway, instead: str, problems: Sequence[object]) -> None:
        for problem in problems:
            log.error("config.broken", problem=str(problem))
        gateway.notes[:] = [_broken(instead, problems)]
        gateway.bus.publish(Fact("config.broken", data={"notes": list(gateway.notes)}))


def _broken(instead: str, problems: Sequence[object]) -> str:
    """Return the note about a file that is refused, with the first thing that is wrong with it."""
    more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
    return f"the configuration is broken, {instead}: {problems[0]}{more}; run {hint('config check')}"


def _settle_memory() -> None:
    """Leave what a start built out of every later collection: it lives as long as the process."""
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


def _style(console_style: str | None) -> str:
    return {"pretty": "pretty", "json": "json"}.get(console_style or "", "auto")
