"""Uploads releases to machines and switches between them, under a lease. It must not choose the release."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hermesops.agents.instances.remote import node_commands
from hermesops.errors import Hint, RefusedError, UnavailableError
from hermesops.machines.release.releases import HandedOut
from hermesops.model.fleet.slot import BLOBS, Activation, RollbackResult, SlotsState
from hermesops.model.ids import MachineId
from hermesops.model.operation import Lease
from hermesops.model.rollout.release import ReleaseId
from hermesops.vendor.channel import Channel, Completed, object_in, understood
from hermesops.wire.errors import ExitCode
from hermesops.wire.protocol import PROGRAM

_LOOK_S = 20.0
_FETCH_S = 900.0
"""Seconds that a machine may take to download a whole release."""

_SWITCH_S = 600.0
"""Seconds beside draining that installing, trying and starting may take."""

_READY_S = 40.0
"""Seconds for an agent to list its sessions and tools."""

_CONFIRM_S, _DRAIN_S = 60.0, 10.0
"""Seconds for a machine without an instance, which serves no user."""

_BACK_S = 120.0
_TIDY_S = 60.0
_KEPT = 3
"""Slots that stay on a machine: the one that runs, the one before, and one more to go back to."""

_PREVIEW = "release preview"
_ROUNDS = 3
"""Attempts to upload files that a machine reports missing; complete uploads are kept."""


@dataclass(frozen=True)
class ReleaseClient:
    """The releases on each machine.

    Attributes:
        lease: Under which they are changed; ``None`` without a registry.
    """

    channel_to: Callable[[MachineId], Channel]
    lease: Lease | None = None

    async def observe(self, machine_id: MachineId) -> SlotsState | None:
        """The releases on a machine; ``None`` when it does not answer, or has none."""
        status = await node_commands.status(self.channel_to(machine_id), timeout_s=_LOOK_S)
        with understood(machine_id, "status"):
            return SlotsState.from_status(status) if status and status.get("releases") else None

    async def problem_of_agent(self, machine_id: MachineId) -> str:
        """The checks after a change of release that the agent on a machine fails; empty for none.

        Raises:
            UnavailableError: The machine does not answer.
        """
        done = await self.channel_to(machine_id).run(f"{PROGRAM} release ready", timeout_s=_READY_S)
        if done.exit_code == ExitCode.BAD_REQUEST:  # its hermes-node is older than that command
            return ""
        answer = _answer(done, machine_id, "release ready")
        with understood(machine_id, "release ready"):
            failed = next((check for check in answer["checks"] if not check["ok"]), None)
            return f"{failed['name']}: {failed['detail']}" if failed else ""

    async def fetch(self, machine_id: MachineId, bundle: HandedOut, *, python: str) -> None:
        """Upload the files of a release that a machine lacks; safe to call twice.

        Raises:
            RefusedError: The machine refuses the release: signature, revocation, floor or protocol.
            UnavailableError: It does not answer, or does not take the files.
        """
        channel = self.channel_to(machine_id)
        for _ in range(_ROUNDS):
            done = await node_commands.hand(
                channel, "release fetch", bundle.handout(python), self.lease, timeout_s=_FETCH_S
            )
            if done.exit_code != ExitCode.UNFINISHED:
                _answer(done, machine_id, "release fetch")
                return
            answer = object_in(done, machine_id, "release fetch")
            with understood(machine_id, "release fetch"):
                missing = [str(blob["sha256"]) for blob in answer.get("missing") or ()]
            for sha256 in missing:
                await channel.put(f"{BLOBS}/{sha256}", bundle.blob(sha256), mode=0o600)
        raise UnavailableError(
            f"machine {machine_id} lacks files of release {bundle.id} that were uploaded {_ROUNDS} times",
            hint=Hint(("release", "verify", bundle.id)),
        )

    async def install(self, machine_id: MachineId, bundle: HandedOut, *, python: str) -> None:
        """Install a release on a machine; the first one runs from then on, others are ready to run; safe to call twice.

        Raises:
            RefusedError: The machine refuses the release, or it does not fit.
            UnavailableError: It does not answer, or does not take the files.
        """
        await self.fetch(machine_id, bundle, python=python)
        await self._changed(machine_id, f"release install {bundle.id}", timeout_s=_SWITCH_S)

    async def activate(
        self, machine_id: MachineId, release: ReleaseId, *, confirm_s: float, drain_s: float
    ) -> Activation:
        """Switch a machine to a fetched release; the machine rolls back by itself unless the switch is confirmed.

        Returns:
            The result; a failed trial is a result, not an error.

        Raises:
            RefusedError: Nothing was tried.
            UnavailableError: The machine does not answer.
            UnknownOutcomeError: The command was sent and no answer came: observe.
        """
        words = f"release activate {release} --confirm-within {confirm_s:g} --drain {drain_s:g}"
        channel, timeout_s = self.channel_to(machine_id), drain_s + _SWITCH_S
        done = await node_commands.change(channel, words, self.lease, timeout_s=timeout_s)
        if done.exit_code == ExitCode.FAILED:
            answer = {"error": "it did not work", **object_in(done, machine_id, "release activate")}
        else:
            answer = dict(_answer(done, machine_id, "release activate"))
        with understood(machine_id, "release activate"):
            return Activation.from_told(release, answer)

    async def deploy(self, machine_id: MachineId, bundle: HandedOut, *, python: str) -> Activation:
        """Switch a machine without an instance to a release, and confirm it; safe to call twice.

        Raises:
            RefusedError: Nothing was tried.
            UnavailableError: The machine does not answer.
        """
        await self.fetch(machine_id, bundle, python=python)
        done = await self.activate(machine_id, bundle.id, confirm_s=_CONFIRM_S, drain_s=_DRAIN_S)
        if not done.problem:
            await self.confirm(machine_id, bundle.id)
        return done

    async def confirm(self, machine_id: MachineId, release: ReleaseId) -> None:
        """Let a machine stay on the release that it was switched to; safe to call twice.

        Raises:
            RefusedError: It went back before.
        """
        await self._changed(machine_id, f"release confirm {release}", timeout_s=_LOOK_S)

    async def cancel(self, machine_id: MachineId) -> None:
        """Cancel a switch that still waits for running turns; a switch that has begun continues.

        Raises:
            RefusedError: Its hermes-node is older than that.
            UnavailableError: The machine does not answer.
        """
        done = await self.channel_to(machine_id).run(f"{PROGRAM} release cancel", timeout_s=_LOOK_S)
        _answer(done, machine_id, "release cancel")

    async def tidy(self, machine_id: MachineId) -> None:
        """Remove slots, files and states that no rollback needs; safe to call twice.

        Raises:
            UnavailableError: The machine does not answer.
        """
        await self._changed(machine_id, f"release gc --keep {_KEPT}", timeout_s=_TIDY_S)

    async def roll_back(
        self,
        machine_id: MachineId,
        *,
        to: ReleaseId | None = None,
        loses: bool = False,
        even_revoked: bool = False,
    ) -> RollbackResult:
        """Switch a machine back to its previous release, or to another one on it; safe to call twice with ``to``.

        Args:
            to: ``None`` for the previous one.
            loses: Roll back even if rows written since cannot be migrated; they are listed, and kept on the machine.
            even_revoked: Roll back even to a revoked release.

        Raises:
            RefusedError: There is no such slot, its release must not run any more, or rows would be lost; the words
                give the figure.
            UnavailableError: It did not work, or the machine does not answer.
        """
        words = "release rollback" + (f" --to {to}" if to else "") + (" --lose" if loses else "")
        words += " --even-revoked" if even_revoked else ""
        answer = await self._changed(machine_id, words, timeout_s=_BACK_S)
        with understood(machine_id, "release rollback"):
            return RollbackResult.from_told(answer)

    async def preview_rollback(
        self, machine_id: MachineId, *, to: ReleaseId | None = None, timeout_s: float = _LOOK_S
    ) -> RollbackResult:
        """The rows and settings that ``roll_back`` would migrate and lose now. Changes nothing, and needs no lease.

        Raises:
            RefusedError: There is no such slot, or its hermes-node is older than that command.
            UnavailableError: The machine does not answer.
        """
        answer = await self._preview(machine_id, f" --to {to}" if to else "", timeout_s)
        with understood(machine_id, _PREVIEW):
            return RollbackResult.from_told(answer)

    async def preview_activation(self, machine_id: MachineId, schema: int, *, timeout_s: float) -> RollbackResult:
        """The settings that ``activate`` would migrate and lose now. Changes nothing, and needs no lease.

        Args:
            schema: Of the configuration that the release writes; the machine need not have the release.

        Raises:
            RefusedError: Its hermes-node is older than that command.
            UnavailableError: The machine does not answer, or its answer names no settings.
        """
        answer = await self._preview(machine_id, f" --schema {schema}", timeout_s)
        with understood(machine_id, _PREVIEW):
            # Each hermes-node that knows this preview lists them: an answer without a list is malformed.
            return RollbackResult.from_told({"settings_lost": None, **answer})

    async def _preview(self, machine_id: MachineId, options: str, timeout_s: float) -> Mapping[str, Any]:
        words = f"{PROGRAM} {_PREVIEW}{options}"
        done = await self.channel_to(machine_id).run(words, timeout_s=timeout_s)
        if done.exit_code == ExitCode.BAD_REQUEST:
            raise RefusedError("its hermes-node is older than this preview")
        return _answer(done, machine_id, _PREVIEW)

    async def _changed(self, machine_id: MachineId, words: str, *, timeout_s: float) -> Mapping[str, Any]:
        done = await node_commands.change(self.channel_to(machine_id), words, self.lease, timeout_s=timeout_s)
        return _answer(done, machine_id, " ".join(words.split()[:2]))


def _answer(done: Completed, machine_id: MachineId, verb: str) -> Mapping[str, Any]:
    return object_in(node_commands.well(done, machine_id, verb), machine_id, verb)
