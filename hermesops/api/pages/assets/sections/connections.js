/** Services that the agent may use for its user. */

import { mayOpen } from "../base/address.js";
import { announce } from "../base/announcer.js";
import { Problem, ask } from "../base/api.js";
import { button, element, fill } from "../base/dom.js";
import { visible } from "../base/text.js";
import { longTime, sentence, timeOf, wordsOf } from "../base/words.js";
import { card, has } from "./parts.js";

const WORDS = { active: "connected", pending: "waiting for you", expired: "expired", failed: "not connected" };

export const connections = {
  path: "connections",
  title: "Connections",
  isThere: () => has("/connections"),
  async show(box) {
    const { data } = await ask("GET", "/connections");
    const again = () => this.show(box);
    const services = (Array.isArray(data) ? data : []).filter(({ offered, state }) => offered || state !== "none");
    const about = "Your agent acts at a connected service in your name. You can disconnect it at any time.";
    fill(
      box,
      card(
        "Services",
        element("p", { class: "hint" }, about),
        services.length > 0
          ? element(
              "ul",
              { class: "jobs" },
              services.map((service) => line(service, again)),
            )
          : element("p", {}, "No service is offered here yet."),
      ),
    );
  },
};

function line(connection, again) {
  const failure = element("p", { class: "failure", role: "alert" });
  const title = visible(String(connection.title ?? connection.service));
  const state = String(connection.state);
  const attempt = async (work) => {
    failure.textContent = "";
    try {
      await work();
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      failure.textContent = wordsOf(problem);
    }
  };
  const path = `/connections/${encodeURIComponent(connection.service)}`;
  const connect = () =>
    attempt(async () => {
      const { data } = await ask("POST", path);
      location.assign(addressIn(data));
    });
  const disconnect = () =>
    attempt(async () => {
      await ask("DELETE", path);
      announce(`${title} is disconnected.`);
      await again();
    });
  const since = timeOf(connection.since);
  const verb = state === "none" ? "Connect" : "Connect again";
  return element(
    "li",
    {},
    element(
      "div",
      {},
      element("strong", {}, title),
      WORDS[state] && element("span", { class: "badge" }, WORDS[state]),
      element("p", { class: "hint" }, sentence(visible(String(connection.purpose ?? "")))),
      connection.detail && element("p", {}, sentence(visible(String(connection.detail)))),
      state === "active" && since && element("p", { class: "hint" }, `Since ${longTime(since)}.`),
      failure,
    ),
    state !== "active" &&
      connection.offered &&
      button({ class: "small", "aria-label": `${verb}: ${title}`, onclick: connect }, verb),
    state !== "none" &&
      button({ class: "danger small", "aria-label": `Disconnect: ${title}`, onclick: disconnect }, "Disconnect"),
  );
}

function addressIn(data) {
  const address = String(data?.auth_url);
  if (!mayOpen(address)) throw new Problem(409, { detail: "the service named no address where you could agree" });
  return address;
}
