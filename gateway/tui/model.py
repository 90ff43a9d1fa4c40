"""What the screen knows: the list of sessions, and what was said in the one that is open. No terminal, no network.

Events of the gateway change it, in the order in which they come. Times are milliseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidegate.gateway.client.said import text_of
from tidegate.gateway.client.shape import fields, items
from tidegate.gateway.client.tools import summary
from tidegate.gateway.tui.entries import MAX_TEXT, STOPPED, Entry, Kind, Row, Step, entries_of, older_offset, row_of

MAX_ENTRIES = 2_000
"""Entries of one session that are kept; the oldest go first and can be loaded again."""
MAX_SESSIONS = 200
NEW = ":dashboard:"
"""What the key of a session holds that was made by a client."""


@dataclass(slots=True)
class Model:
    """Everything that is shown.

    Attributes:
        session: Key of the open session.
        older: Offset of the next older page of its transcript; None when there is none.
        runs: Runs of the open session that are going on, with the time at which they began.
        state: `connecting`, `connected`, `away` or `pairing`.
        reason: Why it is not connected.
        notice: One line that is shown until something else happens.
        shows_api: Sessions of single API requests are listed too.
    """

    session: str = ""
    rows: list[Row] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    older: int | None = None
    runs: dict[str, int] = field(default_factory=dict)
    state: str = "connecting"
    reason: str = ""
    notice: str = ""
    shows_api: bool = False
    generation: int = 0
    _is_stopped: bool = False
    _left: dict[str, list[Entry]] = field(default_factory=dict)

    def row(self, key: str) -> Row | None:
        """Return a session of the list."""
        return next((row for row in self.rows if row.key == key), None)

    @property
    def queued(self) -> int:
        """How many messages wait in the open session."""
        row = self.row(self.session)
        mine = sum(entry.kind is Kind.USER and entry.step is Step.WAITING for entry in self.entries)
        return max(row.queued if row is not None else 0, mine if self.runs else 0)

    def list_sessions(self, sessions: Iterable[Mapping[str, Any]]) -> None:
        """Take the list of sessions as the gateway tells it."""
        unread = {row.key for row in self.rows if row.is_unread}
        seen = {row.key: row.updated for row in self.rows}
        self.rows = []
        for session in sessions:
            row = row_of(session)
            missed = row.key in seen and row.updated > seen[row.key]
            row.is_unread = row.key != self.session and (row.key in unread or missed)
            self.rows.append(row)
        self._sort()

    def change_session(self, key: str, session: Mapping[str, Any] | None, *, gone: bool = False) -> None:
        """Take what became of one session."""
        old = self.row(key)
        if gone:
            self.rows = [row for row in self.rows if row.key != key]
            return
        if session is None or (session.get("viaApi") and not self.shows_api and key != self.session):
            return
        row = row_of(session)
        if old is None:
            self.rows.append(row)
        else:
            old.title, old.is_main, old.began = row.title or old.title, row.is_main, row.began
            old.is_running, old.queued, old.updated = row.is_running, row.queued, row.updated
        self._sort()

    def _sort(self) -> None:
        self.rows.sort(key=lambda row: -row.updated)
        del self.rows[MAX_SESSIONS:]
        if self.session and self.row(self.session) is None:
            self.rows.insert(0, Row(self.session))

    def open(self, key: str) -> None:
        """Go to a session; what was said in it comes with `load`."""
        self._leave()
        self.session, self.entries, self.older, self.runs = key, self._left.pop(key, []), None, {}
        self.generation += 1
        row = self.row(key)
        if row is None:
            self.rows.insert(0, Row(key))
        else:
            row.is_unread = False

    def _leave(self) -> None:
        """Keep what a stop set aside, which no transcript holds, with the messages behind which it stands."""
        asked = [entry for entry in self.entries if entry.kind is Kind.USER]
        pairs = zip([None, *asked], asked, strict=False)
        kept = [entry for before, after in pairs if after.step is Step.ASIDE for entry in (before, after) if entry]
        if kept:
            self._left[self.session] = list({id(entry): entry for entry in kept}.values())
            while len(self._left) > MAX_SESSIONS:
                del self._left[next(iter(self._left))]

    def load(self, page: Mapping[str, Any], now: int) -> None:
        """Take the newest page of the open session's transcript, in place of what is shown."""
        kept = [entry for entry in self.entries if entry.step in (Step.UNSENT, Step.WAITING)]
        known = entries_of(items(page.get("messages")))
        self._keep_aside(known)
        said = {entry.run for entry in known if entry.kind is Kind.USER}
        self.entries, self.runs = known, {}
        flight = page.get("inFlightRun")
        if isinstance(flight, Mapping):
            run = str(flight.get("runId", ""))
            self.runs[run] = now
            kept = [entry for entry in kept if entry.id != run]
            self._take_up(known, run, str(flight.get("text") or ""))
        for entry in kept:
            if entry.id not in said:
                self._put(entry)
        self.older = older_offset(page)
        self.generation += 1

    def _keep_aside(self, known: list[Entry]) -> None:
        """Put what a stop set aside where it stood: behind the message before it and what came of that."""
        asked: Entry | None = None
        for entry in self.entries:
            if entry.step is not Step.ASIDE:
                asked = entry if entry.kind is Kind.USER else asked
                continue
            text = asked.text if asked is not None else None
            at = max((i for i, other in enumerate(known) if other.kind is Kind.USER and other.text == text), default=-1)
            if at < 0:
                at = len(known) - 1
            while at + 1 < len(known) and (known[at + 1].kind is not Kind.USER or known[at + 1].step is Step.ASIDE):
                at += 1
            known.insert(at + 1, entry)

    def _take_up(self, known: Sequence[Entry], run: str, text: str) -> None:
        """Show what a run that is going on has said so far; what of it stands in the transcript is shown already."""
        last = max((index for index, entry in enumerate(known) if entry.kind is Kind.USER), default=-1)
        for entry in known[last + 1 :]:
            if entry.kind is Kind.TOOL and not entry.ended:
                entry.step, entry.run = Step.RUNNING, run
            elif entry.kind is Kind.ASSISTANT and text.startswith(entry.text.strip()):
                text = text[len(entry.text.strip()) :].lstrip()
        if text:
            self._put(Entry(Kind.ASSISTANT, text[:MAX_TEXT], f"flight:{run}", run, Step.RUNNING))

    def load_older(self, page: Mapping[str, Any]) -> None:
        """Take the page before what is shown."""
        room = MAX_ENTRIES - len(self.entries)
        older = entries_of(items(page.get("messages")))
        self.entries[:0] = older[-room:] if room > 0 else []
        self.older = older_offset(page) if room > len(older) else None

    def say(self, key: str, text: str) -> Entry:
        """Show what is typed here, before it is sent."""
        entry = Entry(Kind.USER, text, key, key, Step.UNSENT)
        self._put(entry)
        row = self.row(self.session)
        if row is not None and not row.title and NEW in row.key:
            # The gateway will call it so too; until it says so, this is better than a number.
            row.title = text
        return entry

    def note(self, text: str, *, kind: Kind = Kind.NOTE) -> None:
        """Show a line of our own."""
        self._put(Entry(kind, text))

    def step(self, entry: Entry, step: Step) -> None:
        """Note how far an entry is."""
        entry.step = step
        entry.version += 1

    def _put(self, entry: Entry) -> None:
        self.entries.append(entry)
        del self.entries[: max(0, len(self.entries) - MAX_ENTRIES)]

    def _put_after(self, run: str, entry: Entry) -> None:
        """Show something behind what a run said, before what waits."""
        at = max((index for index, other in enumerate(self.entries) if other.run == run), default=-1)
        if at < 0:
            self._put(entry)
        else:
            self.entries.insert(at + 1, entry)

    def _find(self, name: str) -> Entry | None:
        return next((entry for entry in reversed(self.entries) if entry.id == name), None) if name else None

    def take(self, name: str, payload: Mapping[str, Any], now: int) -> None:
        """Take an event of the gateway."""
        key = str(payload.get("sessionKey", ""))
        if name == "sessions.changed":
            session = payload.get("session")
            self.change_session(
                key, session if isinstance(session, Mapping) else None, gone=payload.get("reason") == "delete"
            )
            return
        if name not in ("chat", "agent", "session.message"):
            return
        self._mark_row(key, name, payload)
        if key == self.session:
            if name == "chat":
                self._chat(payload)
            elif name == "agent":
                self._agent(payload, now)
            else:
                self._message(payload)

    def _mark_row(self, key: str, name: str, payload: Mapping[str, Any]) -> None:
        row = self.row(key)
        if row is None or name != "chat":
            return
        state = payload.get("state")
        row.is_running = state not in ("final", "error", "aborted")
        if state in ("final", "error") and key != self.session:
            row.is_unread = True

    def _message(self, payload: Mapping[str, Any]) -> None:
        """Show what somebody said elsewhere in this session."""
        message = payload.get("message")
        if not isinstance(message, Mapping) or message.get("role") != "user":
            return
        run = str(fields(message.get("__openclaw")).get("runId", ""))
        if self._find(run) is None:
            self._put(Entry(Kind.USER, text_of(message)[:MAX_TEXT], run, run))

    def _agent(self, payload: Mapping[str, Any], now: int) -> None:
        run, data = str(payload.get("runId", "")), payload.get("data")
        if not isinstance(data, Mapping):
            return
        match payload.get("stream"), data.get("phase"):
            case "lifecycle", "start":
                self._begin(run, now)
            case "lifecycle", "end" | "error":
                self._end(run, now)
            case "tool", "start":
                self._begin(run, now)
                about = summary(data.get("args"))
                call, tool = str(data.get("toolCallId", "")), str(data.get("name", ""))
                if self._find(call) is None:
                    self._put(Entry(Kind.TOOL, tool, call, run, Step.RUNNING, about, now))
            case "tool", "result":
                entry = self._find(str(data.get("toolCallId", "")))
                if entry is not None:
                    entry.ended = now
                    self.step(entry, Step.FAILED if data.get("isError") else Step.DONE)
            case "assistant", _:
                self._begin(run, now)
                self._grow(run, str(data.get("itemId", "")), str(data.get("text", "")))
            case _:
                pass

    def _begin(self, run: str, now: int) -> None:
        self._is_stopped = False
        if run not in self.runs:
            self.runs[run] = now
        mine = self._find(run)
        if mine is not None and mine.kind is Kind.USER and mine.step is not Step.DONE:
            self.step(mine, Step.DONE)

    def _grow(self, run: str, item: str, text: str) -> None:
        name = f"{run}/{item}"
        flight = self._find(f"flight:{run}")
        if flight is not None:
            # What was said before we came is told again by the first piece after it.
            self.entries.remove(flight)
        entry = self._find(name)
        if entry is None:
            self._put(Entry(Kind.ASSISTANT, text[:MAX_TEXT], name, run, Step.RUNNING))
        elif entry.text != text:
            entry.text = text[:MAX_TEXT]
            entry.version += 1

    def _end(self, run: str, now: int) -> None:
        self.runs.pop(run, None)
        for entry in self.entries:
            if entry.run == run and entry.step in (Step.RUNNING, Step.WAITING, Step.UNSENT):
                entry.ended = now
                # A tool whose end was never told did not end well; anything else is over.
                self.step(entry, Step.FAILED if entry.kind is Kind.TOOL else Step.DONE)

    def _chat(self, payload: Mapping[str, Any]) -> None:
        run, state = str(payload.get("runId", "")), payload.get("state")
        if state not in ("final", "error", "aborted"):
            return
        text = text_of(payload.get("message")).strip()
        said = [entry for entry in self.entries if entry.run == run and entry.kind is Kind.ASSISTANT]
        if state == "final" and text and not said:
            self._put(Entry(Kind.ASSISTANT, text[:MAX_TEXT], f"{run}/final", run))
        mine = self._find(run)
        if state == "final" and not text and self._is_stopped and mine is not None and mine.step is Step.WAITING:
            self.step(mine, Step.ASIDE)
        if state == "error":
            reason = str(payload.get("errorMessage", "")) or "the run failed"
            if not any(entry.text.strip() == reason.strip() for entry in said):
                self._put_after(run, Entry(Kind.ERROR, reason[:MAX_TEXT], f"{run}/error", run))
        self._end(run, 0)
        if state == "aborted":
            self._is_stopped = True
            self._put_after(run, Entry(Kind.NOTE, STOPPED, f"{run}/aborted", run))
