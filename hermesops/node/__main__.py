"""``hermes-node``: one JSON object on stdout, one line on stderr when something is wrong, and an exit code."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from hermesops.node import fencing, observe
from hermesops.node.errors import BadRequestError, NodeError, NotReadyError
from hermesops.node.layout import Layout
from hermesops.node.machine import Machine
from hermesops.node.personalise import configure, personalise
from hermesops.node.protocol import FencingToken


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the process's exit code."""
    os.umask(0o077)
    return run(arguments, lambda root: Machine(Layout(root)), sys.stdout, sys.stderr)


def run(arguments: Sequence[str] | None, machine_at: Callable[[Path], Machine], stdout: TextIO, stderr: TextIO) -> int:
    """Run one command on a machine, which is asked for by its root; the exit code."""
    words = _parser().parse_args(arguments)
    try:
        answer, code = _answer(words, machine_at(words.root))
    except NodeError as error:
        answer, code = {"error": str(error), "kind": type(error).__name__}, error.exit_code
    except OSError as error:
        answer, code = {"error": str(error), "kind": "OSError"}, NotReadyError.exit_code
    if "error" in answer:
        stderr.write(f"hermes-node: {answer['error']}\n")
    stdout.write(json.dumps(answer, sort_keys=True) + "\n")
    return code


def _answer(words: argparse.Namespace, machine: Machine) -> tuple[dict[str, Any], int]:
    match words.command:
        case "personalise":
            outcome = personalise(
                machine,
                words.path,
                wait_s=words.wait,
                replace_instance=words.replace_instance,
                lease=_lease(words),
            )
            return asdict(outcome), 0
        case "configure":
            return asdict(configure(machine, wait_s=words.wait, lease=_lease(words))), 0
        case "admit":
            with machine.files.locked(machine.layout.lock):
                fencing.admit(machine, _lease(words))
            return {"lease": words.lease}, 0
        case "health":
            health = observe.health(machine)
            return health.to_json(), health.exit_code
        case "status":
            return observe.status(machine), 0
    raise BadRequestError(f"no command {words.command}")


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
    commands.add_parser("admit", parents=[leased], help="only the check of the lease, before what is done otherwise")
    commands.add_parser("health", help="judge the agent: exit 0 well, 4 no answer, 8 something is wrong")
    commands.add_parser("status", help="what runs here, and whose it is")
    return parser


if __name__ == "__main__":
    sys.exit(main())
