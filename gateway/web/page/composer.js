// Where one types. Enter sends, Shift+Enter begins a line, Esc stops a running answer; what is typed is kept for each
// session.

import { el, icon } from "./dom.js";
import { note, noted } from "./vault.js";

const SAVE_AFTER = 400;
const TALLEST = 240;

export class Composer {
  /**
   * @param {object} hooks
   * @param {(text: string) => void} hooks.send
   * @param {() => void} hooks.abort
   */
  constructor(hooks) {
    this.hooks = hooks;
    this.key = "";
    /** @type {Record<string, string>} */
    this.drafts = noted("drafts", {});
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
    this.input.value = this.drafts[key] ?? "";
    this.fit();
    if (this.sendsOnEnter) this.input.focus({ preventScroll: true });
  }

  /** @param {{isWorking: boolean, queued: number, isOnline: boolean, trouble: string}} talk */
  draw(talk) {
    this.stop.hidden = !talk.isWorking;
    const queued = talk.queued
      ? `${talk.queued} ${talk.queued === 1 ? "message waits" : "messages wait"} in the queue`
      : "";
    const text = talk.isOnline
      ? talk.trouble || queued
      : "Not connected. What you send goes out when the gateway is back.";
    if (this.state.textContent !== text) this.state.textContent = text;
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
    if (!text) return;
    this.input.value = "";
    this.save();
    this.fit();
    this.hooks.send(text);
  }

  save() {
    clearTimeout(this.timer);
    if (!this.key) return;
    const text = this.input.value;
    if ((this.drafts[this.key] ?? "") === text) return;
    if (text) this.drafts[this.key] = text;
    else delete this.drafts[this.key];
    note("drafts", this.drafts);
  }

  fit() {
    this.input.style.height = "auto";
    this.input.style.height = `${Math.min(this.input.scrollHeight, TALLEST)}px`;
    this.go.classList.toggle("is-ready", this.input.value.trim() !== "");
  }
}
