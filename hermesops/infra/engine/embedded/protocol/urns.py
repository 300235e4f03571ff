"""URNs: Pulumi's names of a stack's resources. Pure.

Source: recordings of the CLI 3.259, semantics §1.
"""

import re

from hermesops.model.stack import StackRef

DEFAULT_NAME = re.compile(r"default(_\d+_\d+_\d+.*)?")
"""With a version in it where the CLI was asked for one."""

STACK_TYPE = "pulumi:pulumi:Stack"
PROVIDER_PREFIX = "pulumi:providers:"


def urn_of(ref: StackRef, resource_type: str, name: str, parent: str = "") -> str:
    """Name a resource; the parent's types are part of it unless the parent is the stack itself."""
    types = resource_type
    if parent:
        above = parent.split("::", 3)[2]
        if above != STACK_TYPE:
            types = f"{above}${resource_type}"
    return f"urn:pulumi:{ref.stack}::{ref.project}::{types}::{name}"


def stack_urn(ref: StackRef) -> str:
    """Name the stack's own root resource."""
    return urn_of(ref, STACK_TYPE, f"{ref.project}-{ref.stack}")


def default_provider_urn(ref: StackRef, package: str) -> str:
    """Name the provider that serves resources which do not name one."""
    return urn_of(ref, f"{PROVIDER_PREFIX}{package}", "default")


def type_of(urn: str) -> str:
    """The resource's own type, without its parents'.

    Raises:
        ValueError: It is no URN.
    """
    _, _, types, _ = urn.split("::", 3)
    return types.rsplit("$", 1)[-1]


def name_of(urn: str) -> str:
    """The resource's logical name; it may itself contain ``::``.

    Raises:
        ValueError: It is no URN.
    """
    _, _, _, name = urn.split("::", 3)
    return name


def is_provider(resource_type: str) -> bool:
    """Return whether the URN is of a provider resource, explicit or default."""
    return resource_type.startswith(PROVIDER_PREFIX)


def is_default_provider(urn: str) -> bool:
    """Return whether the URN is of a default provider, which an engine makes; counts leave it out."""
    return is_provider(type_of(urn)) and DEFAULT_NAME.fullmatch(name_of(urn)) is not None


def package_of(resource_type: str) -> str:
    """The package of the plugin for this type; for a provider, the package that it serves."""
    if is_provider(resource_type):
        return resource_type[len(PROVIDER_PREFIX) :]
    return resource_type.split(":", 1)[0]


def reference(urn: str, resource_id: str) -> str:
    """Write down which provider serves a resource, as Pulumi's state does."""
    return f"{urn}::{resource_id}"


def split_reference(ref: str) -> tuple[str, str]:
    """Take a provider reference apart into URN and id."""
    urn, _, resource_id = ref.rpartition("::")
    return urn, resource_id
