"""Holds the users' API to its own description, one made-up call at a time, as ada and over HTTP."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import schemathesis
from schemathesis.schemas import BaseSchema
from schemathesis.specs.openapi.checks import ignored_auth, negative_data_rejection, positive_data_acceptance

from hermesops.api.application import openapi
from hermesops.users.user_requests import service as user_requests
from tests.support.real.stores.registries import TurnedClock
from tests.support.users.api import UsersApi, users_api

if TYPE_CHECKING:
    from schemathesis.checks import CheckFunction

Case = schemathesis.Case[Any]

_EXCLUDED: "list[CheckFunction]" = [
    positive_data_acceptance,  # where ada's state does not allow a good request, it is refused, as is documented
    ignored_auth,  # asks anew, and with the same token; tests/contract/api/test_access.py asks with all others
]


@dataclass(frozen=True)
class Target:
    """The API with ada's agent behind it, in a thread of its own.

    Attributes:
        token: Ada's.
    """

    api: UsersApi
    url: str
    token: str

    def schema(self) -> BaseSchema:
        """The description that it is held to."""
        schema = schemathesis.openapi.from_dict(openapi())
        schema.config.update(base_url=self.url)
        return schema


@contextlib.contextmanager
def target_in(folder: Path) -> Iterator[Target]:
    """The API over SQLite, without limits of how often it is asked; nobody carries out what users ask for."""
    ready, done = threading.Event(), threading.Event()
    targets: list[Target] = []

    async def serve() -> None:
        async with users_api(folder, f"sqlite:///{folder}/state/registry.db", TurnedClock()) as api:
            minutes = count()
            api.process.parts.limits._monotonic = lambda: next(minutes) * 60.0
            targets.append(Target(api, api.process.url, api.token()))
            ready.set()
            await asyncio.to_thread(done.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert ready.wait(60), "the API did not start"
    try:
        with mock.patch.object(user_requests, "DECIDED_WITHIN_S", 0.0):
            yield targets[0]
    finally:
        done.set()
        thread.join(60)


def check(case: Case, target: Target) -> None:
    """Make one call and look at the answer."""
    headers = {"authorization": f"Bearer {target.token}"}
    excluded = [*_EXCLUDED, negative_data_rejection] if _is_a_file_anyway(case) else _EXCLUDED
    case.call_and_validate(headers=headers, excluded_checks=excluded, timeout=30)


def _is_a_file_anyway(case: Case) -> bool:
    """Whether a body of another type is a good one once it is sent: parts of a form have no types, a number is text."""
    return case.media_type == "multipart/form-data" and isinstance(case.body, dict) and "file" in case.body
