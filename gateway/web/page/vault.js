// What this browser keeps: its key (which cannot leave it) and the token that the gateway gave it, in IndexedDB; drafts
// and what waits to be sent, in localStorage.

const NAME = "tidegate";
const STORE = "kept";
const PREFIX = "tidegate.";

/** @returns {Promise<IDBDatabase>} */
function open() {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open(NAME, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(STORE);
    request.onsuccess = () => {
      if (request.result.objectStoreNames.contains(STORE)) resolve(request.result);
      else {
        request.result.close();
        replace().then(resolve, reject);
      }
    };
    request.onerror = () => {
      if (request.error?.name === "VersionError") replace().then(resolve, reject);
      else reject(request.error);
    };
    request.onblocked = () => reject(new Error("the store of this browser is blocked"));
  });
}

/** Put a store of ours in the place of one that this page cannot read. @returns {Promise<IDBDatabase>} */
function replace() {
  return new Promise((resolve, reject) => {
    const request = indexedDB.deleteDatabase(NAME);
    request.onsuccess = () => resolve(open());
    request.onerror = () => reject(request.error);
    request.onblocked = () => reject(new Error("the store of this browser is in use"));
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
      const transaction = database.transaction(STORE, mode);
      const request = work(transaction.objectStore(STORE));
      transaction.oncomplete = () => resolve(request.result);
      transaction.onerror = transaction.onabort = () => reject(transaction.error);
    });
  } finally {
    database.close();
  }
}

/** @param {string} name @returns {Promise<any>} */
export const load = (name) => transact("readonly", (store) => store.get(name));
/** @param {string} name @returns {Promise<string>} an empty one if nothing of the kind is kept */
export async function loadText(name) {
  const value = await load(name);
  return typeof value === "string" ? value : "";
}
/** @param {string} name @param {unknown} value */
export const keep = (name, value) => transact("readwrite", (store) => store.put(value, name));
/** @param {string} name */
export const drop = (name) => transact("readwrite", (store) => store.delete(name));

/**
 * @template T
 * @param {string} name
 * @param {(value: any) => T | undefined} read makes out what was noted; what it cannot make out is deleted
 * @param {T} fallback
 * @returns {T} what was noted under a name
 */
export function noted(name, read, fallback) {
  try {
    const text = localStorage.getItem(PREFIX + name);
    if (text === null) return fallback;
    const value = made(text, read);
    if (value === undefined) localStorage.removeItem(PREFIX + name);
    return value ?? fallback;
  } catch {
    return fallback;
  }
}

/**
 * @param {string} name
 * @param {unknown} value null takes the note away
 * @returns {boolean} whether it will be there after a reload; not so in a store that is full or switched off
 */
export function note(name, value) {
  try {
    if (value === null) localStorage.removeItem(PREFIX + name);
    else localStorage.setItem(PREFIX + name, JSON.stringify(value));
    return true;
  } catch {
    return false;
  }
}

/** @param {string} start @returns {string[]} the names of all notes that start so */
export function names(start) {
  try {
    const all = Object.keys(localStorage).filter((name) => name.startsWith(PREFIX + start));
    return all.map((name) => name.slice(PREFIX.length));
  } catch {
    return [];
  }
}

/**
 * Tell what other tabs note.
 * @param {string} start
 * @param {(name: string, isThere: boolean) => void} changed
 */
export function watch(start, changed) {
  addEventListener("storage", ({ key, newValue }) => {
    if (key?.startsWith(PREFIX + start)) changed(key.slice(PREFIX.length), newValue !== null);
  });
}

/** Forget everything: the key, the token, drafts. */
export async function forgetAll() {
  await transact("readwrite", (store) => store.clear());
  for (const name of names("")) note(name, null);
}

// What notes can be. Other versions of the page, and other pages of this address, may have left anything behind.

/** @template T @param {string} text @param {(value: any) => T | undefined} read @returns {T | undefined} */
function made(text, read) {
  try {
    return read(JSON.parse(text));
  } catch {
    return undefined;
  }
}

/** @param {any} value @returns {boolean | undefined} */
export const asFlag = (value) => (typeof value === "boolean" ? value : undefined);

/** @param {any} value @returns {string | undefined} something that can be the key of a session */
export const asKey = (value) =>
  // An address cannot hold half a sign.
  typeof value === "string" && /^[^\p{Cs}\p{Cc}]{1,512}$/u.test(value) ? value : undefined;

/** @param {any} value @param {"string" | "number"} kind @returns {any} those entries that are of this kind */
export function asTable(value, kind) {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  return Object.fromEntries(Object.entries(value).filter(([, entry]) => typeof entry === kind));
}
