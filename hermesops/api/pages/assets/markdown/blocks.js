/**
 * Markdown's blocks: lines to a tree of headings, paragraphs, lists, quotes, code and tables.
 *
 * Follows CommonMark 0.31 and GitHub's tables and task lists, except for three things. HTML is text. Reference links are
 * text, because a definition at the end would change what was shown before. Containers end DEEPEST levels down.
 * Every step is linear in the length of the text at each level.
 */

export const DEEPEST = 12;
/** Of a table: what is beyond them stays text. */
const MOST_COLUMNS = 60;
const MOST_CELLS = 6000;

const FENCE = /^ {0,3}(`{3,}|~{3,})(.*)$/;
const HEADING = /^ {0,3}(#{1,6})(?=[ \t]|$)/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])(?=[ \t]|$)/;
const QUOTE = /^ {0,3}>/;
const RULE = /^ {0,3}([-*_])[ \t]*(?:\1[ \t]*){2,}$/;
const UNDERLINE = /^ {0,3}(=+|-+)[ \t]*$/;
const DELIMITER_CELL = /^:?-+:?$/;
const TASK = /^\[([ xX])\][ \t]+(?=\S)/;

/**
 * @typedef {object} Block
 * @property {"heading"|"paragraph"|"code"|"quote"|"list"|"rule"|"table"} type
 * @property {number} line the first of its lines
 * @property {string} [text] of a heading, a paragraph or code
 * @property {number} [level] of a heading
 * @property {string} [language] of code
 * @property {Block[]} [blocks] of a quote
 * @property {{blocks: Block[], checked: boolean|null}[]} [items] of a list
 * @property {number|null} [start] of an ordered list
 * @property {boolean} [tight] whether a list shows its paragraphs without distance
 * @property {(string|null)[]} [align] of a table's columns
 * @property {string[][]} [rows] of a table, the head first
 */

/**
 * @param {string[]} lines without their ends
 * @param {number} [depth] containers around these lines
 * @returns {Block[]} in their order
 */
export function parseBlocks(lines, depth = 0) {
  const blocks = [];
  let at = 0;
  while (at < lines.length) {
    if (isBlank(lines[at])) {
      at += 1;
      continue;
    }
    const [block, next] = readBlock(lines, at, depth);
    blocks.push({ ...block, line: at });
    at = next;
  }
  return blocks;
}

function readBlock(lines, at, depth) {
  const line = lines[at];
  if (columnsOf(line) >= 4) return readIndentedCode(lines, at);
  const fence = openFence(line);
  if (fence) return readFence(lines, at, fence);
  const heading = HEADING.exec(line);
  if (heading)
    return [{ type: "heading", level: heading[1].length, text: headingText(line, heading[0].length) }, at + 1];
  if (RULE.test(line)) return [{ type: "rule" }, at + 1];
  if (depth < DEEPEST && QUOTE.test(line)) return readQuote(lines, at, depth);
  if (depth < DEEPEST && ITEM.test(line)) return readList(lines, at, depth);
  return readTable(lines, at) ?? readParagraph(lines, at, depth);
}

function readIndentedCode(lines, at) {
  const code = [];
  let end = at;
  for (let next = at; next < lines.length && (isBlank(lines[next]) || columnsOf(lines[next]) >= 4); next += 1) {
    code.push(withoutColumns(lines[next], 4));
    if (!isBlank(lines[next])) end = next + 1;
  }
  return [{ type: "code", language: "", text: code.slice(0, end - at).join("\n") }, end];
}

function openFence(line) {
  const match = FENCE.exec(line);
  if (!match || (match[1][0] === "`" && match[2].includes("`"))) return null;
  return { mark: match[1], indent: columnsOf(line), language: match[2].trim().split(/\s/, 1)[0].slice(0, 40) };
}

function closesFence(line, mark) {
  const match = FENCE.exec(line);
  return Boolean(match && match[1][0] === mark[0] && match[1].length >= mark.length && !match[2].trim());
}

function readFence(lines, at, { mark, indent, language }) {
  const code = [];
  let next = at + 1;
  while (next < lines.length && !closesFence(lines[next], mark)) {
    code.push(withoutColumns(lines[next], indent));
    next += 1;
  }
  return [{ type: "code", language, text: code.join("\n") }, Math.min(next + 1, lines.length)];
}

function headingText(line, from) {
  const text = line.slice(from).trim();
  let end = text.length;
  while (end > 0 && text[end - 1] === "#") end -= 1;
  if (end === text.length) return text;
  return end === 0 || /[ \t]/.test(text[end - 1]) ? text.slice(0, end).trimEnd() : text;
}

function readQuote(lines, at, depth) {
  const inner = [];
  const paragraph = new OpenParagraph();
  let next = at;
  for (; next < lines.length; next += 1) {
    const line = lines[next];
    if (QUOTE.test(line)) inner.push(line.replace(/^ {0,3}> ?/, ""));
    else if (continues(line, paragraph)) inner.push(asText(line));
    else break;
    paragraph.read(inner[inner.length - 1]);
  }
  return [{ type: "quote", blocks: parseBlocks(inner, depth + 1) }, next];
}

function readList(lines, at, depth) {
  const kind = kindOf(lines[at]);
  const items = [];
  let tight = true;
  let next = at;
  while (next < lines.length && kindOf(lines[next]) === kind && !RULE.test(lines[next])) {
    const item = readItem(lines, next);
    const blocks = parseBlocks(item.lines, depth + 1);
    if (blocks.slice(1).some(({ line }) => isBlank(item.lines[line - 1]))) tight = false;
    items.push({ blocks, checked: item.checked });
    next = item.end;
    let following = next;
    while (following < lines.length && isBlank(lines[following])) following += 1;
    if (following === lines.length || kindOf(lines[following]) !== kind) break;
    if (following > next) tight = false;
    next = following;
  }
  const start = /\d/.test(lines[at].trimStart()[0]) ? parseInt(lines[at].trimStart(), 10) : null;
  return [{ type: "list", start, tight, items }, next];
}

/** Of a list: its bullet, or what stands behind its numbers. */
function kindOf(line) {
  const marker = ITEM.exec(line)?.[2];
  return marker === undefined ? null : marker[marker.length - 1];
}

function readItem(lines, at) {
  const marker = ITEM.exec(lines[at]);
  const width = marker[0].length;
  const behind = columnsOf(lines[at].slice(width), width);
  const isEmpty = isBlank(lines[at].slice(width));
  const column = width + (isEmpty || behind > 4 ? 1 : behind);
  const inner = [isEmpty ? "" : withoutColumns(lines[at].slice(width), column - width, width)];
  const task = TASK.exec(inner[0]);
  if (task) inner[0] = inner[0].slice(task[0].length);
  const checked = task ? task[1] !== " " : null;
  const paragraph = new OpenParagraph();
  paragraph.read(inner[0]);
  let next = at + 1;
  for (; next < lines.length; next += 1) {
    const line = lines[next];
    if (isBlank(line)) {
      if (isEmpty && inner.length === 1) break;
      inner.push("");
    } else if (columnsOf(line) >= column) inner.push(withoutColumns(line, column));
    else if (continues(line, paragraph)) inner.push(asText(line));
    else break;
    paragraph.read(inner[inner.length - 1]);
  }
  while (inner.length > 1 && isBlank(inner[inner.length - 1])) {
    inner.pop();
    next -= 1;
  }
  return { lines: inner, checked, end: next };
}

/** Whether a line without its container's mark goes on with the paragraph that the container ends with. */
function continues(line, paragraph) {
  return paragraph.isOpen && !isBlank(line) && !interrupts(line) && !ITEM.test(line);
}

/** Such a line underlines nothing and begins no table's rows, although it may look like that. */
function asText(line) {
  return UNDERLINE.test(line) || isDelimiterRow(line) ? `\\${line.trimStart()}` : line;
}

/** Whether a container's last line is one of a paragraph, which the next line may continue without the container's mark. */
class OpenParagraph {
  isOpen = false;
  #fence = null;

  read(line) {
    const bare = line.replace(/^(?: {0,3}(?:>|[-*+]|\d{1,9}[.)])(?= |$|>) ?){1,12}/, "");
    if (this.#fence !== null) {
      if (closesFence(bare.trimStart(), this.#fence)) this.#fence = null;
      this.isOpen = false;
      return;
    }
    this.#fence = openFence(bare.trimStart())?.mark ?? null;
    const isText = !isBlank(bare) && this.#fence === null && !HEADING.test(bare) && !RULE.test(bare);
    this.isOpen = isText && (this.isOpen || columnsOf(bare) < 4);
  }
}

function readTable(lines, at) {
  if (at + 1 >= lines.length || !isDelimiterRow(lines[at + 1])) return null;
  const head = cellsOf(lines[at]);
  const delimiters = cellsOf(lines[at + 1]);
  if (head.length !== delimiters.length || head.length > MOST_COLUMNS) return null;
  const rows = [head];
  let next = at + 2;
  for (; next < lines.length && !isBlank(lines[next]) && !interrupts(lines[next]); next += 1) {
    if (ITEM.test(lines[next]) || columnsOf(lines[next]) >= 4) break;
    if (rows.length * head.length > MOST_CELLS) break;
    const cells = cellsOf(lines[next]).slice(0, head.length);
    rows.push([...cells, ...Array(head.length - cells.length).fill("")]);
  }
  return [{ type: "table", align: delimiters.map(alignmentOf), rows }, next];
}

function isDelimiterRow(line) {
  if (
    line.length > 10_000 ||
    !line.includes("-") ||
    columnsOf(line) >= 4 ||
    ITEM.test(line) ||
    !/^[\s|:-]+$/.test(line)
  )
    return false;
  return (line.includes("|") || line.includes(":")) && cellsOf(line).every((cell) => DELIMITER_CELL.test(cell));
}

function alignmentOf(cell) {
  if (cell.startsWith(":") && cell.endsWith(":")) return "center";
  if (cell.endsWith(":")) return "right";
  return cell.startsWith(":") ? "left" : null;
}

/** Cells between bars; a bar behind a backslash is text. */
function cellsOf(line) {
  const cells = [];
  let cell = "";
  const row = line.trim();
  for (let at = row.startsWith("|") ? 1 : 0; at < row.length; at += 1) {
    if (row[at] === "\\" && row[at + 1] === "|") {
      cell += "|";
      at += 1;
    } else if (row[at] === "|") {
      cells.push(cell.trim());
      cell = "";
    } else cell += row[at];
  }
  if (cell.trim() || !row.endsWith("|")) cells.push(cell.trim());
  return cells;
}

function readParagraph(lines, at, depth) {
  const text = [lines[at]];
  let next = at + 1;
  for (; next < lines.length && !isBlank(lines[next]); next += 1) {
    const underline = UNDERLINE.exec(lines[next]);
    if (underline) {
      const level = underline[1][0] === "=" ? 1 : 2;
      return [{ type: "heading", level, text: joined(text) }, next + 1];
    }
    if (interrupts(lines[next], depth) || readTable(lines, next)) break;
    text.push(lines[next]);
  }
  return [{ type: "paragraph", text: joined(text) }, next];
}

/** Whether a line ends a paragraph above it, by beginning another block. */
function interrupts(line, depth = 0) {
  if (columnsOf(line) >= 4) return false;
  if (HEADING.test(line) || RULE.test(line) || openFence(line)) return true;
  if (depth >= DEEPEST) return false;
  const item = ITEM.exec(line);
  const mayStart = item && !isBlank(line.slice(item[0].length)) && (!/\d/.test(item[2]) || parseInt(item[2], 10) === 1);
  return Boolean(mayStart) || QUOTE.test(line);
}

/** A paragraph's lines without their indentation; two spaces at an end stay, they break the line. */
function joined(lines) {
  return lines
    .map((line) => line.trimStart())
    .join("\n")
    .trimEnd();
}

function isBlank(line) {
  return !line.trim();
}

/** Columns of a line's indentation; a tab goes to the next column that four divides. */
function columnsOf(line, from = 0) {
  let columns = from;
  for (const character of line) {
    if (character === " ") columns += 1;
    else if (character === "\t") columns += 4 - (columns % 4);
    else break;
  }
  return columns - from;
}

/** The line without so many columns of indentation; a tab that is cut becomes spaces. */
function withoutColumns(line, columns, from = 0) {
  let at = 0;
  let column = from;
  while (at < line.length && column - from < columns && (line[at] === " " || line[at] === "\t")) {
    column += line[at] === "\t" ? 4 - (column % 4) : 1;
    at += 1;
  }
  return " ".repeat(Math.max(0, column - from - columns)) + line.slice(at);
}
