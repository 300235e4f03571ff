"""The words after ``hermes-node release``, and what each of them does."""

import argparse
import json
from pathlib import Path
from typing import Any, TextIO

from hermesops.node.machine import Machine
from hermesops.node.protocol import FencingToken
from hermesops.node.release import activate, activation, fetch, integrity, inventory, rollback
from hermesops.node.release.confirm import confirm
from hermesops.node.release.documents.lock import release_id


def add_parser(commands: Any, leased: argparse.ArgumentParser) -> None:  # noqa: ANN401 - argparse hides its type
    """Add the noun to the program's commands."""
    noun = commands.add_parser("release", help="the releases on this machine, and which one runs")
    actions = noun.add_subparsers(dest="action", required=True)
    fetching = actions.add_parser("fetch", parents=[leased], help="take in a release; exit 7 while files are missing")
    fetching.add_argument("path", type=Path, help="what is handed out of it, root's and mode 0600; it is removed")
    bringing = actions.add_parser("activate", parents=[leased], help="try it, go over to it, and back unless confirmed")
    bringing.add_argument("release", help="id of one that was fetched")
    bringing.add_argument("--confirm-within", type=float, default=60.0, metavar="SECONDS", help="else it is left again")
    bringing.add_argument("--drain", type=float, default=60.0, metavar="SECONDS", help="for what the agent is at")
    bringing.add_argument("--interrupt", action="store_true", help="cut off what it is still at then; else exit 7")
    bringing.add_argument("--no-trial", action="store_true", help="do not try it on a copy of the state first")
    confirming = actions.add_parser("confirm", parents=[leased], help="let it stay")
    confirming.add_argument("release", help="id of the one that is unconfirmed")
    leaving = actions.add_parser("rollback", parents=[leased], help="have the slot before run again")
    leaving.add_argument("--to", default="", metavar="ID", help="another slot than the one before")
    leaving.add_argument("--lose", action="store_true", help="even if rows written since have no place there")
    leaving.add_argument("--even-revoked", action="store_true", help="even to a release that must not run any more")
    leaving.add_argument("--drain", type=float, default=8.0, metavar="SECONDS", help="for what the agent is at")
    actions.add_parser("cancel", help="have a change that has not begun to switch be given up")
    cleaning = actions.add_parser("gc", parents=[leased], help="remove slots and files that nobody goes back to")
    cleaning.add_argument("--keep", type=int, default=2, metavar="SLOTS", help="at least so many")
    actions.add_parser("check", help="ten looks at whether it is as it was left, and runs; exit 8 where it is not")
    actions.add_parser("show", help="slots, which one runs, and what came of the last change")
    actions.add_parser("settle", help="wait for the end of a change of release, and bring it about if nobody does")


def answer(words: argparse.Namespace, machine: Machine, stdout: TextIO) -> tuple[dict[str, Any], int]:
    """Run one; what it says, and the exit code."""
    lease = FencingToken.parse(words.lease) if getattr(words, "lease", "") else None
    match words.action:
        case "fetch":
            return fetch.fetch(machine, words.path, lease=lease)
        case "activate":
            return activate.activate(
                machine,
                release_id(words.release),
                activate.Options(
                    confirm_s=words.confirm_within,
                    drain_s=words.drain,
                    interrupts=words.interrupt,
                    tries=not words.no_trial,
                ),
                lease=lease,
                tell=lambda event: _tell(stdout, event),
            )
        case "confirm":
            return confirm(machine, release_id(words.release), lease=lease), 0
        case "rollback":
            return inventory.rollback(
                machine,
                to=words.to,
                loses=words.lose,
                even_revoked=words.even_revoked,
                drain_s=words.drain,
                lease=lease,
            )
        case "cancel":
            return activation.cancel(machine), 0
        case "gc":
            return inventory.gc(machine, keep=max(1, words.keep), lease=lease), 0
        case "check":
            return _check(machine)
        case "settle":
            return rollback.settle(machine), 0
        case _:
            return inventory.show(machine), 0


def _check(machine: Machine) -> tuple[dict[str, Any], int]:
    """On a real machine ``intact.main`` is asked instead, without all that this module needs."""

    def listens(port: int) -> bool:
        return machine.system.ask(port, "/health").status != 0

    return integrity.check(machine.layout, machine.files.read, listens, current=machine.files.link_target)


def _tell(stdout: TextIO, event: str) -> None:
    stdout.write(json.dumps({"event": event}) + "\n")
    stdout.flush()
