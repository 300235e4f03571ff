"""Checks the variables of the shell that say how other hosts are reached, and asks whether their proxies answer."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import urlsplit

from hermesops.base.network.variables import (
    OF_AWS,
    OF_HTTPX,
    OF_REQUESTS,
    PROXIES,
    NetworkVariables,
    Proxy,
    context_of,
    is_readable,
)
from hermesops.errors import Hint, UnavailableError, UsageError

_ANSWERS_S = 5.0
_DEFAULT_PORT = 1080
_PORTS = {"http": 80, "https": 443}
_USED_BY = {
    "JustAVPS": OF_HTTPX,
    "Stripe and Prometheus": OF_REQUESTS,
    "AWS": OF_AWS,
}
_ELSEWHERE = ("grpc_proxy", "GRPC_PROXY")


async def check_network(variables: NetworkVariables, api_url: str) -> str:
    """How these variables act, in a few words.

    Args:
        api_url: Of JustAVPS; empty where it is not known.

    Raises:
        UsageError: One of them cannot be used, or JustAVPS's proxy does not answer.
        UnavailableError: Another proxy does not answer.
    """
    refuse_unusable(variables)
    needed = variables.proxy_for(api_url) if api_url else None
    for proxy in {proxy for name in PROXIES if (proxy := variables.proxy(name))}:
        await _require_answer(proxy, is_needed=needed is not None and needed.url == proxy.url)
    return "; ".join(_sentences(variables, api_url)) or "no variable names a proxy or authorities"


def refuse_unusable(variables: NetworkVariables) -> None:
    """Go on if every variable can be used.

    Raises:
        UsageError: Some cannot; it names each.
    """
    problems = dict[str, str]()
    for name in PROXIES:
        try:
            variables.proxy(name)
        except UsageError as error:
            problems[error.message.partition(" ")[0]] = error.message
    for name in sorted({*OF_HTTPX, *OF_REQUESTS, *OF_AWS}):
        try:
            if value := variables.values.get(name):
                context_of(name, value)
        except UsageError as error:
            problems[name] = error.message
    if problems:
        raise UsageError("; ".join(problems.values()), hint=f"mend or unset {', '.join(problems)}")


async def _require_answer(proxy: Proxy, *, is_needed: bool) -> None:
    parts = urlsplit(proxy.url)
    try:
        async with asyncio.timeout(_ANSWERS_S):
            _, writer = await asyncio.open_connection(
                parts.hostname, parts.port or _PORTS.get(parts.scheme, _DEFAULT_PORT)
            )
    except (OSError, TimeoutError) as error:
        why = getattr(error, "strerror", None) or f"no answer within {_ANSWERS_S:g} s"
        message = f"the proxy {proxy.shown}, which {proxy.variable} names, does not answer: {why}"
        kind = UsageError if is_needed else UnavailableError
        raise kind(message, hint=Hint(f"mend or unset {proxy.variable}")) from error
    with closing(writer):
        pass


def _sentences(variables: NetworkVariables, api_url: str) -> Iterator[str]:
    if api_url and (proxy := variables.proxy_for(api_url)):
        yield f"JustAVPS is asked through {proxy.shown} ({proxy.variable})"
    elif api_url and any(map(variables.proxy, PROXIES)):
        yield "JustAVPS is asked directly"
    for name in PROXIES:
        if proxy := variables.proxy(name):
            yield f"{proxy.variable}: {proxy.shown}"
    variable, entries = variables.exceptions()
    if entries:
        unread = [entry for entry in entries if not is_readable(entry)]
        without = f", without effect: {', '.join(unread)}" if unread else ""
        yield f"{variable}: {len(entries) - len(unread)} exceptions{without}"
    for whom, names in _USED_BY.items():
        yield from (f"{name}: authorities for {whom}" for name in [*filter(variables.values.get, names)][:1])
    if profile := variables.values.get("AWS_PROFILE"):
        yield f"AWS_PROFILE: AWS is asked as {profile}"
    yield from (f"{name}: without effect" for name in _ELSEWHERE if variables.values.get(name))
