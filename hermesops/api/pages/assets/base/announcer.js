/**
 * Speaks to assistive technology through two live regions of the page.
 *
 * The conversation itself is none: a region there would read each token. An answer is spoken once, when it has ended.
 */

const LONGEST = 600;

/** @param {string} text is read when the reader has finished its sentence */
export function announce(text) {
  speak("announcer", text);
}

/** @param {string} text interrupts the reader: a question of the agent, a failure */
export function alarm(text) {
  speak("alarm", text);
}

function speak(id, text) {
  const region = document.getElementById(id);
  region.textContent = "";
  // The same text again is a change only if the region was empty between.
  setTimeout(() => (region.textContent = text.slice(0, LONGEST)), 60);
}
