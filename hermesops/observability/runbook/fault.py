"""A fault: how it is injected, how it shows, and the runbook that ends it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from hermesops.errors import fill


@dataclass(frozen=True)
class OnMachine:
    """A command for ``/bin/sh`` of the machine, as root."""

    script: str


@dataclass(frozen=True)
class AtVendor:
    """Injects a fault at JustAVPS: stops or deletes the machine without hermesops."""

    verb: Literal["stop", "delete"]


@dataclass(frozen=True)
class ByCommand:
    """A command of hermesops, in words after ``hermesops``; those in capitals as in steps of runbooks."""

    words: tuple[str, ...]


Action = OnMachine | AtVendor | ByCommand


@dataclass(frozen=True)
class Sign:
    """Evidence of a fault: a reading command, and a text that one line of its output contains.

    Attributes:
        is_absent: Whether the fault shows by that no line has it.
    """

    words: tuple[str, ...]
    text: str
    is_absent: bool = False


@dataclass(frozen=True)
class Fault:
    """One way to break something.

    Attributes:
        name: What it is drilled by.
        runbook: The one that ends it.
        alerts: Those that it makes fire, of the ones that lead to its runbook; empty for a procedure.
        meaning: In a few words.
        inject: Actions on one machine, in order; empty where it takes more than one machine, which only tests break.
        sign: ``None`` where it has no ``inject``.
        undo: The action that ends it without the runbook; ``None`` where giving up the machine does.
        prepare: Commands before it, as a backup that its runbook restores.
        needs_real: Whether simulated machines have nothing that could break so.
        needs_local: Whether only the local world can bring it about.
        picked: The step of the runbook to choose, where a person would; the run begins with it.
    """

    name: str
    runbook: str
    alerts: tuple[str, ...]
    meaning: str
    inject: tuple[Action, ...] = ()
    sign: Sign | None = None
    undo: Action | None = None
    prepare: tuple[ByCommand, ...] = ()
    needs_real: bool = False
    needs_local: bool = False
    picked: str = ""

    @property
    def is_drilled(self) -> bool:
        """Whether the fault can be injected into one machine of the warm pool."""
        return bool(self.inject)

    def filled(self, values: Mapping[str, str]) -> "Fault":
        """Fill an instance's values into the fault's commands."""
        put = partial(fill, values=values)

        def filled(action: Action) -> Action:
            return ByCommand(tuple(map(put, action.words))) if isinstance(action, ByCommand) else action

        sign = self.sign and replace(self.sign, words=tuple(map(put, self.sign.words)), text=put(self.sign.text))
        prepare = tuple(ByCommand(tuple(map(put, command.words))) for command in self.prepare)
        return replace(self, inject=tuple(map(filled, self.inject)), sign=sign, prepare=prepare)
