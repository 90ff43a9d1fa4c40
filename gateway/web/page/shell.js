// The frame around every view: navigation, the list of sessions, the state of the connection. The chat is its only view
// yet.

import { arrange, el, icon } from "./dom.js";
import { RowMenu } from "./menu.js";
import { ago, dayName, unmarked } from "./words.js";

const VIEWS = [{ name: "chat", label: "Chat", icon: /** @type {const} */ ("chat") }];

export class Shell {
  /**
   * @param {import("./sessions.js").Sessions} sessions
   * @param {object} hooks
   * @param {(key: string) => void} hooks.open
   * @param {() => void} hooks.create
   * @param {() => void} hooks.leave
   */
  constructor(sessions, hooks) {
    this.sessions = sessions;
    this.hooks = hooks;
    this.filter = "";
    this.rowMenu = new RowMenu(sessions);
    /** @type {Map<string, HTMLElement>} */
    this.nodes = new Map();
    this.list = el("div", { class: "sessions", role: "list" });
    this.title = el("h1", { class: "title" });
    this.about = el("p", { class: "about" });
    this.link = el("span", { class: "link-state", role: "status" });
    this.main = el("main", { class: "view" });
    this.menu = el(
      "button",
      {
        type: "button",
        class: "menu",
        "aria-label": "Sessions",
        "aria-expanded": "false",
        onclick: () => this.drawer(true),
      },
      icon("menu"),
    );
    this.search = el("input", {
      type: "search",
      placeholder: "Search",
      "aria-label": "Search sessions",
      autocomplete: "off",
      spellcheck: false,
      oninput: () => {
        this.filter = /** @type {HTMLInputElement} */ (this.search).value;
        this.draw();
      },
    });
    this.veil = el("button", {
      type: "button",
      class: "veil",
      "aria-label": "Close the list",
      tabIndex: -1,
      onclick: () => this.drawer(false),
    });
    this.switches = el("div", { class: "switches" });
    this.side = this.sidebar();
    const top = el(
      "header",
      { class: "top" },
      this.menu,
      el("div", { class: "top-words" }, this.title, this.about),
      this.newButton("top-new"),
    );
    this.view = el("div", { class: "shell" }, this.side, this.veil, el("div", { class: "stage" }, top, this.main));
  }

  sidebar() {
    const nav = el(
      "nav",
      { class: "views", "aria-label": "Views" },
      ...VIEWS.map((view) =>
        el("a", { href: `#/${view.name}`, "aria-current": "page" }, icon(view.icon), view.label),
      ),
    );
    const brand = el("div", { class: "brand" }, el("span", { class: "brand-mark" }, icon("wave")), "Tidegate");
    const close = el(
      "button",
      { type: "button", class: "quiet close", "aria-label": "Close the list", onclick: () => this.drawer(false) },
      icon("cross"),
    );
    const leave = el(
      "button",
      {
        type: "button",
        class: "quiet leave",
        title: "Log this browser out",
        "aria-label": "Log this browser out",
        onclick: () => this.hooks.leave(),
      },
      icon("leave"),
    );
    return el(
      "aside",
      { class: "side", "aria-label": "Navigation" },
      el("div", { class: "side-top" }, brand, close),
      nav,
      this.newButton("side-new", "New conversation"),
      el("div", { class: "search" }, icon("search"), this.search),
      this.list,
      this.switches,
      this.rowMenu.view,
      el("footer", { class: "side-foot" }, this.link, leave),
    );
  }

  /** @param {string} name @param {string} [label] */
  newButton(name, label = "") {
    const act = () => {
      this.hooks.create();
      this.drawer(false);
    };
    return el(
      "button",
      { type: "button", class: name, "aria-label": "New conversation", title: "New conversation", onclick: act },
      icon("plus"),
      label,
    );
  }

  /** @param {boolean} isOpen the list over the page, where there is no room beside it */
  drawer(isOpen) {
    this.view.classList.toggle("is-open", isOpen);
    this.menu.setAttribute("aria-expanded", String(isOpen));
    if (isOpen) this.search.focus({ preventScroll: true });
    else if (this.side.contains(document.activeElement)) this.menu.focus({ preventScroll: true });
  }

  get isOpen() {
    return this.view.classList.contains("is-open");
  }

  draw() {
    const { sessions } = this;
    const rows = sessions.list(this.filter);
    const wanted = [];
    let day = "";
    for (const row of rows) {
      const name = dayName(row.updatedAt);
      if (name !== day) {
        day = name;
        wanted.push(this.node(`day ${name}`, () => el("h2", { class: "day-name" }, name)));
      }
      wanted.push(this.row(row));
    }
    if (!rows.length && sessions.isLoaded) {
      const text = this.filter ? "No session has these words." : "No conversations yet.";
      const none = this.node(`none ${text}`, () => el("p", { class: "none" }, text));
      wanted.push(none);
    }
    if (sessions.hasMore) {
      const more = () => sessions.more().catch(() => {});
      wanted.push(
        this.node("more", () =>
          el("button", { type: "button", class: "quiet more", onclick: more }, "Older conversations"),
        ),
      );
    }
    arrange(this.list, wanted);
    arrange(this.switches, [
      ...(sessions.apiCount || sessions.shows.api ? [this.switch("api", "API calls")] : []),
      this.switch("archived", "Archived"),
    ]);
    const current = sessions.rows.get(sessions.current);
    const title = sessions.nameOf(current);
    this.title.textContent = title;
    const channel = current?.channel ? `from ${current.channel}` : "";
    this.about.textContent = [
      current?.isMain ? "main" : "",
      channel,
      current ? [current.modelProvider, current.model].filter(Boolean).join("/") : "",
    ]
      .filter(Boolean)
      .join(" · ");
    document.title = `${sessions.unread ? `(${sessions.unread}) ` : ""}${title} · Tidegate`;
  }

  /** A switch for a kind of sessions that is not listed usually. @param {"api" | "archived"} kind @param {string} label */
  switch(kind, label) {
    const { sessions } = this;
    const act = () => sessions.show(kind, !sessions.shows[kind]).catch(() => {});
    const node = this.node(`switch ${kind}`, () =>
      el("button", { type: "button", class: "quiet switch", onclick: act }, label),
    );
    node.setAttribute("aria-pressed", String(sessions.shows[kind]));
    return node;
  }

  /** @param {string} id @param {() => HTMLElement} make */
  node(id, make) {
    const node = this.nodes.get(id) ?? make();
    this.nodes.set(id, node);
    return node;
  }

  /** @param {any} row */
  row(row) {
    const open = () => {
      this.hooks.open(row.key);
      this.drawer(false);
    };
    const node = this.node(row.key, () => {
      const button = el(
        "button",
        { type: "button", class: "session", onclick: open },
        el(
          "span",
          { class: "session-head" },
          el("span", { class: "session-title" }),
          el("span", { class: "session-kind" }),
        ),
        el("time", { class: "session-time" }),
        el("span", { class: "session-last" }),
        el("span", { class: "session-mark" }),
      );
      return el("div", { class: "session-row", role: "listitem" }, button, this.rowMenu.button(row.key));
    });
    const button = /** @type {HTMLElement} */ (node.firstElementChild);
    const [head, time, last, mark] = [...button.children];
    const [title, kind] = [...head.children];
    const isUnread = this.sessions.isUnread(row);
    const isCurrent = row.key === this.sessions.current;
    title.textContent = this.sessions.nameOf(row);
    kind.textContent = row.isMain ? "main" : row.archived ? "archived" : row.viaApi ? "API" : "";
    node.lastElementChild?.setAttribute("aria-label", `More about ${title.textContent}`);
    time.textContent = ago(row.updatedAt);
    last.textContent = unmarked(row.lastMessagePreview ?? "");
    mark.textContent = row.hasActiveRun ? "answering" : isUnread ? "unread" : "";
    button.classList.toggle("is-current", isCurrent);
    button.classList.toggle("is-running", Boolean(row.hasActiveRun));
    button.classList.toggle("is-unread", isUnread);
    if (isCurrent) button.setAttribute("aria-current", "true");
    else button.removeAttribute("aria-current");
    return node;
  }

  /** @param {"online" | "away" | "connecting"} name */
  connection(name) {
    this.view.dataset.link = name;
    this.link.textContent = { online: "Connected", away: "Reconnecting …", connecting: "Connecting …" }[name];
  }
}
