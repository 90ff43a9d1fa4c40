// The tabs of this browser that show the page. Each holds a lock under a name of its own for as long as it is open, so
// that the others can tell when it is gone, however it went.

const LOCK = "tidegate.tab.";

/** The name of this one. A page that is not safe enough for keys has none, and gets no further than saying so. */
export const tab = crypto.randomUUID?.() ?? "";

/** Let the others know that this tab is open. */
export function stay() {
  // A browser that is told to keep nothing gives no locks either.
  navigator.locks?.request(LOCK + tab, () => new Promise(() => {})).catch(() => {});
}

/**
 * Act once a tab is gone, at once if it is already. Of several that wait the next acts when this one is done.
 * @param {string} other
 * @param {() => void} act
 */
export function whenGone(other, act) {
  navigator.locks?.request(LOCK + other, act);
}
