"""What a build needs from others: the vendor, a way onto machines, Ansible, and the checks."""

from collections.abc import Callable, Mapping
from typing import Protocol

from hermesops import justavps
from hermesops.channel import Channel
from hermesops.model.ids import MachineId

Tell = Callable[[str], None]
"""Takes a line of narration."""

ChannelTo = Callable[[MachineId], Channel]
"""Makes the channel to a machine."""


class Vendor(Protocol):
    """The part of ``hermesops.justavps.Client`` that builds use."""

    async def list_machines(self) -> list[justavps.Machine]:
        """All machines of the account."""

    async def get_machine(self, machine_id: str) -> justavps.Machine:
        """Look at one machine."""

    async def create_machine(self, order: justavps.MachineOrder) -> justavps.Machine:
        """Rent a machine, or find the one of that name."""

    async def delete_machine(self, machine_id: str) -> None:
        """Destroy a machine; absent is success."""

    async def list_images(self) -> list[justavps.Image]:
        """All images of the account."""

    async def get_image(self, image_id: str) -> justavps.Image:
        """Look at one image."""

    async def delete_image(self, image_id: str) -> None:
        """Delete an image; absent is success."""

    async def save_image(self, machine_id: str, *, name: str) -> justavps.Image:
        """Begin to save a machine's disk."""


class Converge(Protocol):
    """Applies a playbook to one machine."""

    async def __call__(
        self, machine_id: MachineId, playbook: str, variables: Mapping[str, object], *, tell: Tell
    ) -> None:
        """Apply it; safe to repeat.

        Args:
            machine_id: Which machine; it need not be in the registry.
            playbook: Its file name below ``ansible/playbooks``.
            variables: Extra variables.
            tell: Called as tasks go by.

        Raises:
            HermesError: A task failed or the machine was not reached.
        """


class Verify(Protocol):
    """Checks what the roles promise on a machine without a user."""

    async def __call__(self, machine_id: MachineId, *, tell: Tell) -> tuple[str, ...]:
        """What is not as specified, one line each; nothing is good news."""
