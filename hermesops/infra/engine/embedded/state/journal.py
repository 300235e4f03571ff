"""Keeps the state file true while a run changes things: written before and after every call that has an effect.

It must not decide anything. Source: recordings, semantics §5.
"""

from dataclasses import dataclass, field
from typing import Any

from hermesops.infra.engine.embedded.state.deployment import (
    Deployment,
    Operation,
    Resource,
    latest_doc,
    now,
    resource_to_doc,
)
from hermesops.infra.engine.embedded.state.file_backend import FileBackend
from hermesops.infra.engine.embedded.state.lock import Lock
from hermesops.infra.engine.embedded.state.secrets import PassphraseVault
from hermesops.model.stack import StackRef


@dataclass
class Journal:
    """The state of one stack during one run.

    Attributes:
        done: What this run has finished, in that order.
        left: What is left of the state before; old halves of replacements are here too.
        pending: What has begun and not ended.
        lock: The stack's lock; checked before each write.
        dry: A preview; nothing is ever written.
        copied: Whether the state before this run is kept; the first write sees to it.
    """

    ref: StackRef
    backend: FileBackend
    vault: PassphraseVault
    lock: Lock | None = None
    dry: bool = False
    done: list[Resource] = field(default_factory=list)
    left: list[Resource] = field(default_factory=list)
    pending: list[Operation] = field(default_factory=list)
    copied: bool = False
    _docs: dict[int, tuple[Resource, dict[str, Any]]] = field(default_factory=dict)

    def load(self, deployment: Deployment) -> None:
        """Start from a state; of begun steps only creates are kept, the rest is harmless to forget."""
        self.left = list(deployment.resources)
        self.pending = [op for op in deployment.pending if op.kind == "creating"]

    @property
    def resources(self) -> list[Resource]:
        """The state's list: finished ones first, then the rest of the earlier state."""
        return self.done + self.left

    def begin(self, kind: str, resource: Resource) -> Operation:
        """Write down that something is about to be done, before it is."""
        operation = Operation(kind, resource)
        if not self.dry:
            self.pending.append(operation)
            self.save()
        return operation

    def end(self, operation: Operation, *, old: Resource | None = None, new: Resource | None = None) -> None:
        """Record the end of a step: ``old`` leaves the list, ``new`` joins the finished ones."""
        if operation in self.pending:
            self.pending.remove(operation)
        self.move(old, new)
        if not self.dry:
            self.save()

    def move(self, old: Resource | None, new: Resource | None) -> None:
        """Change the list without writing; the next write brings it to the disk."""
        if old is not None:
            items, index = self._find(old)
            del items[index]
        if new is not None:
            self.done.append(new)

    def swap(self, old: Resource, new: Resource) -> None:
        """Put another version of a resource where it was."""
        items, index = self._find(old)
        items[index] = new

    def _find(self, old: Resource) -> tuple[list[Resource], int]:
        for items in (self.left, self.done):
            for index, item in enumerate(items):
                if item is old:
                    return items, index
        raise KeyError(old.urn)

    def save(self) -> None:
        """Write the state; blocks until it is on the disk.

        Raises:
            UnavailableError: Somebody else has taken the stack over; nothing was written.
        """
        if self.dry:
            return
        if self.lock:
            self.lock.check()
        self.vault.seal()
        resources = [self._doc(resource) for resource in self.resources]
        pending = [{"resource": self._doc(op.resource), "type": op.kind} for op in self.pending]
        latest = latest_doc(resources, pending, secrets_provider=self.vault.provider, at=now())
        if not self.copied:
            self.backend.copy_before(self.ref)
            self.copied = True
        self.backend.write(self.ref, latest)

    def _doc(self, resource: Resource) -> dict[str, Any]:
        entry = self._docs.get(id(resource))
        if entry is None or entry[0] is not resource:
            entry = (resource, resource_to_doc(resource, self.vault))
            self._docs[id(resource)] = entry
        return entry[1]
