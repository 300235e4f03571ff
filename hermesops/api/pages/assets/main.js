/** The page: who is signed in, which conversation or section the address names, and the menu beside it. */

import { alarm } from "./base/announcer.js";
import { Problem, ask } from "./base/api.js";
import { Conversation } from "./chat/conversation.js";
import { button, element, fill } from "./base/dom.js";
import { askDeletion } from "./chat/deletion.js";
import { Menu, linkTo } from "./menu.js";
import { plain } from "./base/text.js";
import { SECTIONS } from "./sections/all.js";
import { wordsOf } from "./base/words.js";

const SIGN_IN = "/hermes-max/sign-in";
const SIGN_OUT = "/hermes-max/sign-out";
const ONWARD = "hermes:onward";
const FIRST = "main";
const LOOK_AGAIN_MS = 60_000;
const ENTER_TIMEOUT_MS = 8_000;
const ENTER_AGAIN_MS = 1_000;
const LONGEST_WAIT_MS = 30_000;
const NEWEST_TIMEOUT_MS = 3_000;

class Page {
  #menu = new Menu();
  #view = document.getElementById("view");
  #title = document.getElementById("title");
  #state = document.getElementById("state");
  #delete = document.getElementById("delete");
  #shown = null;
  #conversations = [];
  #instance = null;
  #sections = [];
  #isSignedIn = false;

  async start() {
    document.getElementById("new").addEventListener("click", () => this.#new());
    document.getElementById("sign-out").addEventListener("click", () => this.#signOut());
    this.#delete.addEventListener("click", () => this.#askDeletion());
    addEventListener("hashchange", () => this.#route());
    for (const name of ["online", "offline"]) addEventListener(name, () => this.#refresh());
    setInterval(() => document.hidden || !this.#isSignedIn || this.#lookAtInstance(), LOOK_AGAIN_MS);
    let problem = await this.#guarded(() => this.#enter());
    // A page that was opened while the API starts, or on a bad network, comes without anybody's doing.
    for (let waitMs = ENTER_AGAIN_MS; problem?.isPassing && !this.#isSignedIn; waitMs *= 2) {
      await wait(Math.min(waitMs, LONGEST_WAIT_MS));
      if (!this.#isSignedIn) problem = await this.#guarded(() => this.#enter());
    }
  }

  async #enter() {
    const { data } = await ask("GET", "/me", { timeoutMs: ENTER_TIMEOUT_MS });
    document.getElementById("user").textContent = plain(data.display_name || data.user);
    this.#isSignedIn = true;
    document.body.classList.add("signed-in");
    this.#goOnward();
    const known = Promise.all([this.#lookAtInstance(), this.changed()]);
    // The agent may take long to list its conversations. Only an address that names none needs the newest of them.
    if (!location.hash) await Promise.race([known, wait(NEWEST_TIMEOUT_MS)]);
    this.#route();
    this.#sections = await available();
    this.#showMenu();
  }

  /** Why no message can be sent, or null. */
  availability() {
    if (!this.#isSignedIn) return { reason: "You are signed out. Sign in again to write." };
    if (this.#instance?.status === "provisioning")
      return { reason: "Your agent is being made. That takes a few seconds." };
    if (this.#instance === "none") return { reason: "You have no agent yet. It is here as soon as your plan is paid." };
    if (this.#instance?.status === "suspended")
      return { reason: "Your agent is suspended. Open Plan to see the reason." };
    return { reason: null };
  }

  /** The list of conversations may be another one. */
  async changed() {
    try {
      this.#conversations = (await ask("GET", "/chat/conversations")).data;
    } catch (problem) {
      if (problem.isSignedOut) this.signedOut();
      return;
    }
    this.#showMenu();
  }

  signedOut() {
    this.#isSignedIn = false;
    document.body.classList.remove("signed-in");
    this.#leave();
    this.#title.textContent = "Sign in";
    sessionStorage.setItem(ONWARD, location.hash); // the way to the issuer and back loses it
    fill(
      this.#view,
      element(
        "div",
        { class: "card narrow" },
        element("h2", {}, "Talk to your agent"),
        element("p", {}, "Sign in to read your conversations and to write."),
        element("a", { class: "button primary", href: SIGN_IN }, "Sign in"),
      ),
    );
  }

  #goOnward() {
    const hash = sessionStorage.getItem(ONWARD);
    sessionStorage.removeItem(ONWARD);
    if (hash && !location.hash) history.replaceState(null, "", hash);
  }

  #new() {
    location.hash = linkTo("chat", `c-${crypto.randomUUID().slice(0, 18)}`);
  }

  #askDeletion() {
    const { name } = this.#shown;
    askDeletion(name, this.#menu.titleOf(name), async () => {
      await this.changed();
      location.hash = linkTo("chat", this.#conversations[0]?.name ?? FIRST);
    });
  }

  #route() {
    if (!this.#isSignedIn) return;
    const [kind, name] = location.hash.slice(2).split("/").map(decoded);
    const section = SECTIONS.find(({ path }) => path === kind);
    this.#leave();
    this.#menu.close();
    if (section) this.#showSection(section);
    else
      this.#showConversation(
        /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/.test(name ?? "") ? name : (this.#conversations[0]?.name ?? FIRST),
      );
  }

  #leave() {
    this.#shown?.leave?.();
    this.#shown = null;
  }

  async #showConversation(name) {
    this.#shown = new Conversation(name, this);
    if (this.#instance?.status !== "running") void this.#lookAtInstance(); // it may have been made meanwhile
    fill(this.#view, this.#shown.element);
    this.#showMenu();
    // On a touch screen the focus in the text would cover half of the conversation with a keyboard.
    if (matchMedia("(pointer: coarse)").matches) this.#title.focus();
    else this.#shown.focus();
    await this.#shown.open();
  }

  async #showSection(section) {
    this.#shown = { section };
    const box = element("div", { class: "section" });
    fill(this.#view, box);
    this.#showMenu();
    this.#title.focus();
    await this.#guarded(() => section.show(box), box);
  }

  #showMenu() {
    const name = this.#shown instanceof Conversation ? this.#shown.name : null;
    this.#menu.showConversations(this.#conversations, name);
    this.#menu.showSections(this.#sections, this.#shown?.section?.path ?? null);
    this.#delete.hidden = !this.#conversations.some((conversation) => conversation.name === name);
    if (this.#shown === null) return;
    const title = name === null ? this.#shown.section.title : this.#menu.titleOf(name);
    this.#title.textContent = title;
    document.title = `${title} · hermes`;
  }

  async #lookAtInstance() {
    try {
      this.#instance = (await ask("GET", "/instance")).data;
    } catch (problem) {
      if (problem.isSignedOut) return this.signedOut();
      if (problem.status === 404) this.#instance = "none";
    }
    return this.#refresh();
  }

  #refresh() {
    const status = navigator.onLine ? (this.#instance?.status ?? "") : "offline";
    this.#state.textContent = status;
    this.#state.dataset.status = status;
    if (this.#shown instanceof Conversation) this.#shown.refresh();
  }

  async #signOut() {
    await this.#guarded(async () => {
      const response = await fetch(SIGN_OUT, { method: "POST", headers: { "X-Hermes-Request": "1" } });
      if (!response.ok) throw new Problem(response.status);
      for (const key of Object.keys(sessionStorage)) if (key.startsWith("hermes:")) sessionStorage.removeItem(key);
      this.signedOut();
    });
  }

  /** Do something; a problem is shown in its place with a way to try again, and returned. */
  async #guarded(act, box = this.#view) {
    try {
      await act();
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      if (problem.isSignedOut) {
        this.signedOut();
        return problem;
      }
      const words = problem.isAbsent ? "There is nothing of this kind here yet." : wordsOf(problem);
      alarm(words);
      fill(
        box,
        element(
          "div",
          { class: "card" },
          element("p", { class: "failure" }, words),
          button({ onclick: () => this.#guarded(act, box) }, "Try again"),
        ),
      );
      return problem;
    }
    return null;
  }
}

/** The sections that this API has. */
async function available() {
  const has = await Promise.all(SECTIONS.map((section) => section.isThere()));
  return SECTIONS.filter((_, index) => has[index]);
}

function wait(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return "";
  }
}

dispatchEvent(new Event("hermes:started")); // start.js waits for it
new Page().start();
