/** The sections about the user's agent, in the menu's order. */

import { callers } from "./callers.js";
import { jobs } from "./jobs.js";
import { messengers } from "./messengers.js";
import { connections } from "./connections.js";
import { plan } from "./plan.js";
import { settings } from "./settings.js";
import { usage } from "./usage.js";

/**
 * @typedef {object} Section
 * @property {string} path in the page's address
 * @property {string} title
 * @property {() => Promise<boolean>} isThere whether this API has it
 * @property {(box: HTMLElement) => Promise<void>} show
 */

/** @type {Section[]} */
export const SECTIONS = [plan, usage, settings, jobs, connections, messengers, callers];
