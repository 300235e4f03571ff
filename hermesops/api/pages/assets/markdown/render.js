/** Markdown's tree as elements: a fixed set of tags, text nodes, and no address but those of links. */

import { button, element, icon } from "../base/dom.js";
import { plain } from "../base/text.js";
import { otherHost } from "./address.js";
import { parseInline } from "./inline.js";

const LINK = { rel: "noopener nofollow noreferrer", target: "_blank" };
const TAGS = { strong: "strong", emphasis: "em", deleted: "del" };
/** Levels of an answer's headings, which stand below the page's own; agents begin with the first or the second. */
const LEVELS = { 1: 3, 2: 3, 3: 4, 4: 5, 5: 6, 6: 6 };

/**
 * @param {import("./blocks.js").Block} block
 * @param {boolean} isFinal whether no more text comes: code then has its copy button
 * @returns {HTMLElement}
 */
export function renderBlock(block, isFinal) {
  switch (block.type) {
    case "heading":
      return element(`h${LEVELS[block.level]}`, { dir: "auto" }, renderInline(block.text));
    case "code":
      return renderCode(block, isFinal);
    case "quote":
      return element(
        "blockquote",
        {},
        block.blocks.map((inner) => renderBlock(inner, isFinal)),
      );
    case "list":
      return renderList(block, isFinal);
    case "table":
      return renderTable(block);
    case "rule":
      return element("hr");
    default:
      return element("p", { dir: "auto" }, renderInline(block.text));
  }
}

function renderCode({ language, text }, isFinal) {
  const shown = plain(text);
  const head = element("figcaption", {}, element("span", {}, language || "text"), isFinal && copyButton(shown));
  const code = element(
    "pre",
    { tabindex: "0", role: "group", "aria-label": `Code, ${language || "text"}` },
    element("code", {}, shown),
  );
  return element("figure", { class: "code" }, head, code);
}

function copyButton(text) {
  const label = element("span", {}, "Copy");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      label.textContent = "Copied";
    } catch {
      label.textContent = "The browser refused";
    }
    setTimeout(() => (label.textContent = "Copy"), 2000);
  };
  return button({ class: "quiet small", onclick: copy, "aria-live": "polite" }, icon("copy"), label);
}

function renderList({ start, tight, items }, isFinal) {
  const isTasks = items.every(({ checked }) => checked !== null);
  const attributes = { class: isTasks ? "tasks" : null, start: start !== null && start !== 1 ? start : null };
  return element(
    start === null ? "ul" : "ol",
    attributes,
    items.map((item) => renderItem(item, tight, isFinal)),
  );
}

function renderItem({ blocks, checked }, tight, isFinal) {
  const box =
    checked !== null &&
    element("input", { type: "checkbox", disabled: true, checked, "aria-label": checked ? "done" : "open" });
  const inner = blocks.map((block) =>
    tight && block.type === "paragraph" ? renderInline(block.text) : renderBlock(block, isFinal),
  );
  return element("li", { dir: "auto" }, box, inner);
}

function renderTable({ align, rows: [head, ...rows] }) {
  const cell = (tag) => (text, column) =>
    element(tag, { class: align[column], scope: tag === "th" ? "col" : null, dir: "auto" }, renderInline(text));
  const table = element(
    "table",
    {},
    element("thead", {}, element("tr", {}, head.map(cell("th")))),
    element(
      "tbody",
      {},
      rows.map((row) => element("tr", {}, row.map(cell("td")))),
    ),
  );
  return element("div", { class: "table", tabindex: "0", role: "group", "aria-label": "Table" }, table);
}

function renderInline(text) {
  return parseInline(plain(text)).map(renderNode);
}

function renderNode(node) {
  switch (node.type) {
    case "text":
      return node.text;
    case "code":
      return element("code", {}, node.text);
    case "break":
      return element("br");
    case "link":
      return renderLink(node);
    default:
      return element(TAGS[node.type], {}, node.children.map(renderNode));
  }
}

/** A link whose label names another host than it leads to shows that host too. */
function renderLink({ href, isImage, children }) {
  const link = element("a", { ...LINK, href, title: href }, isImage && "Image: ", children.map(renderNode));
  if (!link.textContent || link.textContent === "Image: ") link.append(href);
  const host = otherHost(link.textContent, href);
  return host === null ? link : [link, element("span", { class: "host" }, ` (${host})`)];
}
