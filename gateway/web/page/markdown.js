// Shows Markdown that the gateway renders. One request is under way at a time: a growing answer is rendered again as
// soon as the one before has come, which is often for a short text and seldom for a long one.

import { copy, el, icon, setRendered } from "./dom.js";

const MAX_TEXTS = 32;
const MAX_CHARS = 150_000;
const MAX_KEPT = 400;
const PAUSE = 60;

export class Markdown {
  /** @param {import("./wire.js").Wire} wire */
  constructor(wire) {
    this.wire = wire;
    /** @type {Map<string, string>} */
    this.kept = new Map();
    /** @type {Map<Element, string>} what is to be shown where */
    this.wanted = new Map();
    /** @type {WeakMap<Element, {text: string, parts: string[]}>} */
    this.shown = new WeakMap();
    this.isBusy = false;
  }

  /**
   * Show a text: at once when it is known, as plain words until it is rendered otherwise.
   * @param {HTMLElement} node
   * @param {string} text
   */
  show(node, text) {
    if (this.shown.get(node)?.text === text) return;
    const html = this.kept.get(text);
    if (html !== undefined) {
      this.wanted.delete(node);
      this.put(node, text, html);
      return;
    }
    if (!this.shown.has(node)) {
      node.classList.add("plain");
      node.textContent = text;
    }
    this.wanted.set(node, text);
    this.work();
  }

  /**
   * Render texts before they are shown, so that nothing jumps.
   * @param {string[]} texts
   */
  async prepare(texts) {
    const fresh = [...new Set(texts)].filter((text) => text && text.length <= MAX_CHARS && !this.kept.has(text));
    for (const batch of batches(fresh)) await this.render(batch);
  }

  async work() {
    if (this.isBusy) return;
    this.isBusy = true;
    try {
      while (this.wanted.size && this.wire.isOnline) {
        const jobs = [...this.wanted].filter(([, text]) => text.length <= MAX_CHARS).slice(0, MAX_TEXTS);
        if (!jobs.length) break;
        const batch = batches(jobs.map(([, text]) => text))[0];
        const answers = await this.render(batch);
        if (!answers) break;
        jobs.slice(0, batch.length).forEach(([node, text], index) => {
          const now = this.wanted.get(node);
          if (now === text) this.wanted.delete(node);
          // Otherwise the node shows what is newer already.
          if (now !== undefined) this.put(node, text, answers[index]);
        });
        await new Promise((resolve) => setTimeout(resolve, PAUSE));
      }
    } finally {
      this.isBusy = false;
    }
  }

  /** @param {string[]} texts @returns {Promise<string[] | null>} null when the gateway did not answer */
  async render(texts) {
    try {
      const { html } = await this.wire.request("tidegate.web.render", { texts });
      texts.forEach((text, index) => this.kept.set(text, html[index]));
      for (const old of this.kept.keys()) {
        if (this.kept.size <= MAX_KEPT) break;
        this.kept.delete(old);
      }
      return html;
    } catch {
      return null;
    }
  }

  /** Go on with what could not be rendered while the gateway was away. */
  resume() {
    this.work();
  }

  /**
   * Put rendered HTML into a node; what has not changed at its beginning stays as it is, with its selection.
   * @param {Element} node
   * @param {string} text
   * @param {string} html
   */
  put(node, text, html) {
    const template = document.createElement("template");
    setRendered(template, html);
    const fresh = [...template.content.children];
    const parts = fresh.map((child) => child.outerHTML);
    const before = this.shown.get(node)?.parts ?? [];
    let same = 0;
    while (same < before.length && same < parts.length && before[same] === parts[same]) same += 1;
    if (!this.shown.has(node)) node.replaceChildren();
    node.classList.remove("plain");
    for (const child of [...node.children].slice(same)) child.remove();
    for (const child of fresh.slice(same)) node.append(decorated(/** @type {HTMLElement} */ (child)));
    this.shown.set(node, { text, parts });
  }
}

/** @param {string[]} texts */
function batches(texts) {
  const found = [];
  let batch = [];
  let size = 0;
  for (const text of texts) {
    if (batch.length && (batch.length >= MAX_TEXTS || size + text.length > MAX_CHARS)) {
      found.push(batch);
      batch = [];
      size = 0;
    }
    batch.push(text);
    size += text.length;
  }
  if (batch.length) found.push(batch);
  return found;
}

/** @param {HTMLElement} node @returns {HTMLElement} the node with what makes it useful by hand */
function decorated(node) {
  for (const spoiler of node.querySelectorAll(".spoiler")) {
    const open = () => spoiler.classList.add("open");
    spoiler.setAttribute("role", "button");
    spoiler.setAttribute("tabindex", "0");
    spoiler.setAttribute("aria-label", "Hidden text; press Enter to show it");
    spoiler.addEventListener("click", open);
    spoiler.addEventListener("keydown", (event) => /** @type {KeyboardEvent} */ (event).key === "Enter" && open());
  }
  for (const pre of node.querySelectorAll("pre"))
    pre.replaceWith(withHead(/** @type {HTMLElement} */ (pre.cloneNode(true))));
  return node.tagName === "PRE" ? withHead(node) : node;
}

/** @param {HTMLElement} pre */
function withHead(pre) {
  const button = el(
    "button",
    { type: "button", class: "copy", onclick: () => copy(button, pre.textContent ?? "") },
    icon("copy"),
    "Copy",
  );
  pre.tabIndex = 0;
  return el(
    "div",
    { class: "code" },
    el("div", { class: "code-head" }, el("span", {}, pre.dataset.language ?? ""), button),
    pre,
  );
}
