"""``hermes-node``: one JSON object on stdout, one line on stderr when something is wrong, and an exit code."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from hermesops.node.errors import UNFINISHED, NodeError, NotReadyError
from hermesops.node.instance import drain, fence, fencing_token, probe, status, volume
from hermesops.node.instance.agent.installation import agent_of
from hermesops.node.instance.identity import certificate
from hermesops.node.instance.personalise import configure, personalise
from hermesops.node.instance.warm_start import warm_up
from hermesops.node.layout import Layout
from hermesops.node.machine import Machine
from hermesops.node.protocol import FencingToken
from hermesops.node.release import commands as release_commands
from hermesops.node.release.slots.disk import DiskSlots
from hermesops.node.state import backup
from hermesops.node.system import as_user, core_dump


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the process's exit code."""
    os.umask(0o077)
    core_dump.forbid()
    words = sys.argv[1:] if arguments is None else arguments
    if words[:1] == [as_user.WORD]:
        return as_user.main(words[1:])
    return run(arguments, _machine_at, sys.stdout, sys.stderr)


def _machine_at(root: Path) -> Machine:
    layout = Layout(root)
    return Machine(layout, slots=DiskSlots(layout))


def run(arguments: Sequence[str] | None, machine_at: Callable[[Path], Machine], stdout: TextIO, stderr: TextIO) -> int:
    """Run one command on a machine, which is asked for by its root; the exit code."""
    words = _parser().parse_args(arguments)
    try:
        machine = machine_at(words.root)
        if words.command == "export":  # its answer is lines, written where stdout is
            machine.state.export(agent_of(machine).home, stdout)
            return 0
        answer, code = _answer(words, machine, stdout)
    except NodeError as error:
        answer, code = {"error": str(error), "kind": type(error).__name__}, error.exit_code
    except OSError as error:
        answer, code = {"error": str(error), "kind": "OSError"}, NotReadyError.exit_code
    if "error" in answer:
        stderr.write(f"hermes-node: {answer['error']}\n")
    stdout.write(json.dumps(answer, sort_keys=True) + "\n")
    return code


def _answer(words: argparse.Namespace, machine: Machine, stdout: TextIO) -> tuple[dict[str, Any], int]:
    if words.command == "release":
        return release_commands.answer(words, machine, stdout)
    if words.command == "health":
        health = status.health(machine)
        return health.to_json(), health.exit_code
    if words.command == "drain":
        answer, drained = drain.drain(machine, deadline_s=words.deadline, lease=_lease(words))
        return answer, 0 if drained else UNFINISHED
    return _COMMANDS[words.command](words, machine), 0


def _personalise(words: argparse.Namespace, machine: Machine) -> dict[str, Any]:
    return asdict(
        personalise(
            machine,
            words.path,
            wait_s=words.wait,
            replace_instance=words.replace_instance,
            lease=_lease(words),
        )
    )


def _admit(words: argparse.Namespace, machine: Machine) -> dict[str, Any]:
    with machine.files.locked(machine.layout.lock):
        fencing_token.admit(machine, _lease(words))
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
            return volume.told(machine) or {}


_COMMANDS: Mapping[str, Callable[[argparse.Namespace, Machine], dict[str, Any]]] = {
    "personalise": _personalise,
    "configure": lambda words, machine: asdict(configure(machine, wait_s=words.wait, lease=_lease(words))),
    "warm": lambda words, machine: asdict(
        warm_up(machine, model_base_url=words.model_base_url, wait_s=words.wait, lease=_lease(words))
    ),
    "admit": _admit,
    "undrain": lambda words, machine: drain.undrain(machine, lease=_lease(words)),
    "fence": lambda words, machine: fence.fence(machine, lease=_lease(words)),
    "unfence": lambda words, machine: fence.unfence(machine, lease=_lease(words)),
    "state": lambda _, machine: backup.state(machine),
    "backup": lambda words, machine: backup.backup(machine, words.path, lease=_lease(words)),
    "restore": lambda words, machine: backup.restore(machine, words.path, lease=_lease(words)),
    "certificate": _certificate,
    "volume": _volume,
    "probe": lambda words, machine: probe.probe(machine, since=words.since, turn_s=words.turn),
    "status": lambda _, machine: status.status(machine),
}


def _lease(words: argparse.Namespace) -> FencingToken | None:
    return FencingToken.parse(words.lease) if words.lease else None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("hermes-node", description="Looks after the agent on this machine.")
    parser.add_argument("--root", type=Path, default=Path("/"), help=argparse.SUPPRESS)
    commands = parser.add_subparsers(dest="command", required=True)
    waiting = argparse.ArgumentParser(add_help=False)
    waiting.add_argument(
        "--wait", type=float, default=60.0, metavar="SECONDS", help="for the gateway to be healthy; 0 does not start it"
    )
    leased = argparse.ArgumentParser(add_help=False)
    leased.add_argument(
        "--lease", default="", metavar="EPOCH.COUNTER,SUBJECT,HOLDER", help="refuse if a newer one has been here"
    )
    given = commands.add_parser("personalise", parents=[waiting, leased], help="make this machine a user's agent")
    given.add_argument("path", type=Path, help="the payload, root's and mode 0600; it is removed")
    given.add_argument("--replace-instance", default="", metavar="ID", help="the instance this machine may stop being")
    commands.add_parser("configure", parents=[waiting, leased], help="render the managed files again")
    warming = commands.add_parser("warm", parents=[waiting, leased], help="run the gateway before there is a user")
    warming.add_argument("--model-base-url", required=True, metavar="URL", help="the model router, with /v1")
    commands.add_parser("admit", parents=[leased], help="only the check of the lease, before what is done otherwise")
    draining = commands.add_parser("drain", parents=[leased], help="let the agent finish, and take nothing new")
    draining.add_argument(
        "--deadline", type=float, default=60.0, metavar="SECONDS", help="then say what is left, with exit code 7"
    )
    commands.add_parser("undrain", parents=[leased], help="let the agent take turns again")
    commands.add_parser("fence", parents=[leased], help="stop the gateway and let nothing start it, reboots included")
    commands.add_parser("unfence", parents=[leased], help="let the gateway be started again")
    commands.add_parser("state", help="count and digest of memory, skills, sessions, messages, cron jobs and pairings")
    for name, does in (
        ("backup", "copy the agent's state into a repository, encrypted"),
        ("restore", "put a copy in the place of the agent's state; the gateway is stopped"),
    ):
        uploaded = commands.add_parser(name, parents=[leased], help=does)
        uploaded.add_argument("path", type=Path, help="where and with what, root's and mode 0600; it is removed")
    _certificate_parser(commands, leased)
    _volume_parser(commands, leased)
    release_commands.add_parser(commands, leased)
    commands.add_parser("export", help="everything of the user's as lines of JSON")
    commands.add_parser("health", help="judge the agent: exit 0 well, 4 no answer, 8 something is wrong")
    probing = commands.add_parser("probe", help="how the agent does, in figures")
    probing.add_argument("--since", type=float, metavar="UNIX", help="count the log's errors from this moment on")
    probing.add_argument(
        "--turn", type=float, default=0.0, metavar="SECONDS", help="have it take a turn of its own, at most so long"
    )
    commands.add_parser("status", help="what runs here, and whose it is")
    return parser


def _certificate_parser(commands: Any, leased: argparse.ArgumentParser) -> None:  # noqa: ANN401 - argparse hides its type
    certified = commands.add_parser("certificate", help="what this machine proves itself with")
    actions = certified.add_subparsers(dest="action", required=True)
    asking = actions.add_parser("request", parents=[leased], help="make the key where there is none, and ask with it")
    asking.add_argument("--new", action="store_true", help="make another key: this one came with a copied disk")
    given = actions.add_parser("install", parents=[leased], help="take a certificate for this machine's own")
    given.add_argument("path", type=Path, help="the certificate with what belongs to it, mode 0600; it is removed")
    actions.add_parser("renew", help="replace it by a fresh one through the platform, once it is due")
    actions.add_parser("show", help="what it says, and until when it counts")


def _volume_parser(commands: Any, leased: argparse.ArgumentParser) -> None:  # noqa: ANN401 - argparse hides its type
    data = commands.add_parser("volume", help="what its user's data are on")
    actions = data.add_subparsers(dest="action", required=True)
    actions.add_parser(
        "open", help="mount it, with the key that the platform gives; waits for that as long as it takes"
    )
    actions.add_parser("close", help="unmount it and forget the key; the gateway is stopped")
    wanted = actions.add_parser("want", parents=[leased], help="have it be larger from the next boot on")
    wanted.add_argument("gigabytes", type=int, help="of 10^9 bytes")
    actions.add_parser("show", help="what is mounted, how large, how full")


if __name__ == "__main__":
    sys.exit(main())
