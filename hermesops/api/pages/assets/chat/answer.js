/** One answer of the agent on the page: its text, its tools and its requests for approval, in the order they came. */

import { announce, alarm } from "../base/announcer.js";
import { Problem, ask } from "../base/api.js";
import { button, element, icon } from "../base/dom.js";
import { MarkdownStream } from "../markdown/stream.js";
import { plain, shortened, visible } from "../base/text.js";
import { sentence, wordsOf } from "../base/words.js";

const CHOICES = { once: "Allow once", session: "Allow in this conversation", always: "Always allow", deny: "Deny" };
const OUTCOMES = {
  once: "Allowed once",
  session: "Allowed in this conversation",
  always: "Always allowed",
  deny: "Denied",
  expired: "Nobody answered in time",
};
const LONGEST_PREVIEW = 200;
const LONGEST_COMMAND = 20_000;
/** How the API ends a command that it cut. */
const CUT = /\n… \d+ more characters are not shown$/;

const STOPPED = "You stopped this answer.";
const UNFINISHED = "The agent could not finish this answer";

export class Answer {
  element;
  #parts = element("div", { class: "parts" });
  #state = element(
    "p",
    { class: "state" },
    element("span", { class: "pulse", "aria-hidden": "true" }),
    "Your agent is working …",
  );
  #texts = [];
  #writes = false;
  #tools = null;
  #running = new Map();
  #cards = new Map();
  /** @type {() => string|null} */
  #turn;

  /** @param {() => string|null} turn the id of the turn, once it is known */
  constructor(turn = () => null) {
    this.#turn = turn;
    this.element = element(
      "li",
      { class: "message agent" },
      element("h2", { class: "hidden" }, "Your agent"),
      this.#parts,
      this.#state,
    );
  }

  /** An answer that has ended before. */
  static ended(text) {
    const answer = new Answer();
    answer.#finish(text);
    return answer;
  }

  /** One that ended before without an answer. It is not spoken: the reader may have been told. */
  static unanswered({ state, detail }) {
    const answer = new Answer();
    if (state === "stopped") answer.#end(STOPPED);
    else answer.#end(sentence(plain(shortened(textOf(detail) || UNFINISHED, 500))), "failure");
    return answer;
  }

  /** @param {string} kind of an event of the turn */
  take(kind, data) {
    const takers = {
      delta: () => this.#write(textOf(data.text)),
      tool: () => this.#showTool(data),
      approval: () => this.#askApproval(data),
      resolved: () => this.#resolve(String(data.id), String(data.choice)),
      done: () => this.#finish(textOf(data.text), true),
      failed: () => this.fail(textOf(data.detail) || UNFINISHED),
      stopped: () => this.#end(STOPPED),
    };
    takers[kind]?.();
  }

  /** End with a reason. */
  fail(detail) {
    const words = sentence(plain(shortened(detail, 500)));
    this.#end(words, "failure");
    alarm(words);
  }

  #write(text) {
    if (!text) return;
    if (!this.#writes) this.#newText();
    this.#texts[this.#texts.length - 1].append(text);
  }

  #newText() {
    const box = element("div", { class: "markdown" });
    this.#parts.append(box);
    this.#texts.push(new MarkdownStream(box));
    this.#writes = true;
    this.#tools = null;
  }

  /** A tool's beginning is a line; its end changes that line. */
  #showTool({ name, state, preview }) {
    const tool = shortened(visible(textOf(name)), 60);
    const line = this.#running.get(tool) ?? this.#newTool(tool);
    const [, shown, status] = line.children;
    if (textOf(preview)) shown.textContent = shortened(visible(textOf(preview)), LONGEST_PREVIEW);
    line.className = status.textContent = ["running", "failed"].includes(state) ? state : "done";
    if (state !== "running") this.#running.delete(tool);
  }

  #newTool(tool) {
    if (this.#tools === null) {
      this.#close();
      this.#tools = element("ul", { class: "tools", "aria-label": "Tools" });
      this.#parts.append(this.#tools);
    }
    const line = element("li", {}, element("strong", {}, tool), element("code", {}), element("span"));
    this.#tools.append(line);
    this.#running.set(tool, line);
    return line;
  }

  #askApproval({ id, command, description, choices }) {
    // Nobody allows a command that they cannot read to its end.
    const isReadable = textOf(command).length <= LONGEST_COMMAND && !CUT.test(textOf(command));
    const listed = (Array.isArray(choices) ? choices : []).filter((choice) => Object.hasOwn(CHOICES, choice));
    const offered = isReadable ? (listed.length > 0 ? listed : Object.keys(CHOICES)) : ["deny"];
    const key = String(id);
    if (this.#cards.has(key)) return;
    this.#close();
    const heading = `approval-${crypto.randomUUID()}`;
    const failure = element("p", { class: "failure", role: "alert" });
    const buttons = offered.map((choice) =>
      button(
        {
          class: choice === "deny" ? "danger" : choice === "once" ? "primary" : "",
          onclick: () => this.#answer(key, choice),
        },
        CHOICES[choice],
      ),
    );
    const choiceBox = element("div", { class: "choices" }, buttons);
    const card = element(
      "section",
      { class: "approval", "aria-labelledby": heading },
      element("h3", { id: heading }, "May your agent run this command?"),
      textOf(description) && element("p", { dir: "auto" }, sentence(plain(shortened(textOf(description), 1000)))),
      element(
        "pre",
        { tabindex: "0", role: "group", "aria-label": "Command" },
        element("code", {}, visibleLines(textOf(command))),
      ),
      !isReadable &&
        element("p", { class: "note" }, "The command is too long to show to its end, so it can only be denied."),
      choiceBox,
      failure,
    );
    this.#cards.set(key, { card, buttons, choiceBox, failure });
    this.#parts.append(card);
    alarm(`Your agent asks for approval to run a command: ${shortened(textOf(command), 200)}`);
  }

  async #answer(key, choice) {
    const { buttons, failure } = this.#cards.get(key);
    failure.textContent = "";
    for (const other of buttons) other.setAttribute("aria-disabled", "true");
    if (buttons.some((other) => other.dataset.sent)) return;
    buttons[0].dataset.sent = "1";
    try {
      await ask("POST", `/chat/turns/${encodeURIComponent(this.#turn() ?? "")}/approval`, {
        body: { id: key, choice },
      });
      this.#resolve(key, choice);
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      if (problem.isPassing) this.#askAgain(key);
      failure.textContent = wordsOf(problem);
      delete buttons[0].dataset.sent;
      for (const other of buttons) other.removeAttribute("aria-disabled");
    }
  }

  /** The agent did not get the answer, although the server had recorded it already. */
  #askAgain(key) {
    const { card, choiceBox } = this.#cards.get(key);
    card.classList.remove("resolved");
    card.querySelector(".outcome")?.replaceWith(choiceBox);
  }

  #resolve(key, choice) {
    const entry = this.#cards.get(key);
    if (!entry || entry.card.classList.contains("resolved")) return;
    const hadFocus = entry.card.contains(document.activeElement);
    const outcome = element("p", { class: "outcome", tabindex: "-1" }, OUTCOMES[choice] ?? "No longer asked");
    entry.card.classList.add("resolved");
    entry.card.querySelector(".choices").replaceWith(outcome);
    if (hadFocus) outcome.focus();
    announce(outcome.textContent);
  }

  /** The text before ends here; its code gets copy buttons. */
  #close() {
    if (this.#writes) this.#texts[this.#texts.length - 1].finish();
    this.#writes = false;
  }

  /**
   * @param {string} text of the whole answer, or of what followed its last tool: agents differ
   * @param {boolean} [isSpoken]
   */
  #finish(text, isSpoken = false) {
    const shown = this.#texts.map((stream) => stream.text).join("");
    if (text && !squeezed(shown).endsWith(squeezed(text))) this.#correct(text, shown);
    this.#end(null);
    if (isSpoken) announce(`Your agent answered: ${shortened(text || shown, 500)}`);
  }

  /** The final text where the stream had less or something else. */
  #correct(text, shown) {
    if (this.#texts.length > 1 && squeezed(text).startsWith(squeezed(shown))) {
      for (const box of this.#parts.querySelectorAll(":scope > .markdown")) box.remove();
      this.#texts = [];
    }
    const last = this.#texts.at(-1);
    if (last === undefined || !(this.#writes || squeezed(text).startsWith(squeezed(last.text)))) this.#newText();
    this.#texts.at(-1).finish(text);
    this.#writes = false;
  }

  #end(told, kind = "") {
    this.#close();
    for (const line of this.#running.values()) line.className = line.lastChild.textContent = "done";
    this.#running.clear();
    for (const [key] of this.#cards) this.#resolve(key, "");
    const text = this.#texts.map((stream) => stream.text).join("\n\n");
    this.#state.replaceWith(
      element("div", { class: "end" }, told && element("p", { class: kind || "note" }, told), text && copyAll(text)),
    );
  }
}

function copyAll(text) {
  const label = element("span", {}, "Copy answer");
  const copy = async () => {
    await navigator.clipboard.writeText(text).then(
      () => announce("Copied."),
      () => alarm("The browser refused to copy."),
    );
  };
  return button({ class: "quiet small", onclick: copy }, icon("copy"), label);
}

function visibleLines(command) {
  return command.slice(0, LONGEST_COMMAND).split("\n").map(visible).join("\n");
}

function squeezed(text) {
  return text.replace(/\s+/g, "");
}

function textOf(value) {
  return typeof value === "string" ? value : "";
}
