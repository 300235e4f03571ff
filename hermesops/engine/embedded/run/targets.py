"""Which resources a run may touch, when only some were named; and what is said when that does not add up. Pure.

Source: recordings, ``targets``.
"""

from collections.abc import Collection, Iterable

from hermesops.engine.embedded.state.deployment import Resource


def unmade(urn: str, needed: str) -> str:
    """Say that a target needs something that does not exist and is no target."""
    return f"Resource '{urn}' depends on '{needed}' which was was not specified in --target list."


def not_named(urn: str) -> str:
    """Say that something cannot stay without a target and is none itself."""
    return (
        f"Resource '{urn}' will be destroyed but was not specified in --target list.\n"
        "Either include resource in --target list or pass --target-dependents to proceed."
    )


def missing(urn: str) -> str:
    """Say that a target is not there."""
    return f"Target '{urn}' could not be found in the stack. Did you forget to escape $ in your shell?"


def left_behind(resources: Iterable[Resource], victims: Collection[Resource]) -> list[Resource]:
    """What needs one of the victims and is none itself, also by way of others."""
    going = {victim.urn for victim in victims}
    found: list[Resource] = []
    for resource in resources:  # a state's list has what is needed before what needs it
        if resource.urn not in going and resource.needs() & going:
            going.add(resource.urn)
            found.append(resource)
    return found
