/** Shapes that several sections share. */

import { ask } from "../base/api.js";
import { element } from "../base/dom.js";

/** Whether the API has this path; a refusal for another reason, or no answer, is shown by the section itself. */
export async function has(path) {
  try {
    await ask("GET", path);
    return true;
  } catch (problem) {
    return !problem.isAbsent;
  }
}

/** Names and values; those without a value are left out. */
export function facts(entries) {
  const shown = entries.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return element(
    "dl",
    { class: "facts" },
    shown.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))),
  );
}

export function card(heading, ...children) {
  return element("section", { class: "card" }, element("h2", {}, heading), children);
}
