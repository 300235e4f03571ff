/**
 * Elements without markup: strings become text nodes, so nothing that an agent or a server sends is parsed as HTML.
 * The page sets no innerHTML anywhere; its Content-Security-Policy (Trusted Types) would refuse it.
 */

const SVG = "http://www.w3.org/2000/svg";

/** Outlines of 24 × 24 units. */
const ICONS = {
  attach: "M20 11.5 12 19.5a5 5 0 0 1-7-7l8.5-8.5a3.3 3.3 0 0 1 4.7 4.7l-8.3 8.3a1.7 1.7 0 0 1-2.4-2.4l7.6-7.6",
  close: "M6 6l12 12M18 6 6 18",
  copy: "M9 9h10v11H9zM15 9V4H5v11h4",
  menu: "M4 7h16M4 12h16M4 17h16",
  plus: "M12 5v14M5 12h14",
  send: "M12 19V5M6 11l6-6 6 6",
  stop: "M7 7h10v10H7z",
};

/**
 * @param {string} tag
 * @param {Record<string, unknown>} [attributes] `onEVENT` listens; false, null and undefined leave the attribute out
 * @param {...(Node|string|null|undefined|Array)} children strings become text nodes
 * @returns {HTMLElement}
 */
export function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  node.append(...present(children)); // first: with dir="auto" there, the browser would look at all children for each
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  return node;
}

/** An outline that assistive technology skips; the control around it has the name. */
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  for (const [key, value] of [
    ["viewBox", "0 0 24 24"],
    ["aria-hidden", "true"],
    ["class", "icon"],
  ]) {
    svg.setAttribute(key, value);
  }
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", ICONS[name]);
  svg.append(path);
  return svg;
}

/** Replace the children of a node, leaving out what is absent. */
export function fill(node, ...children) {
  node.replaceChildren(...present(children));
  return node;
}

/** A button of type "button": inside a form it submits nothing. */
export function button(attributes, ...children) {
  return element("button", { type: "button", ...attributes }, ...children);
}

function present(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
}
