/** The user's plan: the agent's state, what is paid, invoices; to buy a plan, to change its payment, to end it. */

import { mayOpen } from "../base/address.js";
import { announce } from "../base/announcer.js";
import { Problem, ask } from "../base/api.js";
import { button, element, fill } from "../base/dom.js";
import { visible } from "../base/text.js";
import { ageOf, amountOf, longTime, sentence, timeOf, wordsOf } from "../base/words.js";
import { card, facts } from "./parts.js";

const STATES = {
  running: "Your agent is running.",
  provisioning: "Your agent is being made. That takes a few seconds.",
  suspended:
    "Your agent is suspended: it does not run, and everything it knows is kept. It runs again as soon as your plan is paid.",
  terminated: "Your agent has ended.",
};

const PLANS = {
  light: "light: 40 GB for your agent's data",
  heavy: "heavy: 80 GB for your agent's data",
};

/** Of Stripe; others are shown as they are. */
const PAYMENTS = {
  active: "paid",
  trialing: "a trial, nothing is charged yet",
  past_due: "the last payment failed",
  unpaid: "not paid",
  paused: "paused",
  incomplete: "the first payment is not complete",
};

/** Of meters; others are not shown. */
const METERS = {
  instance_days: ["Days of your agent", (quantity) => String(quantity)],
  model_micros: ["Use of models", (quantity) => amountOf(Math.round(quantity / 10_000), "usd")],
};

const ENDED = new Set(["none", "canceled", "incomplete_expired"]);
const OPEN = new Set(["queued", "waiting"]);
const LOOK_AGAIN_MS = 1500;
const MOST_LOOKS = 200;

export const plan = {
  path: "plan",
  title: "Plan",
  isThere: async () => true,
  /** Returns the agent's state that is shown. */
  async show(box) {
    const [instance, paid] = await Promise.all([orNone("/instance"), orNone("/plan")]);
    const again = () => box.isConnected && this.show(box);
    fill(
      box,
      agentCard(instance),
      paid && (isAwaited(paid) ? awaiting() : ENDED.has(paid.status) ? buying(paid, instance) : paying(paid, again)),
      paid && usage(paid),
      paid && paid.invoices.length > 0 && invoices(paid.invoices),
    );
    if (paid && isUnderWay(instance, paid)) waitForChange(box, instance, paid, again);
    return instance?.status;
  },
};

/** What the API says there; null where it has nothing of the kind. */
async function orNone(path) {
  try {
    return (await ask("GET", path)).data;
  } catch (problem) {
    if (problem.status === 404 || problem.isAbsent) return null;
    throw problem;
  }
}

function agentCard(instance) {
  if (instance === null)
    return card("No agent yet", element("p", {}, "Your agent is here as soon as your plan is paid."));
  const { status, plan: name, since, region, heartbeat_age_s: age } = instance;
  const time = timeOf(since);
  return card(
    visible(String(name)),
    element("p", {}, STATES[status] ?? `Your agent is ${visible(String(status))}.`),
    status === "running" && element("p", {}, element("a", { class: "button primary", href: "#/chat" }, "Talk to your agent")),
    facts([
      ["Since", time && longTime(time)],
      ["Region", region && visible(String(region))],
      ["Last sign of life", typeof age === "number" ? ageOf(age) : "not known at the moment"],
    ]),
  );
}

/** Whether a plan was bought whose statement was not read yet: then no other one may be offered. */
function isAwaited(paid) {
  return ENDED.has(paid.status) && paid.subscribing?.state === "done";
}

function awaiting() {
  return card("Payment", element("p", {}, "Your plan is paid. Its details are here in a moment."));
}

// Buying

function buying(paid, instance) {
  const told = element("p", { class: "notice", role: "status" });
  const request = paid.subscribing;
  if (request?.state === "refused" && request.code === "not-paid") told.textContent = sentence(request.detail);
  const going = OPEN.has(request?.state) && request.url ? checkoutLink(request.url) : null;
  const submit = element("button", { type: "submit", class: "primary" }, "Go to checkout");
  const form = element(
    "form",
    { class: "card" },
    element("h2", {}, going ? "Your checkout page is open" : "Choose a plan"),
    going && element("p", {}, "Pay there; your agent is made at once. Or choose another plan."),
    going && element("p", {}, going),
    element(
      "fieldset",
      {},
      element("legend", {}, "Plan"),
      Object.entries(PLANS).map(([name, words]) => choice(name, words, instance?.plan ?? "light")),
    ),
    element("p", { class: "hint" }, "The checkout page shows the price before you pay. You can end a plan at any time."),
    element("div", { class: "choices" }, submit),
    told,
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    submit.disabled = true;
    await guarded(told, async () => {
      told.textContent = "Making your checkout page …";
      const key = keyOf();
      const { data } = await ask("POST", "/subscribe", { body: { plan: form.elements.plan.value, client_key: key } });
      go(data.checkout_url ?? (await addressOf(data.request)), told);
    });
    submit.disabled = false;
  });
  return form;
}

function choice(name, words, chosen) {
  const id = `plan-${name}`;
  const input = element("input", { type: "radio", name: "plan", id, value: name, checked: name === chosen });
  return element("div", { class: "option" }, input, element("label", { for: id }, words));
}

function checkoutLink(url) {
  return mayOpen(url) ? element("a", { class: "button", href: url }, "Go on to the checkout page") : null;
}

// Paying

function paying(paid, again) {
  const told = element("p", { class: "notice", role: "status" });
  const [end, charge] = [timeOf(paid.ends_at), paid.next_charge];
  const chargeTime = timeOf(charge?.at);
  const amount = typeof charge?.amount === "number" ? `${amountOf(charge.amount, charge.currency)} on ` : "on ";
  const change = button(
    {
      onclick: () =>
        guarded(told, async () => {
          told.textContent = "Opening the page of your payment …";
          const { data } = await ask("POST", "/plan/portal", { body: { client_key: keyOf() } });
          go(data.url ?? (await addressOf(data.request)), told);
        }),
    },
    "Change card or plan",
  );
  return card(
    "Payment",
    facts([
      ["Plan", paid.plan && visible(String(paid.plan))],
      ["State", PAYMENTS[paid.status] ?? visible(String(paid.status))],
      ["Next charge", chargeTime && `${amount}${longTime(chargeTime)}`],
      ["Ends", end && longTime(end)],
    ]),
    element(
      "div",
      { class: "choices" },
      change,
      !end && button({ class: "danger", onclick: () => askEnd(again) }, "End the plan"),
    ),
    told,
  );
}

function askEnd(again) {
  const told = element("p", { class: "failure", role: "alert" });
  const end = () =>
    guarded(told, async () => {
      await ask("POST", "/plan/cancel", { body: { client_key: keyOf() } });
      dialog.close();
      announce("Your plan ends with the period that is paid.");
      await again();
    });
  const dialog = element(
    "dialog",
    { "aria-labelledby": "ending", onclose: () => dialog.remove() },
    element("h2", { id: "ending" }, "End the plan?"),
    element(
      "p",
      {},
      "Your agent runs until the end of the period that is paid. Then it is ended, and what it knows is deleted some days later.",
    ),
    told,
    element(
      "div",
      { class: "choices" },
      button({ onclick: () => dialog.close(), autofocus: true }, "Keep the plan"),
      button({ class: "danger", onclick: end }, "End the plan"),
    ),
  );
  document.body.append(dialog);
  dialog.showModal();
}

/** What meters count since the last invoice, and the lines of the next one as it would be now. */
function usage({ metered, metered_since: since, next_charge: charge }) {
  const counted = metered.filter(({ meter }) => meter in METERS);
  if (counted.length === 0) return null;
  const begin = timeOf(since);
  return card(
    "Usage",
    element("p", { class: "hint" }, begin ? `Since ${longTime(begin)}` : "Of the last 31 days"),
    facts(counted.map(({ meter, quantity }) => [METERS[meter][0], METERS[meter][1](quantity)])),
    charge?.lines.length > 0 &&
      element(
        "details",
        { class: "invoice" },
        element("summary", {}, "Next invoice as it would be now"),
        lines(charge.lines, charge.currency),
      ),
  );
}

function lines(listed, currency, hasMore = false) {
  return element(
    "ul",
    {},
    listed.map(({ description, amount }) =>
      element("li", {}, `${visible(String(description))}: ${amountOf(amount, currency)}`),
    ),
    hasMore && element("li", {}, "and more"),
  );
}

function invoices(listed) {
  return card(
    "Invoices",
    listed.map((invoice) => {
      const time = timeOf(invoice.created);
      const total = amountOf(invoice.total, invoice.currency);
      const words = [time && longTime(time), total, visible(String(invoice.status))].filter(Boolean).join(" · ");
      return element(
        "details",
        { class: "invoice" },
        element("summary", {}, words),
        lines(invoice.lines, invoice.currency, invoice.has_more_lines),
        invoice.number && element("p", { class: "hint" }, `Invoice ${visible(String(invoice.number))}`),
        invoice.url &&
          mayOpen(invoice.url) &&
          element("a", { href: invoice.url, rel: "noopener noreferrer", target: "_blank" }, "Open the invoice"),
      );
    }),
  );
}

// Waiting

function isUnderWay(instance, paid) {
  const isPaid = paid.status === "active" || paid.status === "trialing";
  const isMade = instance?.status === "provisioning" || (isPaid && instance === null);
  return OPEN.has(paid.subscribing?.state) || isAwaited(paid) || isMade;
}

/**
 * Look again until something has changed, then show it. What is shown then may be newer than the look, so it alone says
 * whether the agent of a plan that was just paid is there.
 */
async function waitForChange(box, instance, paid, again) {
  const before = stateOf(instance, paid);
  for (let look = 0; look < MOST_LOOKS; look += 1) {
    await new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS));
    if (!box.isConnected || box.querySelector("form :focus") || document.hidden) continue;
    try {
      const [instanceNow, paidNow] = await Promise.all([orNone("/instance"), orNone("/plan")]);
      if (paidNow === null || stateOf(instanceNow, paidNow) === before || !box.isConnected) continue;
      const shown = await again();
      announce(shown === "running" && instance?.status !== "running" ? "Your agent is ready." : "Your plan has changed.");
      return;
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
    }
  }
}

function stateOf(instance, paid) {
  return JSON.stringify([instance?.status, paid.status, paid.subscribing?.state, paid.subscribing?.url]);
}

/** The address in a request's outcome, once it is there. */
async function addressOf(request) {
  for (let look = 0; look < MOST_LOOKS; look += 1) {
    await new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS));
    const { data } = await ask("GET", `/requests/${encodeURIComponent(request)}`);
    if (data.url) return data.url;
    if (data.state === "refused") throw new Problem(409, { code: data.code ?? "", detail: data.detail });
  }
  return null;
}

function go(url, told) {
  if (url && mayOpen(url)) {
    location.assign(url);
    return;
  }
  told.textContent = "That takes longer than usual. Look here again in a few minutes.";
}

function keyOf() {
  return `p-${crypto.randomUUID()}`;
}

async function guarded(told, act) {
  try {
    await act();
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
    told.textContent = wordsOf(problem);
  }
}
