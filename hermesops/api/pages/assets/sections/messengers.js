/** Messengers in which the user writes to the agent, by the platform's bot. */

import { mayOpen } from "../base/address.js";
import { announce } from "../base/announcer.js";
import { Problem, ask } from "../base/api.js";
import { button, element, fill } from "../base/dom.js";
import { visible } from "../base/text.js";
import { longTime, timeOf, wordsOf } from "../base/words.js";
import { card } from "./parts.js";

const TITLES = { telegram: "Telegram", discord: "Discord", slack: "Slack", whatsapp: "WhatsApp" };
const SIGNS = { telegram: "@", whatsapp: "+" };
const STEPS = { telegram: "press start", whatsapp: "send the message that is there" };

export const messengers = {
  path: "messengers",
  title: "Messengers",
  async isThere() {
    try {
      const { data } = await ask("GET", "/messengers");
      return data.length > 0;
    } catch (problem) {
      return !problem.isAbsent;
    }
  },
  async show(box) {
    const { data } = await ask("GET", "/messengers");
    const again = () => this.show(box);
    const offered = Array.isArray(data) ? data : [];
    const about = "Write to your agent in a messenger that you use already. Only your own account reaches it.";
    fill(
      box,
      card(
        "Messengers",
        element("p", { class: "hint" }, about),
        offered.length > 0
          ? element(
              "ul",
              { class: "jobs" },
              offered.map((messenger) => line(messenger, again)),
            )
          : element("p", {}, "No messenger is offered here yet."),
      ),
    );
  },
};

function line(messenger, again) {
  const failure = element("p", { class: "failure", role: "alert" });
  const outcome = element("p", { class: "outcome", tabindex: "-1" });
  const title = TITLES[messenger.messenger] ?? visible(String(messenger.messenger));
  const sign = SIGNS[messenger.messenger];
  const path = `/messengers/${encodeURIComponent(messenger.messenger)}`;
  const attempt = async (work) => {
    failure.textContent = "";
    try {
      await work();
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      failure.textContent = wordsOf(problem);
    }
  };
  const link = () =>
    attempt(async () => {
      const { data } = await ask("POST", `${path}/link-code`);
      fill(outcome, ...invitation(messenger.messenger, title, data));
      outcome.querySelector("a").focus();
    });
  const unlink = () =>
    attempt(async () => {
      await ask("DELETE", path);
      announce(`${title} is disconnected.`);
      await again();
    });
  const isLinked = messenger.account !== null;
  const since = timeOf(messenger.linked_at);
  return element(
    "li",
    {},
    element(
      "div",
      {},
      element("strong", {}, title),
      isLinked && element("span", { class: "badge" }, messenger.blocked ? "you blocked the bot" : "connected"),
      sign && element("p", { class: "hint" }, `The bot is ${sign}${visible(String(messenger.bot))}.`),
      isLinked && since && element("p", { class: "hint" }, `${visible(messenger.account)}, since ${longTime(since)}.`),
      outcome,
      failure,
    ),
    button(
      { class: "small", "aria-label": `${isLinked ? "Connect another account" : "Connect"}: ${title}`, onclick: link },
      isLinked ? "Connect another account" : "Connect",
    ),
    isLinked &&
      button({ class: "danger small", "aria-label": `Disconnect: ${title}`, onclick: unlink }, "Disconnect"),
  );
}

/** A link to the bot and the step that follows there: a message to send where the link does not have it in it. */
function invitation(messenger, title, data) {
  const address = String(data?.url);
  if (!mayOpen(address)) throw new Problem(409, { detail: "the messenger has no address that can be opened" });
  const attributes = { href: address, target: "_blank", rel: "noopener noreferrer" };
  const until = timeOf(data.expires_at);
  return [
    element("a", attributes, `Open ${title}, and ${STEPS[messenger] ?? "send the bot this message"}`),
    !STEPS[messenger] && element("code", {}, visible(String(data.text))),
    ` within ten minutes${until ? ` (until ${longTime(until)})` : ""}. It works once.`,
  ];
}
