"""What the local platform's program registers; mocks check wiring only."""

import asyncio
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pulumi
import pytest
from pulumi.runtime import mocks
from pulumi.runtime.proto import resource_pb2

from hermesops.infra.stacks.platform.local import LOCAL_PLATFORM_TYPE, LocalPlatformArgs, LocalPlatformProgram
from hermesops.infra.stacks.platform.outputs import PlatformOutputs
from hermesops.infra.stacks.platform.spec import PROJECT
from hermesops.infra.stacks.resources import MACHINE_TYPE

MACHINE = "hermes-local-platform"
OUTPUTS: PlatformOutputs[pulumi.Input[str]] = PlatformOutputs(
    **{field.name: f"its {field.name}" for field in fields(PlatformOutputs)}
)


class Registered(mocks.MockMonitor):
    """What the program asked of the engine, by name."""

    def __init__(self) -> None:
        super().__init__(SaysYes())
        self.asked: dict[str, resource_pb2.RegisterResourceRequest] = {}
        self.outputs: list[dict[str, Any]] = []

    def RegisterResource(self, request: resource_pb2.RegisterResourceRequest) -> Any:  # noqa: ANN401, N802 - as in the SDK
        self.asked[request.name] = request
        return super().RegisterResource(request)  # type: ignore[no-untyped-call]  # the SDK's is untyped

    def RegisterResourceOutputs(self, request: resource_pb2.RegisterResourceOutputsRequest) -> Any:  # noqa: ANN401, N802 - as above
        self.outputs.append(dict(request.outputs.items()))
        return super().RegisterResourceOutputs(request)  # type: ignore[no-untyped-call]  # as above


class SaysYes(mocks.Mocks):
    """An engine whose machines are all ready."""

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str | None, dict[Any, Any]]:
        return f"id-of-{args.name}", dict(args.inputs)

    def call(self, args: mocks.MockCallArgs) -> tuple[dict[Any, Any], None]:
        raise AssertionError(f"the program asked for {args.token}")


@pytest.fixture
def registered() -> Iterator[Registered]:
    """Mocks on an event loop of their own: the SDK takes the thread's, and tests before this may have taken it away."""
    before = asyncio.get_event_loop_policy()
    asyncio.set_event_loop_policy(asyncio.DefaultEventLoopPolicy())
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    engine = Registered()
    mocks.set_mocks(SaysYes(), project=PROJECT, stack="local", monitor=engine)
    yield engine
    loop.close()
    asyncio.set_event_loop_policy(before)  # and with it the loop that was current


def run(image_id: str | None) -> None:
    """Run the program to its end."""
    args = LocalPlatformArgs(MACHINE, region="hel1", server_type="basic", image_id=image_id, outputs=OUTPUTS)

    @pulumi.runtime.test
    def program() -> None:
        LocalPlatformProgram("local", args)()

    program()


def test_its_machine_is_protected_and_below_the_platform(registered: Registered) -> None:
    run("img")
    machine, platform = registered.asked[MACHINE], registered.asked["local"]
    assert (machine.type, machine.protect, machine.deleteBeforeReplace) == (MACHINE_TYPE, True, True)
    assert (machine.object["image_id"], machine.object["server_type"]) == ("img", "basic")
    assert platform.type == LOCAL_PLATFORM_TYPE
    assert machine.parent.endswith(f"{LOCAL_PLATFORM_TYPE}::local")


def test_without_an_image_the_machine_boots_the_vendors_base(registered: Registered) -> None:
    run(None)
    assert "image_id" not in registered.asked[MACHINE].object


def test_the_platform_says_where_its_services_are(registered: Registered) -> None:
    run(None)
    [outputs_of_host] = [outputs for outputs in registered.outputs if "database_host" in outputs]
    assert outputs_of_host == {"machine_id": f"id-of-{MACHINE}", **OUTPUTS.by_name()}
