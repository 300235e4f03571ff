/** Words for people: problems with the next thing to do, times, sizes and money. */

const BY_CODE = {
  "agent-busy": "Your agent is busy with other turns. Wait until one has ended, or stop it.",
  "agent-suspended": "Your agent is suspended, with everything it knows kept. Open Plan to see the reason.",
  "conversation-busy": "The agent still answers in this conversation. Wait for the answer, or stop it.",
  "no-agent": "You have no agent yet. Your agent starts as soon as your plan is paid.",
  "changed-meanwhile": "This was changed elsewhere meanwhile. Look at the new values, then change them again.",
  "not-waiting": "This request was answered already, or has expired.",
  "no-such-turn": "This answer is no longer kept. Open the conversation again to read its end.",
};

const BY_STATUS = {
  0: "No connection to the server. Check your network; the page tries again by itself.",
  401: "You are signed out. Sign in again to go on.",
  403: "The server refused this page. Load it again.",
  412: "This was changed elsewhere meanwhile. Look at the new values, then change them again.",
  413: "That is too long for the server. Make it shorter.",
  415: "The agent cannot read this kind of file.",
  429: "Too many requests. Wait a moment, then try again.",
  502: "Your agent did not answer. It is probably starting again; try again in a minute.",
  503: "Your agent cannot be reached at the moment. Nothing is lost; try again in a minute.",
  504: "Your agent did not answer in time. Try again in a minute.",
};

const PREFERS_DETAIL = new Set([400, 409, 413, 415, 422]);

/**
 * A problem in plain words, with the next thing to do.
 *
 * @param {import("./api.js").Problem} problem
 */
export function wordsOf(problem) {
  if (BY_CODE[problem.code]) return BY_CODE[problem.code];
  if (PREFERS_DETAIL.has(problem.status) && problem.message) return sentence(problem.message);
  if (BY_STATUS[problem.status]) return BY_STATUS[problem.status];
  const reference = problem.requestId ? ` If it happens again, give this number to support: ${problem.requestId}.` : "";
  return `The server had an error. Try again in a minute.${reference}`;
}

export function sentence(text) {
  const trimmed = text.trim();
  return `${trimmed.charAt(0).toUpperCase()}${trimmed.slice(1)}${/[.!?…]$/.test(trimmed) ? "" : "."}`;
}

/** An ISO time or seconds since 1970 as a Date, or null. */
export function timeOf(value) {
  const time = typeof value === "number" ? new Date(value * 1000) : new Date(value ?? NaN);
  return Number.isNaN(time.getTime()) ? null : time;
}

/** An amount in the smallest unit of a currency. */
export function amountOf(amount, currency) {
  const code = /^[a-z]{3}$/i.test(currency ?? "") ? currency.toUpperCase() : "USD";
  const format = new Intl.NumberFormat(undefined, { style: "currency", currency: code });
  return format.format(amount / 10 ** format.resolvedOptions().maximumFractionDigits);
}

/** Today the hour, else the day. */
export function shortTime(time) {
  const isToday = time.toDateString() === new Date().toDateString();
  return time.toLocaleString(
    undefined,
    isToday ? { hour: "2-digit", minute: "2-digit" } : { day: "numeric", month: "short" },
  );
}

export function longTime(time) {
  return time.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
}

export function sizeOf(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  const [value, unit] = bytes < 1e6 ? [bytes / 1e3, "kB"] : [bytes / 1e6, "MB"];
  return `${value.toLocaleString(undefined, { maximumFractionDigits: value < 10 ? 1 : 0 })} ${unit}`;
}

/** Micros are millionths of a dollar. */
export function moneyOf(micros) {
  return (micros / 1e6).toLocaleString(undefined, { style: "currency", currency: "USD" });
}

export function countOf(number) {
  return number.toLocaleString();
}

export function ageOf(seconds) {
  if (seconds < 90) return `${Math.round(seconds)} seconds ago`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} minutes ago`;
  return seconds < 129_600 ? `${Math.round(seconds / 3600)} hours ago` : `${Math.round(seconds / 86_400)} days ago`;
}
