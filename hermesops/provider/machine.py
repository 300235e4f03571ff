"""The resource ``justavps:index:Machine``. Pure."""

from hermesops.model.ids import is_machine_name
from hermesops.provider.resource import Kind, Property

TYPE = "justavps:index:Machine"
"""Pulumi's type token."""


def _is_ours(name: str) -> bool:
    environment = name.split("-")[1:2]
    return bool(environment) and is_machine_name(name, environment[0])


MACHINE = Kind(
    type=TYPE,
    noun="machine",
    description="A rented virtual server; billing starts when it is created.",
    inputs=(
        Property("name", "Name in the vendor's list; the resource's own name if left out. Unique.", replaces=True),
        Property("region", "Where it is rented, as hel1.", required=True, replaces=True),
        Property("image_id", "Image it boots from; the vendor's own base if left out.", replaces=True),
        Property("server_type", "Size that is rented, as starter. A change resizes and reboots it.", required=True),
        Property("data_gb", "Gigabytes of its data volume, told to it when it is ordered.", at_order=True),
    ),
    computed=(
        Property("slug", "The vendor's short name of it, part of its proxy host names."),
        Property("status", "The vendor's word for its state when it was last looked at."),
        Property("ip", "Its public address; empty while there is none."),
        Property("port_template", "Proxy URL of a port of it, with {port} in place of the number."),
        Property("created_at", "When the vendor accepted the order."),
    ),
    is_name=_is_ours,
    name_form="hermes-<environment>-<cell>-<12 hex digits>",
)
