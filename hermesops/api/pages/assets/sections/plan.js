/** The user's plan and agent, as they stand. */

import { ask } from "../base/api.js";
import { element, fill } from "../base/dom.js";
import { visible } from "../base/text.js";
import { ageOf, longTime, timeOf } from "../base/words.js";
import { card, facts } from "./parts.js";

const STATES = {
  running: "Your agent is running.",
  provisioning: "Your agent is being made. That takes a few seconds.",
  suspended:
    "Your agent is suspended: it does not run, and everything it knows is kept. It runs again as soon as your plan is paid.",
  terminated: "Your agent has ended.",
};

export const plan = {
  path: "plan",
  title: "Plan",
  isThere: async () => true,
  async show(box) {
    const instance = await instanceOrNone();
    if (instance === null) {
      fill(box, card("No agent yet", element("p", {}, "Your agent is here as soon as your plan is paid.")));
      return;
    }
    const { status, plan: name, since, region, heartbeat_age_s: age } = instance;
    const time = timeOf(since);
    fill(
      box,
      card(
        visible(String(name)),
        element("p", {}, STATES[status] ?? `Your agent is ${visible(String(status))}.`),
        facts([
          ["Since", time && longTime(time)],
          ["Region", region && visible(String(region))],
          ["Last sign of life", typeof age === "number" ? ageOf(age) : "not known at the moment"],
        ]),
      ),
    );
  },
};

async function instanceOrNone() {
  try {
    return (await ask("GET", "/instance")).data;
  } catch (problem) {
    if (problem.status === 404) return null;
    throw problem;
  }
}
