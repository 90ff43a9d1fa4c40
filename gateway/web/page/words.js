// Times and amounts in few words, in the language of the browser where it helps.

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** @param {number} at @returns {number} midnight before it */
function dayOf(at) {
  const day = new Date(at);
  return day.setHours(0, 0, 0, 0);
}

/** @param {number} at milliseconds @param {number} [now] */
export function ago(at, now = Date.now()) {
  const past = now - at;
  if (past < MINUTE) return "now";
  if (past < HOUR) return `${Math.floor(past / MINUTE)} min`;
  if (dayOf(at) === dayOf(now)) return clock(at);
  if (past < 6 * DAY) return new Date(at).toLocaleDateString([], { weekday: "short" });
  return new Date(at).toLocaleDateString([], { day: "numeric", month: "short" });
}

/** @param {number} at */
export const clock = (at) => new Date(at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });

/** @param {number} at @param {number} [now] the heading under which a day stands */
export function dayName(at, now = Date.now()) {
  const days = Math.round((dayOf(now) - dayOf(at)) / DAY);
  if (days <= 0) return "Today";
  if (days === 1) return "Yesterday";
  if (days < 7) return "This week";
  return "Earlier";
}

/** @param {number} at */
export function fullDay(at) {
  const days = Math.round((dayOf(Date.now()) - dayOf(at)) / DAY);
  if (days === 0) return "Today";
  if (days === 1) return "Yesterday";
  return new Date(at).toLocaleDateString([], { weekday: "long", day: "numeric", month: "long" });
}

/** @param {number} at @returns {number} a number that two times of one day share */
export const sameDay = dayOf;

/** A line of Markdown without its marks. @param {string} text */
export const unmarked = (text) => text.replace(/\*+|`+|~~|\b_|_\b|^[#>\s]+|\[([^\]]*)\]\([^)]*\)/g, "$1");

/** @param {number} milliseconds */
export function wait(milliseconds) {
  const seconds = Math.ceil(milliseconds / 1000);
  return seconds < 90 ? `${seconds} seconds` : `${Math.ceil(seconds / 60)} minutes`;
}

/** What a tool was asked for, in one line. @param {any} args */
export function summary(args) {
  if (args === null || args === undefined) return "";
  const text =
    typeof args === "object" && !Array.isArray(args)
      ? Object.values(args)
          .map((value) => (typeof value === "string" ? value : JSON.stringify(value)))
          .join(" · ")
      : String(args);
  const line = text.replace(/\s+/g, " ").trim();
  return line.length > 120 ? `${line.slice(0, 119)}…` : line;
}
