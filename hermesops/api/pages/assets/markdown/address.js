/** Addresses in an agent's text: which of them may become links, and how a reader sees where one leads. */

const SCHEMES = new Set(["http:", "https:", "mailto:"]);
const BARE = /(?<=^|[\s(*_~"'>[])(?:https?:\/\/|www\.)[^\s<>"]{1,2048}/giu;
const HOST = /^\s*(?:https?:\/\/)?(?:[^\s/@]*@)?((?:[a-z0-9-]+\.)+[a-z]{2,})(?![a-z0-9@-])/i;

/** The address as the browser would open it, or null unless it is absolute and http, https or mailto. */
export function safeAddress(address) {
  try {
    const url = new URL(address.trim());
    return SCHEMES.has(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

/** Host of the address where the label names another one, else null: the reader then sees both. */
export function otherHost(label, href) {
  const named = HOST.exec(label.slice(0, 300))?.[1].toLowerCase();
  const { hostname } = new URL(href);
  return named === undefined || withoutWww(named) === withoutWww(hostname) ? null : hostname;
}

/** Make links of the addresses that stand bare in the texts of a tree, as GitHub does. */
export function bareAddresses(nodes) {
  return nodes.flatMap((node) => {
    if (node.type === "text") return splitText(node.text);
    if (node.type === "link" || !node.children) return [node];
    return [{ ...node, children: bareAddresses(node.children) }];
  });
}

function splitText(text) {
  const nodes = [];
  let from = 0;
  for (const match of text.matchAll(BARE)) {
    const address = withoutSentenceEnd(match[0]);
    const href = safeAddress(/^www\./i.test(address) ? `https://${address}` : address);
    if (href === null) continue;
    if (match.index > from) nodes.push({ type: "text", text: text.slice(from, match.index) });
    nodes.push({ type: "link", href, isImage: false, children: [{ type: "text", text: address }] });
    from = match.index + address.length;
  }
  if (from < text.length) nodes.push({ type: "text", text: text.slice(from) });
  return nodes;
}

/** Leave out signs that end the sentence, and a closing parenthesis that opens outside of the address. */
function withoutSentenceEnd(address) {
  let end = address.length;
  let open = address.split("(").length - address.split(")").length;
  while (end > 0) {
    const last = address[end - 1];
    if (last === ")" && open < 0) open += 1;
    else if (!"?!.,:*_~'\";]".includes(last)) break;
    end -= 1;
  }
  return address.slice(0, end);
}

function withoutWww(host) {
  return host.replace(/^www\./, "");
}
