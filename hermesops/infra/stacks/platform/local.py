"""The platform on one machine of the local world: the program of the stack ``local`` of the project ``platform``.

The machine is all that Pulumi makes; roles put the services on it. Its outputs have the names of the AWS platform's.
"""

from dataclasses import dataclass

import pulumi
from pulumi import Input, Output, ResourceOptions

from hermesops.infra.stacks.platform.outputs import PlatformOutputs
from hermesops.infra.stacks.platform.spec import PROJECT
from hermesops.infra.stacks.resources import Machine, MachineArgs

LOCAL_PLATFORM_TYPE = f"hermesops:{PROJECT}:LocalPlatform"


@dataclass(frozen=True)
class LocalPlatformArgs:
    """Machine of a local platform, and addresses of its services.

    Attributes:
        machine: Name of the machine at the vendor; an existing machine of that name is adopted.
        image_id: Image of a new machine, or the image that an existing one was booted from: another image replaces the
            machine with its data.
        outputs: Addresses of the services, without the machine's own.
    """

    machine: str
    region: str
    server_type: str
    image_id: str | None
    outputs: PlatformOutputs[Input[str]]


class LocalPlatform(pulumi.ComponentResource):
    """The one machine of a platform, protected from birth.

    Attributes:
        machine_id: At the vendor.
    """

    machine_id: Output[str]

    def __init__(self, name: str, args: LocalPlatformArgs, opts: ResourceOptions | None = None) -> None:
        super().__init__(LOCAL_PLATFORM_TYPE, name, None, opts)
        machine = Machine(
            args.machine,
            MachineArgs(region=args.region, server_type=args.server_type, image_id=args.image_id),
            # Orders are found again by name: an old machine must be gone before one of its name is ordered.
            ResourceOptions(parent=self, protect=True, delete_before_replace=True),
        )
        self.machine_id = machine.id
        self.register_outputs({"machine_id": self.machine_id, **args.outputs.by_name()})


@dataclass(frozen=True)
class LocalPlatformProgram:
    """A Pulumi program: call it inside an engine."""

    name: str
    args: LocalPlatformArgs

    def __call__(self) -> None:
        """Register the platform; exports ``PlatformOutputs`` and ``machine_id``."""
        platform = LocalPlatform(self.name, self.args)
        pulumi.export("machine_id", platform.machine_id)
        for name, value in self.args.outputs.by_name().items():
            pulumi.export(name, value)
