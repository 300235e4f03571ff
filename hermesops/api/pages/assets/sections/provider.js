/** The user's own model provider. Its key is written here and never read back: the API has none to answer. */

import { announce } from "../base/announcer.js";
import { Problem } from "../base/api.js";
import { button, element, fill } from "../base/dom.js";
import { visible } from "../base/text.js";
import { longTime, timeOf, wordsOf } from "../base/words.js";
import { facts } from "./parts.js";
import { change } from "./settings_request.js";

const LATER = "This takes longer than usual. Open this page again in a few minutes.";

/**
 * @param {object} settings as the API answers them
 * @param {() => void} again shows the section anew
 */
export function provider(settings, etag, again) {
  const { provider: chosen, providers } = settings;
  const told = element("p", { class: "notice", role: "status" });
  const choice = select(providers, chosen);
  const model = field("Model name", "provider-model", "input", { type: "text", autocomplete: "off", maxlength: 128 });
  const address = field("Address of your account", "provider-address", "input", { type: "text", autocomplete: "off", maxlength: 256 });
  const key = field("API key", "provider-key", "input", { type: "password", autocomplete: "off", maxlength: 512 });
  const form = element("form", { class: "card" });
  const show = () => {
    const offer = providers.find(({ id }) => id === choice.control.value);
    const isPresent = offer && offer.id === chosen?.id;
    for (const { box } of [model, key]) box.hidden = !offer;
    address.box.hidden = !offer || offer.address !== null;
    model.control.value = isPresent ? chosen.model : "";
    model.about.textContent = offer ? `For example ${visible(offer.example)}.` : "";
    address.control.value = isPresent ? (chosen.base_url ?? "") : "";
    key.control.value = "";
    key.about.textContent = keyWords(offer, isPresent);
    choice.about.textContent = offer ? visible(offer.note) : "Your plan pays for the platform's models.";
    told.replaceChildren();
  };
  const save = async (unverified) => {
    const offer = providers.find(({ id }) => id === choice.control.value);
    const requested = offer
      ? { id: offer.id, model: model.control.value.trim(), key: key.control.value.trim(), unverified }
      : { id: "" };
    if (offer?.address === null) requested.base_url = address.control.value.trim();
    told.textContent = offer ? "Checking the key with the provider …" : "Switching your agent to the platform's models …";
    try {
      if (await change(form, { provider: requested }, etag)) {
        again();
        announce(offer ? "Your agent now uses your own provider." : "Your agent now uses the platform's models.");
      } else told.textContent = LATER;
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      told.textContent = wordsOf(problem);
      if (problem.code === "unverified")
        told.append(" ", button({ class: "small", onclick: () => save(true) }, "Save without verification"));
    }
  };
  choice.control.addEventListener("change", show);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void save(false);
  });
  fill(
    form,
    element("h2", {}, "Model provider"),
    chosen ? state(chosen) : null,
    [choice, model, address, key].map(({ box }) => box),
    element("div", { class: "choices" }, element("button", { type: "submit", class: "primary" }, "Save provider")),
    told,
  );
  show();
  return form;
}

/** What an own provider means for the platform's figures and limits; null for the platform's models. */
export function ownWords(chosen) {
  if (!chosen) return null;
  const title = visible(chosen.title);
  return `Your agent uses ${title} with your own key, and ${title} bills you. The platform neither counts nor limits this use.`;
}

function state(chosen) {
  const at = timeOf(chosen.verified_at);
  return element(
    "div",
    {},
    facts([
      ["Provider", visible(chosen.title)],
      ["Model", visible(chosen.model)],
      ["Address", chosen.base_url ? visible(chosen.base_url) : null],
      ["Key", at ? `accepted ${longTime(at)}` : "not verified"],
    ]),
    element("p", { class: "hint" }, ownWords(chosen)),
  );
}

function select(providers, chosen) {
  const made = field("Provider", "provider-id", "select", {});
  made.control.append(
    element("option", { value: "", selected: !chosen }, "The platform's models"),
    ...providers.map(({ id, title }) => element("option", { value: id, selected: id === chosen?.id }, visible(title))),
  );
  return made;
}

function field(label, id, tag, attributes) {
  const control = element(tag, { id, name: id, "aria-describedby": `${id}-about`, ...attributes });
  const about = element("p", { id: `${id}-about`, class: "hint" });
  return { control, about, box: element("div", { class: "field" }, element("label", { for: id }, label), control, about) };
}

function keyWords(offer, isPresent) {
  if (!offer) return "";
  const begins = offer.keys.length ? `The key begins with ${offer.keys.map(visible).join(" or ")}. ` : "";
  const kept = isPresent ? "Leave this empty to keep the present key. " : "";
  return `${begins}${kept}The key is never shown again. Summaries and pictures go to the same provider and model.`;
}
