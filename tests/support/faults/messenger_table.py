"""Faults of messengers in a local world of real machines: its connector, its stand-in of Telegram, agents' sockets.

The world's phone is one person's, ada's: alerts that need several users have their tests in ``tests.support.alerts``.
"""

import os
import signal
from pathlib import Path
from typing import Any

from hermesops.base.network.http import own_client
from hermesops.base.waiting import Pending, until
from hermesops.localcloud.world.files import WorldFiles, read_object
from tests.support.faults.chains import Act, Chain, both, commands, on_machine
from tests.support.faults.watched import WatchedFleet

_GATEWAY = "hermes-gateway.service"
_FOR_LONG = ("--for", "3600")
_CLEAR = commands(("local", "fault", "clear"))
_LATER_S = 240.0
_QUIET_S = 1200.0
_WRONG_SECRET = (
    f"sed -i 's/^GATEWAY_RELAY_SECRET=.*/GATEWAY_RELAY_SECRET={'0' * 64}/' /etc/hermes/.env; "
    f"systemctl restart {_GATEWAY}"
)
_LOOKS_S = 900.0
"""Seconds within which an alert fires that counts answers after five minutes, which nothing scales."""


async def _phone(fleet: WatchedFleet, action: str, **body: str) -> None:
    facts: dict[str, Any] = read_object(WorldFiles(fleet.command.home / "local" / "world").world) or {}
    url = str(facts["phone_url"])
    origin = url.split("/phone/", maxsplit=1)[0]
    async with own_client(timeout=30) as http:
        done = await http.post(f"{url}messengers/telegram/{action}", json=body, headers={"origin": origin})
        assert done.status_code == 202, done.text


async def _counts(fleet: WatchedFleet) -> dict[str, Any]:
    counts: dict[str, Any] = await fleet.ok("connector", "status")
    return counts


async def _linked(fleet: WatchedFleet, user: str) -> None:
    """The user's account is linked, and every agent that should have a socket has one."""

    async def look() -> bool | Pending[bool]:
        counts = await _counts(fleet)
        is_linked = any(each["linked"] for each in counts["messengers"])
        return (is_linked and counts["agents"] == counts["sockets"]) or Pending(str(counts))

    if not any(each["linked"] for each in (await _counts(fleet))["messengers"]):
        code = fleet.container.messenger_accounts.add_code((await fleet.instance(user))["user_id"])
        await _phone(fleet, "start", code=code)
    await until(look, what="the user's account and the agents' sockets", timeout_s=_LATER_S, every_s=2)


async def _says(fleet: WatchedFleet, _: str) -> None:
    await _phone(fleet, "say", text="good morning")


async def _answered(fleet: WatchedFleet, user: str) -> None:
    """Every message has its answer, and every answer was delivered."""

    async def look() -> bool | Pending[bool]:
        listed = (await fleet.ok("message", "list", "--user", user))["messages"]
        states = {each["state"] for each in listed}
        return states <= {"answered", "handled", "sent"} or Pending(str(states))

    await until(look, what="the answers that waited", timeout_s=_LATER_S, every_s=2)


def _connectors(home: Path) -> list[int]:
    """Processes of the world's connector."""
    pids = list[int]()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            environment = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if {b"connector", b"serve"} <= set(words) and f"HERMESOPS_HOME={home}".encode() in environment:
            pids.append(int(folder.name))
    return pids


def _signalled(number: signal.Signals) -> Act:
    async def do(fleet: WatchedFleet, _: str) -> None:
        for pid in _connectors(fleet.command.home):
            os.kill(pid, number)

    return do


def _ended(alert: str, about: str = "fleet") -> Act:
    async def do(fleet: WatchedFleet, _: str) -> None:
        await fleet.ended((alert, about), within_s=_QUIET_S)

    return do


def _chain(fault: str, alert: str, inject: Act, repair: Act, *, about: str = "fleet", undo: Act) -> Chain:
    return Chain(
        fault,
        alert,
        about=about,
        is_alone=True,
        inject=inject,
        whose=("",),
        halts=True,
        by_hand=both(repair, _answered, _ended(alert, about)),
        again="status-after",
        undo=undo,
        restarted=("ada",),
        alert_s=_LOOKS_S,
        ended_s=_QUIET_S,
    )


MESSENGER_CHAINS = (
    _chain(
        "bot-token-ended",
        "MessengerBlocked",
        both(_linked, commands(("local", "fault", "set", "messenger-refuses-token", *_FOR_LONG)), _says),
        _CLEAR,
        undo=_CLEAR,
    ),
    _chain(
        "messenger-away",
        "AnswersUndelivered",
        both(_linked, commands(("local", "fault", "set", "messenger-fails", *_FOR_LONG)), _says),
        _CLEAR,
        undo=_CLEAR,
    ),
    _chain(
        "messenger-hangs",
        "AnswersUncertain",
        both(_linked, commands(("local", "fault", "set", "messenger-hangs", *_FOR_LONG)), _says),
        _CLEAR,
        undo=_CLEAR,
    ),
    _chain(
        "socket-secret-wrong",
        "AgentsWithoutSocket",
        both(_linked, on_machine(_WRONG_SECRET)),
        both(commands(("provision", "USER", "--plan", "light")), _linked),
        about="ada",
        undo=commands(("provision", "USER", "--plan", "light")),
    ),
    _chain(
        "connector-halted",
        "MessagesWaiting",
        both(_linked, _signalled(signal.SIGSTOP), _says),
        _signalled(signal.SIGCONT),
        undo=_signalled(signal.SIGCONT),
    ),
)
"""Alone, one after the other: each is about the bot of all users."""
