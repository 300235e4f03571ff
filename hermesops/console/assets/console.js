/* Keeps a page as fresh as it says: ages grow by themselves, a change of its content loads it again, and a page whose
   stream is silent is marked as stale. htmx fetches and swaps; its requests carry the header that changes need. */

"use strict";

(() => {
  const STALE_MS = 4000;
  const AGAIN_MS = 15000;
  const LOAD_MS = 10000;
  const UNITS = [["d", 86400, "h", 3600], ["h", 3600, "min", 60], ["min", 60, "s", 1]];

  const body = document.body;
  const badge = document.getElementById("stale");
  const offset = Date.parse(body.dataset.now) - Date.now();
  const {kind, name = ""} = body.dataset;
  let beat = Date.now();
  let loaded = Date.now();
  let isLoading = false;
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

  // A page that cannot be loaded stays as it is: the stream says whether it is stale.
  const load = async () => {
    if (isLoading) return;
    isLoading = true;
    loaded = Date.now();
    try {
      const response = await fetch(location.href, {signal: AbortSignal.timeout(LOAD_MS)});
      if (response.ok) replace(await response.text());
    } catch {
      // as above
    } finally {
      isLoading = false;
    }
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
    stream.addEventListener("change", load);
  };

  const look = () => {
    grow();
    if (!kind) return;
    const silent = Date.now() - beat;
    const isStale = silent > STALE_MS;
    body.classList.toggle("is-stale", isStale);
    badge.hidden = !isStale;
    // Written once, or a screen reader would speak each second.
    if (isStale && !badge.textContent) badge.textContent = "stale: the server does not answer";
    if (!isStale) badge.textContent = "";
    if (stream?.readyState === EventSource.CLOSED && isStale) listen();
    if (!isStale && !document.hidden && Date.now() - loaded > AGAIN_MS) load();
  };

  if (kind) listen();
  addEventListener("pagehide", () => stream?.close());
  addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
  setInterval(look, 1000);
})();
