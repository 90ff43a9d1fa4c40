"""Who may speak to an agent. Everything here fails closed, and only immutable ids identify anybody.

One matcher (`AllowList`) serves direct chats, groups, commands and the owner check, so that an id that means one
person in one place cannot mean another elsewhere. Names and user names never match: anybody can take them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from tidegate.events import MessageEvent, PeerKind
from tidegate.routing.normalize import fold, trim

ANYBODY: Final = "*"
_GROUP_PREFIX: Final = "accessgroup:"
_PREFIXES: Final = {
    "telegram": frozenset({"telegram", "tg"}),
    "discord": frozenset({"discord", "user"}),
    "slack": frozenset({"slack", "user"}),
    "whatsapp": frozenset({"whatsapp", "wa"}),
    "imessage": frozenset({"imessage", "imsg"}),
}
_CASE_MATTERS: Final = frozenset({"matrix"})

AccessGroups = Mapping[str, Mapping[str, tuple[str, ...]]]
"""From a group's name to its members per channel; the channel `*` holds members on every channel."""


class DmPolicy(StrEnum):
    """Who may write directly."""

    PAIRING = "pairing"
    ALLOWLIST = "allowlist"
    OPEN = "open"
    DISABLED = "disabled"


class GroupPolicy(StrEnum):
    """Whom the agent hears in groups."""

    ALLOWLIST = "allowlist"
    OPEN = "open"
    DISABLED = "disabled"


@dataclass(frozen=True, slots=True)
class Identity:
    """A person on a platform, by the id that cannot be changed."""

    channel: str
    id: str


@dataclass(frozen=True, slots=True)
class AllowList:
    """Entries of an allow list: ids, ids with their channel (`telegram:123`), `accessGroup:<name>`, `*`."""

    entries: tuple[str, ...] = ()
    groups: AccessGroups = field(default_factory=dict)

    def names(self, who: Identity) -> bool:
        """Return whether an entry names this very person; `*` names nobody."""
        return bool(_person(who.channel, who.id)) and any(self._entry_names(entry, who) for entry in self.entries)

    def admits(self, who: Identity) -> bool:
        """Return whether the list lets this person in, by name or by `*`."""
        return (self.is_open and bool(trim(who.id))) or self.names(who)

    @property
    def is_open(self) -> bool:
        """Whether the list holds `*`."""
        return any(trim(entry) == ANYBODY for entry in self.entries)

    def _entry_names(self, entry: str, who: Identity) -> bool:
        text = trim(entry)
        if not text.lower().startswith(_GROUP_PREFIX):
            return _is_person(text, who)
        name = trim(text[len(_GROUP_PREFIX) :])
        members = self.groups.get(name, {})
        listed = (*members.get(fold(who.channel), ()), *members.get(ANYBODY, ()))
        return any(_is_person(trim(member), who) for member in listed)


def _is_person(text: str, who: Identity) -> bool:
    channel, person = fold(who.channel), _person(who.channel, who.id)
    if not text or text == ANYBODY:
        return False
    if _person(channel, text) == person:
        return True
    prefix, colon, rest = text.partition(":")
    known = _PREFIXES.get(channel, frozenset({channel}))
    return bool(colon) and fold(prefix) in known and _person(channel, rest) == person


def _person(channel: str, text: str) -> str:
    return trim(text) if fold(channel) in _CASE_MATTERS else fold(text)


@dataclass(frozen=True, slots=True)
class GroupRule:
    """The config's entry for one group.

    Attributes:
        allow_from: Who is heard here instead of the channel's list; None leaves that list in force.
    """

    is_enabled: bool = True
    policy: GroupPolicy | None = None
    allow_from: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """The access keys of one channel account.

    Attributes:
        allow_from: Who may write directly; also who is heard in groups while `group_allow_from` is empty.
        groups: The groups that are listened to, `*` for any; None lets every group be.
        allows_bots: Messages of other bots are heard.
    """

    dm_policy: DmPolicy = DmPolicy.PAIRING
    group_policy: GroupPolicy = GroupPolicy.ALLOWLIST
    allow_from: tuple[str, ...] = ()
    group_allow_from: tuple[str, ...] = ()
    groups: Mapping[str, GroupRule] | None = None
    access_groups: AccessGroups = field(default_factory=dict)
    allows_bots: bool = False

    def list_of(self, entries: Iterable[str]) -> AllowList:
        """Return an allow list that knows this config's access groups."""
        return AllowList(tuple(entries), self.access_groups)

    def direct_entries(self, paired: Iterable[str]) -> tuple[str, ...]:
        """Return who may write directly; pairing counts only where the policy lets people pair."""
        counts = self.dm_policy in (DmPolicy.PAIRING, DmPolicy.DISABLED)
        return tuple(dict.fromkeys((*self.allow_from, *(paired if counts else ()))))

    def group_entries(self) -> tuple[str, ...]:
        """Return who is heard in groups; pairing never counts there."""
        return self.group_allow_from or self.allow_from


class Reason(StrEnum):
    """Why somebody was let in or kept out."""

    DM_OPEN = "dm_policy_open"
    DM_DISABLED = "dm_policy_disabled"
    DM_ALLOWLISTED = "dm_policy_allowlisted"
    DM_NOT_ALLOWLISTED = "dm_policy_not_allowlisted"
    DM_PAIRING_REQUIRED = "dm_policy_pairing_required"
    GROUP_ALLOWED = "group_policy_allowed"
    GROUP_DISABLED = "group_policy_disabled"
    GROUP_EMPTY_ALLOWLIST = "group_policy_empty_allowlist"
    GROUP_NOT_ALLOWLISTED = "group_policy_not_allowlisted"
    GROUP_NOT_LISTED = "group_not_listed"
    GROUP_OFF = "group_disabled"
    OWN_MESSAGE = "own_message"
    BOT = "bot"
    NO_SENDER = "no_sender"


@dataclass(frozen=True, slots=True)
class Allow:
    """The message goes on."""

    reason: Reason


@dataclass(frozen=True, slots=True)
class Deny:
    """The message is recorded and not answered."""

    reason: Reason


@dataclass(frozen=True, slots=True)
class Pair:
    """The sender is unknown and may ask to be let in."""

    reason: Reason = Reason.DM_PAIRING_REQUIRED


Verdict = Allow | Deny | Pair


@dataclass(frozen=True, slots=True)
class Approach:
    """Somebody who wants to be heard.

    Attributes:
        places: The group's ids, most specific first (topic, then group); empty for a direct chat.
    """

    who: Identity
    is_group: bool = False
    places: tuple[str, ...] = ()
    is_bot: bool = False
    is_self: bool = False

    @classmethod
    def of(cls, event: MessageEvent) -> Approach:
        """Return the approach that an event is."""
        is_group = event.peer.kind is not PeerKind.DIRECT
        parent = (event.parent_peer.id,) if event.parent_peer is not None else ()
        guild = (event.guild,) if event.guild else ()
        places = tuple(dict.fromkeys((event.peer.id, *parent, event.address.chat, *guild))) if is_group else ()
        who = Identity(event.address.channel, event.sender.id)
        return cls(who, is_group, places, event.sender.is_bot, event.author_is_self)


def decide_access(approach: Approach, policy: AccessPolicy, paired: Iterable[str] = ()) -> Verdict:
    """Return whether somebody may speak here.

    Args:
        paired: Ids that were let in by pairing on this account.
    """
    if approach.is_self:
        return Deny(Reason.OWN_MESSAGE)
    if not trim(approach.who.id):
        return Deny(Reason.NO_SENDER)
    if approach.is_bot and not policy.allows_bots:
        return Deny(Reason.BOT)
    return _decide_group(approach, policy) if approach.is_group else _decide_direct(approach.who, policy, paired)


def _decide_direct(who: Identity, policy: AccessPolicy, paired: Iterable[str]) -> Verdict:
    if policy.dm_policy is DmPolicy.DISABLED:
        return Deny(Reason.DM_DISABLED)
    allowed = policy.list_of(policy.direct_entries(paired))
    if policy.dm_policy is DmPolicy.OPEN and allowed.is_open:
        return Allow(Reason.DM_OPEN)
    if allowed.admits(who):
        return Allow(Reason.DM_ALLOWLISTED)
    return Pair() if policy.dm_policy is DmPolicy.PAIRING else Deny(Reason.DM_NOT_ALLOWLISTED)


def _decide_group(approach: Approach, policy: AccessPolicy) -> Verdict:
    rule = _group_rule(approach.places, policy.groups)
    if rule is None:
        return Deny(Reason.GROUP_NOT_LISTED)
    if not rule.is_enabled:
        return Deny(Reason.GROUP_OFF)
    effective = rule.policy or policy.group_policy
    if GroupPolicy.DISABLED in (effective, policy.group_policy):
        return Deny(Reason.GROUP_DISABLED)
    if rule.allow_from is None and effective is GroupPolicy.OPEN:
        return Allow(Reason.GROUP_ALLOWED)
    allowed = policy.list_of(policy.group_entries() if rule.allow_from is None else rule.allow_from)
    if not allowed.entries:
        return Deny(Reason.GROUP_EMPTY_ALLOWLIST)
    return Allow(Reason.GROUP_ALLOWED) if allowed.admits(approach.who) else Deny(Reason.GROUP_NOT_ALLOWLISTED)


def _group_rule(places: tuple[str, ...], groups: Mapping[str, GroupRule] | None) -> GroupRule | None:
    if groups is None:
        return GroupRule()
    listed = (groups[place] for place in (*places, ANYBODY) if place in groups)
    return next(listed, None)


def is_owner(who: Identity, owners: AllowList) -> bool:
    """Return whether somebody is the owner: named by `commands.ownerAllowFrom` or the store, never by `*`."""
    return owners.names(who)


@dataclass(frozen=True, slots=True)
class CommandPolicy:
    """Who may use commands.

    Attributes:
        owners: The owner's identities.
        allow_from: `commands.allowFrom` per channel, `*` for all; None lets everybody who is admitted.
    """

    owners: AllowList = field(default_factory=AllowList)
    allow_from: Mapping[str, tuple[str, ...]] | None = None


def may_command(who: Identity, policy: CommandPolicy, *, is_admitted: bool) -> bool:
    """Return whether somebody may use commands; the owner always may, strangers never."""
    if is_owner(who, policy.owners):
        return True
    if not is_admitted:
        return False
    if policy.allow_from is None:
        return True
    entries = policy.allow_from.get(fold(who.channel), policy.allow_from.get(ANYBODY, ()))
    return AllowList(entries, policy.owners.groups).admits(who)
