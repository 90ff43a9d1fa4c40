"""Makes agents from the configuration: model chain, tools, prompt files and limits, built when first needed."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import aiohttp
import structlog

from tidegate.agent_runtime.context import ModelSettings, PromptFiles, PromptLimits
from tidegate.agent_runtime.limits import RunLimits
from tidegate.agent_runtime.models.base import ModelProvider
from tidegate.agent_runtime.models.build import ProviderSettings, build_provider
from tidegate.agent_runtime.models.catalog import PROVIDERS, window_of
from tidegate.agent_runtime.models.chain import Candidate, Cooldown, ModelChain
from tidegate.agent_runtime.models.demo import DEMO_MODEL
from tidegate.agent_runtime.models.refs import parse_model_ref
from tidegate.agent_runtime.policy import ToolPolicy, ToolRules
from tidegate.agent_runtime.tools.builtin import builtin_tools
from tidegate.agent_runtime.tools.registry import ToolRegistry
from tidegate.agent_runtime.workspace import WorkspaceFiles, bootstrap_workspace
from tidegate.clock import Clock
from tidegate.config.load import Loaded
from tidegate.config.secrets import SecretUnavailable
from tidegate.config.sections.agents import AgentOptions
from tidegate.config.sections.base import ToolNames
from tidegate.config.sections.models import ModelEntry
from tidegate.config.sections.models import ModelProvider as ProviderConfig
from tidegate.errors import ModelRefused
from tidegate.sessions.blobs import BlobStore
from tidegate.sessions.store import CooldownStore

_APIS = {"openai-completions": "openai", "anthropic-messages": "anthropic", "litellm": "litellm", None: ""}
ROOMS = "rooms"
"""The folder of the workspace that holds one folder a session that is not the owner's own."""
MAX_AGENTS = 64
"""Agents kept ready: one for each agent and model that sessions ask for."""
_VIA_OPENAI = frozenset({"openai-completions", "openai-responses", "ollama"})

log = structlog.get_logger("agents")


@dataclass(frozen=True, slots=True)
class Agent:
    """Everything a run of one agent needs.

    Attributes:
        model_ref: `provider/model` that is asked first.
    """

    options: AgentOptions
    model: ModelProvider
    model_ref: str
    settings: ModelSettings
    registry: ToolRegistry
    policy: ToolPolicy
    files: PromptFiles
    workspace: WorkspaceFiles
    limits: RunLimits
    timezone: str
    clock: Clock

    def room(self, session_key: str, *, is_private: bool) -> Room:
        """Return where the tools of a session work.

        The owner's private sessions work in the agent's workspace. Every other session has a folder of its own
        below it, so that people cannot read each other's files, nor change what the agent is told about itself.
        """
        if is_private:
            return Room(self.workspace, self.registry)
        files = WorkspaceFiles(self.workspace.root / ROOMS / room_name(session_key))
        return Room(files, self.registry.with_tools(builtin_tools(files, self.clock)))


@dataclass(frozen=True, slots=True)
class Room:
    """The files of a session, and the tools over them."""

    files: WorkspaceFiles
    registry: ToolRegistry


def room_name(session_key: str) -> str:
    """Return a folder name for a session: readable, and different for different keys."""
    rest = session_key.split(":", 2)[-1]
    readable = "".join(sign if sign.isascii() and sign.isalnum() else "-" for sign in rest).strip("-")[:40]
    return f"{readable}-{hashlib.blake2b(session_key.encode(), digest_size=6).hexdigest()}"


class StoredCooldowns:
    """Cool-downs in the store, read once and then kept at hand."""

    def __init__(self, store: CooldownStore) -> None:
        self._store = store
        self._rows: dict[str, Cooldown] | None = None

    async def get_many(self, ids: Sequence[str]) -> Mapping[str, Cooldown]:
        """Return the cool-downs that exist for `ids`."""
        if self._rows is None:
            self._rows = {}
            for provider, model, key, until, failures, reason in await self._store.load_cooldowns():
                kind, _, failed_at = reason.partition("@")
                self._rows[f"{provider}/{model}#{key}"] = Cooldown(until, failures, kind, int(failed_at or 0))
        return {key: self._rows[key] for key in ids if key in self._rows} if self._rows else {}

    async def put(self, candidate_id: str, cooldown: Cooldown | None) -> None:
        """Store a cool-down; None forgets it."""
        ref, _, key = candidate_id.partition("#")
        provider, _, model = ref.partition("/")
        rows = self._rows if self._rows is not None else {}
        if cooldown is None:
            rows.pop(candidate_id, None)
            await self._store.put_cooldown(provider, model, key, 0, 0, "")
        else:
            rows[candidate_id] = cooldown
            reason = f"{cooldown.kind}@{cooldown.failed_at}"
            await self._store.put_cooldown(provider, model, key, cooldown.until, cooldown.failures, reason)


class AgentFactory:
    """The agents of one configuration.

    Args:
        http: Shared with the rest of the gateway; not closed here.
        local_zone: IANA name of this machine's time zone.
    """

    def __init__(
        self,
        loaded: Loaded,
        *,
        http: aiohttp.ClientSession,
        blobs: BlobStore,
        cooldowns: StoredCooldowns,
        clock: Clock,
        local_zone: str,
    ) -> None:
        self._loaded = loaded
        self._http = http
        self._blobs = blobs
        self._cooldowns = cooldowns
        self._clock = clock
        self._local_zone = local_zone
        self._options = {agent.id: agent for agent in loaded.config.agents.roster()}
        self._agents: dict[str, Agent] = {}
        self._providers: dict[str, ModelProvider] = {}
        self._building = asyncio.Lock()

    def has(self, agent_id: str) -> bool:
        """Tell whether the configuration knows this agent."""
        return agent_id in self._options

    def options(self, agent_id: str) -> AgentOptions | None:
        """Return what is configured for an agent."""
        return self._options.get(agent_id)

    def timezone(self, agent_id: str) -> str:
        """Return the IANA zone that an agent lives in."""
        options = self._options.get(agent_id)
        return (options.user_timezone if options else None) or self._local_zone

    async def get(self, agent_id: str, model: str = "") -> Agent:
        """Return an agent, built on first use.

        Args:
            model: `provider/model` to ask first, in place of the configured one.

        Raises:
            ModelRefused: It has no usable model, or is not configured any more.
        """
        name = f"{agent_id} {model}"
        agent = self._agents.get(name)
        if agent is not None:
            return agent
        async with self._building:
            if name not in self._agents:
                options = self._options.get(agent_id)
                if options is None:
                    raise ModelRefused(f"agent {agent_id!r} is not configured any more", "not_found")
                if model:
                    options = replace(options, model=options.model.model_copy(update={"primary": model}))
                if len(self._agents) >= MAX_AGENTS:
                    self._agents.clear()
                self._agents[name] = await self._build(options)
            return self._agents[name]

    async def _build(self, options: AgentOptions) -> Agent:
        config = self._loaded.config
        if not options.skip_bootstrap:
            await asyncio.to_thread(bootstrap_workspace, options.workspace)
        else:
            await asyncio.to_thread(options.workspace.mkdir, parents=True, exist_ok=True)
        refs = [options.model.primary or DEMO_MODEL, *(options.model.fallbacks or ())]
        candidates = []
        for ref in refs:
            try:
                candidates.append(await self._candidate(ref))
            except SecretUnavailable as error:
                log.warning("model.no_key", agent=options.id, model=ref, reason=str(error))
        if not candidates:
            raise ModelRefused(f"no model of agent {options.id!r} has a usable key", "auth")
        files = WorkspaceFiles(options.workspace)
        limits = PromptLimits(options.bootstrap_max_chars, options.bootstrap_total_max_chars)
        first = candidates[0].ref
        loop = options.tools.loop_detection or config.tools.loop_detection
        return Agent(
            options=options,
            model=ModelChain(candidates, self._cooldowns, self._clock),
            model_ref=first,
            settings=self._settings(first, options),
            registry=ToolRegistry(builtin_tools(files, self._clock)),
            policy=self._policy(options),
            files=PromptFiles(options.workspace, limits),
            workspace=files,
            limits=RunLimits(wall_time=float(options.timeout_seconds), loop_breaker=loop.enabled),
            timezone=self.timezone(options.id),
            clock=self._clock,
        )

    async def _candidate(self, ref: str) -> Candidate:
        parsed = parse_model_ref(ref, "anthropic")
        if parsed is None:
            raise SecretUnavailable(f"{ref!r} is not a model; write it as provider/model")
        provider = self._providers.get(parsed.provider)
        if provider is None:
            provider = self._providers[parsed.provider] = await asyncio.to_thread(self._provider, parsed.provider)
        return Candidate(f"{parsed.provider}/{parsed.model}", parsed.model, provider)

    def _provider(self, name: str) -> ModelProvider:
        """Build a provider; may run a command for its key, so it is called in a thread."""
        configured = self._loaded.config.models.providers.get(name)
        known = PROVIDERS.get(name)
        key = ""
        if configured is not None and configured.api_key is not None:
            key = self._loaded.secrets.resolve_secret(configured.api_key)
        elif known is not None and known.key_env:
            key = next((v for n in known.key_env if (v := self._loaded.environment.get(n))), "")
            if not key:
                raise SecretUnavailable(f"set {known.key_env[0]} or models.providers.{name}.apiKey")
        settings = self._provider_settings(name, configured, key)
        return build_provider(settings, self._http, self._blobs.load, self._clock)

    def _provider_settings(self, name: str, configured: ProviderConfig | None, key: str) -> ProviderSettings:
        if configured is None:
            return ProviderSettings(name, key)
        api = configured.api
        headers = {header: self._loaded.secrets.resolve_secret(value) for header, value in configured.headers.items()}
        return ProviderSettings(
            name,
            key,
            configured.base_url or "",
            "openai" if api in _VIA_OPENAI else _APIS.get(api, "litellm"),
            headers,
            float(configured.timeout_seconds or 0),
        )

    def _settings(self, ref: str, options: AgentOptions) -> ModelSettings:
        provider, _, model = ref.partition("/")
        configured = self._loaded.config.models.providers.get(provider)
        entry = _entry(configured, model)
        window = (entry.context_tokens or entry.context_window) if entry else None
        longest = (entry.max_tokens if entry else None) or (configured.max_tokens if configured else None)
        return ModelSettings(
            model=model,
            window=window or window_of(provider, model),
            max_output_tokens=longest,
            thinking=options.thinking_default or "off",
        )

    def _policy(self, options: AgentOptions) -> ToolPolicy:
        tools = self._loaded.config.tools
        layers = [_rules(tools, tools.profile), _rules(options.tools, options.tools.profile)]
        by_provider = {
            name: _rules(rules, rules.profile)
            for name, rules in {**tools.by_provider, **options.tools.by_provider}.items()
        }
        return ToolPolicy(tuple(layers), by_provider)


def _entry(provider: ProviderConfig | None, model: str) -> ModelEntry | None:
    models = provider.models if provider is not None else ()
    return next((entry for entry in models if entry.id == model), None)


def _rules(names: ToolNames, profile: str | None) -> ToolRules:
    return ToolRules(
        profile or "",
        tuple(names.allow or ()),
        tuple(names.also_allow or ()) if names.allow is None else (),
        tuple(names.deny or ()),
    )
