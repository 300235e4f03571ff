/**
 * An answer that grows, as elements.
 *
 * Text that comes can change the last block alone, so each block is made once, when the next one begins, and stays:
 * what a reader selected or focused there is left in peace. The last block is made anew at most once a frame, and less
 * often the longer that takes, so a hostile answer costs a part of the processor and never the page.
 */

import { element } from "../base/dom.js";
import { plain } from "../base/text.js";
import { parseBlocks } from "./blocks.js";
import { renderBlock } from "./render.js";

/** Characters that get a format, and elements; the rest of an answer is shown as it is. */
export const LONGEST_FORMATTED = 200_000;
const MOST_ELEMENTS = 20_000;
/** Of the time, making elements takes at most one part in so many. */
const SHARE = 4;

export class MarkdownStream {
  #box;
  #text = "";
  /** Where the block begins that may still change, and its element. */
  #open = 0;
  #tail = null;
  #made = 0;
  #timer = null;
  #restMs = 0;
  #rest = null;

  /** @param {HTMLElement} box an empty element of class "markdown" */
  constructor(box) {
    this.#box = box;
  }

  get text() {
    return this.#text;
  }

  /** @param {string} text to add at the end; shown with the next frame or a little later */
  append(text) {
    this.#text += text;
    if (this.#timer === null) this.#timer = setTimeout(() => requestAnimationFrame(() => this.#show(false)), this.#restMs);
  }

  /** @param {string} [text] of the whole answer; nothing comes after it */
  finish(text = this.#text) {
    clearTimeout(this.#timer);
    this.#timer = null;
    if (!text.startsWith(this.#text.slice(0, this.#open))) this.#begin();
    this.#text = text;
    this.#show(true);
  }

  #begin() {
    this.#box.replaceChildren();
    [this.#open, this.#tail, this.#made, this.#rest] = [0, null, 0, null];
  }

  #show(isFinal) {
    if (this.#timer === null && !isFinal) return;
    this.#timer = null;
    const began = performance.now();
    if (this.#rest === null) this.#format(isFinal);
    if (this.#rest !== null) this.#extend();
    void this.#box.offsetHeight; // the layout's time counts as well
    this.#restMs = (performance.now() - began) * (SHARE - 1);
  }

  #format(isFinal) {
    const isCut = this.#text.length > LONGEST_FORMATTED;
    const lines = this.#text.slice(this.#open, LONGEST_FORMATTED).split("\n");
    const blocks = parseBlocks(lines.map((line) => (line.endsWith("\r") ? line.slice(0, -1) : line)));
    const focused = this.#tail?.contains(document.activeElement) ? focusable(this.#tail).indexOf(document.activeElement) : -1;
    this.#tail?.remove();
    this.#tail = null;
    let from = 0;
    for (const [index, block] of blocks.entries()) {
      const isOpen = index === blocks.length - 1 && (!isFinal || isCut);
      this.#open += lengthOf(lines.slice(from, block.line));
      from = block.line;
      if ((isOpen && isCut) || this.#made > MOST_ELEMENTS) {
        this.#rest = element("div", { class: "unformatted", dir: "auto" });
        this.#box.append(this.#rest);
        return;
      }
      const part = renderBlock(block, !isOpen);
      this.#box.append(part);
      if (isOpen) this.#tail = part;
      else this.#made += 1 + part.getElementsByTagName("*").length;
    }
    if (focused !== -1) focusable(this.#tail ?? this.#box.lastElementChild)[focused]?.focus({ preventScroll: true });
  }

  /** Add the text behind the formatted part as it is. */
  #extend() {
    this.#rest.append(plain(this.#text.slice(this.#open)));
    this.#open = this.#text.length;
  }
}

function focusable(part) {
  return [...part.querySelectorAll("a, button, [tabindex]")];
}

function lengthOf(lines) {
  return lines.reduce((length, line) => length + line.length + 1, 0);
}
