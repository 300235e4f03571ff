"""Gets a machine its certificate: has it make a key and a request, and installs the certificate that is issued."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hermesops.access.pki.certificates import Certificates
from hermesops.agents.instances.remote.node_commands import change, hand, well
from hermesops.errors import UnavailableError
from hermesops.model.access.certificate import KeyTakenError, MachineNames
from hermesops.model.fleet.instance import Instance
from hermesops.model.ids import MachineId
from hermesops.model.operation import Lease
from hermesops.vendor.channel import Channel, Completed, last_words, object_in, understood
from hermesops.wire.errors import ExitCode
from hermesops.wire.protocol import Credential

_QUICK_S = 30.0


@dataclass(frozen=True)
class Certifying:
    """Issues certificates for machines' signing requests."""

    authority: Certificates
    lease: Lease | None = None

    def with_lease(self, lease: Lease | None) -> "Certifying":
        """Return a copy that works under a lease."""
        return Certifying(self.authority, lease)

    def names(self, answer: Mapping[str, Any]) -> MachineNames | None:
        """The machine's certificate as hermes-node reports it; ``None`` unless it is valid.

        A revoked certificate is not replaced: the operator who revoked it issues the next one.
        """
        if not answer.get("serial") or answer.get("expired") or not self.authority.is_known(str(answer["serial"])):
            return None
        return MachineNames.parse([str(name) for name in answer["names"]])

    async def credential(
        self, channel: Channel, machine_id: MachineId, request: str, instance: Instance | None = None
    ) -> Credential:
        """Issue a certificate for a machine.

        Args:
            request: Its signing request; empty if it has no key yet.
        """
        cell, instance_id = (instance.cell, instance.id) if instance else (None, None)
        signing_request = request or await self._ask(channel, "")
        try:
            return self.authority.issue(signing_request, machine_id, cell=cell, instance_id=instance_id)
        except KeyTakenError:  # its disk is a copy of another machine's
            signing_request = await self._ask(channel, " --new")
            return self.authority.issue(signing_request, machine_id, cell=cell, instance_id=instance_id)

    async def certify(
        self, channel: Channel, machine_id: MachineId, instance: Instance | None = None
    ) -> Credential | None:
        """Give a machine, which may be an instance's, a certificate; ``None`` where its hermes-node knows of none.

        Raises:
            RefusedError: The machine refuses it; its words are repeated.
            UnavailableError: It could not take it; safe to repeat.
        """
        done = await change(channel, "certificate request", self.lease, timeout_s=_QUICK_S)
        if done.exit_code == ExitCode.BAD_REQUEST:
            return None
        request = _request_in(well(done, machine_id, "certificate"), machine_id)
        credential = await self.credential(channel, machine_id, request, instance)
        done = await hand(channel, "certificate install", credential.to_json(), self.lease, timeout_s=_QUICK_S)
        well(done, machine_id, "certificate")
        return credential

    async def _ask(self, channel: Channel, option: str) -> str:
        done = await change(channel, f"certificate request{option}", self.lease, timeout_s=_QUICK_S)
        if done.exit_code != 0:
            raise UnavailableError(f"hermes-node made no key: {last_words(done)}")
        return _request_in(done, MachineId(channel.machine_id))


def _request_in(done: Completed, machine_id: MachineId) -> str:
    answer = object_in(done, machine_id, "certificate request")
    with understood(machine_id, "certificate request"):
        return str(answer["request"])
