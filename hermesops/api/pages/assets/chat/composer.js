/** Where a message is written: text, files, and one button that sends or stops. */

import { announce } from "../base/announcer.js";
import { button, element, fill, icon } from "../base/dom.js";
import { Uploads } from "./uploads.js";

const LONGEST_MESSAGE = 100_000;

/**
 * @typedef {object} Message
 * @property {string} text
 * @property {string} key the same at each repetition
 * @property {{id: string, name: string, bytes: number, kind: string}[]} files
 */

export class Composer {
  element;
  #conversation;
  #actions;
  #text = element("textarea", {
    id: "message",
    rows: "1",
    maxlength: LONGEST_MESSAGE,
    placeholder: "Message your agent",
    "aria-describedby": "hint",
    autocomplete: "off",
    enterkeyhint: "send",
  });
  #hint = element("p", { id: "hint", class: "hint" });
  #go = element("button", { type: "submit", class: "go primary" });
  #uploads = new Uploads(() => this.refresh());
  #isWorking = false;

  /**
   * @param {string} conversation
   * @param {{send: (message: Message) => void, stop: () => void, availability: () => {reason: string|null}}} actions
   */
  constructor(conversation, actions) {
    this.#conversation = conversation;
    this.#actions = actions;
    this.#text.value = sessionStorage.getItem(this.#key("draft")) ?? "";
    this.#text.addEventListener("keydown", (event) => this.#pressed(event));
    this.#text.addEventListener("input", () => this.#written());
    this.#text.addEventListener(
      "paste",
      (event) => this.#uploads.add([...event.clipboardData.files]) && event.preventDefault(),
    );
    const row = element("div", { class: "row" }, this.#uploads.chooser, this.#text, this.#go);
    const label = element("label", { for: "message", class: "hidden" }, "Message");
    this.element = element(
      "form",
      { class: "composer", onsubmit: (event) => this.#submitted(event) },
      label,
      this.#uploads.element,
      row,
      this.#hint,
    );
    this.element.addEventListener("dragover", (event) => event.preventDefault());
    this.element.addEventListener("drop", (event) => {
      event.preventDefault();
      this.#uploads.add([...event.dataTransfer.files]);
    });
    this.refresh();
  }

  leave() {
    this.#uploads.clear();
  }

  focus() {
    this.#text.focus();
  }

  setWorking(isWorking) {
    this.#isWorking = isWorking;
    this.refresh();
  }

  /** Show whether a message can be sent, and the reason if not. */
  refresh() {
    const reason = this.#isWorking ? null : this.#reason();
    this.#hint.textContent =
      reason ??
      (this.#isWorking
        ? "Your agent is working. Write on meanwhile; Stop ends this answer."
        : "Enter sends, Shift and Enter begin a new line.");
    this.#hint.classList.toggle("important", Boolean(reason) && reason !== NOTHING);
    const name = this.#isWorking ? "Stop" : "Send";
    if (this.#go.getAttribute("aria-label") !== name) {
      fill(this.#go, icon(this.#isWorking ? "stop" : "send"));
      this.#go.setAttribute("aria-label", name);
    }
    if (reason === null) this.#go.removeAttribute("aria-disabled");
    else this.#go.setAttribute("aria-disabled", "true");
  }

  /** The message that the server has not taken yet, kept across a reload of the page. @returns {Message|null} */
  unsent() {
    try {
      return JSON.parse(sessionStorage.getItem(this.#key("unsent")));
    } catch {
      return null;
    }
  }

  /** The server has the message. */
  taken() {
    sessionStorage.removeItem(this.#key("unsent"));
  }

  /** The server refused the message: it is a draft again. */
  giveBack() {
    const { text, files } = this.unsent() ?? { text: "", files: [] };
    this.taken();
    this.#uploads.putBack(files);
    this.#text.value = [text, this.#text.value].filter(Boolean).join("\n");
    this.#written();
    this.focus();
  }

  #reason() {
    return this.#actions.availability().reason ?? this.#uploads.reason() ?? (this.#text.value.trim() ? null : NOTHING);
  }

  #pressed(event) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    if (this.#isWorking) announce("Your agent is still working. Wait for its answer, or stop it.");
    else this.#send();
  }

  #submitted(event) {
    event.preventDefault();
    if (this.#isWorking) this.#actions.stop();
    else this.#send();
  }

  #written() {
    sessionStorage.setItem(this.#key("draft"), this.#text.value);
    if (!this.#isWorking) this.refresh();
  }

  #send() {
    const reason = this.#reason();
    if (reason !== null) return announce(reason);
    const message = { text: this.#text.value.trim(), key: crypto.randomUUID(), files: this.#uploads.take() };
    sessionStorage.setItem(this.#key("unsent"), JSON.stringify(message));
    this.#text.value = "";
    this.#written();
    this.#actions.send(message);
    return this.focus();
  }

  #key(kind) {
    return `hermes:${kind}:${this.#conversation}`;
  }
}

const NOTHING = "Write a message first. Enter sends, Shift and Enter begin a new line.";
