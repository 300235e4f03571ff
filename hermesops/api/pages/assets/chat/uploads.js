/** Files beside a message: chosen, dropped or pasted, uploaded at once, each with its progress. */

import { alarm, announce } from "../base/announcer.js";
import { Problem, upload } from "../base/api.js";
import { button, element, icon } from "../base/dom.js";
import { shortened, visible } from "../base/text.js";
import { sizeOf, wordsOf } from "../base/words.js";

const LARGEST = 10_000_000;
const MOST = 8;

export class Uploads {
  element = element("ul", { class: "uploads", "aria-label": "Files" });
  chooser;
  #entries = [];
  #changed;

  /** @param {() => void} changed what `reason` answers may be another */
  constructor(changed) {
    this.#changed = changed;
    const input = element("input", {
      type: "file",
      multiple: true,
      hidden: true,
      "aria-label": "Files",
      tabindex: "-1",
    });
    input.addEventListener("change", () => {
      this.add([...input.files]);
      input.value = "";
    });
    this.chooser = element(
      "div",
      {},
      input,
      button({ class: "quiet attach", "aria-label": "Attach files", onclick: () => input.click() }, icon("attach")),
    );
  }

  /** Upload these files; the refused ones are named. @returns {boolean} whether there was any */
  add(files) {
    for (const file of files) {
      const refusal = this.#refusal(file);
      if (refusal === null) this.#upload(file);
      else this.#refuse(file.name, refusal);
    }
    return files.length > 0;
  }

  /** Why nothing can be sent because of files, or null. */
  reason() {
    return this.#entries.some(({ isLoading }) => isLoading)
      ? "Wait until the files are uploaded, or remove them."
      : null;
  }

  /** The uploaded files, which leave the list. */
  take() {
    const files = this.#entries.filter(({ file }) => file !== null).map(({ file }) => file);
    this.clear();
    return files;
  }

  /** Files that were uploaded for a message which was not sent. */
  putBack(files) {
    for (const file of files) {
      const [entry, line] = this.#add(nameOf(file.name));
      entry.isLoading = false;
      entry.file = file;
      line.querySelector(".detail").textContent = detailOf(file);
    }
  }

  clear() {
    for (const entry of this.#entries) entry.control.abort();
    this.#entries = [];
    this.element.replaceChildren();
  }

  #refusal({ size }) {
    if (size > LARGEST) return `${sizeOf(size)}, and ${sizeOf(LARGEST)} is the most.`;
    if (size === 0) return "It is empty.";
    return this.#entries.length < MOST ? null : `${MOST} files are the most for one message.`;
  }

  #refuse(name, reason) {
    const words = `${nameOf(name)} was not added: ${reason}`;
    const line = element("li", { class: "refused" }, element("span", {}, words));
    line.append(
      button({ class: "quiet", "aria-label": `Dismiss: ${nameOf(name)}`, onclick: () => line.remove() }, icon("close")),
    );
    this.element.append(line);
    alarm(words);
  }

  #add(name) {
    const entry = { file: null, isLoading: true, control: new AbortController() };
    const line = element("li", {}, element("span", {}, name), element("span", { class: "detail" }));
    const remove = () => this.#remove(entry, line, name);
    line.append(button({ class: "quiet", "aria-label": `Remove ${name}`, onclick: remove }, icon("close")));
    this.#entries.push(entry);
    this.element.append(line);
    return [entry, line];
  }

  async #upload(chosen) {
    const name = nameOf(chosen.name);
    const [entry, line] = this.#add(name);
    const detail = line.querySelector(".detail");
    const progress = element("progress", { max: "1", value: "0", "aria-label": `Upload of ${name}` });
    detail.textContent = sizeOf(chosen.size);
    detail.after(progress);
    this.#changed();
    try {
      entry.file = await upload(chosen, (share) => (progress.value = share), entry.control.signal);
      detail.textContent = detailOf(entry.file);
      announce(`${name} is uploaded.`);
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      this.#entries = this.#entries.filter((other) => other !== entry);
      line.remove();
      if (!entry.control.signal.aborted) this.#refuse(name, wordsOf(problem));
    } finally {
      entry.isLoading = false;
      progress.remove();
      this.#changed();
    }
  }

  #remove(entry, line, name) {
    entry.control.abort();
    this.#entries = this.#entries.filter((other) => other !== entry);
    line.remove();
    announce(`${name} is removed.`);
    this.#changed();
    document.getElementById("message")?.focus();
  }
}

function detailOf({ kind, bytes }) {
  return `${visible(String(kind))}, ${sizeOf(bytes)}`;
}

function nameOf(name) {
  return shortened(visible(name), 80);
}
