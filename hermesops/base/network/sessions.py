"""Sessions of requests that reach one address as the home of addresses says."""

from typing import TYPE_CHECKING

from hermesops.base.network.variables import OF_REQUESTS, NetworkVariables

if TYPE_CHECKING:
    from requests import Session


def session(url: str, *, whom: str) -> "Session":
    """A ``requests`` session for one origin; messages name the origin by ``whom``.

    A ``~/.netrc`` means nothing to it: a key that we send must be the one that we mean.

    Raises:
        UsageError: A variable says what cannot be used.
    """
    from requests import Session  # noqa: PLC0415 - loads for a tenth of a second

    variables = NetworkVariables.of_process()
    opened = Session()
    opened.trust_env = False
    opened.proxies = variables.http_proxy_for(url, whom=whom)
    if url.startswith("https:"):
        opened.verify = variables.authorities(*OF_REQUESTS) or True
    return opened
