/**
 * Loads the page anew where a file of it was lost on the way. A browser asks for no module twice: without this, one lost
 * request leaves a page that says "Loading …" until its user loads it anew.
 */

"use strict";

(() => {
  const TRIES = "hermes:tries";
  const FIRST_MS = 1_000;
  const LONGEST_MS = 60_000;
  const PATIENCE_MS = 20_000;
  let isEnded = false;

  function triesBefore() {
    try {
      return Number(sessionStorage.getItem(TRIES)) || 0;
    } catch {
      return 0; // a browser that stores nothing
    }
  }

  function remember(tries) {
    try {
      if (tries) sessionStorage.setItem(TRIES, String(tries));
      else sessionStorage.removeItem(TRIES);
    } catch {
      // as above
    }
  }

  function loadAnew(afterMs) {
    if (isEnded) return;
    isEnded = true;
    remember(triesBefore() + 1);
    setTimeout(() => location.reload(), afterMs);
  }

  const factor = 2 ** Math.min(triesBefore(), 6);
  const isNeeded = (node) => node instanceof HTMLScriptElement || node?.rel === "stylesheet";
  addEventListener("error", ({ target }) => isNeeded(target) && loadAnew(Math.min(FIRST_MS * factor, LONGEST_MS)), true);
  const waiting = setTimeout(() => loadAnew(0), PATIENCE_MS * factor);

  /** Said by the page once all its modules are there. */
  addEventListener(
    "hermes:started",
    () => {
      clearTimeout(waiting);
      if (isEnded) return; // it is loaded anew nevertheless, as for its style
      isEnded = true;
      remember(0);
    },
    { once: true },
  );
})();
