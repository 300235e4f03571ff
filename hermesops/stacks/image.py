"""The program's side of ``justavps:index:Image``.

The plugin's side is ``hermesops.provider``, and only an engine knows both.
"""

from dataclasses import dataclass

import pulumi
from pulumi import Input, Output, ResourceOptions

TYPE = "justavps:index:Image"


@dataclass(frozen=True)
class ImageArgs:
    """What to save.

    Attributes:
        machine_id: The ready machine whose disk is saved; a change replaces the image.
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
        wanted = ResourceOptions(
            protect=True,
            # Orders are found again by name: the old image must be gone before one of its name is saved.
            delete_before_replace=True,
        )
        super().__init__(
            TYPE,
            name,
            {
                "name": name,
                "machine_id": args.machine_id,
                # Outputs that no input has: named so that the SDK resolves them.
                "status": None,
                "created_at": None,
            },
            ResourceOptions.merge(wanted, opts),
        )
