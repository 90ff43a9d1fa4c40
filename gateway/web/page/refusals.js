// What a refusal means for the person in front of the page, and what to do about it.

/**
 * @typedef {object} Refusal
 * @property {"login" | "pairing" | "rejected" | "limited" | "revoked" | "away" | "refused"} state
 * @property {string} title
 * @property {string} text
 * @property {string} [requestId] of a pairing that waits
 * @property {string} [command] what approves it where the gateway runs
 * @property {number} [waitMs] until trying again makes sense
 */

const MAKE_LINK = "Run “tidegate web” where the gateway runs: it prints a new link.";

/** @type {Record<string, (shown: string) => Refusal>} */
const KNOWN = {
  AUTH_TOKEN_MISSING: () => login("Who is there?", "Open a login link, or show the gateway’s token."),
  AUTH_PASSWORD_MISSING: () => login("Who is there?", "Open a login link, or enter the gateway’s password."),
  AUTH_TOKEN_MISMATCH: (shown) => mismatch(shown),
  AUTH_PASSWORD_MISMATCH: (shown) => mismatch(shown),
  AUTH_BOOTSTRAP_TOKEN_INVALID: () =>
    login("That link is used up", `A login link works once and for ten minutes. ${MAKE_LINK}`),
  AUTH_DEVICE_TOKEN_MISMATCH: () => ({
    state: "revoked",
    title: "This browser was logged out",
    text: `Its access was taken back, or it was removed from the list of devices. ${MAKE_LINK}`,
  }),
  AUTH_SCOPE_MISMATCH: () =>
    login("This browser needs more rights", `It may do less than this page needs. ${MAKE_LINK}`),
  AUTH_UNAUTHORIZED: () =>
    refused(
      "Only from its own machine",
      "This gateway asks for no secret and takes direct connections from its own machine only.",
    ),
  AUTH_IDENTITY_HEADER_REQUIRED: () =>
    refused("The proxy told no name", "This gateway lets people in by the name that its proxy sends, and none came."),
  AUTH_VERIFIED_USER_REQUIRED: () => refused("You are not on the list", "The gateway does not let this person in."),
  PROTOCOL_MISMATCH: () => refused("This page is out of date", "Load it again to get the one that fits the gateway."),
  DEVICE_AUTH_SIGNATURE_EXPIRED: () =>
    refused("The connection was too slow", "The signature was too old when it arrived. Try again."),
};

/** @param {string} title @param {string} text @returns {Refusal} */
const login = (title, text) => ({ state: "login", title, text });
/** @param {string} title @param {string} text @returns {Refusal} */
const refused = (title, text) => ({ state: "refused", title, text });

/** @param {string} shown what was shown: `secret`, `token`, `code` or nothing */
function mismatch(shown) {
  if (shown === "token") return KNOWN.AUTH_DEVICE_TOKEN_MISMATCH(shown);
  return login("That was not it", "The token or password is not this gateway’s. Check it, or open a login link.");
}

/**
 * @param {{code?: string, message?: string, details?: any, retryAfterMs?: number, retryable?: boolean}} error
 * @param {string} shown
 * @returns {Refusal}
 */
export function refusal(error, shown) {
  const details = error.details ?? {};
  if (details.code === "PAIRING_REQUIRED") {
    return {
      state: "pairing",
      title: "Waiting to be let in",
      text:
        details.reason === "not-paired"
          ? "The gateway does not know this browser yet."
          : "This browser has to be approved again.",
      requestId: String(details.requestId ?? ""),
      command: `tidegate devices approve ${details.requestId}`,
    };
  }
  if (details.code === "PAIRING_REJECTED") {
    return {
      state: "rejected",
      title: "This browser was turned down",
      text: "Somebody said no to its request where the gateway runs. It does not ask again by itself.",
    };
  }
  if (details.code === "AUTH_RATE_LIMITED") {
    return {
      state: "limited",
      title: "Too many wrong attempts",
      text: "The gateway listens to nobody from this address for a while.",
      waitMs: error.retryAfterMs ?? 60_000,
    };
  }
  if (error.code === "UNAVAILABLE") {
    return { state: "away", title: "The gateway is busy", text: error.message ?? "", waitMs: error.retryAfterMs };
  }
  const known = KNOWN[details.code];
  return known ? known(shown) : refused("The gateway refused this browser", error.message ?? "It gave no reason.");
}
