// One answer on its way: what was heard of it so far, until the transcript holds it.

import { callsOf, rendered, textOf } from "./lines.js";

/**
 * @typedef {{kind: "text", item: string, text: string} | {kind: "tool", id: string}} Block
 */

export class Run {
  /** @param {string} id @param {number} after what the transcript ended with when it began */
  constructor(id, after) {
    this.id = id;
    this.after = after;
    /** @type {Block[]} */
    this.blocks = [];
    /** @type {"running" | "done" | "aborted" | "error"} */
    this.state = "running";
    /** What it said in the end. */
    this.text = "";
    this.error = "";
    this.phase = "";
    this.checks = 0;
    this.hasBegun = false;
  }

  /** Take off what the transcript holds. @param {import("./lines.js").Lines} lines */
  takeOff(lines) {
    for (const line of lines.of("assistant", this.after)) {
      const said = textOf(line).trim();
      const calls = new Set(callsOf(line).map((part) => part.id));
      const at = this.blocks.findIndex((block) => block.kind === "text" && block.text.trim() === said);
      if (said && at >= 0) this.blocks.splice(at, 1);
      this.blocks = this.blocks.filter((block) => block.kind !== "tool" || !calls.has(block.id));
    }
  }

  /** Show what it said before we came. @param {string} whole @param {import("./lines.js").Lines} lines */
  joinLate(whole, lines) {
    this.hasBegun = true;
    if (this.blocks.length || !whole) return;
    let rest = whole;
    for (const said of rendered(lines.newest())) {
      if (said && rest.startsWith(said)) rest = rest.slice(said.length).replace(/^\n\n/, "");
    }
    if (rest) this.blocks.push({ kind: "text", item: "", text: rest });
  }

  /** @param {{itemId: string, text: string}} data */
  heard(data) {
    const block = this.blocks.find(
      (other) => other.kind === "text" && (other.item === data.itemId || isBegun(other, data.text)),
    );
    if (block && block.kind === "text") Object.assign(block, { item: data.itemId, text: data.text });
    else this.blocks.push({ kind: "text", item: data.itemId, text: data.text });
  }

  /** @param {any} data @param {import("./lines.js").Lines} lines */
  toolEvent(data, lines) {
    const { toolCallId: id, phase } = data;
    if (phase === "start" && lines.begin(id, data.name, data.args)) this.blocks.push({ kind: "tool", id });
    if (phase === "result") lines.settle(id, Boolean(data.isError), textOf(data.result ?? { content: [] }));
  }
}

/** Whether a block is the beginning of a text that was joined late. @param {any} block @param {string} text */
const isBegun = (block, text) => block.item === "" && text.startsWith(block.text);
