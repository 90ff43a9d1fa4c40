// The list of sessions, as the gateway tells it and as this browser has read it.

import { asFlag, asTable, note, noted } from "./vault.js";
import { clock, sameDay } from "./words.js";

const PAGE = 100;
const SETTLE = 250;

export class Sessions {
  /**
   * @param {import("./wire.js").Wire} wire
   * @param {() => void} changed
   */
  constructor(wire, changed) {
    this.wire = wire;
    this.changed = changed;
    /** @type {Map<string, any>} */
    this.rows = new Map();
    /** @type {Record<string, number>} when each session was last looked at */
    this.seen = noted("seen", (value) => asTable(value, "number"), {});
    /** @type {Map<string, number>} */
    this.asked = new Map();
    this.isLoaded = false;
    this.hasMore = false;
    this.current = "";
    /** Whether sessions of API requests are listed, and those that were put away. */
    this.shows = { api: noted("showsApi", asFlag, false), archived: noted("showsArchived", asFlag, false) };
    this.apiCount = 0;
    /** @type {Map<string, string>} */
    this.names = new Map();
  }

  async load() {
    const { list } = await this.wire.request("sessions.subscribe", this.page(0));
    const isFirst = Object.keys(this.seen).length === 0;
    this.rows = new Map(list.sessions.map((/** @type {any} */ row) => [row.key, row]));
    this.hasMore = list.hasMore;
    this.apiCount = list.apiCount ?? this.apiCount;
    // Everything was "unread" to a browser that has just come; that would say nothing.
    if (isFirst) for (const row of list.sessions) this.seen[row.key] = row.updatedAt;
    this.isLoaded = true;
    this.looked(this.current);
  }

  /** Fetch those that were used longer ago. */
  async more() {
    const list = await this.wire.request("sessions.list", this.page(this.rows.size));
    for (const row of list.sessions) {
      if (!this.rows.has(row.key)) this.rows.set(row.key, row);
      // What is that old is no news.
      this.seen[row.key] ??= row.updatedAt;
    }
    this.hasMore = list.hasMore;
    note("seen", this.seen);
    this.changed();
  }

  /** @param {string} name @param {any} payload */
  event(name, payload) {
    if (name !== "sessions.changed") return;
    const { sessionKey: key, session } = payload;
    if (session?.viaApi && !this.shows.api && key !== this.current) {
      // The next list counts it.
      this.apiCount ||= 1;
      this.changed();
      return;
    }
    if (session) this.rows.set(key, { ...this.rows.get(key), ...session });
    else this.rows.delete(key);
    if (key === this.current) this.looked(key);
    this.changed();
    clearTimeout(this.asked.get(key));
    if (session)
      this.asked.set(
        key,
        setTimeout(() => this.describe(key), SETTLE),
      );
  }

  /** Learn title and last words of one session. @param {string} key */
  async describe(key) {
    this.asked.delete(key);
    try {
      const about = { key, includeDerivedTitles: true, includeLastMessage: true };
      const { session } = await this.wire.request("sessions.describe", about);
      if (session) this.rows.set(key, session);
      if (key === this.current) this.looked(key);
      this.changed();
    } catch {
      // The next change, or the next connection, asks again.
    }
  }

  /** @param {string} key */
  look(key) {
    this.current = key;
    this.looked(key);
  }

  /** Note that a session was read, if somebody is there to read it. @param {string} key */
  looked(key) {
    const row = this.rows.get(key);
    if (row && document.visibilityState === "visible") {
      this.seen[key] = Math.max(this.seen[key] ?? 0, row.updatedAt);
      note("seen", this.seen);
    }
    this.changed();
  }

  /** @param {any} row */
  isUnread(row) {
    return row.updatedAt > (this.seen[row.key] ?? 0) && row.key !== this.current && Boolean(row.systemSent);
  }

  get unread() {
    return [...this.rows.values()].filter((row) => this.isUnread(row)).length;
  }

  /** @param {string} filter @returns {any[]} the newest first */
  list(filter) {
    this.name();
    const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
    return [...this.rows.values()]
      .filter((row) => !row.archived || this.shows.archived || row.key === this.current)
      .filter((row) => !row.viaApi || this.shows.api || row.key === this.current)
      .filter((row) => {
        const text = `${this.nameOf(row)} ${row.lastMessagePreview ?? ""} ${row.key}`.toLowerCase();
        return words.every((word) => text.includes(word));
      })
      .sort((one, two) => two.updatedAt - one.updatedAt);
  }

  /** List some kind of sessions, or leave it out. @param {"api" | "archived"} kind @param {boolean} isShown */
  async show(kind, isShown) {
    this.shows[kind] = isShown;
    note(kind === "api" ? "showsApi" : "showsArchived", isShown || null);
    this.changed();
    await this.load();
  }

  /** Change what is stored about a session. @param {string} key @param {Record<string, unknown>} change */
  async patch(key, change) {
    await this.wire.request("sessions.patch", { key, ...change });
    await this.describe(key);
  }

  /** Tell sessions apart that are called the same: by when they began, else by their keys. */
  name() {
    this.names = new Map();
    for (const alike of groups(this.rows.values(), titleOf)) {
      for (const twins of groups(alike, (row) => when(row.createdAt))) {
        for (const row of twins) {
          const mark = twins.length > 1 ? row.key.slice(-4) : when(row.createdAt);
          // The main one has a mark of its own.
          this.names.set(row.key, alike.length > 1 && !row.isMain ? `${titleOf(row)} · ${mark}` : titleOf(row));
        }
      }
    }
  }

  /** @param {any} row @returns {string} */
  nameOf(row) {
    return this.names.get(row?.key) ?? titleOf(row);
  }

  /** @param {number} offset */
  page(offset) {
    return {
      limit: PAGE,
      ...(offset ? { offset } : {}),
      ...(this.shows.api ? {} : { excludeApi: true }),
      ...(this.shows.archived ? { archived: "all" } : {}),
      includeDerivedTitles: true,
      includeLastMessage: true,
    };
  }
}

/** @param {Iterable<any>} rows @param {(row: any) => string} of @returns {any[][]} */
function groups(rows, of) {
  const found = new Map();
  for (const row of rows) found.set(of(row), [...(found.get(of(row)) ?? []), row]);
  return [...found.values()];
}

/** @param {number} at */
function when(at) {
  const day = new Date(at).toLocaleDateString([], { day: "numeric", month: "short" });
  return sameDay(at) === sameDay(Date.now()) ? clock(at) : `${day} ${clock(at)}`;
}

/** @param {any} row @returns {string} */
export function titleOf(row) {
  const given = row?.label || row?.displayName || row?.derivedTitle;
  if (given) return given;
  if (row?.isMain) return "Main conversation";
  if (row?.channel) return `${row.channel[0].toUpperCase()}${row.channel.slice(1)} ${row.key.split(":").at(-1)}`;
  return "New conversation";
}

/** @param {string} agent @returns {string} the key of a session that does not exist yet */
export const newKey = (agent) => `agent:${agent}:dashboard:${crypto.randomUUID()}`;
