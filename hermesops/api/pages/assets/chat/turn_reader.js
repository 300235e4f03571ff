/**
 * Reads one turn's events to its end, whatever happens to the connection.
 *
 * The message is sent until the server names its turn; the key that it carries makes a repetition harmless. From then on
 * the turn is read from the last event that arrived (`Last-Event-ID`), so nothing is missing and nothing comes twice.
 */

import { Problem, send } from "../base/api.js";

const LAST = new Set(["done", "failed", "stopped"]);
const KINDS = new Set(["turn", "delta", "tool", "approval", "resolved", ...LAST]);
/** The server sends a comment each 15 s; silence for longer means that the connection is dead. */
const SILENCE_MS = 40_000;
const PAUSES_S = [0.5, 1, 2, 4, 8, 15];
const LONGEST_BUFFER = 8_000_000;

/**
 * @typedef {object} Listener
 * @property {(kind: string, data: object) => void} event each event once, in order
 * @property {(waitsS: number|null, problem: Problem|null) => void} connection seconds until the next attempt and the
 *     reason, or null when the server answers
 */

export class TurnReader {
  /** @type {string|null} */
  turn;
  #request;
  #listener;
  #last = 0;
  #hasEnded = false;
  #control = new AbortController();

  /**
   * @param {{turn: string}|{message: object}} start a turn to read on, or the body of a message to send
   * @param {Listener} listener
   */
  constructor(start, listener) {
    this.turn = start.turn ?? null;
    this.#request = start.message;
    this.#listener = listener;
  }

  /** Stop reading; the turn goes on. */
  leave() {
    this.#control.abort();
  }

  /**
   * Read to the turn's last event, or until `leave`.
   *
   * @returns {Promise<boolean>} whether the turn has ended
   * @throws {Problem} that trying again does not mend
   */
  async run() {
    let failures = 0;
    while (!this.#control.signal.aborted) {
      const before = this.#last;
      try {
        await this.#readOnce();
        if (this.#hasEnded) return true;
      } catch (problem) {
        if (!(problem instanceof Problem)) throw problem;
        if (!problem.isPassing && !this.#control.signal.aborted) throw problem;
        failures = this.#last > before ? 1 : failures + 1;
        await this.#pause(problem.retryAfterS ?? PAUSES_S[Math.min(failures, PAUSES_S.length) - 1], problem);
      }
    }
    return false;
  }

  async #readOnce() {
    const attempt = new AbortController();
    const watch = new Silence(() => attempt.abort());
    const leave = () => attempt.abort();
    this.#control.signal.addEventListener("abort", leave);
    try {
      const response = await this.#open(attempt.signal);
      this.#listener.connection(null, null);
      for await (const { kind, id, data } of eventsOf(response.body, () => watch.heard())) {
        if (!this.#control.signal.aborted) this.#take(kind, id, data);
        if (this.#hasEnded) return;
      }
      throw new Problem(0);
    } catch (error) {
      throw error instanceof Problem || error instanceof TakingError ? error : new Problem(0);
    } finally {
      watch.end();
      attempt.abort();
      this.#control.signal.removeEventListener("abort", leave);
    }
  }

  #open(signal) {
    if (this.turn === null) return send("POST", "/chat", { body: this.#request, signal });
    const headers = this.#last > 0 ? { "Last-Event-ID": `${this.turn}:${this.#last}` } : {};
    return send("GET", `/chat/turns/${encodeURIComponent(this.turn)}/events`, { headers, signal });
  }

  #take(kind, id, text) {
    if (!KINDS.has(kind)) return;
    const data = parsed(text);
    if (data === null) return;
    if (kind === "turn") {
      if (this.turn !== null || typeof data.id !== "string") return;
      this.turn = data.id;
    } else {
      const [turn, position] = [id.slice(0, id.lastIndexOf(":")), Number(id.slice(id.lastIndexOf(":") + 1))];
      if (turn !== this.turn || !Number.isSafeInteger(position) || position <= this.#last) return;
      this.#last = position;
    }
    this.#hasEnded = LAST.has(kind);
    try {
      this.#listener.event(kind, data);
    } catch (error) {
      throw new TakingError("an event could not be shown", { cause: error });
    }
  }

  /** Wait, but no longer than until the computer is online or the page is looked at again. */
  async #pause(seconds, problem) {
    if (this.#control.signal.aborted) return;
    this.#listener.connection(seconds, problem);
    const ended = new AbortController();
    const { signal } = ended;
    await new Promise((resolve) => {
      const timer = setTimeout(resolve, (navigator.onLine ? seconds : 60) * 1000 * (0.75 + Math.random() / 2));
      const goOn = () => {
        clearTimeout(timer);
        resolve();
      };
      addEventListener("online", goOn, { signal });
      document.addEventListener("visibilitychange", () => document.hidden || goOn(), { signal });
      this.#control.signal.addEventListener("abort", goOn, { signal });
    });
    ended.abort();
  }
}

class TakingError extends Error {}

/** Calls back once nothing was heard for too long, also across a sleep of the computer. */
class Silence {
  #heardAt = Date.now();
  #timer;
  #ended = new AbortController();

  constructor(onSilence) {
    const look = () => Date.now() - this.#heardAt > SILENCE_MS && onSilence();
    this.#timer = setInterval(look, 5000);
    document.addEventListener("visibilitychange", look, { signal: this.#ended.signal });
    addEventListener("online", look, { signal: this.#ended.signal });
  }

  heard() {
    this.#heardAt = Date.now();
  }

  end() {
    clearInterval(this.#timer);
    this.#ended.abort();
  }
}

/** Server-sent events of a body (WHATWG HTML, 9.2.6); one without its blank line at the end is dropped. */
async function* eventsOf(body, onBytes) {
  const decoder = new TextDecoder();
  const reader = body.getReader();
  let buffer = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    onBytes();
    buffer += decoder.decode(value, { stream: true });
    if (buffer.length > LONGEST_BUFFER) throw new Problem(0);
    const end = buffer.lastIndexOf("\n\n");
    if (end === -1) continue;
    for (const part of buffer.slice(0, end).split("\n\n")) yield eventOf(part);
    buffer = buffer.slice(end + 2);
  }
}

function eventOf(part) {
  const event = { kind: "message", id: "", data: [] };
  for (const line of part.split("\n")) {
    const colon = line.indexOf(":");
    const name = colon === -1 ? line : line.slice(0, colon);
    const value = colon === -1 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (name === "event") event.kind = value;
    else if (name === "id") event.id = value;
    else if (name === "data") event.data.push(value);
  }
  return { ...event, data: event.data.join("\n") };
}

function parsed(text) {
  try {
    const data = JSON.parse(text);
    return typeof data === "object" && data !== null && !Array.isArray(data) ? data : null;
  } catch {
    return null;
  }
}
