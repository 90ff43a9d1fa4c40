"""The whole configuration as the rest of the program sees it: frozen, with every default filled in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidegate.config.sections.agents import AgentsSection
from tidegate.config.sections.base import Section
from tidegate.config.sections.bindings import AccessGroup, Binding
from tidegate.config.sections.channels import ChannelsSection
from tidegate.config.sections.gateway import GatewaySection
from tidegate.config.sections.messages import CommandsSection, MessagesSection
from tidegate.config.sections.models import ModelsSection
from tidegate.config.sections.session import SessionSection
from tidegate.config.sections.system import EnvSection, LoggingSection, SecretsSection
from tidegate.config.sections.tools import ToolsSection

SECTIONS: Mapping[str, type[Section]] = {
    "gateway": GatewaySection,
    "agents": AgentsSection,
    "session": SessionSection,
    "messages": MessagesSection,
    "commands": CommandsSection,
    "channels": ChannelsSection,
    "models": ModelsSection,
    "env": EnvSection,
    "secrets": SecretsSection,
    "logging": LoggingSection,
    "tools": ToolsSection,
}
"""Sections that are objects, by their key in the file, which is also their attribute."""


@dataclass(frozen=True, slots=True)
class Config:
    """All sections. Those absent from the file have their defaults and were never validated, which is quick.

    `raw` is the file's data after includes and `${NAME}`, with keys we do not use as well; it holds secrets.
    """

    gateway: GatewaySection = field(default_factory=GatewaySection.model_construct)
    agents: AgentsSection = field(default_factory=AgentsSection.model_construct)
    bindings: tuple[Binding, ...] = ()
    session: SessionSection = field(default_factory=SessionSection.model_construct)
    messages: MessagesSection = field(default_factory=MessagesSection.model_construct)
    commands: CommandsSection = field(default_factory=CommandsSection.model_construct)
    channels: ChannelsSection = field(default_factory=ChannelsSection.model_construct)
    models: ModelsSection = field(default_factory=ModelsSection.model_construct)
    env: EnvSection = field(default_factory=EnvSection.model_construct)
    secrets: SecretsSection = field(default_factory=SecretsSection.model_construct)
    logging: LoggingSection = field(default_factory=LoggingSection.model_construct)
    tools: ToolsSection = field(default_factory=ToolsSection.model_construct)
    access_groups: Mapping[str, AccessGroup] = field(default_factory=dict)
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def effective(self) -> dict[str, Any]:
        """Every setting with its default filled in, in the file's own layout. It holds secrets."""
        sections: dict[str, Any] = {
            name: getattr(self, name).model_dump(mode="json", by_alias=True) for name in SECTIONS
        }
        sections["bindings"] = [binding.model_dump(mode="json", by_alias=True) for binding in self.bindings]
        sections["accessGroups"] = {
            name: group.model_dump(mode="json", by_alias=True) for name, group in self.access_groups.items()
        }
        return sections
