/** The settings that a user may change, written only over the values that were read (ETag and If-Match). */

import { announce } from "../base/announcer.js";
import { Problem, ask } from "../base/api.js";
import { element, fill } from "../base/dom.js";
import { visible } from "../base/text.js";
import { wordsOf } from "../base/words.js";
import { has } from "./parts.js";
import { provider } from "./provider.js";
import { change } from "./settings_request.js";

const FIELDS = [
  {
    name: "model",
    label: "Model",
    kind: "choice",
    about: "Language model of your agent. Not used while you have a model provider of your own.",
  },
  {
    name: "personality",
    label: "Personality",
    kind: "text",
    about: "How your agent should be and speak, in your words.",
  },
  {
    name: "disabled_tools",
    label: "Tools switched off",
    kind: "lines",
    about: "One name a line. Your agent does not use them.",
  },
];

export const settings = {
  path: "settings",
  title: "Settings",
  isThere: () => has("/settings"),
  async show(box) {
    const { data, etag } = await ask("GET", "/settings");
    const fields = FIELDS.filter(({ name }) => name in data);
    const told = element("p", { class: "notice", role: "status" });
    const save = element("button", { type: "submit", class: "primary" }, "Save");
    const form = element(
      "form",
      { class: "card" },
      element("h2", {}, "How your agent works"),
      fields.map((field) => labelled(field, data[field.name], data.models ?? [])),
      data.stale &&
        element(
          "p",
          { class: "hint" },
          "Newer settings were saved a moment ago and are not shown yet. ",
          reload(() => this.show(box)),
        ),
      element("div", { class: "choices" }, save),
      told,
    );
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      await write(form, fields, data, etag, told, () => this.show(box));
    });
    fill(box, form, data.providers && provider(data, etag, () => this.show(box)));
  },
};

function labelled({ name, label, kind, about }, value, models) {
  const id = `setting-${name}`;
  const attributes = { id, name, "aria-describedby": `${id}-about` };
  const control =
    kind === "choice"
      ? choice(attributes, value, models)
      : element("textarea", { rows: kind === "text" ? 6 : 3, maxlength: 8000, ...attributes });
  if (kind !== "choice") control.value = kind === "lines" ? value.join("\n") : value;
  return element(
    "div",
    { class: "field" },
    element("label", { for: id }, label),
    control,
    element("p", { id: `${id}-about`, class: "hint" }, about),
  );
}

function choice(attributes, value, models) {
  const names = ["", ...new Set([...models, value].filter(Boolean))];
  return element(
    "select",
    attributes,
    names.map((name) =>
      element("option", { value: name, selected: name === value }, visible(name) || "The one of your plan"),
    ),
  );
}

async function write(form, fields, before, etag, told, again) {
  const changes = Object.fromEntries(
    fields
      .map((field) => [field.name, valueOf(form.elements[field.name], field.kind)])
      .filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(before[name])),
  );
  if (Object.keys(changes).length === 0) {
    told.textContent = "Nothing was changed.";
    return;
  }
  told.textContent = "Saving: waiting until your agent has the settings …";
  try {
    if (await change(form, changes, etag)) {
      await again();
      announce("Your agent has the new settings.");
    } else told.textContent = "This takes longer than usual. Open this page again in a few minutes.";
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
    told.textContent = wordsOf(problem);
    if (problem.code === "changed-meanwhile") told.append(" ", reload(again));
  }
}

function reload(again) {
  return element("button", { type: "button", class: "small", onclick: again }, "Show the new values");
}

function valueOf(control, kind) {
  if (kind === "lines")
    return control.value
      .split("\n")
      .map((line) => line.trim())
      .filter(Boolean);
  return control.value;
}
