"""Runs a Pulumi program without an engine, state or provider: records its registrations, and makes nothing."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import pulumi
from pulumi.runtime import mocks, rpc
from pulumi.runtime.proto import resource_pb2

from hermesops.infra.stacks.registered import Registered
from hermesops.model.stack import StackRef

WITHHELD = "(secret)"
"""Stands for a value that the program marks as secret."""

_STACK = "pulumi:pulumi:Stack"


class Answers(mocks.Mocks):
    """Predicted answers of a provider: an id made of the name, and the inputs."""

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str | None, dict[Any, Any]]:
        """The id and the outputs of a resource."""
        return f"{args.name}-id", dict(args.inputs)

    def call(self, args: mocks.MockCallArgs) -> tuple[dict[Any, Any], None]:
        """Refuse: the program's resources would depend on a vendor's answer."""
        raise AssertionError(f"the program asked for {args.token}: a preview would need a vendor to know what follows")


class Notes(mocks.MockMonitor):
    """Stands for an engine's resource monitor, and notes each request."""

    def __init__(self, answers: mocks.Mocks) -> None:
        super().__init__(answers)
        self.requests: list[resource_pb2.RegisterResourceRequest] = []

    def RegisterResource(self, request: resource_pb2.RegisterResourceRequest) -> Any:  # noqa: ANN401, N802 - as in the SDK
        """Note a resource, and answer as its provider would."""
        if request.type != _STACK:
            self.requests.append(request)
        return super().RegisterResource(request)  # type: ignore[no-untyped-call]  # the SDK's is untyped

    def registered(self, *, with_secrets: bool = False) -> tuple[Registered, ...]:
        """The resources that were registered so far, by type and name; secret values are withheld unless asked for."""
        resources = [
            Registered(
                type=request.type,
                name=request.name,
                parent=_parent(request.parent),
                inputs=_plain(rpc.deserialize_properties(request.object), with_secrets=with_secrets),
                protect=request.protect,
                retain=request.retainOnDelete,
            )
            for request in self.requests
        ]
        return tuple(sorted(resources, key=lambda resource: (resource.type, resource.name)))


@contextmanager
def noting(stack: StackRef, answers: mocks.Mocks) -> Iterator[Notes]:
    """Have the SDK of this thread talk to notes; on an event loop of their own, as the SDK takes the thread's."""
    before = asyncio.get_event_loop_policy()
    asyncio.set_event_loop_policy(asyncio.DefaultEventLoopPolicy())
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    notes = Notes(answers)
    mocks.set_mocks(answers, project=stack.project, stack=stack.stack, monitor=notes)
    try:
        yield notes
    finally:
        loop.close()
        asyncio.set_event_loop_policy(before)  # and with it the loop that was current


def registered_by(program: Callable[[], Any], stack: StackRef, answers: mocks.Mocks) -> tuple[Registered, ...]:
    """Run a program to its end; call it where no event loop runs.

    Returns:
        The resources that it registers, secret values withheld.
    """
    with noting(stack, answers) as notes:
        pulumi.runtime.test(program)()  # type: ignore[no-untyped-call]  # the SDK's is untyped
        return notes.registered()


def _parent(urn: str) -> str:
    """Return type and name of a parent; empty for the stack, which has the name of the process's first program."""
    parent = "::".join(urn.split("::")[2:])
    return "" if parent.startswith(f"{_STACK}::") else parent


def _plain(value: object, *, with_secrets: bool) -> Any:  # noqa: ANN401 - JSON has no narrower type
    """Assets as their text, whole numbers as such, everything else as it is."""
    plain = partial(_plain, with_secrets=with_secrets)
    if rpc.is_rpc_secret(value):
        return plain(rpc.unwrap_rpc_secret(value)) if with_secrets else WITHHELD
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(item) for item in value]
    if isinstance(value, pulumi.StringAsset):
        return {"text": value.text}
    if isinstance(value, pulumi.AssetArchive):
        return plain(value.assets)
    return int(value) if isinstance(value, float) and value.is_integer() else value
