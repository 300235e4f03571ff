"""Holds a server to its OpenAPI document, one made-up call at a time."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import schemathesis
from schemathesis.generation import GenerationMode
from schemathesis.schemas import BaseSchema
from schemathesis.specs.openapi.checks import positive_data_acceptance

from hermesops.localcloud.api.keys import new_key_pair
from tests.support.vendor.openapi.document import document
from tests.support.worlds.local.served import ServedWorld, served_world

if TYPE_CHECKING:
    from schemathesis.checks import CheckFunction

Case = schemathesis.Case[Any]

TOOLBOX = r"/(toolbox/|exec$)"
"""Paths that a machine's daemon answers; it is held to the document by tests of its own."""


@dataclass(frozen=True)
class Target:
    """A world with something in it."""

    world: ServedWorld
    machine_id: str
    public_key: str

    @property
    def url(self) -> str:
        """The API's, with its prefix."""
        return f"{self.world.api_url}/api/v1"

    def schema(self) -> BaseSchema:
        """What it is held to."""
        schema = schemathesis.openapi.from_dict(document(self.url))
        schema.config.update(base_url=self.url)
        return schema


@contextlib.contextmanager
def target_in(folder: Path) -> Iterator[Target]:
    """A world of simulated machines, one of them ready."""
    with served_world(folder) as world:
        yield Target(world, world.machine(), new_key_pair("made up")[1])


def check(case: Case, target: Target) -> None:
    """Make one call and look at the answer."""
    _aim(case, target)
    # A good order that this machine's state does not allow is refused with 400 as well, as the vendor documents it.
    by_state = case.path.endswith(("/resize", "/image"))
    excluded: list[CheckFunction] = [positive_data_acceptance] if by_state else []
    case.call_and_validate(headers=target.world.headers, excluded_checks=excluded)


def _aim(case: Case, target: Target) -> None:
    """Let every other good call be about a machine that exists, and keys be keys: at random, neither ever would."""
    if case.meta is not None and case.meta.generation.mode is not GenerationMode.POSITIVE:
        return
    if case.path == "/ssh-keys" and isinstance(case.body, dict):
        case.body["public_key"] = target.public_key
    named = (case.path_parameters or {}).get("machine_id")
    if named and case.method != "DELETE" and int(str(named)[-1], 16) % 2:
        case.path_parameters["machine_id"] = target.machine_id
