/**
 * Markdown's inline text: emphasis, code, links and line breaks of one paragraph, heading or cell as a tree.
 *
 * Emphasis follows CommonMark 0.31 ("An algorithm for parsing nested emphasis and links"), with GitHub's ~~ and bare
 * addresses. HTML and images are never made: HTML is text, an image becomes a link, so nothing is loaded from elsewhere.
 */

import { bareAddresses, safeAddress } from "./address.js";

const PLAIN = /[^\\`*_~[\]!<&\n]+/y;
const ESCAPED = /[!-/:-@[-`{-~]/;
const AUTOLINK = /<((?:https?:\/\/|mailto:)[^\s<>]{1,2048})>/iy;
const ENTITY = /&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|([a-zA-Z]{2,8}));/y;
const NAMED = {
  amp: "&",
  lt: "<",
  gt: ">",
  quot: '"',
  apos: "'",
  nbsp: "\u00a0",
  hellip: "…",
  mdash: "—",
  ndash: "–",
  copy: "©",
  times: "×",
  rarr: "→",
  larr: "←",
};
const LONGEST_DESTINATION = 2048;
const LONGEST_SHOWN = 80;
const MOST_BRACKETS = 1000;
/** Levels of emphasis within each other, and characters behind brackets that turned out to be no address: then it is text. */
const DEEPEST = 16;
const MOST_SCANNED = 200_000;

/**
 * @typedef {object} Inline
 * @property {"text"|"code"|"strong"|"emphasis"|"deleted"|"link"|"break"} type
 * @property {string} [text] of text and code
 * @property {string} [href] of a link, always http, https or mailto
 * @property {boolean} [isImage] whether the link stands for an image
 * @property {Inline[]} [children]
 */

/**
 * @param {string} text
 * @returns {Inline[]} what the text shows, in order
 */
export function parseInline(text) {
  return bareAddresses(merged(new InlineParser(text).parse()));
}

class InlineParser {
  #text;
  #at = 0;
  /** Nodes so far; delimiters are among them until they pair up. */
  #nodes = [];
  /** Positions in #nodes of open brackets. */
  #brackets = [];
  #scanned = 0;
  #ticks = null;

  constructor(text) {
    this.#text = text;
  }

  parse() {
    while (this.#at < this.#text.length) this.#step();
    return paired(this.#nodes);
  }

  #step() {
    switch (this.#text[this.#at]) {
      case "\\":
        return this.#escape();
      case "`":
        return this.#code();
      case "*":
      case "_":
      case "~":
        return this.#delimiters();
      case "[":
        return this.#open(false);
      case "!":
        return this.#text[this.#at + 1] === "[" ? this.#open(true) : this.#plain("!");
      case "]":
        return this.#close();
      case "<":
        return this.#autolink();
      case "&":
        return this.#entity();
      case "\n":
        return this.#lineEnd();
      default:
        return this.#plain(matchAt(PLAIN, this.#text, this.#at)[0]);
    }
  }

  #plain(text, length = text.length) {
    this.#nodes.push({ type: "text", text });
    this.#at += length;
  }

  #escape() {
    const next = this.#text[this.#at + 1];
    if (next === "\n") {
      this.#nodes.push({ type: "break" });
      this.#at += 2;
    } else if (next !== undefined && ESCAPED.test(next)) this.#plain(next, 2);
    else this.#plain("\\");
  }

  #code() {
    const length = runLength(this.#text, this.#at);
    const from = this.#at + length;
    const to = this.#closingTicks(length, from);
    if (to === -1) return this.#plain("`".repeat(length));
    let code = this.#text.slice(from, to).replaceAll("\n", " ");
    if (code.startsWith(" ") && code.endsWith(" ") && code.trim()) code = code.slice(1, -1);
    this.#nodes.push({ type: "code", text: code });
    this.#at = to + length;
    return undefined;
  }

  /** Where so many backticks stand next, or -1; all runs are listed once, so many openings cost no more than one. */
  #closingTicks(length, from) {
    if (this.#ticks === null) {
      this.#ticks = new Map();
      for (const { 0: run, index } of this.#text.matchAll(/`+/g)) {
        if (!this.#ticks.has(run.length)) this.#ticks.set(run.length, { places: [], next: 0 });
        this.#ticks.get(run.length).places.push(index);
      }
    }
    const runs = this.#ticks.get(length);
    while (runs && runs.next < runs.places.length && runs.places[runs.next] < from) runs.next += 1;
    return runs?.places[runs.next] ?? -1;
  }

  #delimiters() {
    const mark = this.#text[this.#at];
    const length = runLength(this.#text, this.#at);
    const before = this.#text.slice(Math.max(0, this.#at - 2), this.#at);
    const after = this.#text.slice(this.#at + length, this.#at + length + 2);
    const { opens, closes } = flanks(mark, lastCharacter(before), firstCharacter(after));
    if (mark === "~" && length !== 2) return this.#plain("~".repeat(length));
    this.#nodes.push({ type: "delimiter", mark, length, original: length, opens, closes });
    this.#at += length;
    return undefined;
  }

  #open(isImage) {
    const text = isImage ? "![" : "[";
    if (this.#brackets.length < MOST_BRACKETS)
      this.#brackets.push({ place: this.#nodes.length, isImage, isActive: true });
    this.#plain(text);
  }

  #close() {
    const bracket = this.#brackets.pop();
    const target = bracket?.isActive ? this.#target() : null;
    if (target === null) return this.#plain("]");
    const children = merged(paired(this.#nodes.splice(bracket.place).slice(1)));
    this.#at = target.end;
    if (!bracket.isImage) for (const outer of this.#brackets) outer.isActive &&= outer.isImage;
    const href = safeAddress(target.destination);
    if (href !== null)
      this.#nodes.push({ type: "link", href, isImage: bracket.isImage, children: withoutLinks(children) });
    else this.#nodes.push(...children, { type: "text", text: inParentheses(target.destination) });
    return undefined;
  }

  #target() {
    if (this.#text[this.#at + 1] !== "(" || this.#scanned > MOST_SCANNED) return null;
    const target = linkTarget(this.#text, this.#at + 1);
    this.#scanned += target === null ? LONGEST_DESTINATION : 0;
    return target;
  }

  #autolink() {
    const match = matchAt(AUTOLINK, this.#text, this.#at);
    const href = match && safeAddress(match[1]);
    if (!href) return this.#plain("<");
    this.#nodes.push({ type: "link", href, isImage: false, children: [{ type: "text", text: match[1] }] });
    this.#at += match[0].length;
    return undefined;
  }

  #entity() {
    const match = matchAt(ENTITY, this.#text, this.#at);
    if (!match) return this.#plain("&");
    const [whole, decimal, hexadecimal, name] = match;
    const character =
      name === undefined ? characterOf(parseInt(decimal ?? hexadecimal, decimal ? 10 : 16)) : NAMED[name];
    return this.#plain(character ?? whole, whole.length);
  }

  #lineEnd() {
    const last = this.#nodes[this.#nodes.length - 1];
    const isHard = last?.type === "text" && last.text.endsWith("  ");
    if (last?.type === "text") last.text = last.text.trimEnd();
    this.#nodes.push(isHard ? { type: "break" } : { type: "text", text: "\n" });
    this.#at += 1;
  }
}

/** Whether a run of delimiters may open and close emphasis, by the characters beside it. */
function flanks(mark, before, after) {
  const spaceAfter = /^$|\s/u.test(after);
  const spaceBefore = /^$|\s/u.test(before);
  const signAfter = /[\p{P}\p{S}]/u.test(after);
  const signBefore = /[\p{P}\p{S}]/u.test(before);
  const left = !spaceAfter && (!signAfter || spaceBefore || signBefore);
  const right = !spaceBefore && (!signBefore || spaceAfter || signAfter);
  if (mark !== "_") return { opens: left, closes: right };
  return { opens: left && (!right || signBefore), closes: right && (!left || signAfter) };
}

/**
 * Pair the delimiters among these nodes and return the nodes, nested. Each opener that did not fit a kind of closer is
 * never looked at again for that kind, so the work is linear.
 */
function paired(nodes) {
  const shown = [];
  const openers = [];
  const bottoms = new Map();
  for (const node of nodes) {
    if (node.type === "delimiter" && node.closes) close(node, shown, openers, bottoms);
    if (node.type === "delimiter" && node.length > 0 && node.opens) openers.push({ node, place: shown.length });
    shown.push(node);
  }
  return shown.filter((node) => node.type !== "delimiter" || node.length > 0).map(asText);
}

function close(closer, shown, openers, bottoms) {
  const kind = `${closer.mark}${closer.opens}${closer.original % 3}`;
  while (closer.length > 0) {
    const bottom = bottoms.get(kind) ?? 0;
    let at = openers.length - 1;
    while (at >= bottom && !fits(openers[at].node, closer)) at -= 1;
    if (at < bottom) {
      bottoms.set(kind, openers.length);
      return;
    }
    const { node: opener, place } = openers[at];
    openers.length = at + 1;
    for (const [name, value] of bottoms) if (value > at) bottoms.set(name, at);
    const count = closer.mark === "~" ? 2 : Math.min(2, opener.length, closer.length);
    const children = shown
      .splice(place + 1)
      .map(asText)
      .filter((node) => node.type !== "text" || node.text);
    const type = closer.mark === "~" ? "deleted" : ["emphasis", "strong"][count - 1];
    const depth = 1 + children.reduce((deepest, child) => Math.max(deepest, child.depth ?? 0), 0);
    shown.push(...(depth > DEEPEST ? children : [{ type, depth, children: merged(children) }]));
    opener.length -= count;
    closer.length -= count;
    if (opener.length === 0) openers.pop();
  }
}

function fits(opener, closer) {
  if (opener.mark !== closer.mark) return false;
  const isOdd = (opener.closes || closer.opens) && (opener.original + closer.original) % 3 === 0;
  return !isOdd || (opener.original % 3 === 0 && closer.original % 3 === 0);
}

function asText(node) {
  return node.type === "delimiter" ? { type: "text", text: node.mark.repeat(node.length) } : node;
}

function inParentheses(destination) {
  if (!destination) return "";
  return ` (${destination.length > LONGEST_SHOWN ? `${destination.slice(0, LONGEST_SHOWN)}…` : destination})`;
}

/** Destination and end of the `(destination "title")` whose parenthesis opens at this place, or null. */
function linkTarget(text, at) {
  let next = skipSpace(text, at + 1);
  const from = next;
  let destination;
  if (text[next] === "<") {
    while (next < text.length && next - from < LONGEST_DESTINATION && !">\n".includes(text[next])) next += 1;
    if (text[next] !== ">") return null;
    destination = text.slice(from + 1, next);
    next += 1;
  } else {
    next = endOfDestination(text, from);
    if (next === null) return null;
    destination = text.slice(from, next);
  }
  next = skipTitle(text, skipSpace(text, next));
  return text[next] === ")" ? { destination: destination.replace(/\\([!-/:-@[-`{-~])/g, "$1"), end: next + 1 } : null;
}

/** Where an address ends, or null where it has a parenthesis that nothing closes. */
function endOfDestination(text, from) {
  let depth = 0;
  let next = from;
  for (; next < text.length && next - from < LONGEST_DESTINATION && text[next] > " "; next += 1) {
    if (text[next] === "\\") next += 1;
    else if (text[next] === "(") depth += 1;
    else if (text[next] === ")") {
      if (depth === 0) break;
      depth -= 1;
    }
  }
  return depth === 0 ? next : null;
}

function skipTitle(text, at) {
  const end = { '"': '"', "'": "'", "(": ")" }[text[at]];
  if (end === undefined) return at;
  let next = at + 1;
  while (next < text.length && next - at < LONGEST_DESTINATION && text[next] !== end)
    next += text[next] === "\\" ? 2 : 1;
  return text[next] === end ? skipSpace(text, next + 1) : at;
}

function skipSpace(text, at) {
  let next = at;
  while (/[ \t\n]/.test(text[next] ?? "")) next += 1;
  return next;
}

/** Children of a link: a link within shows its text alone. */
function withoutLinks(nodes) {
  return nodes.flatMap((node) => {
    if (node.type === "link") return withoutLinks(node.children);
    return [node.children ? { ...node, children: withoutLinks(node.children) } : node];
  });
}

function merged(nodes) {
  const shown = [];
  let text = [];
  const flush = () => {
    if (text.length > 0) shown.push({ type: "text", text: text.join("") });
    text = [];
  };
  for (const node of nodes) {
    if (node.type === "text") {
      if (node.text) text.push(node.text);
      continue;
    }
    flush();
    shown.push(node);
  }
  flush();
  return shown;
}

function matchAt(pattern, text, at) {
  pattern.lastIndex = at;
  return pattern.exec(text);
}

function runLength(text, at) {
  let length = 1;
  while (text[at + length] === text[at]) length += 1;
  return length;
}

function characterOf(code) {
  return code === 0 || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff) ? "\ufffd" : String.fromCodePoint(code);
}

function firstCharacter(text) {
  return text === "" ? "" : String.fromCodePoint(text.codePointAt(0));
}

function lastCharacter(text) {
  return [...text].pop() ?? "";
}
