// What this browser keeps: its key (which cannot leave it) and the token that the gateway gave it, in IndexedDB; drafts
// and what waits to be sent, in localStorage.

const NAME = "tidegate";
const PREFIX = "tidegate.";

/** @returns {Promise<IDBDatabase>} */
function open() {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open(NAME, 1);
    request.onupgradeneeded = () => request.result.createObjectStore("kept");
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
    request.onblocked = () => reject(new Error("the store of this browser is blocked"));
  });
}

/**
 * @template T
 * @param {IDBTransactionMode} mode
 * @param {(store: IDBObjectStore) => IDBRequest<T>} work
 * @returns {Promise<T>}
 */
async function transact(mode, work) {
  const database = await open();
  try {
    return await new Promise((resolve, reject) => {
      const transaction = database.transaction("kept", mode);
      const request = work(transaction.objectStore("kept"));
      transaction.oncomplete = () => resolve(request.result);
      transaction.onerror = transaction.onabort = () => reject(transaction.error);
    });
  } finally {
    database.close();
  }
}

/** @param {string} name @returns {Promise<any>} */
export const load = (name) => transact("readonly", (store) => store.get(name));
/** @param {string} name @param {unknown} value */
export const keep = (name, value) => transact("readwrite", (store) => store.put(value, name));
/** @param {string} name */
export const drop = (name) => transact("readwrite", (store) => store.delete(name));

/**
 * @template T
 * @param {string} name
 * @param {T} fallback
 * @returns {T} what was noted under a name
 */
export function noted(name, fallback) {
  try {
    const text = localStorage.getItem(PREFIX + name);
    return text === null ? fallback : JSON.parse(text);
  } catch {
    return fallback;
  }
}

/** @param {string} name @param {unknown} value null takes the note away */
export function note(name, value) {
  try {
    if (value === null) localStorage.removeItem(PREFIX + name);
    else localStorage.setItem(PREFIX + name, JSON.stringify(value));
  } catch {
    // A full or closed store costs the draft after a reload, not the message.
  }
}

/** Forget everything: the key, the token, drafts. */
export async function forgetAll() {
  await transact("readwrite", (store) => store.clear());
  for (const name of Object.keys(localStorage)) if (name.startsWith(PREFIX)) localStorage.removeItem(name);
}
