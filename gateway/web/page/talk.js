// One session as it stands: its transcript, which the gateway owns, and above it what is not in the transcript yet –
// typed messages and running answers. Whenever a run ends or events may have been missed the transcript is fetched
// again, and what it holds by then is taken off the overlay: nothing is shown twice and nothing is lost.

import { bare, endOf, Lines, rendered, seqOf, textOf } from "./lines.js";
import { Outbox } from "./outbox.js";
import { Run } from "./runs.js";
import { unmarked } from "./words.js";

const PAGE = 60;
const GRACE = 3_000;
const RECHECK = 700;
const MAX_RECHECKS = 5;
const IDLE_CHECK = 4_000;

/**
 * @typedef {{id: string, kind: "error" | "stopped" | "command", question?: string, text: string, after: number}} Note
 */

export class Talk {
  /**
   * @param {import("./wire.js").Wire} wire
   * @param {import("./markdown.js").Markdown} markdown
   * @param {object} hooks
   * @param {() => void} hooks.changed
   * @param {(text: string) => void} hooks.say for those who listen
   */
  constructor(wire, markdown, hooks) {
    this.wire = wire;
    this.markdown = markdown;
    this.hooks = hooks;
    this.outbox = new Outbox(wire, (message, answer) => this.messageChanged(message, answer));
    /** @type {Map<string, Note[]>} */
    this.notes = new Map();
    /** @type {Set<string>} sessions whose events come */
    this.listened = new Set();
    this.key = "";
    this.trouble = "";
    this.lines = new Lines();
    this.clear();
  }

  clear() {
    this.conversation = "";
    this.lines = new Lines();
    /** @type {Map<string, Run>} */
    this.runs = new Map();
    this.isLoaded = false;
    this.isBusy = false;
    this.queued = 0;
    this.total = 0;
    this.model = "";
    this.trouble = "";
    clearTimeout(this.timer);
  }

  /** @param {string} key */
  open(key) {
    if (key === this.key) return;
    this.key = key;
    this.clear();
    this.hooks.changed();
    this.listen();
    this.sync();
  }

  /** Ask for the events of this session, and of those in which something of ours is not answered yet; no others. */
  listen() {
    const open = this.outbox.messages.filter((message) => message.state === "taken" && !message.isDone);
    const wanted = new Set([this.key, ...open.map((message) => message.key)]);
    const ask = (/** @type {string} */ method, /** @type {string} */ key) =>
      this.wire.request(method, { key }).catch(() => {});
    for (const key of this.listened) if (!wanted.has(key)) ask("sessions.messages.unsubscribe", key);
    for (const key of wanted) if (!this.listened.has(key)) ask("sessions.messages.subscribe", key);
    this.listened = wanted;
  }

  get hasMore() {
    return this.lines.first > 1;
  }

  /** Whether something is under way that can be stopped. */
  get isWorking() {
    return this.isBusy || [...this.runs.values()].some((run) => run.state === "running");
  }

  /** @param {string} text @returns {boolean} whether it is kept; else too many wait already */
  send(text) {
    return this.outbox.add(this.key, text, this.lines.last);
  }

  async abort() {
    try {
      await this.wire.request("chat.abort", { sessionKey: this.key });
    } catch (error) {
      this.trouble = `It could not be stopped: ${/** @type {Error} */ (error).message}`;
    }
    this.sync();
  }

  /** @param {import("./outbox.js").Message} message @param {any} answer */
  messageChanged(message, answer) {
    if (message.isDone && message.state === "taken") {
      if (message.key === this.key) this.sync();
      else this.outbox.remove(message);
    }
    if (answer && message.key === this.key && !message.isDone) this.check();
    this.hooks.changed();
  }

  /** Events were missed, or the gateway is back. */
  resume() {
    // Events were lost, or the connection is a new one that hears nothing yet.
    this.listened.clear();
    this.outbox.flush();
    if (!this.key) return;
    this.listen();
    this.sync();
  }

  // The transcript

  /** Fetch the newest part of the transcript and settle the overlay with it. */
  async sync() {
    if (this.isSyncing) {
      this.mustSyncAgain = true;
      return;
    }
    this.isSyncing = true;
    const key = this.key;
    const began = Date.now();
    const ended = new Set([...this.runs.values()].filter((run) => run.state !== "running").map((run) => run.id));
    const done = new Set(
      this.outbox
        .of(key)
        .filter((message) => message.isDone)
        .map((message) => message.id),
    );
    try {
      const page = await this.wire.request("chat.history", { sessionKey: key, limit: PAGE });
      await this.markdown.prepare(rendered(page.messages));
      if (key === this.key) this.settle(page, began, ended, done);
      this.trouble = "";
    } catch (error) {
      if (key === this.key && this.wire.isOnline) this.trouble = /** @type {Error} */ (error).message;
    } finally {
      this.isSyncing = false;
    }
    this.hooks.changed();
    if (this.mustSyncAgain || key !== this.key) {
      this.mustSyncAgain = false;
      this.sync();
    } else this.check();
  }

  /** Look again soon while something is open whose end could be missed. */
  check() {
    clearTimeout(this.timer);
    const runs = [...this.runs.values()];
    const hasEnded = runs.some((run) => run.state !== "running");
    const isUnknown = this.isBusy && runs.length === 0;
    const isWaiting = this.outbox.of(this.key).some((message) => message.state === "taken");
    if (hasEnded) this.timer = setTimeout(() => this.sync(), RECHECK);
    else if (isUnknown || isWaiting) this.timer = setTimeout(() => this.sync(), IDLE_CHECK);
  }

  /** @param {any} page @param {number} began @param {Set<string>} ended @param {Set<string>} done */
  settle(page, began, ended, done) {
    const conversation = page.sessionId ?? "";
    const isOther = this.conversation !== "" && conversation !== this.conversation;
    if (isOther) {
      this.lines = new Lines();
      this.notes.delete(this.key);
      for (const message of this.outbox.of(this.key)) message.after = 0;
      for (const run of this.runs.values()) run.after = 0;
    }
    this.conversation = conversation;
    this.lines.merge(page.messages);
    this.isLoaded = true;
    this.total = page.totalMessages;
    this.queued = page.pendingInputs.total;
    this.isBusy = Boolean(page.sessionInfo?.hasActiveRun);
    this.model = page.sessionInfo?.model ?? page.defaults?.model ?? "";
    this.settleRuns(page, ended);
    this.settleMessages(began, done, isOther);
  }

  /** Fetch what stands before the oldest line. */
  async older() {
    if (this.isFetching || !this.hasMore) return;
    this.isFetching = true;
    const key = this.key;
    const { first } = this.lines;
    try {
      const offset = Math.max(0, this.total - first + 1);
      const page = await this.wire.request("chat.history", { sessionKey: key, limit: PAGE, offset });
      await this.markdown.prepare(rendered(page.messages));
      if (key === this.key && (page.sessionId ?? "") === this.conversation) {
        this.lines.add(page.messages);
      }
    } catch {
      // Scrolling up once more asks again.
    } finally {
      this.isFetching = false;
    }
    this.hooks.changed();
  }

  // The overlay

  /** @param {any} page @param {Set<string>} ended */
  settleRuns(page, ended) {
    const active = new Set(page.sessionInfo?.activeRunIds ?? []);
    for (const id of active) {
      // A gateway that was ended in the middle of an answer takes it up again.
      if (this.runs.get(String(id))?.state === "aborted" && ended.has(String(id))) this.runs.delete(String(id));
      this.run(String(id));
    }
    for (const run of [...this.runs.values()]) {
      if (run.state === "running" && active.has(run.id)) {
        run.takeOff(this.lines);
        if (page.inFlightRun?.runId === run.id) run.joinLate(page.inFlightRun.text, this.lines);
      } else if (run.state === "running" || ended.has(run.id)) this.close(run);
    }
  }

  /** Let go of a run that has ended, once the transcript holds what it said. @param {Run} run */
  close(run) {
    run.checks += 1;
    const lines = this.lines.of("assistant", run.after);
    const said = lines.map(textOf);
    const isTold = lines.some((line) => endOf(line) === run.state);
    const isThere = !run.text || said.some((text) => text && (run.text.endsWith(text) || text.endsWith(run.text)));
    // What was said of an answer that was stopped is written after its end is told.
    if (run.state === "aborted" && !isThere && run.checks < MAX_RECHECKS) return;
    this.runs.delete(run.id);
    const remark = { id: run.id, after: this.lines.last };
    // The transcript knows every stop; another cut is none.
    if (isTold ? isThere : run.state === "aborted") return;
    if (run.state === "error") this.addNote({ ...remark, kind: "error", text: run.error });
    else if (run.state === "aborted") this.addNote({ ...remark, kind: "stopped", text: isThere ? "" : run.text });
    else if (!isThere && !run.hasBegun) {
      const question = this.outbox.get(run.id)?.text;
      this.addNote({ ...remark, kind: "command", question, text: run.text });
    }
  }

  /** @param {Note} remark @param {string} [key] */
  addNote(remark, key = this.key) {
    const notes = this.notes.get(key) ?? [];
    if (!notes.some((other) => other.id === remark.id)) this.notes.set(key, [...notes, remark]);
  }

  /** @param {number} began @param {Set<string>} done @param {boolean} isOther another conversation has begun */
  settleMessages(began, done, isOther) {
    const isEnding = [...this.runs.values()].some((run) => run.state === "aborted");
    const stored = this.lines.of("user").map((line) => ({ seq: seqOf(line), text: bare(textOf(line)) }));
    for (const message of this.outbox.of(this.key)) {
      if (message.state === "failed" || this.outbox.isToSend(message)) continue;
      const text = bare(message.text);
      const line = stored.find((other) => other.seq > (message.after ?? 0) && other.text.includes(text));
      if (line) line.text = line.text.replace(text, "");
      // Another tab sends it, which the transcript may tell before that tab does.
      if (message.state === "unsent") {
        if (line) this.outbox.hide(message);
        continue;
      }
      const isIdle = !this.isBusy && this.queued === 0 && began - (message.takenAt ?? began) > GRACE;
      const isOver = done.has(message.id) || isIdle;
      if (line || (isOver && (message.isAnswered || isOther))) this.outbox.remove(message);
      // It was taken and is not in the transcript: a stop has set aside what waited.
      else if (isOver && !isEnding) {
        message.after = this.lines.last;
        this.outbox.fail(message, "it was set aside");
      }
    }
  }

  /** @param {string} id @returns {Run} */
  run(id) {
    const known = this.runs.get(id);
    if (known) return known;
    const made = new Run(id, this.lines.last);
    this.runs.set(id, made);
    return made;
  }

  // Events

  /** @param {string} name @param {any} payload */
  event(name, payload) {
    if (!payload || payload.sessionKey !== this.key) {
      if (payload?.runId) this.elsewhere(name, payload);
      return;
    }
    if (name === "chat") this.chatEvent(payload);
    else if (name === "agent") this.agentEvent(payload);
    else if (name === "session.message" && payload.message?.role === "user") this.sync();
    else return;
    this.hooks.changed();
  }

  /** Something of ours goes on in another session. @param {string} name @param {any} payload */
  elsewhere(name, payload) {
    const message = this.outbox.get(payload.runId);
    if (!message) return;
    if (name === "agent") message.isAnswered = true;
    if (name !== "chat" || payload.state === "status" || payload.state === "delta") return;
    const text = payload.message ? textOf(payload.message) : "";
    const remark = { id: message.id, after: message.after ?? 0 };
    // The failure of a run that began stands in the transcript.
    if (payload.state === "error" && !message.isAnswered)
      this.addNote({ ...remark, kind: "error", text: payload.errorMessage }, message.key);
    else if (text && !message.isAnswered) {
      this.addNote({ ...remark, kind: "command", question: message.text, text }, message.key);
    }
    message.isAnswered ||= text !== "" || payload.state !== "final";
    message.isDone = true;
    this.listen();
  }

  /** @param {any} payload */
  chatEvent(payload) {
    const { runId, state } = payload;
    if (state === "status") this.run(runId).phase = payload.phase;
    if (state === "status" || state === "delta") return;
    const message = this.outbox.get(runId);
    if (message) message.isDone = true;
    const text = payload.message ? textOf(payload.message) : "";
    if (message && text) message.isAnswered = true;
    // An end without words of a run that we never saw begin: its message became part of another run.
    if (state === "final" && !text && !this.runs.has(runId)) {
      this.sync();
      return;
    }
    const run = this.run(runId);
    run.text = text || run.text;
    if (state === "error" && run.state !== "error") run.error = payload.errorMessage || "it gave no reason";
    run.state = state === "final" ? "done" : state;
    if (state === "error") this.hooks.say(`The answer failed: ${run.error}`);
    else if (text) this.hooks.say(unmarked(text.slice(0, 400)));
    this.sync();
  }

  /** @param {any} payload */
  agentEvent(payload) {
    const { runId, stream, data } = payload;
    if (!["lifecycle", "assistant", "tool"].includes(stream)) return;
    const known = this.runs.get(runId);
    if (!known && stream === "lifecycle" && data.phase !== "start") return;
    if (known && known.state !== "running") return;
    const run = this.run(runId);
    run.hasBegun = true;
    const message = this.outbox.get(runId);
    if (message) message.isAnswered = true;
    if (stream === "assistant") run.heard(data);
    else if (stream === "tool") run.toolEvent(data, this.lines);
  }
}
