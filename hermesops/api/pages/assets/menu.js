/** The menu: conversations, newest first, and the sections about the user's agent. */

import { element, fill } from "./base/dom.js";
import { plain, shortened } from "./base/text.js";
import { longTime, shortTime, timeOf } from "./base/words.js";

const LONGEST_TITLE = 60;
const NEW = "New conversation";

export function linkTo(...parts) {
  return `#/${parts.map(encodeURIComponent).join("/")}`;
}

export class Menu {
  #conversations = document.getElementById("conversations");
  #sections = document.getElementById("sections");
  #menu = document.getElementById("menu");
  #main = document.getElementById("main");
  #opener = document.getElementById("menu-button");
  #entries = [];

  constructor() {
    this.#opener.addEventListener("click", () => this.#show(!this.#isOpen));
    document.getElementById("menu-close").addEventListener("click", () => this.#dismiss());
    this.#menu.addEventListener("keydown", (event) => event.key === "Escape" && this.#dismiss());
    matchMedia("(min-width: 56rem)").addEventListener("change", () => this.#show(false));
  }

  /** @param {{name: string, title: string, last_at: string, open_turn: string|null}[]} conversations */
  showConversations(conversations, current) {
    const isListed = conversations.some(({ name }) => name === current);
    this.#entries =
      isListed || current === null
        ? conversations
        : [{ name: current, title: "", last_at: null, open_turn: null }, ...conversations];
    const focused = this.#conversations.contains(document.activeElement) ? document.activeElement.hash : null;
    fill(
      this.#conversations,
      this.#entries.map((entry) => conversationLink(entry, entry.name === current)),
    );
    if (focused !== null) [...this.#conversations.querySelectorAll("a")].find(({ hash }) => hash === focused)?.focus();
  }

  /** @param {{path: string, title: string}[]} sections those that the API has */
  showSections(sections, current) {
    fill(
      this.#sections,
      sections.map(({ path, title }) =>
        element(
          "li",
          {},
          element("a", { href: linkTo(path), "aria-current": path === current ? "page" : null }, title),
        ),
      ),
    );
  }

  titleOf(name) {
    return titleOf(this.#entries.find((entry) => entry.name === name) ?? {});
  }

  /** Uncover the page, where the menu covers it. */
  close() {
    if (this.#isOpen) this.#show(false);
  }

  get #isOpen() {
    return this.#opener.getAttribute("aria-expanded") === "true";
  }

  #dismiss() {
    if (!this.#isOpen) return;
    this.close();
    this.#opener.focus();
  }

  #show(isOpen) {
    this.#opener.setAttribute("aria-expanded", String(isOpen));
    document.body.classList.toggle("menu-open", isOpen);
    this.#main.inert = isOpen;
    if (isOpen) this.#menu.querySelector("[aria-current], a, button").focus();
  }
}

function conversationLink(entry, isCurrent) {
  const time = timeOf(entry.last_at);
  return element(
    "li",
    {},
    element(
      "a",
      { href: linkTo("chat", entry.name), "aria-current": isCurrent ? "page" : null },
      element("span", { class: "title", dir: "auto" }, titleOf(entry)),
      entry.open_turn &&
        element("span", { class: "pulse" }, element("span", { class: "hidden" }, "the agent is working")),
      !entry.open_turn &&
        time &&
        element("time", { datetime: time.toISOString(), title: longTime(time) }, shortTime(time)),
    ),
  );
}

function titleOf({ title }) {
  return title ? shortened(plain(title), LONGEST_TITLE) : NEW;
}
