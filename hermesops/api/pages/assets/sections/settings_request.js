/** A change of settings, from its request until the agent has it. */

import { Problem, ask } from "../base/api.js";

const LOOK_AGAIN_MS = 1000;
const MOST_LOOKS = 60;

/**
 * Ask for a change and wait until the agent has it.
 *
 * @param {Node} shown gives up once it is no longer on the page
 * @returns {Promise<boolean>} false where that takes longer than usual
 * @throws {Problem} once it is refused
 */
export async function change(shown, changes, etag) {
  const { data } = await ask("PATCH", "/settings", { body: changes, headers: { "If-Match": etag } });
  return isTaken(shown, data.request);
}

async function isTaken(shown, request) {
  for (let look = 0; look < MOST_LOOKS && shown.isConnected; look += 1) {
    const { data } = await ask("GET", `/requests/${encodeURIComponent(request)}`);
    if (data.state === "done") return true;
    if (data.state === "refused") throw new Problem(409, { code: data.code ?? "", detail: data.detail });
    await new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS));
  }
  return false;
}
