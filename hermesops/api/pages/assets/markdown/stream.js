/**
 * An answer that grows, as elements.
 *
 * Text that comes can change the last block alone, or the one before while the last is a line without its end. So each
 * block is made once, when it cannot change any more, and stays: a reader's selection and focus in it are left in peace.
 * Open blocks are made anew at most once a frame, and less often the longer that takes, so a hostile answer costs a part
 * of the processor and never the page.
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
  /** Where the blocks begin that may still change, and their elements. */
  #open = 0;
  #tail = [];
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
    if (this.#timer === null)
      this.#timer = setTimeout(() => requestAnimationFrame(() => this.#show(false)), this.#restMs);
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
    [this.#open, this.#tail, this.#made, this.#rest] = [0, [], 0, null];
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
    const firstOpen = isFinal && !isCut ? blocks.length : indexOfOpen(blocks, lines);
    const focused = focusable(this.#tail).indexOf(document.activeElement);
    for (const part of this.#tail) part.remove();
    this.#tail = [];
    const begin = this.#open;
    for (const [index, block] of blocks.entries()) {
      const isOpen = index >= firstOpen;
      if (index <= firstOpen) this.#open = begin + lengthOf(lines.slice(0, block.line));
      if ((isOpen && isCut) || this.#made > MOST_ELEMENTS) {
        this.#rest = element("div", { class: "unformatted", dir: "auto" });
        this.#box.append(this.#rest);
        return;
      }
      const part = renderBlock(block, !isOpen);
      this.#box.append(part);
      if (isOpen) this.#tail.push(part);
      else this.#made += 1 + part.getElementsByTagName("*").length;
    }
    const after = this.#tail.length > 0 ? this.#tail : [...this.#box.children].slice(-2);
    if (focused !== -1) focusable(after)[focused]?.focus({ preventScroll: true });
  }

  /** Add the text behind the formatted part as it is. */
  #extend() {
    this.#rest.append(plain(this.#text.slice(this.#open)));
    this.#open = this.#text.length;
  }
}

/** The first block that may change: a line without its end may still join the block before it. */
function indexOfOpen(blocks, lines) {
  const last = blocks.length - 1;
  return last > 0 && blocks[last].line === lines.length - 1 ? last - 1 : last;
}

function focusable(parts) {
  return parts.flatMap((part) => [...part.querySelectorAll("a, button, [tabindex]")]);
}

function lengthOf(lines) {
  return lines.reduce((length, line) => length + line.length + 1, 0);
}
