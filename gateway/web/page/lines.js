// The lines of a transcript as the gateway tells them, without holes, and what the tools in them did.

/**
 * @typedef {{id: string, name: string, args: any, state: "running" | "done" | "failed", result: string}} Tool
 */

export class Lines {
  constructor() {
    /** @type {any[]} oldest first */
    this.items = [];
    /** @type {Map<string, Tool>} also those of running answers */
    this.tools = new Map();
  }

  /** The place of the newest line. */
  get last() {
    return this.items.length ? placeOf(this.items[this.items.length - 1]) : 0;
  }

  /** The number of the oldest line that is here. */
  get first() {
    return this.items.length ? seqOf(this.items[0]) : 0;
  }

  /** Take the newest lines. @param {any[]} fresh */
  merge(fresh) {
    // What lies between is fetched when somebody scrolls up.
    if (fresh.length && seqOf(fresh[0]) > this.last + 1) this.items = [];
    this.add(fresh);
  }

  /** @param {any[]} fresh */
  add(fresh) {
    // Where an answer ended may have moved: what it had said is written down a moment after its end.
    const told = new Set(fresh.map(seqOf));
    const kept = new Map();
    for (const line of this.items) if (!told.has(seqOf(line))) kept.set(placeOf(line), line);
    for (const line of fresh) kept.set(placeOf(line), line);
    this.items = [...kept.values()].sort((one, two) => placeOf(one) - placeOf(two));
    for (const line of fresh) this.learn(line);
  }

  /** @param {any} line */
  learn(line) {
    if (line.role === "toolResult") this.settle(line.toolCallId, Boolean(line.isError), textOf(line));
    else if (line.role === "assistant")
      for (const call of callsOf(line)) this.begin(call.id, call.name, call.arguments);
  }

  /** @param {string} id @param {string} name @param {any} args @returns {boolean} whether this call is news */
  begin(id, name, args) {
    if (this.tools.has(id)) return false;
    this.tools.set(id, { id, name, args, state: "running", result: "" });
    return true;
  }

  /** @param {string} id @param {boolean} isError @param {string} result */
  settle(id, isError, result) {
    const tool = this.tools.get(id);
    if (tool) Object.assign(tool, { state: isError ? "failed" : "done", result });
  }

  /** @param {"user" | "assistant"} role @param {number} [after] @returns {any[]} */
  of(role, after = 0) {
    return this.items.filter((line) => line.role === role && placeOf(line) > after);
  }

  /** @returns {any[]} what came after the last thing that a person said */
  newest() {
    return this.items.slice(this.items.findLastIndex((line) => line.role === "user") + 1);
  }
}

/** @param {any} line @returns {number} */
export const seqOf = (line) => line.__openclaw.seq;

/** Where a line stands. What only says how an answer ended has the number of the line before it. @param {any} line */
export const placeOf = (line) => seqOf(line) + (line.__openclaw.id.endsWith(":end") ? 0.5 : 0);

/** @param {any} line @returns {"error" | "aborted" | ""} how an answer ended that is not a whole one */
export const endOf = (line) => (["error", "aborted"].includes(line.stopReason) ? line.stopReason : "");

/** @param {any} message @returns {string} */
export function textOf(message) {
  const { content } = message;
  if (typeof content === "string") return content;
  const parts = content.filter((/** @type {any} */ part) => part.type === "text");
  return parts.map((/** @type {any} */ part) => part.text).join("\n\n");
}

/** @param {any} message @returns {{id: string, name: string, arguments: any}[]} */
export const callsOf = (message) => message.content.filter((/** @type {any} */ part) => part.type === "toolCall");

/** @param {any[]} lines @returns {string[]} what of them is shown as Markdown */
export const rendered = (lines) => lines.filter((line) => line.role === "assistant").map(textOf);

/** A text without what a gateway may change in it: blanks and signs that cannot be seen. @param {string} text */
export const bare = (text) => text.replace(/[\s\p{C}]+/gu, "");
