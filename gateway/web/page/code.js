// The one-time code of a login link stands behind the `#`, which no server sees. It leaves the address bar before
// anything else happens, so that nobody copies or bookmarks it; what a browser's history may keep is used up by then.

/** @returns {string} the code of the address, which holds it no more, or an empty text */
export function takeCode() {
  const found = /^#code=([\w-]{8,128})$/.exec(location.hash);
  if (location.hash.startsWith("#code=")) {
    history.replaceState(null, "", location.pathname);
  }
  return found ? found[1] : "";
}

/**
 * @param {string} text what somebody pasted
 * @returns {string} the code in a login link or a setup code, or an empty text
 */
export function codeIn(text) {
  const linked = /#code=([\w-]+)/.exec(text);
  if (linked) return linked[1];
  try {
    // A setup code is JSON in base64url.
    const { bootstrapToken } = JSON.parse(atob(text.replaceAll("-", "+").replaceAll("_", "/")));
    return typeof bootstrapToken === "string" ? bootstrapToken : "";
  } catch {
    return "";
  }
}

/** The code with which this page was opened. */
export const linkCode = takeCode();
