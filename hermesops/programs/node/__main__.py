"""``hermes-node``: one JSON object on stdout, one line on stderr when something is wrong, and an exit code."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from hermesops.programs.node.answer import CommandAnswer, printed
from hermesops.programs.node.instance import certificate, drain, fencing, recovery, relief, status, volume
from hermesops.programs.node.instance.agent import sqlite_version
from hermesops.programs.node.instance.agent.installation import agent_of
from hermesops.programs.node.instance.personalise import configure, personalise, warm_up
from hermesops.programs.node.machine import Machine
from hermesops.programs.node.metrics import collector, databases
from hermesops.programs.node.orders import poll
from hermesops.programs.node.release import activate, activation, fetch, integrity, inventory, rollback
from hermesops.programs.node.release.slots.disk import DiskSlots
from hermesops.programs.node.state import adapter, backup
from hermesops.programs.node.system import as_user, mapped_files
from hermesops.wire import core_dump
from hermesops.wire.documents.lock import release_id
from hermesops.wire.errors import ExitCode
from hermesops.wire.layout import Layout
from hermesops.wire.protocol import FencingToken


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the process's exit code."""
    os.umask(0o077)
    core_dump.forbid()
    words = sys.argv[1:] if arguments is None else arguments
    if words[:1] == [as_user.WORD]:
        return adapter.main(words[1:])
    return run(arguments, lambda root: Machine(Layout(root), slots=DiskSlots(Layout(root))), sys.stdout, sys.stderr)


def run(arguments: Sequence[str] | None, machine_at: Callable[[Path], Machine], stdout: TextIO, stderr: TextIO) -> int:
    """Run one command on a machine, which is made from its root; return the exit code."""
    words = _parser().parse_args(arguments)
    return printed(lambda: _answer(words, machine_at(words.root), stdout), stdout, stderr)


def _answer(words: argparse.Namespace, machine: Machine, stdout: TextIO) -> CommandAnswer | None:
    match words.command:
        case "export":  # its answer is lines, written where stdout is
            machine.state.export(agent_of(machine).home, stdout)
            return None
        case "release":
            return _release(words, machine, stdout)
        case "health":
            health = status.health(machine)
            return health.to_json(), health.exit_code
        case "drain":
            answer, drained = drain.drain(machine, deadline_s=words.deadline, lease=_lease(words))
            return answer, ExitCode.OK if drained else ExitCode.UNFINISHED
    return _COMMANDS[words.command](words, machine), ExitCode.OK


def _personalise(words: argparse.Namespace, machine: Machine) -> dict[str, Any]:
    outcome = personalise(
        machine, words.path, wait_s=words.wait, replace_instance=words.replace_instance, lease=_lease(words)
    )
    return asdict(outcome)


def _admit(words: argparse.Namespace, machine: Machine) -> dict[str, Any]:
    with machine.files.locked(machine.layout.lock):
        fencing.admit(machine, _lease(words))
    return {"lease": words.lease}


def _certificate(words: argparse.Namespace, machine: Machine) -> dict[str, Any]:
    match words.action:
        case "request":
            return certificate.request(machine, anew=words.new, lease=_lease(words))
        case "install":
            return certificate.install(machine, words.path, lease=_lease(words))
        case "renew":
            return certificate.renew(machine)
        case _:
            return certificate.show(machine)


def _volume(words: argparse.Namespace, machine: Machine) -> dict[str, Any]:
    match words.action:
        case "open":
            return volume.open_volume(machine)
        case "close":
            return volume.close_volume(machine)
        case "want":
            return volume.want(machine, words.gigabytes, lease=_lease(words))
        case _:
            return volume.show(machine) or {}


def _activate(words: argparse.Namespace, machine: Machine, stdout: TextIO) -> CommandAnswer:
    def progress(event: str) -> None:
        stdout.write(json.dumps({"event": event}) + "\n")
        stdout.flush()

    options = activate.Options(words.confirm_within, words.drain, words.interrupt, not words.no_trial)
    return activate.activate(machine, release_id(words.release), options, lease=_lease(words), progress=progress)


def _rollback(words: argparse.Namespace, machine: Machine) -> CommandAnswer:
    if words.action == "preview" and words.schema:
        return activate.preview(machine, words.schema), ExitCode.OK
    if words.action == "preview":
        return rollback.preview(machine, to=words.to), ExitCode.OK
    return rollback.rollback(
        machine,
        to=words.to,
        loses=words.lose,
        even_revoked=words.even_revoked,
        drain_s=words.drain,
        lease=_lease(words),
    )


def _release(words: argparse.Namespace, machine: Machine, stdout: TextIO) -> CommandAnswer:
    match words.action:
        case "fetch":
            return fetch.fetch(machine, words.path, lease=_lease(words))
        case "activate":
            return _activate(words, machine, stdout)
        case "install" | "confirm":
            change = activate.install if words.action == "install" else activate.confirm
            return change(machine, release_id(words.release), lease=_lease(words)), ExitCode.OK
        case "rollback" | "preview":
            return _rollback(words, machine)
        case "cancel":
            return activation.cancel(machine), ExitCode.OK
        case "ready":
            return activate.ask_untouched(machine), ExitCode.OK
        case "gc":
            return inventory.gc(machine, keep=max(1, words.keep), lease=_lease(words)), ExitCode.OK
        case "check":  # on a real machine ``integrity.main`` is run instead, without the imports of this module
            return integrity.check(
                machine.layout,
                machine.files.read,
                lambda port: machine.system.ask(port, "/health").status != 0,
                current=machine.files.link_target,
            )
        case "settle":
            return rollback.settle(machine), ExitCode.OK
        case _:
            return inventory.show(machine), ExitCode.OK


_COMMANDS: Mapping[str, Callable[[argparse.Namespace, Machine], dict[str, Any]]] = {
    "personalise": _personalise,
    "configure": lambda words, machine: asdict(configure(machine, wait_s=words.wait, lease=_lease(words))),
    "warm": lambda words, machine: asdict(
        warm_up(machine, model_base_url=words.model_base_url, wait_s=words.wait, lease=_lease(words))
    ),
    "admit": _admit,
    "undrain": lambda words, machine: drain.undrain(machine, lease=_lease(words)),
    "fence": lambda words, machine: fencing.fence(machine, lease=_lease(words)),
    "unfence": lambda words, machine: fencing.unfence(machine, lease=_lease(words)),
    "state": lambda _, machine: backup.state(machine),
    "backup": lambda words, machine: backup.backup(machine, words.path, lease=_lease(words)),
    "restore": lambda words, machine: backup.restore(machine, words.path, lease=_lease(words)),
    "certificate": _certificate,
    "orders": lambda _, machine: poll.ask(machine),
    "volume": _volume,
    "probe": lambda words, machine: status.probe(machine, since=words.since, turn_s=words.turn),
    "status": lambda _, machine: status.status(machine),
    "metrics": lambda _, machine: collector.collect(machine),
    "recover": lambda _, machine: recovery.recover(machine),
    "relieve": lambda _, machine: relief.relieve(machine),
    "databases": lambda _, machine: databases.check(machine),
    "sqlite": lambda _, machine: sqlite_version.show(machine, mapped_files.named, adapter.sqlite_version),
}


def _lease(words: argparse.Namespace) -> FencingToken | None:
    return FencingToken.parse(words.lease) if words.lease else None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("hermes-node", description="Manages the agent on this machine.")
    parser.add_argument("--root", type=Path, default=Path("/"), help=argparse.SUPPRESS)
    commands = parser.add_subparsers(dest="command", required=True)
    waiting = argparse.ArgumentParser(add_help=False)
    waiting.add_argument(
        "--wait",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="time for the gateway to become healthy; 0 does not start it",
    )
    leased = argparse.ArgumentParser(add_help=False)
    leased.add_argument(
        "--lease", default="", metavar="EPOCH.COUNTER,SUBJECT,HOLDER", help="refuse if the machine has seen a newer one"
    )
    command = commands.add_parser("personalise", parents=[waiting, leased], help="make this machine a user's agent")
    command.add_argument("path", type=Path, help="the payload, root's and mode 0600; it is removed")
    command.add_argument("--replace-instance", default="", metavar="ID", help="an instance that may be replaced")
    commands.add_parser("configure", parents=[waiting, leased], help="render the managed files again")
    command = commands.add_parser("warm", parents=[waiting, leased], help="run the gateway before there is a user")
    command.add_argument("--model-base-url", required=True, metavar="URL", help="the model router, with /v1")
    commands.add_parser("admit", parents=[leased], help="only check the lease, before a change by other means")
    command = commands.add_parser("drain", parents=[leased], help="let the agent finish, and accept no new work")
    command.add_argument(
        "--deadline",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="then report unfinished work, with exit code 7",
    )
    commands.add_parser("undrain", parents=[leased], help="let the agent take turns again")
    commands.add_parser("fence", parents=[leased], help="stop the gateway and let nothing start it, reboots included")
    commands.add_parser("unfence", parents=[leased], help="let the gateway be started again")
    commands.add_parser("state", help="count and digest of memory, skills, sessions, messages, cron jobs and pairings")
    for name, does in (
        ("backup", "copy the agent's state into a repository, encrypted"),
        ("restore", "replace the agent's state by a copy; the gateway is stopped"),
    ):
        command = commands.add_parser(name, parents=[leased], help=does)
        command.add_argument("path", type=Path, help="the repository and its keys, mode 0600; it is removed")
    _add_certificate(commands, leased)
    commands.add_parser("orders", help="fetch the platform's orders (target of metrics, SSH access) and carry them out")
    _add_volume(commands, leased)
    _add_release(commands, leased)
    commands.add_parser("export", help="all of the user's data as lines of JSON")
    commands.add_parser("health", help="judge the agent: exit 0 healthy, 4 no answer, 8 a check failed")
    command = commands.add_parser("probe", help="figures of the agent's health")
    command.add_argument("--since", type=float, metavar="UNIX", help="count the log's errors since this time")
    command.add_argument(
        "--turn", type=float, default=0.0, metavar="SECONDS", help="let the agent take a turn, within so many seconds"
    )
    commands.add_parser("recover", help="start a gateway that systemd has given up, with growing pauses")
    commands.add_parser("metrics", help="write the figures of machine and agent for Prometheus")
    commands.add_parser("relieve", help="restart a gateway whose memory has grown, while the agent does nothing")
    commands.add_parser("databases", help="check the agent's databases, for the metrics")
    commands.add_parser("sqlite", help="the SQLite that gateway and hermes-node use")
    commands.add_parser("status", help="instance, release and gateway of this machine")
    return parser


def _add_certificate(commands: Any, leased: argparse.ArgumentParser) -> None:  # noqa: ANN401 - argparse hides its type
    noun = commands.add_parser("certificate", help="the certificate of this machine")
    actions = noun.add_subparsers(dest="action", required=True)
    action = actions.add_parser("request", parents=[leased], help="make a missing key, and a signing request")
    action.add_argument("--new", action="store_true", help="make another key, as the disk was copied")
    action = actions.add_parser("install", parents=[leased], help="install an uploaded certificate")
    action.add_argument("path", type=Path, help="the certificate and its authority, mode 0600; it is removed")
    actions.add_parser("renew", help="renew it through the platform, once it is due")
    actions.add_parser("show", help="its names and its validity")


def _add_volume(commands: Any, leased: argparse.ArgumentParser) -> None:  # noqa: ANN401 - argparse hides its type
    noun = commands.add_parser("volume", help="the volume of the user's data")
    actions = noun.add_subparsers(dest="action", required=True)
    actions.add_parser("open", help="mount it with a key from the platform; waits without a limit")
    actions.add_parser("close", help="unmount it and forget the key; the gateway is stopped")
    action = actions.add_parser("want", parents=[leased], help="make it larger from the next boot on")
    action.add_argument("gigabytes", type=int, help="of 10^9 bytes")
    actions.add_parser("show", help="kind of storage, size and usage")


def _add_release(commands: Any, leased: argparse.ArgumentParser) -> None:  # noqa: ANN401 - argparse hides its type
    noun = commands.add_parser("release", help="the releases on this machine")
    actions = noun.add_subparsers(dest="action", required=True)
    action = actions.add_parser("fetch", parents=[leased], help="store a release; exit 7 while files are missing")
    action.add_argument("path", type=Path, help="its handout, root's and mode 0600; it is removed")
    action = actions.add_parser(
        "install", parents=[leased], help="make its slot; a machine's first one becomes current"
    )
    action.add_argument("release", help="id of a fetched release")
    action = actions.add_parser("activate", parents=[leased], help="try it, switch to it, roll back unless confirmed")
    action.add_argument("release", help="id of a fetched release")
    action.add_argument(
        "--confirm-within",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="time to confirm it; else it is rolled back",
    )
    action.add_argument("--drain", type=float, default=60.0, metavar="SECONDS", help="for the agent to finish its work")
    action.add_argument("--interrupt", action="store_true", help="interrupt unfinished work then; else exit 7")
    action.add_argument("--no-trial", action="store_true", help="do not try it on a copy of the state first")
    action = actions.add_parser("confirm", parents=[leased], help="confirm it, so that it is not rolled back")
    action.add_argument("release", help="id of the unconfirmed release")
    action = actions.add_parser("rollback", parents=[leased], help="return to the previous slot")
    action.add_argument("--to", default="", metavar="ID", help="slot to return to; default: the previous one")
    action.add_argument("--lose", action="store_true", help="even if rows written since do not fit there")
    action.add_argument("--even-revoked", action="store_true", help="even to a revoked release")
    action.add_argument("--drain", type=float, default=8.0, metavar="SECONDS", help="for the agent to finish its work")
    action = actions.add_parser("preview", help="the rows and settings that a change would lose; changes nothing")
    change = action.add_mutually_exclusive_group()
    change.add_argument("--to", default="", metavar="ID", help="rollback to a slot; default: to the previous one")
    change.add_argument("--schema", type=int, default=0, metavar="N", help="activation of a release of a schema")
    actions.add_parser("cancel", help="give up a change that has not begun to switch")
    action = actions.add_parser("gc", parents=[leased], help="remove slots and files that no rollback needs")
    action.add_argument("--keep", type=int, default=2, metavar="SLOTS", help="number of slots to keep")
    actions.add_parser("check", help="check that the release is unchanged and runs; exit 8 if it fails")
    actions.add_parser("ready", help="run the checks of a change of release on the present gateway")
    actions.add_parser("show", help="slots, the current one, and the outcome of the last change")
    actions.add_parser("settle", help="wait for the end of a change of release, and roll it back when it is due")


if __name__ == "__main__":
    sys.exit(main())
