/** What the agent does by itself at set times. */

import { announce } from "../base/announcer.js";
import { Problem, ask } from "../base/api.js";
import { button, element, fill } from "../base/dom.js";
import { plain, shortened, visible } from "../base/text.js";
import { longTime, timeOf, wordsOf } from "../base/words.js";
import { card } from "./parts.js";

export const jobs = {
  path: "jobs",
  title: "Jobs",
  isThere: async () => true, // asking would cost the agent a request at each start of the page
  async show(box) {
    const { data } = await ask("GET", "/cron");
    const again = () => this.show(box);
    const list =
      data.length > 0
        ? element(
            "ul",
            { class: "jobs" },
            data.map((job) => line(job, again)),
          )
        : element("p", {}, "Your agent does nothing by itself yet.");
    fill(box, card("Your agent's jobs", list), addition(again));
  },
};

function line(job, again) {
  const told = element("p", { class: "failure", role: "alert" });
  const remove = async () => {
    try {
      await ask("DELETE", `/cron/${encodeURIComponent(job.id)}`);
      announce("The job is removed.");
      await again();
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      told.textContent = wordsOf(problem);
    }
  };
  const [next, last] = [timeOf(job.next_at), timeOf(job.last_at)];
  const times = [
    next && `Next: ${longTime(next)}.`,
    last && `Last: ${longTime(last)}${job.last_status ? `, ${visible(job.last_status)}` : ""}.`,
  ]
    .filter(Boolean)
    .join(" ");
  const prompt = shortened(plain(String(job.prompt ?? "")), 300);
  return element(
    "li",
    {},
    element(
      "div",
      {},
      element("code", {}, visible(String(job.cron ?? ""))),
      job.enabled === false && element("span", { class: "badge" }, "paused"),
      element("p", { dir: "auto" }, prompt),
      times && element("p", { class: "hint" }, times),
      told,
    ),
    button({ class: "danger small", "aria-label": `Remove: ${shortened(prompt, 40)}`, onclick: remove }, "Remove"),
  );
}

function addition(again) {
  const told = element("p", { class: "failure", role: "alert" });
  const cron = element("input", {
    id: "job-cron",
    name: "cron",
    required: true,
    maxlength: 100,
    type: "text",
    placeholder: "0 8 * * 1-5",
    "aria-describedby": "job-cron-about",
    spellcheck: "false",
  });
  const prompt = element("textarea", { id: "job-prompt", name: "prompt", required: true, rows: 3, maxlength: 5000 });
  const add = async (event) => {
    event.preventDefault();
    told.textContent = "";
    try {
      await ask("POST", "/cron", { body: { cron: cron.value.trim(), prompt: prompt.value.trim(), enabled: true } });
      announce("The job is added.");
      await again();
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      told.textContent = wordsOf(problem);
    }
  };
  return element(
    "form",
    { class: "card", onsubmit: add },
    element("h2", {}, "Add a job"),
    element("div", { class: "field" }, element("label", { for: "job-prompt" }, "What to do"), prompt),
    element(
      "div",
      { class: "field" },
      element("label", { for: "job-cron" }, "When"),
      cron,
      element(
        "p",
        { id: "job-cron-about", class: "hint" },
        "Minute, hour, day, month and weekday: 0 8 * * 1-5 is at eight from Monday to Friday. Or an interval, as every 2h.",
      ),
    ),
    element("div", { class: "choices" }, element("button", { type: "submit", class: "primary" }, "Add")),
    told,
  );
}
