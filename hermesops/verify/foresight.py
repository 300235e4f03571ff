"""Knows which commands promises will run, by rehearsing them on a machine that does not exist.

The rehearsal answers as a healthy machine might. An answer that does not fit only ends a look early; what it would have
asked next is then run directly, so a bad guess costs a round trip and never a verdict.
"""

import contextlib
import re
from collections.abc import Iterable

from hermesops.channel import Completed
from hermesops.verify.backend import ChannelBackend
from hermesops.verify.promise import Expected, Promise

_HEALTHY = (
    (re.compile(r"uname -s"), "Linux"),
    (re.compile(r"uname -m"), "x86_64"),
    (re.compile(r"cat /etc/os-release"), "ID=debian"),
    (re.compile(r"systemctl is-active "), "active"),
    (re.compile(r"systemctl is-enabled "), "enabled"),
    (re.compile(r"nft "), '{"nftables": [{"chain": {"hook": "input", "policy": "drop"}}]}'),
    (re.compile(r"df "), "1%"),
    (re.compile(r"python3 "), "{}"),
)


def commands_of(promises: Iterable[Promise], expected: Expected) -> tuple[str, ...]:
    """Every command the promises run, once each, in the order in which they ask."""
    rehearsal = ChannelBackend("nowhere", _answer)
    host = rehearsal.host()
    for promise in promises:
        # Whatever a look makes of an invented answer: it is what it asked for that counts.
        with contextlib.suppress(Exception):
            promise.look(host, expected)
    return tuple(dict.fromkeys(rehearsal.direct))


def _answer(command: str) -> Completed:
    fitting = (text for pattern, text in _HEALTHY if pattern.match(command))
    return Completed(0, next(fitting, "").encode(), b"")
