/** Text of others, made safe to read: it cannot reorder or hide what stands beside it. */

const CONTROLS = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]/g;
const REORDERING = /[\u202a-\u202e\u2066-\u2069]/g;
const INVISIBLE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

/** Prose: without control characters and without those that reorder text. */
export function plain(text) {
  return text.replace(CONTROLS, "\ufffd").replace(REORDERING, "");
}

/** A command, a file's name: each invisible character shows as its number, for a reader decides by what it says. */
export function visible(text) {
  return text.replace(
    INVISIBLE,
    (character) => `⟨U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`,
  );
}

/** The beginning of a text, cut between characters. */
export function shortened(text, length) {
  const characters = [...text.slice(0, 2 * length + 2)];
  return characters.length > length ? `${characters.slice(0, length - 1).join("")}…` : text;
}
