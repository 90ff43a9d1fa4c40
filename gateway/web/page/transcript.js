// Draws a talk: what was said, what tools did, what is under way. Nodes are kept from one drawing to the next.

import { arrange, copy, el, icon } from "./dom.js";
import { callsOf, endOf, placeOf, textOf } from "./lines.js";
import { clock, fullDay, sameDay, summary } from "./words.js";

const NEAR_END = 80;
const NEAR_START = 240;
const LONGEST_RESULT = 20_000;
const NOT_KEPT = " (lost when this page is closed: the storage of this browser is full or switched off)";

export class Transcript {
  /**
   * @param {import("./talk.js").Talk} talk
   * @param {import("./markdown.js").Markdown} markdown
   */
  constructor(talk, markdown) {
    this.talk = talk;
    this.markdown = markdown;
    /** @type {Map<string, HTMLElement>} */
    this.nodes = new Map();
    this.key = "";
    this.follows = true;
    this.list = el("div", { class: "entries", role: "log", "aria-live": "off", "aria-label": "Conversation" });
    this.earlier = el(
      "button",
      { type: "button", class: "quiet earlier", onclick: () => talk.older() },
      "Earlier messages",
    );
    this.view = el(
      "div",
      { class: "transcript", tabIndex: -1, onscroll: () => this.scrolled() },
      this.earlier,
      this.list,
    );
    this.toEnd = el(
      "button",
      {
        type: "button",
        class: "to-end",
        "aria-label": "Go to the newest message",
        onclick: () => this.goToEnd(true),
      },
      icon("down"),
    );
    new ResizeObserver(() => this.follows && this.goToEnd()).observe(this.list);
    new ResizeObserver(() => this.follows && this.goToEnd()).observe(this.view);
  }

  scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.view;
    this.follows = scrollHeight - scrollTop - clientHeight < NEAR_END;
    this.toEnd.classList.toggle("shown", !this.follows);
    if (scrollTop < NEAR_START && this.talk.hasMore && this.talk.isLoaded) this.talk.older();
  }

  /** @param {boolean} [smooth] */
  goToEnd(smooth = false) {
    this.view.scrollTo({ top: this.view.scrollHeight, behavior: smooth ? "smooth" : "instant" });
  }

  draw() {
    const { talk, view } = this;
    if (talk.key !== this.key) {
      this.key = talk.key;
      this.nodes.clear();
      this.follows = true;
    }
    const anchor = /** @type {HTMLElement | null} */ (this.list.querySelector("article"));
    const before = anchor?.offsetTop ?? 0;
    const wanted = this.entries().map(({ id, make, update }) => {
      const node = this.nodes.get(id) ?? make();
      this.nodes.set(id, node);
      node.dataset.id = id;
      update?.(node);
      return node;
    });
    const kept = new Set(wanted.map((node) => node.dataset.id));
    for (const id of [...this.nodes.keys()]) if (!kept.has(id)) this.nodes.delete(id);
    arrange(this.list, wanted);
    this.earlier.hidden = !talk.hasMore;
    view.classList.toggle("is-empty", talk.isLoaded && wanted.length === 0);
    if (this.follows) this.goToEnd();
    else if (anchor?.isConnected) view.scrollTop += anchor.offsetTop - before;
  }

  /** @returns {{id: string, make: () => HTMLElement, update?: (node: HTMLElement) => void}[]} */
  entries() {
    const { talk } = this;
    const found = [];
    const messages = talk.outbox.of(talk.key);
    const between = this.between(messages);
    let day = 0;
    for (const line of talk.lines.items) {
      const place = placeOf(line);
      while (between.length && between[0].after < place) found.push(between.shift().entry);
      if (sameDay(line.timestamp) !== day) {
        day = sameDay(line.timestamp);
        found.push({
          id: `day ${day}`,
          make: () => el("div", { class: "day" }, el("span", {}, fullDay(line.timestamp))),
        });
      }
      found.push(...this.line(line));
    }
    for (const { entry } of between) found.push(entry);
    const running = [...talk.runs.values()];
    const open = messages.filter((message) => message.state !== "failed");
    const isQueued = (/** @type {import("./outbox.js").Message} */ message) =>
      message.state === "taken" && running.length > 0 && !talk.runs.has(message.id);
    for (const message of open.filter((other) => !isQueued(other))) found.push(this.message(message, false));
    for (const run of running) found.push(...this.run(run));
    if (talk.isBusy && !running.length) found.push(thinking("busy"));
    for (const message of open.filter(isQueued)) found.push(this.message(message, true));
    return found;
  }

  /** What stands between the lines, in order: remarks, and messages that came to nothing. @param {any[]} messages */
  between(messages) {
    const notes = this.talk.notes.get(this.talk.key) ?? [];
    const found = notes.map((remark) => ({ after: remark.after, entry: this.remark(remark) }));
    for (const message of messages) {
      if (message.state !== "failed") continue;
      found.push({ after: message.after ?? Infinity, entry: this.message(message, false) });
    }
    return found.sort((one, two) => one.after - two.after);
  }

  /** @param {any} line */
  line(line) {
    const { id } = line.__openclaw;
    if (line.role === "user") {
      return [{ id, make: () => said(textOf(line), clock(line.timestamp)) }];
    }
    if (line.role !== "assistant") return [];
    const end = endOf(line);
    if (end === "error") return [this.remark({ id, kind: "error", text: line.errorMessage || textOf(line) })];
    const text = textOf(line);
    const found = text ? [this.answer(id, text, clock(line.timestamp))] : [];
    if (end) found.push(this.remark({ id, kind: "stopped", text: "" }));
    return [...found, ...callsOf(line).map((call) => this.tool(call.id))];
  }

  /** @param {string} id @param {string} text @param {string} [at] */
  answer(id, text, at) {
    return {
      id,
      make: () => {
        const body = el("div", { class: "prose" });
        const button = el(
          "button",
          { type: "button", class: "copy", onclick: () => copy(button, node.dataset.text ?? "") },
          icon("copy"),
          "Copy",
        );
        const node = el(
          "article",
          { class: "answer", "aria-label": "Answer" },
          body,
          el("footer", {}, at && el("time", {}, at), button),
        );
        return node;
      },
      update: (/** @type {HTMLElement} */ node) => {
        node.dataset.text = text;
        node.classList.toggle("is-growing", !at);
        this.markdown.show(/** @type {HTMLElement} */ (node.firstElementChild), text);
      },
    };
  }

  /** @param {string} id */
  tool(id) {
    return {
      id: `tool ${id}`,
      make: () => {
        const body = el("div", { class: "tool-body" });
        return el(
          "details",
          { class: "tool" },
          el(
            "summary",
            {},
            el("span", { class: "tool-mark" }),
            el("span", { class: "tool-name" }),
            el("span", { class: "tool-args" }),
            el("span", { class: "tool-state" }),
            icon("chevron"),
          ),
          body,
        );
      },
      update: (/** @type {HTMLElement} */ node) => {
        const tool = this.talk.lines.tools.get(id);
        if (!tool) return;
        const version = `${tool.state} ${tool.result.length}`;
        if (node.dataset.version === version) return;
        node.dataset.version = version;
        node.dataset.state = tool.state;
        const part = (/** @type {string} */ name) => /** @type {HTMLElement} */ (node.querySelector(`.tool-${name}`));
        const mark = { running: "tool", done: "check", failed: "warn" }[tool.state];
        part("mark").replaceChildren(icon(/** @type {any} */ (mark)));
        part("name").textContent = tool.name;
        part("args").textContent = summary(tool.args);
        part("state").textContent = { running: "running", done: "done", failed: "failed" }[tool.state];
        const args = typeof tool.args === "string" ? tool.args : JSON.stringify(tool.args ?? {}, null, 2);
        part("body").replaceChildren(
          el("h3", {}, "Asked"),
          el("pre", { tabIndex: 0 }, args),
          ...(tool.state === "running"
            ? []
            : [
                el("h3", {}, tool.state === "failed" ? "Failed" : "Result"),
                el("pre", { tabIndex: 0 }, shorter(tool.result)),
              ]),
        );
      },
    };
  }

  /** @param {import("./runs.js").Run} run */
  run(run) {
    const found = run.blocks.map((block, index) =>
      block.kind === "tool" ? this.tool(block.id) : this.answer(`${run.id} ${block.item || index}`, block.text),
    );
    const last = run.blocks.at(-1);
    const waits = run.state === "running" && (!last || last.kind === "tool");
    if (!found.length && run.state === "done" && run.text) found.push(this.answer(`${run.id} end`, run.text));
    return waits ? [...found, thinking(run.id)] : found;
  }

  /** @param {import("./outbox.js").Message} message @param {boolean} isQueued */
  message(message, isQueued) {
    const { outbox } = this.talk;
    const isOnline = this.talk.wire.isOnline;
    return {
      id: `out ${message.id}`,
      make: () => said(message.text, ""),
      update: (/** @type {HTMLElement} */ node) => {
        const state =
          message.state === "taken"
            ? isQueued
              ? "Waits in the queue"
              : ""
            : message.state === "failed"
              ? "failed"
              : `${isOnline ? "Sending…" : "Will be sent when the gateway is back"}${message.isKept ? "" : NOT_KEPT}`;
        node.classList.toggle("is-open", message.state !== "taken" || isQueued);
        node.classList.toggle("is-failed", message.state === "failed");
        const foot = /** @type {HTMLElement} */ (node.querySelector("footer"));
        if (foot.dataset.state === state) return;
        foot.dataset.state = state;
        if (message.state !== "failed") {
          foot.replaceChildren(state);
          return;
        }
        foot.replaceChildren(
          el("span", { class: "reason" }, `Not answered: ${message.reason}${message.isKept ? "" : NOT_KEPT}`),
          el(
            "button",
            { type: "button", class: "link", onclick: () => outbox.again(message, this.talk.lines.last) },
            "Send again",
          ),
          el(
            "button",
            {
              type: "button",
              class: "link",
              onclick: () => {
                outbox.remove(message);
                this.talk.hooks.changed();
              },
            },
            "Remove",
          ),
        );
      },
    };
  }

  /** @param {any} remark */
  remark(remark) {
    return {
      id: `note ${remark.id}`,
      make: () => {
        if (remark.kind === "command") {
          const body = el("div", { class: "prose" });
          this.markdown.show(body, remark.text);
          const question = remark.question ? el("div", { class: "command" }, remark.question) : null;
          return el("aside", { class: "remark" }, question, body);
        }
        if (remark.kind === "error") {
          return el(
            "aside",
            { class: "remark is-error" },
            icon("warn"),
            el("div", {}, el("strong", {}, "No answer came. "), ...withCode(remark.text)),
          );
        }
        const body = el("div", { class: "prose" });
        if (remark.text) this.markdown.show(body, remark.text);
        return el(
          "aside",
          { class: "remark is-stopped" },
          remark.text ? body : null,
          el("div", {}, icon("stop"), "Stopped here"),
        );
      },
    };
  }
}

/** What the gateway says itself; the commands in it stand in backticks. @param {string} text */
const withCode = (text) => text.split("`").map((part, at) => (at % 2 ? el("code", {}, part) : part));

/** @param {string} text @param {string} at */
function said(text, at) {
  return el(
    "article",
    { class: "said", "aria-label": "You" },
    el("div", { class: "bubble", dir: "auto" }, text),
    el("footer", {}, at),
  );
}

/** @param {string} id */
function thinking(id) {
  return {
    id: `thinking ${id}`,
    make: () => el("div", { class: "thinking", "aria-label": "An answer is on its way" }, el("i"), el("i"), el("i")),
  };
}

/** @param {string} text */
function shorter(text) {
  if (!text) return "(nothing)";
  return text.length > LONGEST_RESULT
    ? `${text.slice(0, LONGEST_RESULT)}\n… ${text.length - LONGEST_RESULT} more characters`
    : text;
}
