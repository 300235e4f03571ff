"""The program's side of ``justavps:index:Machine`` and ``justavps:index:Image``.

The plugin's side is ``hermesops.infra.provider``, and only an engine knows both.
"""

from dataclasses import dataclass

import pulumi
from pulumi import Input, Output, ResourceOptions

MACHINE_TYPE = "justavps:index:Machine"
IMAGE_TYPE = "justavps:index:Image"


@dataclass(frozen=True)
class MachineArgs:
    """Inputs of a machine.

    Attributes:
        region: Region of the vendor; a change replaces the machine.
        server_type: Size of the machine; a change resizes and reboots it.
        image_id: Image to boot, ``None`` for the vendor's base; a change replaces the machine.
        data_gb: Gigabytes of its data volume, ``None`` for none; sent once, with the order.
    """

    region: Input[str]
    server_type: Input[str]
    image_id: Input[str] | None = None
    data_gb: Input[str] | None = None


class Machine(pulumi.CustomResource):
    """A rented machine; its Pulumi name is its name at the vendor, by which a lost order is found again."""

    name: Output[str]
    region: Output[str]
    server_type: Output[str]
    image_id: Output[str | None]
    data_gb: Output[str | None]
    slug: Output[str]
    status: Output[str]
    ip: Output[str]
    port_template: Output[str]
    created_at: Output[str]

    def __init__(self, name: str, args: MachineArgs, opts: ResourceOptions | None = None) -> None:
        super().__init__(
            MACHINE_TYPE,
            name,
            {
                "name": name,
                "region": args.region,
                "server_type": args.server_type,
                "image_id": args.image_id,
                "data_gb": args.data_gb,
                # Outputs that no input has: named so that the SDK resolves them.
                "slug": None,
                "status": None,
                "ip": None,
                "port_template": None,
                "created_at": None,
            },
            opts,
        )


@dataclass(frozen=True)
class ImageArgs:
    """Inputs of an image.

    Attributes:
        machine_id: The ready machine to save; a change replaces the image.
    """

    machine_id: Input[str]


class Image(pulumi.CustomResource):
    """A disk saved of a machine, protected from birth; its Pulumi name is its name at the vendor.

    It outlives the machine, and machines made from it outlive it. To delete or replace it, pass ``protect=False`` in a
    run before.
    """

    name: Output[str]
    machine_id: Output[str]
    status: Output[str]
    created_at: Output[str]

    def __init__(self, name: str, args: ImageArgs, opts: ResourceOptions | None = None) -> None:
        defaults = ResourceOptions(
            protect=True,
            # Orders are found again by name: the old image must be gone before one of its name is saved.
            delete_before_replace=True,
        )
        super().__init__(
            IMAGE_TYPE,
            name,
            {
                "name": name,
                "machine_id": args.machine_id,
                # Outputs that no input has: named so that the SDK resolves them.
                "status": None,
                "created_at": None,
            },
            ResourceOptions.merge(defaults, opts),
        )
