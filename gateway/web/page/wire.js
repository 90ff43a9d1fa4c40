// The connection to the gateway: proves who we are, keeps itself alive, comes back, and notices when events were
// missed.

import { browserName, identity, NoKeys } from "./identity.js";
import { refusal } from "./refusals.js";
import { drop, keep, loadText } from "./vault.js";

const SCOPES = ["operator.read", "operator.write"];
const CLIENT = { id: "webchat", mode: "webchat", version: "1", platform: "web", deviceFamily: "Browser" };
const FIRST_RETRY = 400;
const LONGEST_RETRY = 15_000;
const PAIRING_RETRY = 2_500;
const HANDSHAKE = 20_000;
const REQUEST = 30_000;
const LEAVING = 5_000;

/** A request that the gateway refused. */
export class Failed extends Error {
  /** @param {{code: string, message: string, details?: any, retryable?: boolean, retryAfterMs?: number}} error */
  constructor(error) {
    super(error.message);
    this.code = error.code;
    this.details = error.details ?? {};
    this.retryable = Boolean(error.retryable);
    this.retryAfterMs = error.retryAfterMs;
  }
}

/** A request whose answer will not come: the connection is gone. Whether it was carried out is not known. */
export class Lost extends Error {}

/**
 * @typedef {{name: "connecting" | "online" | "away", [key: string]: any} | {name: "gate", refusal: any}
 *   | {name: "insecure" | "old"}} State
 * @typedef {{kind: "code" | "secret", value: string}} Proof what a person showed; it is kept in memory only
 */

export class Wire {
  /**
   * @param {object} hooks
   * @param {(state: State) => void} hooks.state
   * @param {(event: string, payload: any) => void} hooks.event
   * @param {() => void} hooks.gap events were missed
   */
  constructor(hooks) {
    this.hooks = hooks;
    /** @type {WebSocket | null} */
    this.socket = null;
    /** @type {Proof | null} */
    this.proof = null;
    /** @type {any} */
    this.hello = null;
    this.isOnline = false;
    this.attempt = 0;
    this.seq = 0;
    this.number = 0;
    this.heard = 0;
    /** @type {Map<string, {resolve: Function, reject: Function, timer: number}>} */
    this.open = new Map();
    this.timer = 0;
    this.watchdog = 0;
    this.lastToken = "";
    this.turn = 0;
    addEventListener("online", () => this.hurry());
    document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && this.hurry());
  }

  /** @param {Proof | null} [proof] */
  start(proof = null) {
    if (proof) this.proof = proof;
    this.attempt = 0;
    this.connect();
  }

  /** Somebody is back: try again now, and do not wait for a connection that died while nobody looked. */
  hurry() {
    if (this.isOnline && this.silence() > this.tick + 5_000) this.lost();
    if (this.timer && !this.isOnline) this.connect();
  }

  silence() {
    return Date.now() - this.heard;
  }

  get tick() {
    return this.hello?.policy.tickIntervalMs ?? 30_000;
  }

  /** End, and stay away. */
  stop() {
    clearTimeout(this.timer);
    this.timer = 0;
    this.turn += 1;
    this.proof = null;
    this.hangUp();
  }

  /**
   * Give up what this browser may do, and stay away.
   * @returns {Promise<{isTold: boolean, id: string}>} whether the gateway has forgotten it, and what it calls it
   */
  async leave() {
    const { id } = await identity();
    let isTold = true;
    try {
      await this.request("tidegate.web.leave", {}, LEAVING);
    } catch {
      isTold = false;
    }
    this.stop();
    return { isTold, id };
  }

  async connect() {
    clearTimeout(this.timer);
    this.timer = 0;
    this.hangUp();
    if (this.attempt === 0) this.hooks.state({ name: "connecting" });
    this.turn += 1;
    const turn = this.turn;
    let self;
    try {
      self = await identity();
      // Another attempt may have begun meanwhile.
      if (turn !== this.turn) return;
    } catch (error) {
      const why = error instanceof NoKeys ? error.why : "old";
      this.hooks.state({ name: why });
      return;
    }
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const socket = new WebSocket(`${scheme}://${location.host}/`);
    this.socket = socket;
    this.seq = 0;
    const slow = setTimeout(() => socket.close(), HANDSHAKE);
    socket.onmessage = (message) => {
      if (socket === this.socket) this.take(JSON.parse(message.data), self, slow);
    };
    socket.onclose = () => {
      clearTimeout(slow);
      if (socket === this.socket) this.lost();
    };
  }

  hangUp() {
    const socket = this.socket;
    this.socket = null;
    this.isOnline = false;
    clearInterval(this.watchdog);
    for (const { reject, timer } of this.open.values()) {
      clearTimeout(timer);
      reject(new Lost("the connection is gone"));
    }
    this.open.clear();
    socket?.close();
  }

  lost() {
    this.hangUp();
    this.retry();
    this.hooks.state({ name: "away", again: Boolean(this.hello) });
  }

  /** @param {number} [after] milliseconds; else longer with each attempt, and never in step with others */
  retry(after) {
    const longest = Math.min(LONGEST_RETRY, FIRST_RETRY * 2 ** this.attempt);
    this.attempt += 1;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.connect(), after ?? longest * (0.5 + Math.random() / 2));
  }

  /** @param {any} frame @param {import("./identity.js").Identity} self @param {number} slow */
  async take(frame, self, slow) {
    this.heard = Date.now();
    if (frame.type === "event") {
      if (frame.event === "connect.challenge") await this.introduce(frame.payload, self, slow);
      else this.takeEvent(frame);
    } else if (frame.type === "res") {
      const request = this.open.get(frame.id);
      this.open.delete(frame.id);
      clearTimeout(request?.timer);
      if (frame.ok) request?.resolve(frame.payload);
      else request?.reject(new Failed(frame.error));
    }
  }

  /** @param {any} frame */
  takeEvent(frame) {
    if (frame.seq !== undefined) {
      const missed = this.seq > 0 && frame.seq !== this.seq + 1;
      this.seq = frame.seq;
      if (missed) this.hooks.gap();
    }
    this.hooks.event(frame.event, frame.payload);
  }

  /**
   * @param {{nonce: string, ts: number}} challenge
   * @param {import("./identity.js").Identity} self
   * @param {number} slow
   */
  async introduce(challenge, self, slow) {
    const socket = this.socket;
    const token = this.proof ? "" : await loadText("token");
    this.lastToken = token;
    const auth = this.auth(token);
    const secret = auth.token ?? auth.deviceToken ?? auth.bootstrapToken ?? "";
    const fields = [
      "v3",
      self.id,
      CLIENT.id,
      CLIENT.mode,
      "operator",
      SCOPES.join(","),
      challenge.ts,
      secret,
      challenge.nonce,
      CLIENT.platform,
      CLIENT.deviceFamily.toLowerCase(),
    ];
    const signature = await self.sign(fields.join("|"));
    if (socket !== this.socket) return;
    const params = {
      minProtocol: 4,
      maxProtocol: 4,
      client: { ...CLIENT, displayName: browserName() },
      role: "operator",
      scopes: SCOPES,
      caps: ["tool-events", "session-scoped-events"],
      auth,
      device: { id: self.id, publicKey: self.publicKey, signature, signedAt: challenge.ts, nonce: challenge.nonce },
    };
    try {
      const hello = await this.request("connect", params, HANDSHAKE);
      clearTimeout(slow);
      await this.welcome(hello);
    } catch (error) {
      if (error instanceof Failed && socket === this.socket) await this.refused(error);
    }
  }

  /** @param {string} token @returns {Record<string, string>} */
  auth(token) {
    if (this.proof?.kind === "code") return { bootstrapToken: this.proof.value };
    if (this.proof) return { token: this.proof.value };
    return token ? { deviceToken: token } : {};
  }

  /** @param {any} hello */
  async welcome(hello) {
    this.proof = null;
    if (hello.auth.deviceToken) await keep("token", hello.auth.deviceToken);
    this.hello = hello;
    this.isOnline = true;
    this.attempt = 0;
    this.watchdog = setInterval(() => this.silence() > 2 * this.tick + 5_000 && this.lost(), 5_000);
    this.hooks.state({ name: "online" });
  }

  /** @param {Failed} error */
  async refused(error) {
    const shown = this.proof?.kind ?? (this.lastToken ? "token" : "");
    const meaning = refusal(error, shown);
    this.hangUp();
    if (meaning.state === "pairing") this.retry(PAIRING_RETRY);
    else if (meaning.state === "limited") this.retry(meaning.waitMs);
    else if (meaning.state === "away") {
      this.retry(meaning.waitMs);
      this.hooks.state({ name: "away", again: Boolean(this.hello) });
      return;
    } else if (meaning.state !== "rejected" && (await this.otherToken(meaning))) {
      this.connect();
      return;
    }
    this.hooks.state({ name: "gate", refusal: meaning });
  }

  /**
   * A used-up link of a browser that is known already, or a token that another tab has just replaced, is no reason to
   * send anybody away.
   * @param {import("./refusals.js").Refusal} meaning
   */
  async otherToken(meaning) {
    const kept = await loadText("token");
    if (this.proof) {
      const wasCode = this.proof.kind === "code";
      this.proof = null;
      return wasCode && kept !== "";
    }
    if (kept && kept !== this.lastToken) return true;
    if (meaning.state === "revoked") await drop("token");
    return false;
  }

  /**
   * @param {string} method
   * @param {Record<string, unknown>} [params]
   * @param {number} [patience] milliseconds
   * @returns {Promise<any>} Rejects with Failed or Lost.
   */
  request(method, params = {}, patience = REQUEST) {
    const socket = this.socket;
    if (!socket || socket.readyState !== WebSocket.OPEN || (!this.isOnline && method !== "connect")) {
      return Promise.reject(new Lost("not connected"));
    }
    this.number += 1;
    const id = String(this.number);
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.open.delete(id);
        reject(new Lost("no answer came"));
      }, patience);
      this.open.set(id, { resolve, reject, timer });
      socket.send(JSON.stringify({ type: "req", id, method, params }));
    });
  }
}
