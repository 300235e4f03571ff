/* Keeps a page as fresh as it says: ages grow by themselves, a change of its content loads it again, and a page whose
   stream is silent, or that cannot be loaded again, is marked as stale. A page that nobody sees has no stream: browsers
   open six connections to a host. htmx fetches and swaps; its requests carry the header that changes need. */

"use strict";

(() => {
  const STALE_MS = 4000;
  const AGAIN_MS = 15000;
  const LOAD_MS = 10000;
  const RETRY_MS = 1000;
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
      time.textContent = span(Math.max(0, seconds));
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
      if (response.ok) replace(await response.text());
      if (response.ok && known === changes) behind = 0;
    } catch {
      // as above
    } finally {
      isLoading = false;
    }
    if (known !== changes) load();
  };

  const change = () => {
    changes += 1;
    behind ||= Date.now();
    load();
  };

  const replace = (text) => {
    const open = [...document.querySelectorAll("#live details[open]")].map(({id}) => id);
    htmx.swap("#live", text, {swapStyle: "outerHTML"}, {select: "#live"});
    for (const id of open) document.getElementById(id)?.setAttribute("open", "");
  };

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
    if (isStale && !badge.textContent) badge.textContent = "stale: the server does not answer";
    if (!isStale) badge.textContent = "";
    if (stream?.readyState === EventSource.CLOSED && isStale) listen();
    const wait = behind ? RETRY_MS : AGAIN_MS;
    if ((behind || !isStale) && now - loaded > wait) load();
  };

  if (kind) {
    seen();
    document.addEventListener("visibilitychange", seen);
  }
  addEventListener("pagehide", () => stream?.close());
  addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
  setInterval(look, 1000);
})();
