"""Variables of the operator's shell that say how other hosts are reached: proxies and authorities.

It reads the files that they name, and asks nobody.
"""

import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from pathlib import Path
from urllib.parse import urlsplit

from hermesops.base.network.web_address import is_loopback
from hermesops.errors import Hint, UsageError

PROXIES = ("https_proxy", "http_proxy", "all_proxy")
"""By the scheme of an address, then for every scheme; each in lower case or in capitals, where lower case wins."""

NO_PROXY = "no_proxy"
OF_HTTPX = ("SSL_CERT_FILE", "SSL_CERT_DIR")
OF_REQUESTS = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
OF_AWS = ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE")
"""Where each library looks for authorities; the first one that is set counts."""

_SCHEMES = ("http", "https", "socks5", "socks5h")
_PORTS = {"http": 80, "https": 443}
_SHOWN = 120
"""Characters of a value that a message repeats."""


@dataclass(frozen=True)
class Proxy:
    """A proxy that a variable names.

    Attributes:
        variable: As the shell has it.
        url: With its scheme; it may hold a password.
    """

    variable: str
    url: str = field(repr=False)

    @property
    def shown(self) -> str:
        """The URL without user and password."""
        return without_password(self.url)

    @property
    def is_socks(self) -> bool:
        """Whether the proxy speaks SOCKS, by the scheme of its URL."""
        return self.url.lower().startswith("socks")


@dataclass(frozen=True)
class NetworkVariables:
    """The variables of one process.

    Attributes:
        values: All variables; empty ones count as unset, except that an empty proxy hides the one in capitals.
    """

    values: Mapping[str, str] = field(repr=False)

    @classmethod
    def of_process(cls) -> "NetworkVariables":
        """Read the environment variables of this process, as they are now."""
        return cls(dict(os.environ))

    def proxy_for(self, url: str) -> Proxy | None:
        """The proxy through which a URL is asked; none for this computer's own addresses.

        Raises:
            UsageError: The variable names none.
        """
        if self.is_direct(url):
            return None
        return self.proxy(f"{urlsplit(url).scheme}_proxy") or self.proxy("all_proxy")

    def http_proxy_for(self, url: str, *, whom: str) -> dict[str, str]:
        """The proxy for a library without SOCKS, keyed by scheme; empty for none.

        Args:
            whom: Who is asked, as a message names it.

        Raises:
            UsageError: The variable names none, or one that speaks SOCKS.
        """
        proxy = self.proxy_for(url)
        if proxy is None:
            return {}
        if proxy.is_socks:
            raise unusable(proxy.variable, proxy.url, f"and {whom} cannot be reached through a SOCKS proxy")
        return {"http": proxy.url, "https": proxy.url}

    def is_direct(self, url: str) -> bool:
        """Whether a URL is asked without any proxy: it is this computer's own, excepted, or no URL at all."""
        try:
            parts = urlsplit(url)
            host, port = (parts.hostname or "").rstrip("."), parts.port or _PORTS.get(parts.scheme)
        except ValueError:
            return True
        return is_loopback(host) or any(is_excepted(entry, host, port) for entry in self.exceptions()[1])

    def proxy(self, name: str) -> Proxy | None:
        """The proxy that a variable names, in lower case or in capitals.

        Raises:
            UsageError: Its value is no URL of a proxy.
        """
        variable, value = self._either(name)
        return proxy_of(variable, value) if value else None

    def exceptions(self) -> tuple[str, tuple[str, ...]]:
        """The variable that names hosts without a proxy, and its entries."""
        variable, value = self._either(NO_PROXY)
        return variable, tuple(value.replace(",", " ").split())

    def authorities(self, *names: str) -> str | None:
        """The file or folder of authorities that the first of ``names`` names; ``None`` for the usual ones.

        Raises:
            UsageError: There is none, or it holds no certificates.
        """
        name = next(filter(self.values.get, names), None)
        if name is None:
            return None
        context_of(name, self.values[name])
        return self.values[name]

    def tls_context(self) -> ssl.SSLContext:
        """A TLS context for any host: the authorities of ``SSL_CERT_FILE`` or ``SSL_CERT_DIR``, or the usual ones.

        Raises:
            UsageError: One of them names what cannot be used.
        """
        import certifi  # noqa: PLC0415 - of use only where TLS is

        name = next(filter(self.values.get, OF_HTTPX), None)
        return context_of(name, self.values[name]) if name else ssl.create_default_context(cafile=certifi.where())

    def _either(self, name: str) -> tuple[str, str]:
        variable = name if name in self.values else name.upper()
        return variable, self.values.get(variable, "").strip()


def proxy_hint(proxy: Proxy) -> Hint:
    """The hint for a failing proxy: change the variable, as a retry cannot help."""
    return Hint(f"mend or unset {proxy.variable};", ("doctor",), "shows whether the proxy answers")


def proxy_of(variable: str, value: str) -> Proxy:
    """The proxy that a value names; without a scheme it speaks HTTP.

    Raises:
        UsageError: It is no URL of a proxy.
    """
    url = value if "://" in value else f"http://{value}"
    if why := _unusable(url):
        raise unusable(variable, value, why)
    return Proxy(variable, url)


def is_excepted(entry: str, host: str, port: int | None) -> bool:
    """Whether an entry of ``NO_PROXY`` means a host: ``*``, a name and all below it, an address, a network. Pure.

    A port counts where the entry has one. An entry that cannot be read means no host.
    """
    if entry == "*":
        return True
    name, its_port = _split(entry)
    if its_port and its_port != str(port):
        return False
    try:
        network = ip_network(name, strict=False)
    except ValueError:
        domain = name.lower().removeprefix("*").strip(".")
        return bool(domain) and (host == domain or host.endswith(f".{domain}"))
    try:
        return ip_address(host) in network
    except ValueError:
        return False


def is_readable(entry: str) -> bool:
    """Whether an entry of ``NO_PROXY`` can mean a host at all. Pure."""
    name, _ = _split(entry)
    try:
        ip_network(name, strict=False)
    except ValueError:
        return not set("/:[]") & set(name)
    return True


def _split(entry: str) -> tuple[str, str]:
    """Name and port of an entry; an address of IPv6 may stand in brackets, and must where a port follows."""
    if entry.startswith("["):
        name, _, rest = entry[1:].partition("]")
        return (f"{name}{rest}", "") if rest.startswith("/") else (name, rest.removeprefix(":"))
    name, _, port = entry.rpartition(":")
    return (name, port) if name and ":" not in name and port.isdecimal() else (entry, "")


def context_of(name: str, value: str) -> ssl.SSLContext:
    """A TLS context that trusts the authorities of a file or of folders, as a variable names them.

    Raises:
        UsageError: There is none, or it holds no certificates.
    """
    try:
        if all(Path(folder).is_dir() for folder in value.split(os.pathsep)):
            return ssl.create_default_context(capath=value)
        return ssl.create_default_context(cafile=value)
    except ssl.SSLError as error:
        raise unusable(name, value, "which holds no certificates") from error
    except OSError as error:
        raise unusable(name, value, f"which cannot be read ({error.strerror})") from error


def unusable(name: str, value: str, why: str) -> UsageError:
    """The error for an unusable value of a variable."""
    return UsageError(
        f"{name} is {without_password(value)[:_SHOWN]!r}, {why}",
        hint=Hint(f"mend or unset {name};", ("doctor",), "shows how these variables act"),
    )


def without_password(url: str) -> str:
    """A URL, or a text meant as one, without the part before an @."""
    return re.sub(r"^([a-z0-9+.-]*://)?.*@", r"\1", url, flags=re.IGNORECASE | re.DOTALL)


def _unusable(url: str) -> str:
    """Why a URL is none of a proxy; empty when it may be one."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        return f"which is no URL ({error})"
    if parts.scheme not in _SCHEMES:
        return f"which is not the URL of a proxy: schemes are {', '.join(_SCHEMES)}"
    return "" if host else "which names no host"
