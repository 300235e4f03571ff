/** Services that the agent may use for its user. */

import { ask } from "../base/api.js";
import { element, fill } from "../base/dom.js";
import { visible } from "../base/text.js";
import { card, has } from "./parts.js";

export const connections = {
  path: "connections",
  title: "Connections",
  isThere: () => has("/connections"),
  async show(box) {
    const { data } = await ask("GET", "/connections");
    const listed = Array.isArray(data) ? data : [];
    const entries = listed.map(({ service, state }) =>
      element(
        "li",
        {},
        element("span", {}, visible(String(service))),
        element("span", { class: "badge" }, visible(String(state))),
      ),
    );
    fill(
      box,
      card(
        "Connected services",
        entries.length > 0
          ? element("ul", { class: "jobs" }, entries)
          : element("p", {}, "No service is connected yet."),
      ),
    );
  },
};
