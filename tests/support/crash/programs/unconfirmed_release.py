"""Ways to leave a machine alone with a release that nobody confirms, and a look at where it is afterwards.

Everything happens on the machine, so a cut toolbox cuts nothing that counts. A moment is a number from 0 to 1: how far
into the change of release the blow falls.
"""

import json
import random
import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hermesops.base import waiting
from hermesops.errors import HermesError
from hermesops.vendor.channel import Channel
from hermesops.wire.protocol import PROGRAM

CONFIRM_S = 4
_UNIT = "hermes-test-activation"
_FILL = "/var/lib/hermes/.fill /opt/hermes/.fill"
_SWITCH_S = 12.0
"""About how long a change takes from its begin to unconfirmed; blows fall within it, and before its deadline."""

BLOWS: Mapping[str, str] = {
    "controller gone": ":",
    "toolbox and firewall cut": (
        "nft 'table inet cut { chain i { type filter hook input priority -50; iifname != lo drop; };"
        " chain o { type filter hook output priority -50; oifname != lo drop; }; }';"
        " sleep 9; nft delete table inet cut"
    ),
    "agent killed": "for n in 1 2 3; do systemctl kill --signal=KILL hermes-gateway; sleep 1; done",
    "agent stopped": "systemctl kill --signal=STOP hermes-gateway",
    "reboot": "systemctl reboot --force",
    # Not beneath a data volume: what it is kept in grows, and a disk that is full would break it.
    "disk full": (
        f"for f in {_FILL}; do [ $f = /opt/hermes/.fill ] && mountpoint -q /var/lib/hermes && continue;"
        " fallocate -l $(($(df --output=avail -B1 $(dirname $f) | tail -1) - 4096)) $f;"
        " dd if=/dev/zero of=$f.2 bs=4k 2>/dev/null; done"
    ),
    "node killed": (
        f"systemctl kill --signal=KILL {_UNIT};"
        " for n in 1 2 3; do systemctl kill --signal=KILL hermes-release; sleep 0.7; done"
    ),
    "node killed and what was not synced lost": (
        f"systemctl kill --signal=KILL {_UNIT} hermes-release;"
        " find /etc/hermes-node /etc/hermes /opt/hermes -maxdepth 1 -name '.*.????????????' -type f"
        " -exec truncate -s 0 {} +; truncate -s 0 /var/lib/hermes/gateway_state.json; systemctl reboot --force --force"
    ),
}
"""What happens, by what it is called."""


@dataclass(frozen=True)
class Survived:
    """Where a machine was after a blow.

    Attributes:
        ok: Whether it runs the release of before, and runs it well, with all that was said.
        seconds: From the moment at which nobody could confirm any more.
    """

    blow: str
    timestamp: float
    ok: bool
    seconds: float
    why: str


async def suffer(channel: Channel, release: str, blow: str, timestamp: float) -> Survived:
    """Begin to bring a release, strike, and wait for the machine to be back.

    Args:
        channel: To a machine with an agent that is well.
        release: One that is installed and does not run.
        blow: A key of ``BLOWS``.
        timestamp: When, from 0 to 1.
    """
    before = await _shown(channel)
    messages = await _said(channel)
    delay = timestamp * _SWITCH_S
    script = f"sleep {delay:.2f}; {BLOWS[blow]}"
    words = f"{PROGRAM} release activate {release} --no-trial --confirm-within {CONFIRM_S} --drain 5"
    begin = (
        f"systemctl reset-failed 2>/dev/null; systemd-run --quiet --collect --unit={_UNIT} {words};"
        f" systemd-run --quiet --collect --unit=hermes-test-blow /bin/sh -c {shlex.quote(script)}"
    )
    await channel.run(begin, timeout_s=30)
    await waiting.pause(delay + CONFIRM_S)
    started = time.monotonic()
    back = await _back(channel, before["current"])
    seconds = time.monotonic() - started
    await channel.run(f"rm -f {_FILL} {' '.join(f'{each}.2' for each in _FILL.split())}", timeout_s=30)
    well = await _is_well(channel)  # no agent is well while its disk is full
    why = "" if back and well else json.dumps(await _shown(channel))
    now = await _said(channel)
    if now != messages:
        why += f" said {messages}, and now {now}"
    return Survived(blow, timestamp, not why, seconds, why)


async def _back(channel: Channel, release: str) -> bool:
    async def observe() -> bool | waiting.Pending[bool]:
        try:
            shown = await _shown(channel)
        except (HermesError, ValueError) as error:
            return waiting.Pending(str(error))
        if shown["activation"] is None and shown["current"] == release:
            busy = await channel.run(f"systemctl is-active {_UNIT} hermes-test-blow", timeout_s=30)
            if b"activ" not in busy.stdout.replace(b"inactive", b""):
                return True
        return waiting.Pending(json.dumps(shown["activation"]))

    try:
        return await waiting.until(observe, what="the release of before", timeout_s=150, every_s=0.5)
    except HermesError:
        return False


async def _is_well(channel: Channel) -> bool:
    async def observe() -> bool | waiting.Pending[bool]:
        try:
            done = await channel.run(f"{PROGRAM} health", timeout_s=30)
        except HermesError as error:
            return waiting.Pending(str(error))
        return True if done.exit_code == 0 else waiting.Pending(done.text)

    try:
        return await waiting.until(observe, what="a gateway that is well", timeout_s=90, every_s=0.5)
    except HermesError:
        return False


async def _shown(channel: Channel) -> dict[str, Any]:
    done = await channel.run(f"{PROGRAM} release show", timeout_s=30)
    shown: dict[str, Any] = json.loads(done.stdout)
    return shown


async def _said(channel: Channel) -> Any:  # noqa: ANN401 - JSON
    done = await channel.run(f"{PROGRAM} state", timeout_s=60)
    return json.loads(done.stdout)["state"]["messages"] if done.exit_code == 0 else None


def timestamps(count: int, seed: int) -> list[tuple[str, float]]:
    """So many blows, each kind as often as the others, at moments that the seed chooses."""
    chance = random.Random(seed)  # noqa: S311 - a choice of tests
    names = list(BLOWS)
    return [(names[number % len(names)], chance.random()) for number in range(count)]
