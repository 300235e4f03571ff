"""What can be typed first, each imported when it is typed: ``--help`` and every command pay for none of the others."""

from importlib import import_module
from typing import Any

from typer.core import TyperGroup
from typer.main import get_group

from hermesops.cli.command_group import Noun

SUMMARIES = {
    "provision": "Give a user a running agent.",
    "doctor": "Check programs, rights, disk space, keys, registry and the vendor's API.",
    "worker": "Run operations and scheduled jobs.",
    "instance": "One user's agent.",
    "image": "Images that machines boot from.",
    "release": "Releases: what runs on instances, locked and signed.",
    "stack": "Pulumi stacks of cells.",
    "cell": "Cells: some 40 machines each, in one Pulumi stack.",
    "pool": "Warm pools: machines prepared in advance.",
    "backup": "Backups: encrypted copies of agents' states, outside the vendor.",
    "drill": "Drills: rehearsals of disaster recovery.",
    "snapshot": "Snapshots: JustAVPS's images of one agent's machine, private to it.",
    "identity": "Identities: the certificates by which machines prove who they are.",
    "token": "Tokens: what opens JustAVPS's proxy to one machine, for one purpose and six hours at most.",
    "relay": "The relay: the one way by which the platform's services reach agents.",
    "rollout": "Rollouts: one release brought to many, in stages that halt when a gate fails.",
    "rollback": "Roll one instance, or all of a rollout, back to the release before.",
    "freeze": "Freezes: spans of time in which nothing is rolled out.",
    "lifecycle": "Scheduled terminations and what else is pending of instances' lifecycle.",
    "job": "Scheduled jobs: what workers run by themselves.",
    "fleet": "The whole fleet.",
    "operation": "Operations: long-running work with intent, lease and outcome.",
    "local": "The local world: JustAVPS's API and machines on this computer, real or simulated.",
    "registry": "The registry's database.",
    "audit": "Who changed what, and why.",
    "secrets": "Keys and passwords that hermesops itself needs.",
    "approval": "Approvals: a second operator's signature on what another one saved.",
    "env": "Environments: named sets of settings, keys and state.",
    "settings": "Settings of an environment.",
}
"""What ``--help`` says of each, in its order. One without verbs says more in its docstring."""

FOLDERS = frozenset({"fleet", "instance", "registry", "release", "rollout", "stack"})
"""Nouns with a folder in ``commands``; its module ``group`` assembles their commands."""


class Nouns(TyperGroup):
    """The root group: its commands are modules of ``commands``, by name."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - Typer's own options
        super().__init__(**options)
        names: dict[str, Any] = dict.fromkeys(SUMMARIES)
        self.commands = names  # alone: Typer lists them, and suggests one for what was mistyped

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401, ARG002 - Click does not type it
        """Import what was typed."""
        return load(cmd_name) if cmd_name in SUMMARIES else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401, ARG002 - as above
        """Write what ``--help`` says of them without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl(list(SUMMARIES.items()))


def load(name: str) -> Any:  # noqa: ANN401 - as above
    """The Click command of that name."""
    module = import_module(f"hermesops.cli.commands.{name}" + (".group" if name in FOLDERS else ""))
    alone = Noun(rich_markup_mode=None)
    if hasattr(module, "app"):
        alone.add_typer(module.app, name=name, help=SUMMARIES[name])
    else:
        alone.command(name)(getattr(module, name))
    return get_group(alone).commands[name]
