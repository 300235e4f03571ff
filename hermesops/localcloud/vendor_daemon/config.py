"""What the vendor writes per machine for its daemon: where to listen, whom to answer."""

import json
from dataclasses import dataclass, field
from pathlib import Path

PATH = Path("/etc/justavps/daemon.json")
BOOTSTRAPPED = Path("/var/lib/justavps/bootstrapped")
"""Exists once the machine's own init script has ended well, or when it has none."""


@dataclass(frozen=True)
class Config:
    """Settings of one machine's daemon.

    Attributes:
        address: The machine's own address; the daemon listens nowhere else.
        broker: The only peer whose connections are answered.
        token: Bearer that every request carries.
    """

    address: str
    port: int
    broker: str
    token: str = field(repr=False)


def load(path: Path = PATH) -> Config:
    """Read the file the vendor wrote before the first boot."""
    raw = json.loads(path.read_text(encoding="utf-8"))
    return Config(address=raw["address"], port=int(raw["port"]), broker=raw["broker"], token=raw["token"])
