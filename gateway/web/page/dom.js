// Building the page. Text is always set as text; HTML comes from the gateway's renderer only, through one policy.

const types = /** @type {any} */ (globalThis).trustedTypes;
const policy = types?.createPolicy("tidegate-html", { createHTML: (/** @type {string} */ html) => html });

/**
 * Put HTML into a node that the gateway's `tidegate.web.render` wrote: it escapes by construction.
 * @param {Element} node
 * @param {string} html
 */
export function setRendered(node, html) {
  node.innerHTML = policy ? policy.createHTML(html) : html;
}

/**
 * Make an element. Properties that begin with `on` are listeners, `class`, `data-…` and `aria-…` are attributes.
 * @param {string} tag
 * @param {Record<string, unknown>} [properties]
 * @param {...(Node | string | null | undefined | false)} children
 * @returns {HTMLElement}
 */
export function el(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
    else if (name in node && !name.includes("-")) /** @type {any} */ (node)[name] = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

const ICONS = {
  arrow: "M12 19V5m0 0-6 6m6-6 6 6",
  chat: "M4 6.5A2.5 2.5 0 0 1 6.5 4h11A2.5 2.5 0 0 1 20 6.5v7a2.5 2.5 0 0 1-2.5 2.5H11l-4.5 4v-4A2.5 2.5 0 0 1 4 13.5z",
  check: "m5 12.5 4.5 4.5L19 7.5",
  chevron: "m9 6 6 6-6 6",
  copy: "M9 9V6.5A1.5 1.5 0 0 1 10.5 5h7A1.5 1.5 0 0 1 19 6.5v7a1.5 1.5 0 0 1-1.5 1.5H15M6.5 9h7A1.5 1.5 0 0 1 15 10.5v7a1.5 1.5 0 0 1-1.5 1.5h-7A1.5 1.5 0 0 1 5 17.5v-7A1.5 1.5 0 0 1 6.5 9z",
  cross: "m6 6 12 12M18 6 6 18",
  down: "M12 5v14m0 0-6-6m6 6 6-6",
  key: "M14.5 9.5h.01M15 4a5 5 0 1 1-4.6 7L4 17.4V20h3v-2h2v-2h2l1.5-1.6A5 5 0 0 1 15 4z",
  dots: "M5.5 12h.01M12 12h.01M18.5 12h.01",
  leave: "M14 4h4a2 2 0 0 1 2 2v12a2 2 0 0 1-2 2h-4M10 8l-4 4 4 4M6 12h9",
  link: "M10 14a4 4 0 0 0 5.7 0l3-3A4 4 0 1 0 13 5.3l-1 1M14 10a4 4 0 0 0-5.7 0l-3 3A4 4 0 1 0 11 18.7l1-1",
  menu: "M4 7h16M4 12h16M4 17h10",
  plus: "M12 5v14M5 12h14",
  search: "M11 4.5a6.5 6.5 0 1 1 0 13 6.5 6.5 0 0 1 0-13zm5 11.5 4 4",
  stop: "M7 7h10v10H7z",
  tool: "M14.5 5.5a4 4 0 0 0 4.7 5.2l-8.3 8.3a2.1 2.1 0 0 1-3-3l8.3-8.3a4 4 0 0 0-1.7-2.2z",
  warn: "M12 4 3 19.5h18zM12 10v4m0 2.5v.01",
  wave: "M3 9.5c3-3.7 6-3.7 9 0s6 3.7 9 0M3 15.5c3-3.7 6-3.7 9 0s6 3.7 9 0",
};

/**
 * @param {keyof typeof ICONS} name
 * @returns {SVGElement} a decoration; what it means is told in words beside it
 */
export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", ICONS[name]);
  svg.append(path);
  return svg;
}

/**
 * Make the children of a node exactly these, moving as little as possible so that focus and selection stay.
 * @param {Element} parent
 * @param {Element[]} wanted
 */
export function arrange(parent, wanted) {
  const kept = new Set(wanted);
  for (const child of [...parent.children]) if (!kept.has(child)) child.remove();
  wanted.forEach((child, index) => {
    if (parent.children[index] !== child) parent.insertBefore(child, parent.children[index] ?? null);
  });
}

/**
 * Copy a text and show on the button that it worked.
 * @param {HTMLElement} button
 * @param {string} text
 */
export async function copy(button, text) {
  const before = [...button.childNodes];
  let outcome = "Copied";
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    outcome = "Press Ctrl+C";
  }
  button.replaceChildren(icon(outcome === "Copied" ? "check" : "warn"), outcome);
  setTimeout(() => button.replaceChildren(...before), 1600);
}
