/** The view of one conversation: its messages, the turn that is open, and the composer below. */

import { alarm, announce } from "../base/announcer.js";
import { Answer } from "./answer.js";
import { Problem, ask } from "../base/api.js";
import { Composer } from "./composer.js";
import { button, element, fill } from "../base/dom.js";
import { plain, visible } from "../base/text.js";
import { TurnReader } from "./turn_reader.js";
import { longTime, shortTime, timeOf, wordsOf } from "../base/words.js";

/** Pixels from the end within which the view follows what is written. */
const NEAR_END = 96;
/** Another device may have sent something. */
const LOOK_AGAIN_MS = 20_000;
/** A text file at the end of a message, between fences that it does not contain. */
const ATTACHED = /\n\nFile ([^\n]{1,130}):\n(`{3,})\n(?:(?!\2)[\s\S])*?\n\2$/;

/**
 * @typedef {object} Page
 * @property {() => {reason: string|null}} availability why nothing can be sent, or null
 * @property {() => void} signedOut
 * @property {() => void} changed the list of conversations may be another one
 */

export class Conversation {
  element;
  name;
  #page;
  #messages = element("ol", { class: "messages" });
  #scroller = element("div", { class: "scroller", tabindex: "0", role: "region", "aria-label": "Messages" });
  #notice = element("p", { class: "notice", role: "status" });
  #toEnd = button({ class: "to-end", hidden: true, onclick: () => this.#follow(true) }, "Newest message ↓");
  #composer;
  #reader = null;
  #answer = null;
  /** Its question on the page; null for one of another device. */
  #asked = null;
  #isFollowing = true;
  #left = new AbortController();

  /**
   * @param {string} name
   * @param {Page} page
   */
  constructor(name, page) {
    this.name = name;
    this.#page = page;
    this.#composer = new Composer(name, {
      send: (message) => this.#send(message),
      stop: () => this.#stop(),
      availability: () => page.availability(),
    });
    this.#scroller.append(this.#messages);
    this.#scroller.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    new ResizeObserver(() => this.#follow(false)).observe(this.#messages);
    this.element = element(
      "div",
      { class: "conversation" },
      this.#scroller,
      element("div", { class: "foot" }, this.#toEnd, this.#notice, this.#composer.element),
    );
  }

  /** Show the messages; a turn that is open is read on. */
  async open() {
    await this.#load();
    if (this.#left.signal.aborted) return;
    const unsent = this.#composer.unsent();
    if (unsent !== null && this.#reader === null) this.#sendAgain(unsent);
    const { signal } = this.#left;
    const look = () => document.hidden || this.#lookAgain();
    const timer = setInterval(look, LOOK_AGAIN_MS);
    signal.addEventListener("abort", () => clearInterval(timer));
    for (const [target, name] of [
      [document, "visibilitychange"],
      [window, "online"],
    ])
      target.addEventListener(name, look, { signal });
  }

  /** Stop reading and listening; turns go on. */
  leave() {
    this.#left.abort();
    this.#composer.leave();
    this.#reader?.leave();
  }

  focus() {
    this.#composer.focus();
  }

  /** The reasons for which nothing can be sent have changed. */
  refresh() {
    this.#composer.refresh();
  }

  async #load() {
    try {
      const { data } = await ask("GET", `/chat/conversations/${encodeURIComponent(this.name)}`);
      if (this.#left.signal.aborted) return;
      this.#showMessages(data.messages, data.unanswered);
      if (data.open_turn && this.#reader === null) this.#readOn(data.open_turn);
    } catch (problem) {
      this.#refused(problem, () => {
        this.#clearNotice("refusal");
        return this.#load();
      });
    }
  }

  /** Show the history above what was sent since it was asked for, of which it may have the message already. */
  #showMessages(messages, unanswered) {
    const history = messages.map((message) => (message.role === "user" ? sent(message) : received(message)));
    if (unanswered && this.#reader === null) history.push(Answer.unanswered(unanswered).element);
    const present = this.#reader === null ? [] : [this.#asked, this.#answer.element].filter(Boolean);
    if (this.#asked && present.length > 0 && isSame(history.at(-1), this.#asked)) history.pop();
    fill(this.#messages, history, present);
    if (!this.#messages.hasChildNodes()) this.#messages.append(welcome());
    this.#follow(true);
  }

  async #lookAgain() {
    if (this.#reader !== null) return;
    try {
      const { data } = await ask("GET", "/chat/conversations");
      const turn = data.find(({ name }) => name === this.name)?.open_turn;
      if (!turn || this.#reader !== null || this.#left.signal.aborted) return;
      announce("Another device sent a message.");
      await this.#load();
    } catch (problem) {
      if (problem.isSignedOut) this.#page.signedOut();
    }
  }

  #send(message) {
    this.#asked = sent(message);
    this.#messages.append(this.#asked);
    this.#clearNotice("refusal");
    announce("Sent.");
    this.#carry(message);
  }

  /** A message that was sent before the page was loaded again; the server may have it, and the agent. */
  #sendAgain(message) {
    this.#asked = [...this.#messages.querySelectorAll(".user")].at(-1) ?? null;
    if (!isSame(this.#asked, sent(message))) {
      this.#asked = sent(message);
      this.#messages.append(this.#asked);
    }
    this.#carry(message);
  }

  /** Send a message, which is kept until its turn has a name, and read the answer. */
  #carry({ text, key, files }) {
    const body = {
      message: text,
      conversation: this.name,
      client_key: key,
      ...(files.length > 0 && { files: files.map(({ id }) => id) }),
    };
    this.#read({ message: body });
  }

  #readOn(turn) {
    announce("Your agent is working on an answer.");
    this.#read({ turn });
  }

  async #read(start) {
    const answer = new Answer(() => reader.turn);
    const reader = new TurnReader(start, {
      event: (kind, data) => {
        if (kind === "turn") this.#begun();
        answer.take(kind, data);
      },
      connection: (waitsS, problem) => this.#connection(reader, waitsS, problem),
    });
    [this.#reader, this.#answer] = [reader, answer];
    this.#messages.querySelector(".welcome")?.remove();
    this.#messages.append(answer.element);
    this.#follow(true);
    this.#composer.setWorking(true);
    try {
      await reader.run();
    } catch (problem) {
      this.#failed(problem, answer);
    }
    this.#ended(reader);
    // Read on from another device: the agent may have had no record yet of the message that it answers.
    const isUnasked = start.turn && !answer.element.previousElementSibling?.classList.contains("user");
    if (isUnasked && !this.#left.signal.aborted) await this.#load();
  }

  #begun() {
    this.#composer.taken();
    this.#page.changed();
  }

  #ended(reader) {
    if (this.#reader !== reader) return;
    [this.#reader, this.#answer, this.#asked] = [null, null, null];
    this.#clearNotice("connection");
    if (this.#left.signal.aborted) return;
    this.#composer.setWorking(false);
    this.#page.changed();
  }

  /** The message was refused: it goes back where it was written. Signed out, it is sent after the next sign-in. */
  #failed(problem, answer) {
    if (!(problem instanceof Problem)) {
      answer.fail("The page could not show this answer. Load the page again.");
      throw problem;
    }
    if (problem.isSignedOut) return this.#page.signedOut();
    if (this.#reader.turn !== null) return answer.fail(wordsOf(problem));
    answer.element.remove();
    this.#asked?.remove();
    this.#composer.giveBack();
    return this.#refused(problem, null);
  }

  #connection(reader, waitsS, problem) {
    if (reader !== this.#reader) return;
    if (waitsS === null) this.#clearNotice("connection");
    else this.#notify("connection", connectionWords(reader, problem));
  }

  /** @param {"connection"|"refusal"} kind a notice about the connection goes by itself, a refusal with the next message */
  #notify(kind, ...words) {
    this.#notice.dataset.kind = kind;
    fill(this.#notice, words);
  }

  #clearNotice(kind) {
    if (this.#notice.dataset.kind === kind) fill(this.#notice);
  }

  async #stop() {
    if (this.#reader === null) return;
    if (this.#reader.turn === null) return this.#takeBack();
    try {
      await ask("POST", `/chat/turns/${encodeURIComponent(this.#reader.turn)}/stop`);
      announce("Stopping.");
    } catch (problem) {
      this.#refused(problem, null);
    }
    return undefined;
  }

  /** Not sent yet: its text goes back into the composer. */
  #takeBack() {
    this.#reader.leave();
    this.#answer.element.remove();
    this.#asked?.remove();
    this.#composer.giveBack();
  }

  #refused(problem, again) {
    if (!(problem instanceof Problem)) throw problem;
    if (problem.isSignedOut) return this.#page.signedOut();
    const words = wordsOf(problem);
    this.#notify("refusal", words, again && button({ class: "small", onclick: again }, "Try again"));
    return alarm(words);
  }

  #scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.#scroller;
    this.#isFollowing = scrollHeight - scrollTop - clientHeight < NEAR_END;
    this.#toEnd.hidden = this.#isFollowing;
  }

  #follow(anyway) {
    if (anyway) this.#isFollowing = true;
    if (this.#isFollowing) this.#scroller.scrollTop = this.#scroller.scrollHeight;
    this.#toEnd.hidden = this.#isFollowing;
  }
}

function connectionWords(reader, problem) {
  if (!navigator.onLine)
    return `You are offline. The ${reader.turn === null ? "message is sent" : "answer goes on"} as soon as you are back.`;
  return problem.status === 0 ? "Connection lost. Connecting again …" : wordsOf(problem);
}

/** Whether two messages of the user are one: the agent has files behind the text. */
function isSame(history, asked) {
  return Boolean(history?.dataset.text?.startsWith(asked.dataset.text));
}

/** A user's message: its text as it is, and its files by name; the agent has texts of files behind the message. */
function sent({ text, files = [], at = new Date().toISOString() }) {
  const [words, attached] = withoutFiles(text);
  const names = [...attached, ...files.map(({ name }) => name)].map((name) => element("li", {}, visible(name)));
  const message = element(
    "li",
    { class: "message user" },
    element("h2", { class: "hidden" }, "You"),
    element("p", { dir: "auto" }, plain(words)),
    names.length > 0 && element("ul", { class: "files", "aria-label": "Files" }, names),
    stamp(at),
  );
  message.dataset.text = text;
  return message;
}

/** The text without the files that the API put behind it, and their names. */
function withoutFiles(text) {
  const names = [];
  let words = text;
  for (let match = ATTACHED.exec(words); match !== null; match = ATTACHED.exec(words)) {
    names.unshift(match[1]);
    words = words.slice(0, match.index);
  }
  return [words, names];
}

function received({ text, at }) {
  const { element: message } = Answer.ended(text);
  message.querySelector(".end")?.append(stamp(at));
  return message;
}

function stamp(at) {
  const time = timeOf(at);
  return time === null ? "" : element("time", { datetime: time.toISOString(), title: longTime(time) }, shortTime(time));
}

function welcome() {
  return element(
    "li",
    { class: "welcome" },
    element("h2", {}, "What can your agent do for you?"),
    element(
      "p",
      {},
      "It has a computer of its own, remembers what you tell it, and asks before it does something dangerous.",
    ),
  );
}
