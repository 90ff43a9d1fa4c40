// Where one types. Enter sends, Shift+Enter begins a line, Esc stops a running answer; what is typed is kept for each
// session.

import { el, icon } from "./dom.js";
import { asTable, note, noted } from "./vault.js";

const SAVE_AFTER = 400;
const TALLEST = 240;

export class Composer {
  /**
   * @param {object} hooks
   * @param {(text: string) => boolean} hooks.send tells whether the text is kept
   * @param {() => void} hooks.abort
   */
  constructor(hooks) {
    this.hooks = hooks;
    this.key = "";
    /** @type {Map<string, string>} what was typed in this tab, where it counts before what is kept */
    this.drafts = new Map();
    this.timer = 0;
    this.input = /** @type {HTMLTextAreaElement} */ (
      el("textarea", {
        rows: 1,
        name: "message",
        placeholder: "Write a message",
        "aria-label": "Message",
        autocomplete: "off",
        "aria-describedby": "composer-hint",
        dir: "auto",
        oninput: () => this.typed(),
        onkeydown: (/** @type {KeyboardEvent} */ event) => this.pressed(event),
      })
    );
    this.stop = el(
      "button",
      {
        type: "button",
        class: "stop",
        hidden: true,
        "aria-label": "Stop the answer (Esc)",
        title: "Stop (Esc)",
        onclick: () => hooks.abort(),
      },
      icon("stop"),
    );
    this.go = el(
      "button",
      { type: "submit", class: "send", "aria-label": "Send", title: "Send (Enter)" },
      icon("arrow"),
    );
    this.state = el("span", { class: "composer-state", role: "status" });
    this.view = el(
      "form",
      {
        class: "composer",
        onsubmit: (/** @type {Event} */ event) => {
          event.preventDefault();
          this.send();
        },
      },
      el("div", { class: "composer-box" }, this.input, this.stop, this.go),
      el(
        "div",
        { class: "composer-foot" },
        this.state,
        el("span", { id: "composer-hint", class: "hint" }, "Enter sends, Shift+Enter begins a new line"),
      ),
    );
    // On a phone Enter is the only way to a new line.
    this.sendsOnEnter = !matchMedia("(pointer: coarse)").matches;
    this.input.enterKeyHint = this.sendsOnEnter ? "send" : "enter";
    addEventListener("pagehide", () => this.save());
  }

  /** @param {string} key */
  open(key) {
    if (key === this.key) return;
    this.save();
    this.key = key;
    this.input.value = this.draft();
    this.fit();
    if (this.sendsOnEnter) this.input.focus({ preventScroll: true });
  }

  /** @param {{isWorking: boolean, queued: number, isOnline: boolean, isFull: boolean,
   *   trouble: string}} talk */
  draw(talk) {
    this.stop.hidden = !talk.isWorking;
    const queued = talk.queued
      ? `${talk.queued} ${talk.queued === 1 ? "message waits" : "messages wait"} in the queue`
      : "";
    const text = talk.isFull
      ? "Too many messages wait already: no more can be sent until some have gone or are removed."
      : talk.isOnline
        ? talk.trouble || queued
        : "Not connected. What you send goes out when the gateway is back.";
    if (this.state.textContent !== text) this.state.textContent = text;
  }

  /** The draft of the open session. */
  draft() {
    return this.drafts.get(this.key) ?? readDrafts()[this.key] ?? "";
  }

  typed() {
    this.fit();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.save(), SAVE_AFTER);
  }

  /** @param {KeyboardEvent} event */
  pressed(event) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || !this.sendsOnEnter) return;
    event.preventDefault();
    this.send();
  }

  send() {
    const text = this.input.value.trim();
    if (!text || !this.hooks.send(text)) return;
    this.input.value = "";
    this.save();
    this.fit();
  }

  save() {
    clearTimeout(this.timer);
    if (!this.key) return;
    const text = this.input.value;
    if (this.draft() === text) return;
    this.drafts.set(this.key, text);
    // What other tabs have kept of other sessions stays.
    const { [this.key]: _, ...kept } = readDrafts();
    note("drafts", text ? { ...kept, [this.key]: text } : kept);
  }

  fit() {
    this.input.style.height = "auto";
    this.input.style.height = `${Math.min(this.input.scrollHeight, TALLEST)}px`;
    this.go.classList.toggle("is-ready", this.input.value.trim() !== "");
  }
}

/** @returns {Record<string, string>} */
const readDrafts = () => noted("drafts", (value) => asTable(value, "string"), {});
