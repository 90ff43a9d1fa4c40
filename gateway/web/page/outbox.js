// What was typed and is not known to have arrived. Each message has one key for all attempts, so that the gateway takes
// it once however often it is sent; it is kept over a reload until the gateway has said that it has it.

import { note, noted } from "./vault.js";
import { Failed } from "./wire.js";

const RETRY = 2_000;

/**
 * @typedef {object} Message
 * @property {string} id the idempotency key, which is also the id of the run
 * @property {string} key of the session
 * @property {string} text
 * @property {number} at milliseconds since 1970
 * @property {"unsent" | "taken" | "failed"} state
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
    this.messages = noted("outbox", []);
    this.isSending = false;
  }

  /** @param {string} key @param {string} text @param {number} after */
  add(key, text, after) {
    /** @type {Message} */
    const message = { id: crypto.randomUUID(), key, text, at: Date.now(), state: "unsent", after };
    this.messages.push(message);
    this.save();
    this.changed(message);
    this.flush();
  }

  /** @param {Message} message */
  remove(message) {
    this.messages = this.messages.filter((other) => other !== message);
    this.save();
  }

  /** Send a message that came to nothing as a new one. @param {Message} message @param {number} after */
  again(message, after) {
    this.remove(message);
    this.add(message.key, message.text, after);
  }

  /** @param {Message} message @param {string} reason */
  fail(message, reason) {
    message.state = "failed";
    message.reason = reason;
    this.save();
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

  save() {
    const open = this.messages.filter((message) => message.state !== "taken");
    note("outbox", open.length ? open : null);
  }

  /** Send what waits, one after another: their order is kept. */
  async flush() {
    if (this.isSending) return;
    this.isSending = true;
    try {
      for (;;) {
        const message = this.messages.find((other) => other.state === "unsent");
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
      this.save();
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
