"""Knows which commands promises will run, by rehearsing them on a machine that does not exist.

The rehearsal answers as a healthy machine might. An answer that does not fit only ends a look early; what it would have
asked next is then run directly, so a bad guess costs a round trip and never a verdict.
"""

import contextlib
from collections.abc import Iterable

from hermesops.channel import Completed
from hermesops.verify.backend import ChannelBackend
from hermesops.verify.checks.promise import Expected, Promise

_HEALTHY = (
    ("uname -s", "Linux"),
    ("uname -m", "x86_64"),
    ("cat /etc/os-release", "ID=debian"),
    ("systemctl is-active ", "active"),
    ("systemctl is-enabled ", "enabled"),
    ("nft ", '{"nftables": [{"chain": {"hook": "input", "policy": "drop"}}]}'),
    ("df ", "1% 1%"),
    ("python3 ", "{}"),
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
    if command.startswith("systemctl show "):
        units = command.removeprefix("systemctl show ").partition(" --")[0].split()
        return Completed(0, "\n\n".join(f"Id={unit}" for unit in units).encode(), b"")
    fitting = (text for beginning, text in _HEALTHY if command.startswith(beginning))
    return Completed(0, next(fitting, "").encode(), b"")
