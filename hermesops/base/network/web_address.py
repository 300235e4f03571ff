"""Exposure of addresses: whether traffic to one could be read or forged on the way. Pure."""

import re
from ipaddress import ip_address
from urllib.parse import parse_qsl, urlsplit

_TRUE = frozenset({"1", "t", "true"})
_WITH_TLS, _IN_CLEAR = frozenset({"https", "rediss"}), frozenset({"http", "redis"})
_USER_INFO = re.compile(r"://[^/?#\s]*@")
"""Source: RFC 3986, section 3.2: user information ends with the last @ before the path."""


def is_loopback(host: str) -> bool:
    """Whether a host is this computer, by its name or its address."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def has_user_info(text: str) -> bool:
    """Whether a URL in a text names a user, or a password, before its host."""
    return bool(_USER_INFO.search(text))


def exposure(url: str) -> str:
    """Why a URL must not be asked with a secret; empty for TLS and for this computer's own services."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return "it is no URL"
    if not host:
        return "it names no host"
    if parts.scheme in _WITH_TLS or (parts.scheme in _IN_CLEAR and is_loopback(host)):
        return ""
    return "it is not encrypted: traffic can be read and changed on the way"


def bucket_exposure(url: str) -> str:
    """As ``exposure``, for the endpoint in a URL such as ``s3://bucket?endpoint=HOST&disableSSL=true``; else empty."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "it is no URL"
    if parts.scheme != "s3":
        return ""
    parameters = dict(parse_qsl(parts.query))
    endpoint = parameters.get("endpoint", "")
    in_clear = any(parameters.get(name, "").lower() in _TRUE for name in ("disableSSL", "disable_https"))
    if not endpoint:
        return "it turns encryption off" if in_clear else ""
    return exposure(endpoint if "://" in endpoint else f"{'http' if in_clear else 'https'}://{endpoint}")


def with_verified_tls(url: str) -> str:
    """A URL of PostgreSQL that insists on the server's certificate and name, unless it says another ``sslmode`` itself.

    A server on this computer is asked as it is. On a Unix socket libpq passes over ``sslmode``.
    Source: PostgreSQL's manual, libpq, "SSL Support": the default, ``prefer``, takes any certificate, or none.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    parameters = parse_qsl(parts.query, keep_blank_values=True)
    hosts = [host for name, value in parameters if name == "host" for host in value.split(",")]
    hosts += [parts.hostname] if parts.hostname else []
    is_here = bool(hosts) and all(host.startswith("/") or _is_here(host) for host in hosts)
    if not parts.scheme.startswith("postgresql") or is_here or any(name == "sslmode" for name, _ in parameters):
        return url
    return f"{url}{'&' if parts.query else '?'}sslmode=verify-full"


def _is_here(host: str) -> bool:
    """Whether a host, with or without a port, is this computer."""
    return is_loopback(host) or is_loopback(host.rpartition(":")[0].strip("[]"))
