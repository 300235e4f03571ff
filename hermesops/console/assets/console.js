/* Keeps a page as fresh as it says: ages grow by themselves, a change of its content loads it again, and a page whose
   stream is silent, or that cannot be loaded again, is marked as stale. A page that nobody sees has no stream: browsers
   open six connections to a host. htmx fetches and swaps; its requests carry the header that changes need. */

"use strict";

(() => {
  const STALE_MS = 4000;
  const AGAIN_MS = 15000;
  const LOAD_MS = 10000;
  const RETRY_MS = 1000;
  // A page whose content is the same is swapped so seldom: figures in reasons grow, and selections end.
  const SAME_MS = 60000;
  // Seconds for which a clock may be ahead: nearer times are now.
  const AHEAD_S = 5;
  const UNITS = [["d", 86400, "h", 3600], ["h", 3600, "min", 60], ["min", 60, "s", 1]];

  const body = document.body;
  const badge = document.getElementById("stale");
  const offset = Date.parse(body.dataset.now) - Date.now();
  const {kind, name = ""} = body.dataset;
  let beat = Date.now();
  let loaded = Date.now();
  let isLoading = false;
  // Changes that the stream has named, and since when the page shows less than the newest of them.
  let changes = 0;
  let behind = 0;
  let swapped = Date.now();
  let isSignedOut = false;
  // Loads that failed one after another: each waits twice as long, as the server may have too much to do.
  let failures = 0;
  let stream;

  const span = (seconds) => {
    for (const [large, many, small, few] of UNITS) {
      if (seconds >= many) return `${Math.floor(seconds / many)} ${large} ${Math.floor((seconds % many) / few)} ${small}`;
    }
    return `${seconds} s`;
  };

  const grow = () => {
    for (const time of document.querySelectorAll("time[data-age]")) {
      const seconds = Math.floor((Date.now() + offset - Date.parse(time.dateTime)) / 1000);
      time.textContent = seconds < -AHEAD_S ? `in ${span(-seconds)}` : span(Math.max(0, seconds));
    }
  };

  // A page that cannot be loaded stays as it is, and is loaded again: the look of each second does both.
  const load = async () => {
    if (isLoading) return;
    const known = changes;
    isLoading = true;
    loaded = Date.now();
    try {
      const response = await fetch(location.href, {signal: AbortSignal.timeout(LOAD_MS)});
      isSignedOut = response.status === 401;
      failures = response.ok ? 0 : failures + 1;
      if (response.ok) replace(await response.text());
      if (response.ok && known === changes) behind = 0;
    } catch {
      failures += 1;
    } finally {
      isLoading = false;
    }
  };

  const change = () => {
    changes += 1;
    behind ||= Date.now();
    load();
  };

  const replace = (text) => {
    const live = document.getElementById("live");
    const isSame = text.includes(`data-digest="${live.dataset.digest}"`);
    const isSelected = !getSelection().isCollapsed && live.contains(getSelection().anchorNode);
    if (isSame && (isSelected || Date.now() - swapped < SAME_MS)) return;
    swapped = Date.now();
    const open = [...live.querySelectorAll("details[open]")].map(({id}) => id);
    const at = places(live).indexOf(document.activeElement);
    htmx.swap("#live", text, {swapStyle: "outerHTML"}, {select: "#live"});
    for (const id of open) document.getElementById(id)?.setAttribute("open", "");
    if (at >= 0 && document.activeElement === body) {
      places(document.getElementById("live"))[at]?.focus({preventScroll: true});
    }
  };

  // Where the keyboard can be: htmx keeps the focus of elements with an id alone.
  const places = (element) => [...element.querySelectorAll("a[href], button, input, select, summary")];

  const listen = () => {
    const digest = document.getElementById("live").dataset.digest;
    stream = new EventSource(`/console/events?${new URLSearchParams({kind, name, digest})}`);
    stream.addEventListener("beat", () => { beat = Date.now(); });
    stream.addEventListener("change", change);
  };

  const seen = () => {
    stream?.close();
    if (document.hidden) return;
    beat = Date.now();
    listen();
  };

  const look = () => {
    grow();
    if (!kind) return;
    if (document.hidden) return;
    const now = Date.now();
    const isStale = now - beat > STALE_MS || (behind > 0 && now - behind > STALE_MS);
    body.classList.toggle("is-stale", isStale);
    badge.hidden = !isStale;
    // Written once, or a screen reader would speak each second.
    const words = isSignedOut ? "Signed out: " : "Not updated: no answer from the server.";
    if (isStale && !badge.textContent.startsWith(words)) {
      badge.replaceChildren(words, ...(isSignedOut ? [link(location.href, "sign in")] : []));
    }
    if (!isStale) badge.textContent = "";
    if (stream?.readyState === EventSource.CLOSED && isStale) listen();
    // A stream that was refused says not why: a load does.
    const wait = behind || isStale ? Math.min(AGAIN_MS, RETRY_MS * 2 ** failures) : AGAIN_MS;
    if (now - loaded > wait) load();
  };

  const link = (href, text) => Object.assign(document.createElement("a"), {href, textContent: text});

  // A part of a page, or an action, whose answer is missing or no page of ours: said where it was asked for.
  const explain = (event) => {
    const {xhr} = event.detail;
    const elt = event.detail.requestConfig.elt;
    const place = elt.getAttribute("hx-target") === "this" ? elt : document.querySelector("#outcome") ?? failed;
    const notice = Object.assign(document.createElement("p"), {className: "notice"});
    const status = xhr?.status ?? 0;
    if (status === 401) notice.append("Signed out: ", link(location.href, "sign in"));
    else if (place === elt) notice.append("Not loaded", status ? ` (${status}). ` : ": no answer. ", link(location.href, "Load again"));
    else if (status && status < 500) notice.append(`Refused (${status}): ${xhr.responseText.slice(0, 200)}`);
    else notice.append("No answer: the change may have begun. Do not repeat it before you have looked at ", link("/console/operations", "operations"), ".");
    place.replaceChildren(...[...place.querySelectorAll(":scope > h2")].slice(0, 1), notice);
  };

  const failed = document.getElementById("failed");
  body.addEventListener("htmx:sendError", explain);
  body.addEventListener("htmx:timeout", explain);
  body.addEventListener("htmx:beforeSwap", (event) => {
    const {xhr} = event.detail;
    if (xhr.status < 400) return;
    const isPart = event.detail.requestConfig.elt.getAttribute("hx-target") === "this";
    if (!isPart && xhr.responseText.includes('id="problem"')) return;
    event.detail.shouldSwap = false;
    explain(event);
  });

  if (kind) {
    seen();
    document.addEventListener("visibilitychange", seen);
  }
  addEventListener("pagehide", () => stream?.close());
  addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
  setInterval(look, 1000);
})();
