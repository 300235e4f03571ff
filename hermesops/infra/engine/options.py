"""Options of engines and of runs, progress reports, and the errors of both engines."""

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from hermesops.base.files.private_file import read_secret
from hermesops.errors import HermesError, PartlyDoneError, RefusedError, UsageError
from hermesops.infra.engine.embedded.state.storage import Storage
from hermesops.model.stack import Change, Import, StackRef

Program = Callable[[], Any]
"""A Pulumi program: called with nothing, registers resources through the pulumi SDK."""

MayDestroy = Callable[[str], bool]
"""Answers for a URN whether the caller named that resource as one that may be deleted or replaced."""

Token = tuple[int, int]
"""Epoch and counter of a lease: a later holder has a higher one."""

RunKind = Literal["up", "destroy", "refresh", "import", "settle"]
"""The kind of a run. ``settle`` only looks up creates that an interrupted run began."""

REPEAT = "run the same command again: it looks for what was made first"
"""The hint when the results of a run are unknown."""


@dataclass(frozen=True)
class EngineConfig:
    """Parameters of an engine.

    Attributes:
        backend: Folder, URL or storage of Pulumi's file backend; both engines keep the same files there.
        passphrase: Asked for only when a secret of the state is read or written; by the CLI, before every command.
        environment: The whole environment of the engine's and the plugins' processes.
        plugin_folders: Searched for plugins before ``PATH``; by default beside this Python, where ours is installed.
        parallel: Largest number of steps at once; a step mostly waits for the vendor.
        token_of: The token of the lease under which a stack is changed, ``None`` where there is no lease: locks with
            an earlier token are stale.
    """

    backend: str | Path | Storage
    passphrase: Callable[[], str]
    environment: Mapping[str, str]
    plugin_folders: Sequence[Path] = field(default_factory=lambda: (Path(sys.executable).parent,))
    parallel: int = 16
    token_of: Callable[[StackRef], Token | None] = lambda _: None


@dataclass(frozen=True)
class Progress:
    """A line of narration.

    Attributes:
        kind: ``begun``, ``done`` or ``failed`` for a step; ``info``, ``warning`` or ``error`` for a message.
        change: What is done, as ``create`` or ``delete``; empty for a message.
        name: The resource's logical name; empty when it is about none.
    """

    kind: str
    change: str = ""
    type: str = ""
    name: str = ""
    message: str = ""


Reporter = Callable[[Progress], None]


@dataclass(frozen=True)
class StackConfig:
    """A stack's configuration, as ``pulumi config set`` would make it.

    Attributes:
        values: Full keys (``project:name``) and plain values.
    """

    values: Mapping[str, str] = field(default_factory=dict)
    secret: frozenset[str] = frozenset()


def _no_program() -> None:
    """Registers nothing; for runs without a program."""


@dataclass(frozen=True)
class RunOptions:
    """The options of one run.

    Attributes:
        imports: What an import takes into the stack.
        targets: URNs that may be read and changed; empty for all.
        may_destroy: Asked for every resource that would be deleted or replaced; None allows everything.
        report: Called with each line of narration.
    """

    program: Program = _no_program
    imports: Sequence[Import] = ()
    targets: Collection[str] = ()
    may_destroy: MayDestroy | None = None
    config: StackConfig = field(default_factory=StackConfig)
    report: Reporter | None = None


def pulumi_home(environment: Mapping[str, str]) -> Path:
    """The folder in which the pulumi CLI keeps its own files."""
    return Path(environment.get("PULUMI_HOME") or Path(environment.get("HOME", "/nonexistent")) / ".pulumi")


def read_passphrase(file: Path) -> str:
    """Read the passphrase of the state's secrets.

    Raises:
        RefusedError: The file is missing, empty, or readable by others.
    """
    return read_secret(file, what="passphrase of Pulumi's state")


class UnsupportedByEmbeddedError(UsageError):
    """The program or its state uses a feature that only the pulumi CLI supports.

    ``what`` is the feature, in its user's words; ``where`` the resource or file that uses it.
    """

    def __init__(self, what: str, where: str) -> None:
        super().__init__(
            f"{where}: the embedded engine does not support {what}; the pulumi CLI does",
            hint="install the pulumi CLI and set HERMESOPS_PULUMI_ENGINE=cli",
        )
        self.what = what


def destroy_refusal(unnamed: Collection[str]) -> RefusedError:
    """Return the error for resources that would be destroyed and that nobody named."""
    return RefusedError(
        f"{len(unnamed)} resource(s) would be destroyed without being named: {', '.join(unnamed)}",
        hint="check the preview; name each resource to destroy, or add it to the program again",
    )


def stopped(error: HermesError, what: str, stack: StackRef, done: Collection[Change]) -> HermesError:
    """Convert the exception of a program to the error of its run.

    An error that promises "nothing changed" must not be raised when something did.

    ``done`` are the changes outside the state before the exception.
    """
    if not done or not isinstance(error, RefusedError):
        return error
    return PartlyDoneError(
        f"{what} of stack {stack.stack} stopped: {error.message}; done before: {listed(done)}", hint=error.hint
    )


def listed(changes: Collection[Change]) -> str:
    """The changes in one line, for an error."""
    return ", ".join(f"{change.name} ({change.kind})" for change in changes)
