/** Agents of others that may call the user's agent by A2A: their keys, made, shown once and revoked. */

import { announce } from "../base/announcer.js";
import { Problem, ask } from "../base/api.js";
import { button, element, fill } from "../base/dom.js";
import { visible } from "../base/text.js";
import { longTime, timeOf, wordsOf } from "../base/words.js";
import { card, facts, has } from "./parts.js";

const ABOUT =
  "Agents of other people or companies can send tasks to your agent by the A2A protocol. Each has its own key and sees only its own tasks.";

export const callers = {
  path: "callers",
  title: "Callers",
  isThere: () => has("/callers"),
  async show(box, made = null) {
    const { data } = await ask("GET", "/callers");
    const again = (outcome) => this.show(box, outcome);
    const listed = Array.isArray(data?.callers) ? data.callers : [];
    fill(
      box,
      made && keyCard(made),
      card(
        "Agents that may call",
        element("p", { class: "hint" }, ABOUT),
        data?.address && facts([["Address of your agent", element("code", {}, visible(String(data.address)))]]),
        listed.length > 0
          ? element(
              "ul",
              { class: "jobs" },
              listed.map((caller) => line(caller, again)),
            )
          : element("p", {}, "No other agent may call yours yet."),
      ),
      addition(again),
    );
    box.querySelector("[data-key]")?.focus();
  },
};

function keyCard(made) {
  const key = element("code", { "data-key": "", tabindex: "-1" }, visible(String(made.key)));
  return card(
    `Key of ${visible(String(made.caller?.name))}`,
    element("p", {}, "Give this key and the address to that agent now. The key is not shown again."),
    facts([
      ["Key", key],
      ["Address", element("code", {}, visible(String(made.address)))],
    ]),
  );
}

function line(caller, again) {
  const failure = element("p", { class: "failure", role: "alert" });
  const name = visible(String(caller.name));
  const used = timeOf(caller.used_at);
  const hosts = Array.isArray(caller.push_hosts) ? caller.push_hosts.map((host) => visible(String(host))) : [];
  const revoke = () =>
    attempt(failure, async () => {
      await ask("DELETE", `/callers/${encodeURIComponent(caller.id)}`);
      announce(`The key of ${name} is revoked.`);
      await again();
    });
  return element(
    "li",
    {},
    element(
      "div",
      {},
      element("strong", {}, name),
      caller.may_approve && element("span", { class: "badge" }, "may approve actions"),
      element("p", { class: "hint" }, used ? `Key last used ${longTime(used)}.` : "Key never used."),
      hosts.length > 0 && element("p", { class: "hint" }, `Notifications go to ${hosts.join(", ")}.`),
      failure,
    ),
    button({ class: "danger small", "aria-label": `Revoke: ${name}`, onclick: revoke }, "Revoke"),
  );
}

function addition(again) {
  const failure = element("p", { class: "failure", role: "alert" });
  const name = element("input", { id: "caller-name", name: "name", required: true, maxlength: 60, type: "text" });
  const hosts = element("input", {
    id: "caller-hosts",
    name: "hosts",
    maxlength: 2000,
    type: "text",
    placeholder: "hooks.example.com",
    "aria-describedby": "caller-hosts-about",
    spellcheck: "false",
  });
  const approves = element("input", { id: "caller-approves", name: "approves", type: "checkbox" });
  let request = crypto.randomUUID();
  const make = (event) => {
    event.preventDefault();
    return attempt(failure, async () => {
      const push_hosts = hosts.value.split(/[\s,]+/).filter(Boolean);
      const body = { name: name.value.trim(), client_key: request, push_hosts, may_approve: approves.checked };
      const { data } = await ask("POST", "/callers", { body });
      request = crypto.randomUUID();
      announce(`${visible(body.name)} may call your agent. Its key is shown once.`);
      await again(data?.key ? data : null);
    });
  };
  return element(
    "form",
    { class: "card", onsubmit: make },
    element("h2", {}, "Add a caller"),
    element("div", { class: "field" }, element("label", { for: "caller-name" }, "Name"), name),
    element(
      "div",
      { class: "field" },
      element("label", { for: "caller-hosts" }, "Hosts for notifications (optional)"),
      hosts,
      element("p", { id: "caller-hosts-about", class: "hint" }, "Notifications about its tasks are sent to these hosts only."),
    ),
    element(
      "div",
      { class: "field" },
      element("label", { for: "caller-approves" }, approves, " This caller may approve actions in its own tasks"),
      element("p", { class: "hint" }, "Otherwise your agent asks you, in the conversation of the task."),
    ),
    element("div", { class: "choices" }, element("button", { type: "submit", class: "primary" }, "Create a key")),
    failure,
  );
}

async function attempt(failure, work) {
  failure.textContent = "";
  try {
    await work();
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
    failure.textContent = wordsOf(problem);
  }
}
