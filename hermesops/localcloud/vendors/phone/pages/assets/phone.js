/** The phone: tabs of messengers, the chat of the chosen one, and what the person does in it. */

import { formatted } from "./formatting.js";

const AGAIN_MS = 1000;
const byId = (id) => document.getElementById(id);

const state = { messengers: [], chosen: null, reading: null, version: null };

/** The messenger and the code in the address, as `#/telegram/CODE`. */
function place() {
  const [, key = "", code = ""] = location.hash.split("/");
  return { key, code };
}

async function begin() {
  const answer = await fetch("messengers");
  state.messengers = (await answer.json()).messengers;
  byId("tabs").replaceChildren(...state.messengers.map(tab));
  choose();
}

function tab({ key, title }) {
  const node = document.createElement("button");
  node.type = "button";
  node.id = `tab-${key}`;
  node.textContent = title;
  node.setAttribute("role", "tab");
  node.setAttribute("aria-controls", "panel");
  node.addEventListener("click", () => {
    location.hash = `#/${key}`;
  });
  node.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const at = state.messengers.findIndex((each) => each.key === key);
    const next = state.messengers[(at + step + state.messengers.length) % state.messengers.length];
    location.hash = `#/${next.key}`;
    byId(`tab-${next.key}`).focus();
  });
  return node;
}

function choose() {
  const { key, code } = place();
  const chosen = state.messengers.find((each) => each.key === key) ?? state.messengers[0];
  if (!chosen) return;
  for (const each of state.messengers) {
    const node = byId(`tab-${each.key}`);
    node.setAttribute("aria-selected", String(each === chosen));
    node.tabIndex = each === chosen ? 0 : -1;
  }
  byId("panel").setAttribute("aria-labelledby", `tab-${chosen.key}`);
  byId("bot").textContent = chosen.bot;
  byId("block").hidden = !chosen.blocks;
  if (code) byId("code").value = code;
  if (chosen === state.chosen) return;
  state.chosen = chosen;
  state.version = null;
  read(chosen);
}

/** Show the chat, again after each change, until another one is chosen. */
async function read(chosen) {
  state.reading?.abort();
  const reading = new AbortController();
  state.reading = reading;
  while (state.chosen === chosen) {
    try {
      const answer = await fetch(`messengers/${chosen.key}?after=${state.version ?? ""}`, { signal: reading.signal });
      if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
      show(await answer.json());
      problem("");
    } catch (error) {
      if (reading.signal.aborted) return;
      problem("The local world does not answer. This page tries again.");
      await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
      state.version = null;
    }
  }
}

function show(view) {
  const list = byId("messages");
  const isNew = view.version !== state.version;
  if (isNew) {
    const isAtEnd = list.scrollHeight - list.scrollTop - list.clientHeight < 80;
    list.replaceChildren(...view.bubbles.map(bubble));
    if (isAtEnd || state.version === null) list.scrollTop = list.scrollHeight;
  }
  state.version = view.version;
  byId("typing").textContent = view.typing_s > 0 ? "typing …" : "";
  byId("start").hidden = view.bubbles.length > 0 && !place().code;
  byId("block").setAttribute("aria-pressed", String(view.is_blocked));
  byId("block").textContent = view.is_blocked ? "Unblock the bot" : "Block the bot";
}

function bubble(message) {
  const node = document.createElement("li");
  node.className = message.is_of_bot ? "bot" : "you";
  const who = document.createElement("span");
  who.className = "hidden";
  who.textContent = message.is_of_bot ? "Bot: " : "You: ";
  const text = document.createElement("div");
  text.className = "text";
  text.dir = "auto";
  text.append(...formatted(message.text, message.spans));
  node.append(who, text);
  if (message.is_edited) {
    const edited = document.createElement("span");
    edited.className = "edited";
    edited.textContent = "edited";
    node.append(edited);
  }
  for (const row of message.buttons) node.append(buttons(message.id, row));
  return node;
}

function buttons(id, row) {
  const node = document.createElement("div");
  node.className = "buttons";
  for (const { label, data } of row) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = label;
    button.addEventListener("click", () => act("press", { message: id, data }));
    node.append(button);
  }
  return node;
}

/** Do something as the person; whether it was taken. */
async function act(action, body) {
  try {
    const answer = await fetch(`messengers/${state.chosen.key}/${action}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    problem(answer.ok ? "" : "Not taken: too many messages wait for the bot. Try again in a minute.");
    return answer.ok;
  } catch {
    problem("The local world does not answer. Nothing was sent.");
    return false;
  }
}

function problem(words) {
  if (byId("problem").textContent !== words) byId("problem").textContent = words;
}

byId("start").addEventListener("submit", async (event) => {
  event.preventDefault();
  if (!(await act("start", { code: byId("code").value.trim() }))) return;
  byId("code").value = "";
  history.replaceState(null, "", `#/${state.chosen.key}`);
  byId("start").hidden = true;
  byId("message").focus();
});

byId("write").addEventListener("submit", async (event) => {
  event.preventDefault();
  const field = byId("message");
  const text = field.value.trim();
  if (text && (await act("say", { text }))) field.value = "";
  field.focus();
});

byId("message").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  byId("write").requestSubmit();
});

byId("block").addEventListener("click", () => {
  act("block", { is_blocked: byId("block").getAttribute("aria-pressed") !== "true" });
});

addEventListener("hashchange", choose);
begin().catch(() => problem("The local world does not answer. Load this page again."));
