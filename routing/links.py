"""Identity links: which accounts on different platforms belong to one person."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tidegate.routing.normalize import fold


@dataclass(frozen=True, slots=True)
class IdentityLinks:
    """The config's `session.identityLinks`, indexed by entry.

    Attributes:
        entries: From a folded entry (`123` or `telegram:123`) to its rank and canonical name.
    """

    entries: Mapping[str, tuple[int, str]] = field(default_factory=dict)

    @classmethod
    def build(cls, links: Mapping[str, Iterable[str]]) -> IdentityLinks:
        """Index `links`, which lists the entries of each canonical name; blank names and entries are ignored."""
        entries: dict[str, tuple[int, str]] = {}
        for rank, (name, listed) in enumerate(links.items()):
            canonical = fold(name)
            if not canonical:
                continue
            for entry in listed:
                folded = fold(entry)
                if folded:
                    entries.setdefault(folded, (rank, canonical))
        return cls(entries)

    def canonical(self, channel: str, peer_id: str) -> str | None:
        """Return the canonical name of a person, or None; the name listed first in the config wins."""
        person = fold(peer_id)
        if not person or not self.entries:
            return None
        found = [self.entries[entry] for entry in (person, f"{fold(channel)}:{person}") if entry in self.entries]
        return min(found)[1] if found else None

    def names_of(self, canonical: str) -> tuple[str, ...]:
        """Return every entry that leads to `canonical`, for explanations."""
        return tuple(entry for entry, (_, name) in self.entries.items() if name == canonical)
