/**
 * Texts with formats as nodes. A span is a range of UTF-16 units, as strings have them; ranges may lie in each other.
 * No text is parsed as HTML, and a link leads out only by http and https.
 */

const TAGS = {
  bold: "strong",
  italic: "em",
  underline: "u",
  strike: "s",
  code: "code",
  pre: "code",
  quote: "q",
  spoiler: "span",
  link: "a",
};

/** Nodes of a text. */
export function formatted(text, spans) {
  const cuts = new Set([0, text.length]);
  const known = spans.filter((span) => TAGS[span.kind] && span.length > 0);
  for (const span of known) {
    cuts.add(Math.min(span.start, text.length));
    cuts.add(Math.min(span.start + span.length, text.length));
  }
  const edges = [...cuts].sort((a, b) => a - b);
  return edges.slice(1).map((end, index) => {
    const start = edges[index];
    const around = known.filter((span) => span.start <= start && span.start + span.length >= end);
    return around.reduceRight(wrapped, document.createTextNode(text.slice(start, end)));
  });
}

function wrapped(node, span) {
  const outer = document.createElement(TAGS[span.kind]);
  outer.className = span.kind;
  if (span.kind === "link" && leadsOut(span.url)) {
    outer.href = span.url;
    outer.target = "_blank";
    outer.rel = "noopener noreferrer nofollow";
  }
  outer.append(node);
  return outer;
}

function leadsOut(url) {
  try {
    return ["http:", "https:"].includes(new URL(url).protocol);
  } catch {
    return false;
  }
}
