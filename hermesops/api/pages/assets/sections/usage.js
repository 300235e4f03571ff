/** Model tokens and money of the present period. */

import { Problem, ask } from "../base/api.js";
import { element, fill } from "../base/dom.js";
import { visible } from "../base/text.js";
import { countOf, moneyOf } from "../base/words.js";
import { card, facts, has } from "./parts.js";
import { ownWords } from "./provider.js";

export const usage = {
  path: "usage",
  title: "Usage",
  isThere: () => has("/usage"),
  async show(box) {
    const { data } = await ask("GET", "/usage");
    const own = ownWords(await chosenProvider());
    fill(
      box,
      card(
        typeof data.period === "string" ? `Period ${visible(data.period)}` : "This period",
        own && element("p", { class: "notice" }, own),
        data.budget_micros ? budget(data) : null,
        facts([
          ["Turns", counted(data.turns)],
          ["Tokens read", counted(data.tokens_in)],
          ["Tokens written", counted(data.tokens_out)],
          ["Cost", moneyOf(data.cost_micros ?? 0)],
          ["Budget", data.budget_micros ? moneyOf(data.budget_micros) : "none"],
        ]),
      ),
    );
  },
};

/** The user's own model provider; the figures stand without it where settings cannot be read now. */
async function chosenProvider() {
  try {
    const { data } = await ask("GET", "/settings");
    return data.provider ?? null;
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
    return null;
  }
}

function budget({ cost_micros: cost, budget_micros: most }) {
  const words = `${moneyOf(cost)} of ${moneyOf(most)} used`;
  const meter = element("meter", { min: 0, max: most, value: cost, high: most * 0.9, optimum: 0, "aria-label": words });
  const left =
    most > cost
      ? `${words}. At the end of the budget your agent pauses until the next period.`
      : `${words}. Your agent pauses until the next period.`;
  return element("div", { class: "budget" }, meter, element("p", {}, left));
}

function counted(value) {
  return typeof value === "number" ? countOf(value) : null;
}
