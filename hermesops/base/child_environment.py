"""Makes the environments of child processes: listed variables and additions, never the whole environment.

Beside a proxy they get the addresses that it must not be asked for, since each program would ask it for this computer.

A variable of ours may hold a key of the whole fleet, and a child hands its environment on to children of its own. So a
name is passed on because a program needs it. Three modules read the process's variables: ``settings`` what hermesops
takes, this one what other people's programs take, ``network.variables`` what libraries take.
"""

import os
import platform
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatchcase

Names = tuple[str, ...]
"""Names of variables; ``*`` stands for any end of a name."""

BASE: Names = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR")
"""What any program may see: where it finds others, whose it runs as, and how it writes."""

_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")

_THIS_COMPUTER = ("localhost", "127.0.0.1", "127.0.0.0/8", "::1")
"""Its own addresses, in every way that programs read: curl, Go and pip know networks, Ansible names and addresses."""

NETWORK: Names = (
    *_PROXIES,
    *(name.lower() for name in _PROXIES),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
)
"""What reaches other hosts: proxies, which may hold a password, and authorities."""

PACKAGES: Names = (*NETWORK, "PIP_*", "UV_*", "NETRC", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "XDG_CACHE_HOME")
"""What pip and uv are set up by, an index's password included."""

NPM: Names = (*NETWORK, "NPM_CONFIG_*", "npm_config_*")
"""What npm is set up by, a registry's password included."""

GO: Names = (
    *NETWORK,
    *("GOPROXY", "GOSUMDB", "GONOSUMDB", "GONOPROXY", "GOPRIVATE", "GOINSECURE", "GOVCS", "GOAUTH", "NETRC"),
    *("GOFLAGS", "GOENV", "GOROOT", "GOPATH", "GOCACHE", "GOMODCACHE", "GOTMPDIR", "GOTOOLCHAIN", "XDG_CACHE_HOME"),
)
"""What Go's build is set up by. Source: ``go help environment`` of Go 1.24."""

PULUMI: Names = (*NETWORK, "PULUMI_HOME", "PULUMI_DEBUG_*", "PULUMI_OPTION_*")
"""What Pulumi's CLI and its plugins are set up by, without its passphrase and token."""

BUCKET: Names = ("AWS_*",)
"""What opens a bucket by Amazon's own rules: only for a program that has to read or write one by itself."""

SSH_AGENT: Names = ("SSH_AUTH_SOCK",)
"""Where the operator's ssh-agent signs."""

_NEVER: Names = ("UV_PUBLISH_*",)
"""What the patterns above would take by accident: keys for writing to an index."""


def made(
    *names: Names, variables: Mapping[str, str] | None = None, added: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The environment of one child: ``BASE``, the variables that ``names`` list, and ``added``, which wins.

    Args:
        names: Further lists of this module.
        variables: What is chosen from; the process's own unless given.
        added: What this child alone needs.
    """
    patterns = [*BASE, *(pattern for group in names for pattern in group)]
    source = os.environ if variables is None else variables
    taken = {name: text for name, text in source.items() if _matches(name, patterns) and not _matches(name, _NEVER)}
    return {**taken, **_past_proxies(taken), **(added or {})}


def _past_proxies(taken: Mapping[str, str]) -> dict[str, str]:
    """Where a proxy is named: the variables that keep this computer's own addresses from it."""
    if not any(taken.get(name) for proxy in _PROXIES[:3] for name in (proxy, proxy.lower())):
        return {}
    exceptions = taken.get("no_proxy", taken.get("NO_PROXY", ""))
    entries = [entry for entry in exceptions.replace(",", " ").split() if entry not in _THIS_COMPUTER]
    value = "*" if "*" in entries else ",".join([*entries, *_THIS_COMPUTER])
    return {"no_proxy": value, "NO_PROXY": value}


def not_ours(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables of a child's environment that differ from this process's environment, as libraries changed them."""
    return {name: text for name, text in environment.items() if os.environ.get(name) != text}


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


@contextmanager
def without_asking_for_architecture() -> Iterator[None]:
    """While the block lasts, ``platform.architecture`` starts no program: it raises ``RuntimeError``.

    It asks the program ``file``, and hands it our whole environment. croniter 6, which dbos imports, does that at its
    import; where it raises, it goes by the size of a pointer. Source: ``is_32bit`` in ``croniter/croniter.py``.
    """
    before = vars(platform)["architecture"]

    def refuse() -> None:
        raise RuntimeError("no program is asked")

    vars(platform)["architecture"] = refuse
    try:
        yield
    finally:
        vars(platform)["architecture"] = before
