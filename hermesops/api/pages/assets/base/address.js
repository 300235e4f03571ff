/** Addresses of other sites that the server names. */

/** Whether the page may send the browser there: over TLS, or to this computer, as in a local world. */
export function mayOpen(address) {
  const { protocol, hostname } = URL.canParse(address) ? new URL(address) : {};
  return protocol === "https:" || (protocol === "http:" && ["localhost", "127.0.0.1"].includes(hostname));
}
