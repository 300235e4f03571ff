"""Names of what a build makes at the vendor: the only thing by which a killed build's leftovers are found again.

They follow the scheme of ``hermesops.model.ids.machine_name`` with a purpose where a cell stands, so ``build`` and
``proof`` cannot be names of cells.
"""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

from hermesops.justavps.wire import Machine
from hermesops.model.ids import MachineName

PURPOSES = ("build", "proof")

_KEY_LENGTH = 12

_BUILD_LASTS = timedelta(hours=2)


@dataclass(frozen=True)
class BuildNames:
    """Names for one environment, image and digest of inputs: the same inputs always find the same leftovers.

    Attributes:
        builder: Machine the roles are applied to.
        proof: Machine that is booted from the image and checked.
        image: Name of the image at the vendor.
    """

    builder: MachineName
    proof: MachineName
    image: str


def names_of(environment: str, image: str, digest: str) -> BuildNames:
    """The names a build uses.

    Args:
        environment: Name of the environment; its dashes are dropped.
        image: The image's name.
        digest: SHA-256 over the build's inputs, in hexadecimal.
    """
    prefix, key = _prefix(environment), digest[:_KEY_LENGTH]
    return BuildNames(
        builder=MachineName(f"{prefix}-build-{key}"),
        proof=MachineName(f"{prefix}-proof-{key}"),
        image=f"{image}-{key}",
    )


def is_build_machine(name: str, environment: str) -> bool:
    """Whether a machine was made by some build of an environment."""
    purposes = "|".join(PURPOSES)
    return re.fullmatch(rf"{re.escape(_prefix(environment))}-({purposes})-[0-9a-f]{{{_KEY_LENGTH}}}", name) is not None


def is_build_under_way(machine: Machine, environment: str, now: datetime) -> bool:
    """Whether a build may still use a machine; older ones were left behind by a killed build."""
    age = now - machine.created_at if machine.created_at else timedelta()
    return is_build_machine(machine.name, environment) and age < _BUILD_LASTS


def _prefix(environment: str) -> str:
    return f"hermes-{environment.replace('-', '')}"
