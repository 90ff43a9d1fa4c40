// What can be done to a session of the list: a small menu beside its row. It lies above everything, so that the end of
// the list does not cut it off.

import { el, icon } from "./dom.js";
import { titleOf } from "./sessions.js";

const LONGEST_NAME = 200;

export class RowMenu {
  /** @param {import("./sessions.js").Sessions} sessions */
  constructor(sessions) {
    this.sessions = sessions;
    this.key = "";
    this.rename = this.item("Rename", () => this.askName());
    this.archive = this.item("Archive", () => this.putAway());
    this.words = el("p", { class: "small" });
    this.view = el("div", { class: "row-menu", popover: "auto" }, this.rename, this.archive, this.words);
  }

  /** @param {string} key @returns {HTMLElement} */
  button(key) {
    /** @param {MouseEvent} event */
    const act = (event) => this.open(key, /** @type {HTMLElement} */ (event.currentTarget));
    return el("button", { type: "button", class: "quiet session-more", onclick: act }, icon("dots"));
  }

  /** @param {string} label @param {() => Promise<void> | void} act */
  item(label, act) {
    const chosen = async () => {
      try {
        await act();
        if (this.view.matches(":popover-open")) this.view.hidePopover();
      } catch (error) {
        this.words.textContent = `That did not work: ${/** @type {Error} */ (error).message}`;
      }
    };
    return el("button", { type: "button", class: "quiet", onclick: chosen }, label);
  }

  get row() {
    return this.sessions.rows.get(this.key);
  }

  /** @param {string} key @param {HTMLElement} beside */
  open(key, beside) {
    this.key = key;
    const { row } = this;
    this.archive.hidden = Boolean(row?.isMain);
    this.archive.textContent = row?.archived ? "Put back on the list" : "Archive";
    this.words.textContent = row?.isMain ? "The main conversation stays on the list." : "";
    const place = beside.getBoundingClientRect();
    this.view.showPopover();
    const below = place.bottom + this.view.offsetHeight + 8 < innerHeight;
    this.view.style.left = `${Math.max(8, place.right - this.view.offsetWidth)}px`;
    this.view.style.top = `${below ? place.bottom + 4 : place.top - this.view.offsetHeight - 4}px`;
    this.rename.focus();
  }

  async askName() {
    const given = prompt("The name of this conversation. Empty: as it began.", this.row ? titleOf(this.row) : "");
    if (given === null || given.trim() === (this.row && titleOf(this.row))) return;
    await this.sessions.patch(this.key, { label: given.trim().slice(0, LONGEST_NAME) || null });
  }

  async putAway() {
    const isAway = Boolean(this.row?.archived);
    const words = "Take this conversation off the list? Nothing of it is deleted; “Archived” lists it again.";
    if (isAway || confirm(words)) await this.sessions.patch(this.key, { archived: !isAway });
  }
}
