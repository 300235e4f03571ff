/** Requests to the users' API, with the session's cookie, and its refusals as problems. */

const BASE = "/api/hermes";
const TIMEOUT_MS = 20_000;
const LONGEST_PROBLEM = 20_000;

/** A request that the API refused, or that got no answer: status 0. */
export class Problem extends Error {
  /**
   * @param {number} status
   * @param {{code?: string, detail?: string, request_id?: string}} [body] of RFC 9457
   * @param {number|null} [retryAfterS]
   */
  constructor(status, body = {}, retryAfterS = null) {
    super(typeof body.detail === "string" ? body.detail : "");
    this.status = status;
    this.code = typeof body.code === "string" ? body.code : "";
    this.requestId = typeof body.request_id === "string" ? body.request_id : "";
    this.retryAfterS = retryAfterS;
  }

  /** Whether the same request may succeed later without anybody's doing. */
  get isPassing() {
    return [0, 429, 502, 503, 504].includes(this.status);
  }

  get isSignedOut() {
    return this.status === 401;
  }

  /** Whether the API has no such thing at all. */
  get isAbsent() {
    return this.code === "not-here-yet" || [404, 405, 501].includes(this.status) && this.code !== "no-agent";
  }
}

/**
 * Ask for JSON.
 *
 * @param {"GET"|"POST"|"PATCH"|"DELETE"} method
 * @param {string} path below the API's base
 * @param {{body?: object, headers?: Record<string, string>, timeoutMs?: number}} [options]
 * @returns {Promise<{data: any, etag: string|null, status: number}>} data is null for an empty answer
 * @throws {Problem}
 */
export async function ask(method, path, { body, headers = {}, timeoutMs = TIMEOUT_MS } = {}) {
  const response = await send(method, path, { body, headers, signal: AbortSignal.timeout(timeoutMs) });
  try {
    const text = await response.text();
    return { data: text ? JSON.parse(text) : null, etag: response.headers.get("etag"), status: response.status };
  } catch {
    throw new Problem(0);
  }
}

/**
 * Send a request and return its answer unread, for streams.
 *
 * @throws {Problem} of a refusal, or of status 0 where no answer came
 */
export async function send(method, path, { body, headers = {}, signal } = {}) {
  let response;
  try {
    response = await fetch(BASE + path, {
      method,
      signal,
      cache: "no-store",
      credentials: "same-origin",
      redirect: "error",
      headers: { ...headersOf(method, body), ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    throw new Problem(0);
  }
  if (!response.ok) throw problemOf(response.status, await textOf(response), response.headers.get("retry-after"));
  return response;
}

/**
 * Upload a file.
 *
 * XMLHttpRequest, because fetch does not report how much was sent.
 *
 * @param {File} file
 * @param {(share: number) => void} onProgress share from 0 to 1
 * @param {AbortSignal} signal
 * @returns {Promise<{id: string, name: string, bytes: number, kind: string}>}
 * @throws {Problem}
 */
export function upload(file, onProgress, signal) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    const form = new FormData();
    form.append("file", file, file.name);
    request.open("POST", `${BASE}/chat/files`);
    for (const [name, value] of Object.entries(headersOf("POST", undefined))) request.setRequestHeader(name, value);
    request.upload.onprogress = ({ loaded, total }) => onProgress(total ? loaded / total : 0);
    request.onload = () => {
      if (request.status >= 300)
        return reject(problemOf(request.status, request.responseText, request.getResponseHeader("retry-after")));
      try {
        return resolve(JSON.parse(request.responseText));
      } catch {
        return reject(new Problem(0));
      }
    };
    request.onerror = request.onabort = request.ontimeout = () => reject(new Problem(0));
    signal.addEventListener("abort", () => request.abort());
    request.send(form);
  });
}

/** A cross-site form cannot send the first header; the server asks for it on each unsafe method. */
function headersOf(method, body) {
  const headers = method === "GET" ? {} : { "X-Hermes-Request": "1" };
  return body === undefined ? headers : { ...headers, "Content-Type": "application/json" };
}

function problemOf(status, text, retryAfter) {
  let body = {};
  try {
    body = JSON.parse(text.slice(0, LONGEST_PROBLEM)) ?? {};
  } catch {
    // Something between here and the API answered: the status alone says what.
  }
  return new Problem(status, body, /^\d{1,6}$/.test(retryAfter ?? "") ? Number(retryAfter) : null);
}

async function textOf(response) {
  try {
    return await response.text();
  } catch {
    return "";
  }
}
