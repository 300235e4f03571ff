"""Reads and writes of stacks' files that both engines share, and that run nothing."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from hermesops.errors import Hint, RefusedError, UsageError
from hermesops.infra.engine.embedded.protocol import urns
from hermesops.infra.engine.embedded.protocol.values import has_secret, masked, revealed
from hermesops.infra.engine.embedded.state.deployment import Deployment, deployment_from_doc, flaws
from hermesops.infra.engine.embedded.state.file_backend import FileBackend
from hermesops.infra.engine.embedded.state.journal import Journal
from hermesops.infra.engine.embedded.state.lock import Lock, held, outwait
from hermesops.infra.engine.embedded.state.secrets import PassphraseVault
from hermesops.infra.engine.embedded.state.versions import Versions
from hermesops.infra.engine.options import Token
from hermesops.model.stack import StackHistoryEntry, StackRef, StateVersion, Unfinished

EXPORTED = 3
"""The version of an exported state."""


class StoredStacks:
    """Stacks as their files have them.

    Args:
        passphrase: Asked for only when a secret is read or written.
        token_of: The token of the lease under which a stack is changed; ``None`` where there is no lease.
    """

    def __init__(
        self,
        backend: FileBackend,
        passphrase: Callable[[], str],
        token_of: Callable[[StackRef], Token | None] = lambda _: None,
    ) -> None:
        self._backend = backend
        self._passphrase = passphrase
        self._token_of = token_of
        self._keys: dict[str, bytes] = {}

    async def stacks(self, project: str) -> list[StackRef]:
        """List the stacks of a project; reads no state."""
        return self._backend.stacks(project)

    async def export(self, stack: StackRef) -> dict[str, Any]:
        """Read a stack's state as ``pulumi stack export`` prints it; secrets stay encrypted.

        Raises:
            UsageError: There is no such stack.
        """
        return {"version": EXPORTED, "deployment": self._backend.existing(stack)}

    async def outputs(self, stack: StackRef, *, show_secrets: bool = False) -> Mapping[str, Any]:
        """Read a stack's outputs; secrets read ``[secret]`` unless asked for.

        Raises:
            UsageError: There is no such stack.
        """
        before, vault = self._opened(stack, self._backend.existing(stack))
        root = urns.stack_urn(stack)
        exported = next((dict(r.outputs) for r in before.resources if r.urn == root), {})
        return dict(await asyncio.to_thread(revealed, exported, vault) if show_secrets else masked(exported))

    async def unfinished(self, stack: StackRef) -> Sequence[Unfinished]:
        """List begun operations of an interrupted run with an unknown outcome; empty for a stack in order.

        Raises:
            UsageError: There is no such stack.
        """
        state, _ = self._opened(stack, self._backend.existing(stack))
        return [
            Unfinished(op.kind, op.resource.urn, op.resource.type, urns.name_of(op.resource.urn))
            for op in state.pending
        ]

    async def history(self, stack: StackRef) -> Sequence[StackHistoryEntry]:
        """List the operations on a stack, newest first.

        Raises:
            UsageError: There is no such stack.
        """
        self._backend.existing(stack)
        return [
            StackHistoryEntry(
                kind=entry["kind"],
                started=datetime.fromtimestamp(entry["startTime"], UTC),
                ended=datetime.fromtimestamp(entry["endTime"], UTC),
                failed=entry["result"] != "succeeded",
                changes=entry.get("resourceChanges") or {},
            )
            for entry in self._backend.history(stack)
        ]

    def checked(self, stack: StackRef, document: Mapping[str, Any]) -> tuple[dict[str, Any], Deployment]:
        """Read an exported state, if it can be the stack's.

        Raises:
            UsageError: It is no exported state.
            RefusedError: It is another stack's, or contradicts itself.
        """
        if document.get("version") != EXPORTED or not isinstance(document.get("deployment"), Mapping):
            raise UsageError(
                f"this is no exported state of version {EXPORTED}", hint=Hint(("stack", "export", "CELL"), "makes one")
            )
        latest = dict(document["deployment"])
        try:
            deployment, wrong = deployment_from_doc(latest), flaws(stack, latest)
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise UsageError(f"this is no exported state: {error!r}") from error
        if wrong:
            more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
            raise RefusedError(
                f"this cannot be the state of stack {stack.stack}: {wrong[0]}{more}; nothing was changed",
                hint=Hint(("stack", "export", stack.stack), "makes one that can; take all of it"),
            )
        return latest, deployment

    async def import_state(self, stack: StackRef, document: Mapping[str, Any]) -> None:
        """Replace a stack's state by an exported one; the replaced state is kept as a copy.

        Creates that had not ended come along and are looked up by the next ``up``. A stack that does not exist yet
        is made.

        Raises:
            UsageError: It is no exported state of version 3.
            RefusedError: It is of another stack or contradicts itself.
            UnavailableError: Somebody else holds the stack.
        """
        latest, deployment = self.checked(stack, document)
        async with self._locked(stack) as lock:
            _, vault = self._opened(stack, latest)
            if any(has_secret(dict(r.inputs)) or has_secret(dict(r.outputs)) for r in deployment.resources):
                # A state with unreadable secrets must not replace one with readable secrets.
                await asyncio.to_thread(vault.unlock)
            journal = Journal(stack, self._backend, vault, lock=lock)
            journal.load(deployment)
            await asyncio.to_thread(journal.save)

    async def state_versions(self, stack: StackRef, *, limit: int) -> Sequence[StateVersion]:
        """List the newest copies of a stack's state, newest first; every operation leaves one, and one is made before.

        Works where the state itself is damaged or gone. Reads each of them.
        """
        return await asyncio.to_thread(Versions(self._backend, stack).newest, limit)

    async def rollback_state(self, stack: StackRef, version: str = "") -> StateVersion:
        """Restore a copy of a stack's state; the replaced state becomes a copy first.

        Machines are not changed: a preview or a refresh shows the differences.

        An empty ``version`` takes the newest sound copy that differs from the state.

        Raises:
            UsageError: There is no such copy.
            RefusedError: The copy is damaged, or there is no sound one.
            UnavailableError: Somebody else holds the stack.
        """
        async with self._locked(stack):
            return await asyncio.to_thread(Versions(self._backend, stack).restore, version)

    @contextlib.asynccontextmanager
    async def _locked(self, stack: StackRef, warn: Callable[[str], None] = lambda _: None) -> AsyncIterator[Lock]:
        folder, token = self._backend.lock_folder(stack), self._token_of(stack)
        await outwait(folder, token, report=warn)
        with held(folder, stack=stack.stack, report=warn, token=token) as lock:
            yield lock

    def _opened(self, stack: StackRef, latest: dict[str, Any]) -> tuple[Deployment, PassphraseVault]:
        try:
            before = deployment_from_doc(latest)
            kind, salt = _secrets_provider(before)
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise self._backend.damaged(stack, f"no deployment in it: {error!r}") from error
        if kind not in {"passphrase", ""}:
            raise UsageError(
                f"stack {stack.stack} keeps its secrets with {kind}; the embedded engine knows passphrases only",
                hint="install the pulumi CLI and set HERMESOPS_PULUMI_ENGINE=cli",
            )
        return before, PassphraseVault(self._passphrase, salt=salt, keys=self._keys, stack=stack.stack)


def _secrets_provider(deployment: Deployment) -> tuple[str, str]:
    """Its kind and salt; raises ``TypeError`` if one is no text."""
    provider = deployment.secrets_provider or {}
    kind, salt = provider.get("type", "passphrase"), (provider.get("state") or {}).get("salt", "")
    if not isinstance(kind, str) or not isinstance(salt, str):
        raise TypeError("the secrets provider's type or salt is no text")
    return kind, salt
