// This browser as a device: an Ed25519 key made here, which signs the gateway's challenge and cannot be taken out.

import { keep, load } from "./vault.js";

/**
 * @typedef {object} Identity
 * @property {string} id SHA-256 of the public key, in hex
 * @property {string} publicKey base64url
 * @property {(text: string) => Promise<string>} sign base64url
 */

/** A browser, or an address, that cannot keep a key. */
export class NoKeys extends Error {
  /** @param {"insecure" | "old"} why */
  constructor(why) {
    super(why);
    this.why = why;
  }
}

/** @param {ArrayBuffer} bytes */
function base64url(bytes) {
  const text = btoa(String.fromCharCode(...new Uint8Array(bytes)));
  return text.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** @returns {Promise<CryptoKeyPair>} */
async function keyPair() {
  if (!globalThis.isSecureContext || !globalThis.crypto?.subtle) throw new NoKeys("insecure");
  const kept = await load("key");
  if (isPair(kept)) return kept;
  let made;
  try {
    made = /** @type {CryptoKeyPair} */ (
      await crypto.subtle.generateKey({ name: "Ed25519" }, false, ["sign", "verify"])
    );
  } catch {
    throw new NoKeys("old");
  }
  await keep("key", made);
  // Two tabs may have made one at the same time: the one that was kept last is ours.
  return load("key");
}

/** @param {any} kept */
const isPair = (kept) =>
  [kept?.privateKey, kept?.publicKey].every((key) => key instanceof CryptoKey && key.algorithm.name === "Ed25519");

/** @returns {Promise<Identity>} */
export async function identity() {
  const { privateKey, publicKey } = await keyPair();
  const raw = await crypto.subtle.exportKey("raw", publicKey);
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", raw));
  return {
    id: [...digest].map((byte) => byte.toString(16).padStart(2, "0")).join(""),
    publicKey: base64url(raw),
    sign: async (text) => base64url(await crypto.subtle.sign("Ed25519", privateKey, new TextEncoder().encode(text))),
  };
}

/** @returns {string} a name by which a person recognises this browser in a list of devices */
export function browserName() {
  const agent = navigator.userAgent;
  const browser =
    [
      ["Edg/", "Edge"],
      ["OPR/", "Opera"],
      ["Firefox/", "Firefox"],
      ["Chrome/", "Chrome"],
      ["Safari/", "Safari"],
    ].find(([mark]) => agent.includes(mark))?.[1] ?? "Browser";
  const system = [
    ["Android", "Android"],
    ["iPhone", "iPhone"],
    ["iPad", "iPad"],
    ["Windows", "Windows"],
    ["Mac OS", "Mac"],
    ["Linux", "Linux"],
  ].find(([mark]) => agent.includes(mark))?.[1];
  return system ? `${browser} on ${system}` : browser;
}
