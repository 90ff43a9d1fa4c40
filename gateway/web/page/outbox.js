// What was typed and is not known to have arrived. Each message has one key for all attempts, so that the gateway takes
// it once however often it is sent; it is kept over a reload until the gateway has said that it has it. Every tab shows
// what waits in any of them, each message has a note of its own, and it is sent by the tab in which it was typed – or,
// once that one is gone, by another.

import { stay, tab, whenGone } from "./tabs.js";
import { asKey, names, note, noted, watch } from "./vault.js";
import { Failed } from "./wire.js";

const RETRY = 2_000;
const NOTE = "outbox.";
/** Under this name earlier versions kept one list of all. */
const OLD_NOTE = "outbox";
/** So many may wait, or have failed; whoever wants to say more has to remove some. */
const MOST = 100;

/**
 * @typedef {object} Message
 * @property {string} id the idempotency key, which is also the id of the run
 * @property {string} key of the session
 * @property {string} text
 * @property {number} at milliseconds since 1970
 * @property {"unsent" | "taken" | "failed"} state
 * @property {string} [tab] that sends it
 * @property {boolean} [isKept] it will be there after a reload
 * @property {string} [reason]
 * @property {number} [takenAt]
 * @property {boolean} [isDone] nothing more comes for it
 * @property {boolean} [isAnswered] something came of it
 * @property {number} [after] what the transcript ended with when it was typed
 */

export class Outbox {
  /**
   * @param {import("./wire.js").Wire} wire
   * @param {(message: Message, answer?: any) => void} changed
   */
  constructor(wire, changed) {
    this.wire = wire;
    this.changed = changed;
    /** @type {Message[]} */
    this.messages = [];
    this.isSending = false;
    /** @type {Set<string>} tabs whose end is waited for */
    this.awaited = new Set();
    stay();
    for (const message of takeOldNotes()) {
      this.save(message);
      this.learn(message);
    }
    for (const message of readAll()) this.learn(message);
    watch(NOTE, (name, isThere) => this.noteChanged(name, isThere));
  }

  /** Whether no more can be added. */
  get isFull() {
    return this.messages.filter((message) => message.state !== "taken").length >= MOST;
  }

  /** @param {string} key @param {string} text @param {number} after @returns {boolean} false if too many wait already */
  add(key, text, after) {
    if (this.isFull) return false;
    this.post(key, text, after);
    return true;
  }

  /** @param {string} key @param {string} text @param {number} after */
  post(key, text, after) {
    /** @type {Message} */
    const message = { id: crypto.randomUUID(), key, text, at: Date.now(), state: "unsent", tab, after };
    this.messages.push(message);
    this.save(message);
    this.changed(message);
    this.flush();
  }

  /** @param {Message} message */
  remove(message) {
    this.hide(message);
    note(NOTE + message.id, null);
  }

  /** Show it no more; another tab goes on with it. @param {Message} message */
  hide(message) {
    this.messages = this.messages.filter((other) => other !== message);
  }

  /** Send a message that came to nothing as a new one. @param {Message} message @param {number} after */
  again(message, after) {
    this.remove(message);
    this.post(message.key, message.text, after);
  }

  /** @param {Message} message @param {string} reason */
  fail(message, reason) {
    message.state = "failed";
    message.reason = reason;
    this.save(message);
    this.changed(message);
  }

  /** @param {string} key @returns {Message[]} */
  of(key) {
    return this.messages.filter((message) => message.key === key);
  }

  /** @param {string} id @returns {Message | undefined} */
  get(id) {
    return this.messages.find((message) => message.id === id);
  }

  /** Whether this tab has to send it. @param {Message} message */
  isToSend(message) {
    return message.state === "unsent" && message.tab === tab;
  }

  /** @param {Message} message */
  save(message) {
    const { id, key, text, at, state, reason, after } = message;
    if (state === "taken") note(NOTE + id, null);
    else message.isKept = note(NOTE + id, { id, key, text, at, state, tab: message.tab, reason, after });
  }

  // Other tabs

  /** @param {string} name @param {boolean} isThere */
  noteChanged(name, isThere) {
    const known = this.get(name.slice(NOTE.length));
    if (isThere) {
      const message = readOne(name);
      if (message) this.changed(this.learn(message));
    } else if (known && known.state !== "taken") {
      // The gateway has it, or somebody removed it.
      this.hide(known);
      this.changed(known);
    }
  }

  /** Take what a note says. @param {Message} message @returns {Message} */
  learn(message) {
    let known = this.get(message.id);
    // What this tab is about to send, or has sent, it knows best itself.
    if (!known) {
      known = message;
      this.messages.push(known);
      this.messages.sort((one, two) => one.at - two.at);
    } else if (known.state === "failed" || (known.state === "unsent" && known.tab !== tab)) {
      Object.assign(known, message);
    }
    const { tab: sender } = known;
    if (known.state === "unsent" && sender !== undefined && sender !== tab && !this.awaited.has(sender)) {
      this.awaited.add(sender);
      whenGone(sender, () => this.inherit(sender));
    }
    return known;
  }

  /** Send what a tab that is gone has left. @param {string} gone */
  inherit(gone) {
    this.awaited.delete(gone);
    for (const message of readAll()) {
      if (message.state !== "unsent" || message.tab !== gone) continue;
      const known = this.learn({ ...message, tab });
      this.save(known);
      this.changed(known);
    }
    this.flush();
  }

  // Sending

  /** Send what waits, one after another: their order is kept. */
  async flush() {
    if (this.isSending) return;
    this.isSending = true;
    try {
      for (;;) {
        const message = this.messages.find((other) => this.isToSend(other));
        if (!message || !this.wire.isOnline || !(await this.send(message))) return;
      }
    } finally {
      this.isSending = false;
    }
  }

  /** @param {Message} message @returns {Promise<boolean>} whether to go on with the next one */
  async send(message) {
    try {
      const answer = await this.wire.request("chat.send", {
        sessionKey: message.key,
        message: message.text,
        idempotencyKey: message.id,
      });
      message.state = "taken";
      message.takenAt = Date.now();
      // `/stop` is answered without a run; `ok` says that the run has ended already.
      message.isAnswered = answer.status === undefined;
      message.isDone = message.isAnswered || answer.status === "ok";
      this.save(message);
      this.changed(message, answer);
      return true;
    } catch (error) {
      if (!(error instanceof Failed)) return false;
      if (error.retryable) {
        setTimeout(() => this.flush(), RETRY);
        return false;
      }
      this.fail(message, error.message);
      return true;
    }
  }
}

/** @param {any} value @returns {Message | undefined} */
function asMessage(value) {
  const { id, text, at, state, reason, after } = value;
  const key = asKey(value.key);
  const isOne = [id, text].every((part) => typeof part === "string" && part) && Number.isFinite(at) && key;
  if (!isOne || !["unsent", "failed"].includes(state)) return undefined;
  return {
    id,
    key,
    text,
    at,
    state,
    tab: typeof value.tab === "string" ? value.tab : "",
    isKept: true,
    reason: typeof reason === "string" ? reason : "it is not known why",
    after: Number.isFinite(after) ? after : undefined,
  };
}

/** @param {string} name @returns {Message | undefined} */
function readOne(name) {
  const read = (/** @type {any} */ value) => (NOTE + value.id === name ? asMessage(value) : undefined);
  return noted(name, read, undefined);
}

/** @returns {Message[]} */
const readAll = () => names(NOTE).flatMap((name) => readOne(name) ?? []);

/** @returns {Message[]} */
function takeOldNotes() {
  const read = (/** @type {any} */ value) => value.flatMap((/** @type {any} */ one) => asMessage(one ?? {}) ?? []);
  const found = noted(OLD_NOTE, read, []);
  note(OLD_NOTE, null);
  return found;
}
