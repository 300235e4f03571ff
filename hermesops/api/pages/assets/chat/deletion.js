/** Asks before a conversation is deleted, and deletes it. */

import { announce } from "../base/announcer.js";
import { Problem, ask } from "../base/api.js";
import { button, element } from "../base/dom.js";
import { wordsOf } from "../base/words.js";

/**
 * Show the question.
 *
 * @param {string} name of the conversation
 * @param {string} title
 * @param {() => void} onDeleted
 */
export function askDeletion(name, title, onDeleted) {
  const told = element("p", { class: "failure", role: "alert" });
  const remove = async () => {
    try {
      await ask("DELETE", `/chat/conversations/${encodeURIComponent(name)}`);
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      if (problem.status !== 404) {
        told.textContent = wordsOf(problem);
        return;
      }
    }
    dialog.close();
    announce("The conversation is deleted.");
    onDeleted();
  };
  const dialog = element(
    "dialog",
    { "aria-labelledby": "deletion", onclose: () => dialog.remove() },
    element("h2", { id: "deletion" }, `Delete “${title}”?`),
    element("p", {}, "Its messages are gone for good. What your agent has put into its memory stays there."),
    told,
    element(
      "div",
      { class: "choices" },
      button({ onclick: () => dialog.close(), autofocus: true }, "Keep it"),
      button({ class: "danger", onclick: remove }, "Delete it"),
    ),
  );
  document.body.append(dialog);
  dialog.showModal();
}
