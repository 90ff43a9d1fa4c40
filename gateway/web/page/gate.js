// What stands in front of the chat: who are you, wait to be let in, come back later.

import { codeIn } from "./code.js";
import { copy, el, icon } from "./dom.js";
import { wait } from "./words.js";

/** @param {string} command */
function commandLine(command) {
  const button = el(
    "button",
    { type: "button", class: "copy", onclick: () => copy(button, command) },
    icon("copy"),
    "Copy",
  );
  return el("div", { class: "command-line" }, el("code", {}, command), button);
}

export class Gate {
  /** @param {(proof: import("./wire.js").Proof | null) => void} enter */
  constructor(enter) {
    this.enter = enter;
    this.card = el("main", { class: "gate-card", tabIndex: -1 });
    const brand = el("div", { class: "brand" }, el("span", { class: "brand-mark" }, icon("wave")), "Tidegate");
    this.view = el("div", { class: "gate" }, brand, this.card, el("p", { class: "gate-foot" }, location.host));
    this.shown = "";
    this.timer = 0;
  }

  /** @param {any} state of the wire */
  show(state) {
    const name = state.name === "gate" ? state.refusal.state : state.name;
    const mark = JSON.stringify([name, state.refusal?.requestId, state.refusal?.text]);
    // A form that somebody types into stays as it is while nothing has changed.
    if (mark === this.shown && name === "pairing") return;
    this.shown = mark;
    clearInterval(this.timer);
    this.card.dataset.state = name;
    // Most connections take an instant: a card that flashes by tells nothing.
    this.view.classList.toggle("is-quiet", name === "connecting");
    this.card.replaceChildren(...this.content(name, state.refusal ?? {}));
    this.card.focus({ preventScroll: true });
    /** @type {HTMLElement | null} */ (this.card.querySelector("[data-first]"))?.focus();
  }

  /** @param {string} name @param {any} refusal @returns {HTMLElement[]} */
  content(name, refusal) {
    switch (name) {
      case "connecting":
        return [heading("Connecting …"), el("div", { class: "thinking" }, el("i"), el("i"), el("i"))];
      case "away":
        return [
          heading("The gateway does not answer"),
          words("It may be stopped, or the network is down. This page tries again by itself."),
          commandLine("tidegate up"),
          this.button("Try now", () => this.enter(null)),
        ];
      case "insecure":
        return [
          heading("This address is not safe enough"),
          words(
            "A browser keeps keys only for pages over https, or from this very machine. Reach the gateway through a " +
              "proxy with TLS, through Tailscale Serve, or through an SSH tunnel:",
          ),
          commandLine(`ssh -L ${location.port || 18790}:127.0.0.1:${location.port || 18790} ${location.hostname}`),
        ];
      case "old":
        return [
          heading("This browser cannot keep a key"),
          words(
            "The page signs in with an Ed25519 key. Chrome 137, Firefox 129 and Safari 17 or newer have it, outside of " +
              "private windows that allow no storage.",
          ),
        ];
      case "pairing":
        return this.pairing(refusal);
      case "rejected":
        return [heading(refusal.title), words(refusal.text), this.button("Ask again", () => this.enter(null))];
      case "limited":
        return this.limited(refusal);
      case "refused":
        return [heading(refusal.title), words(refusal.text), this.button("Try again", () => location.reload())];
      default:
        return this.login(refusal);
    }
  }

  /** @param {any} refusal */
  login(refusal) {
    const input = el("input", {
      type: "password",
      name: "secret",
      autocomplete: "off",
      spellcheck: false,
      required: true,
      "data-first": true,
      "aria-label": "Login link, setup code, token or password",
      placeholder: "Link, setup code, token or password",
    });
    const submit = (/** @type {Event} */ event) => {
      event.preventDefault();
      const text = /** @type {HTMLInputElement} */ (input).value.trim();
      if (!text) return;
      const code = codeIn(text);
      this.enter(code ? { kind: "code", value: code } : { kind: "secret", value: text });
      /** @type {HTMLInputElement} */ (input).value = "";
    };
    return [
      heading(refusal.title),
      words(refusal.text),
      el("h2", {}, "With a link"),
      words("It is printed when the gateway starts, and at any time by"),
      commandLine("tidegate web"),
      el("h2", {}, "Or by hand"),
      el(
        "form",
        { class: "login", onsubmit: submit },
        input,
        el("button", { type: "submit", class: "primary" }, "Enter"),
      ),
      el(
        "p",
        { class: "small" },
        "Nothing that you enter here is stored. This browser keeps a key of its own instead.",
      ),
    ];
  }

  /** @param {any} refusal */
  pairing(refusal) {
    return [
      heading(refusal.title),
      words(`${refusal.text} Approve it where the gateway runs; this page goes on by itself then.`),
      el("dl", { class: "facts" }, el("dt", {}, "Request"), el("dd", { class: "request-id" }, refusal.requestId)),
      commandLine(refusal.command),
      el("div", { class: "thinking", role: "status", "aria-label": "Waiting" }, el("i"), el("i"), el("i")),
      el("p", { class: "small" }, "A request waits five minutes; then a new one takes its place."),
    ];
  }

  /** @param {any} refusal */
  limited(refusal) {
    const until = Date.now() + refusal.waitMs;
    const left = el("strong", {}, wait(refusal.waitMs));
    this.timer = setInterval(() => {
      left.textContent = wait(Math.max(0, until - Date.now()));
    }, 1000);
    return [heading(refusal.title), words(refusal.text), el("p", { role: "timer" }, "Trying again in ", left, ".")];
  }

  /** @param {string} label @param {() => void} act */
  button(label, act) {
    return el("button", { type: "button", class: "primary", onclick: act, "data-first": true }, label);
  }
}

/** @param {string} text */
const heading = (text) => el("h1", {}, text);
/** @param {string} text */
const words = (text) => el("p", {}, text);
