// Puts the page together. Start reading here: the wire tells what state the connection is in, the gate or the shell
// shows it, and what happens in sessions goes to the list and to the open talk.

import { linkCode, takeCode } from "./code.js";
import { Composer } from "./composer.js";
import { el, icon } from "./dom.js";
import { Gate } from "./gate.js";
import { Markdown } from "./markdown.js";
import { newKey, Sessions } from "./sessions.js";
import { Shell } from "./shell.js";
import { Talk } from "./talk.js";
import { Transcript } from "./transcript.js";
import { asKey, forgetAll, note, noted } from "./vault.js";
import { Wire } from "./wire.js";

const root = /** @type {HTMLElement} */ (document.getElementById("app"));
const wire = new Wire({ state: stateChanged, event: eventCame, gap: () => refresh() });
const markdown = new Markdown(wire);
const gate = new Gate((proof) => wire.start(proof));
const voice = el("div", { class: "unseen", role: "status", "aria-live": "polite" });
const sessions = new Sessions(wire, soon);
const talk = new Talk(wire, markdown, {
  changed: soon,
  say: (text) => {
    voice.textContent = text;
  },
});
const transcript = new Transcript(talk, markdown);
const composer = new Composer({ send: say, abort: () => talk.abort() });
const shell = new Shell(sessions, { open: (key) => go(key), create: () => go(newKey(defaultAgent())), leave });
const welcome = el(
  "div",
  { class: "welcome" },
  el("span", { class: "brand-mark" }, icon("wave")),
  el("h2", {}, "What is on your mind?"),
  el("p", {}, "Your agent answers here, and remembers the conversation wherever you go on with it."),
);
shell.main.append(transcript.view, welcome, transcript.toEnd, composer.view, voice);

let isDrawing = false;
let version = "";

/** Draw with the next frame, once for all that has changed until then. */
function soon() {
  if (isDrawing) return;
  isDrawing = true;
  // A page in the background gets no frames, and has to be right when somebody comes back.
  const draw = () => {
    isDrawing = false;
    drawAll();
  };
  if (document.visibilityState === "visible") requestAnimationFrame(draw);
  else setTimeout(draw, 100);
}

function drawAll() {
  shell.draw();
  transcript.draw();
  welcome.hidden = !transcript.view.classList.contains("is-empty");
  const { isWorking, queued, trouble } = talk;
  composer.draw({ isWorking, queued, trouble, isOnline: wire.isOnline, isFull: talk.outbox.isFull });
}

/** @param {any} state */
function stateChanged(state) {
  const wasIn = root.firstElementChild === shell.view;
  if (state.name === "online") {
    // A gateway of another version has another page.
    if (version && version !== wire.hello.server.version) location.reload();
    version = wire.hello.server.version;
    if (!wasIn) root.replaceChildren(shell.view);
    shell.connection("online");
    refresh();
    markdown.resume();
    if (!talk.key) go(wanted(), true);
  } else if (wasIn && (state.name === "away" || state.name === "connecting")) {
    shell.connection("away");
    soon();
  } else {
    if (root.firstElementChild !== gate.view) root.replaceChildren(gate.view);
    gate.show(state);
  }
}

/** Fetch again what events may have missed. */
async function refresh() {
  talk.resume();
  try {
    await sessions.load();
  } catch {
    // The next connection asks again.
  }
  soon();
}

/** @param {string} name @param {any} payload */
function eventCame(name, payload) {
  sessions.event(name, payload);
  talk.event(name, payload);
}

/** @param {string} text @returns {boolean} whether it is kept */
function say(text) {
  transcript.follows = true;
  return talk.send(text);
}

function defaultAgent() {
  return wire.hello?.snapshot.sessionDefaults.defaultAgentId ?? "main";
}

/** @returns {string | undefined} the session that the address names, if it can be read */
function named() {
  const written = /^#\/chat\/(agent.+)$/.exec(location.hash)?.[1];
  try {
    const key = written && asKey(decodeURIComponent(written));
    return key && /^agent:[^:]+:./.test(key) ? key : undefined;
  } catch {
    // A link that was cut in the middle of a sign names nothing.
    return undefined;
  }
}

/** @returns {string} the session that the address names, else the one that was open last, else the main one */
function wanted() {
  return named() ?? noted("open", asKey, wire.hello.snapshot.sessionDefaults.mainSessionKey);
}

/** @param {string} key @param {boolean} [isFirst] */
function go(key, isFirst = false) {
  const address = `#/chat/${encodeURIComponent(key)}`;
  if (isFirst) history.replaceState(null, "", address);
  else if (location.hash !== address) history.pushState(null, "", address);
  note("open", key);
  sessions.look(key);
  talk.open(key);
  composer.open(key);
  soon();
}

async function leave() {
  if (!confirm("Log this browser out? Its key and drafts are deleted; a new link lets it in again.")) return;
  const left = await wire.leave();
  await forgetAll();
  if (!left.isTold)
    alert(
      "The gateway could not be told. Without its key this browser cannot come back, but it stays in the list of " +
        `devices until somebody runs: tidegate devices remove ${left.id}`,
    );
  location.replace("/");
}

// A login link that is opened in a tab with this page only changes what stands behind the `#`.
addEventListener("hashchange", () => {
  const code = takeCode();
  if (code) wire.start({ kind: "code", value: code });
  else if (wire.hello) go(wanted(), true);
});
document.addEventListener("visibilitychange", () => sessions.looked(sessions.current));
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || event.isComposing) return;
  if (shell.isOpen) shell.drawer(false);
  else if (talk.isWorking) talk.abort();
});

// "3 min" is wrong a minute later.
setInterval(soon, 60_000);
wire.start(linkCode ? { kind: "code", value: linkCode } : null);
