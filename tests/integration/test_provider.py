"""The plugin as an engine meets it: a process found on PATH, spoken to over gRPC, in front of JustAVPS's API."""

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import grpc
import pytest
from google.protobuf import struct_pb2
from google.protobuf.empty_pb2 import Empty
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc, provider_pb2_grpc, status_pb2
from pulumi.runtime.proto import provider_pb2 as proto

from hermesops.infra.provider import values
from hermesops.infra.provider.resource_types import IMAGE, MACHINE
from tests.support.vendor.fake_justavps import PRIVATE_KEY, FakeJustAvps, served

pytestmark = pytest.mark.turns(30)

NAME = "hermes-local-cell1-0123456789ab"
URN = f"urn:pulumi:cell1::fleet::hermesops:fleet:Cell${MACHINE.token}::{NAME}"
INPUTS = {"name": NAME, "region": "hel1", "server_type": "starter", "image_id": "img"}
PLUGIN = Path(sys.executable).with_name("pulumi-resource-justavps")
SEARCH_PATH = "/usr/bin:/bin"


class FakeEngine(engine_pb2_grpc.EngineServicer):
    """Hears what the plugin tells its engine."""

    def __init__(self) -> None:
        self.lines: list[engine_pb2.LogRequest] = []

    def Log(self, request: engine_pb2.LogRequest, context: object) -> Empty:  # noqa: N802 - the protocol's name
        del context
        self.lines.append(request)
        return Empty()


@dataclass
class Plugin:
    """A running plugin and its caller."""

    process: "subprocess.Popen[str]"
    stub: provider_pb2_grpc.ResourceProviderStub
    engine: FakeEngine = field(default_factory=FakeEngine)

    def create(
        self, inputs: dict[str, str] = INPUTS, *, timeout: float = 0, preview: bool = False
    ) -> proto.CreateResponse:
        request = proto.CreateRequest(urn=URN, properties=values.write(inputs), timeout=timeout, preview=preview)
        return cast("proto.CreateResponse", self.stub.Create(request))

    def update(self, machine_id: str, news: dict[str, str], *, preview: bool = False) -> proto.UpdateResponse:
        olds = values.write(INPUTS)
        return cast(
            "proto.UpdateResponse",
            self.stub.Update(
                proto.UpdateRequest(
                    id=machine_id, urn=URN, olds=olds, old_inputs=olds, news=values.write(news), preview=preview
                )
            ),
        )

    def delete(self, machine_id: str, properties: dict[str, str] = INPUTS) -> None:
        self.stub.Delete(proto.DeleteRequest(id=machine_id, urn=URN, properties=values.write(properties)))

    def read(self, machine_id: str, inputs: dict[str, str] | None = None) -> proto.ReadResponse:
        known = values.write(inputs or {})
        return cast(
            "proto.ReadResponse",
            self.stub.Read(proto.ReadRequest(id=machine_id, urn=URN, inputs=known, properties=known)),
        )

    def check(self, news: dict[str, str]) -> proto.CheckResponse:
        return cast(
            "proto.CheckResponse",
            self.stub.Check(proto.CheckRequest(urn=URN, name=NAME, olds=struct_pb2.Struct(), news=values.write(news))),
        )


@pytest.fixture
def vendor() -> Iterator[FakeJustAvps]:
    with served(FakeJustAvps()) as fake:
        yield fake


@pytest.fixture
def plugin(vendor: FakeJustAvps, tmp_path: Path) -> Iterator[Plugin]:
    key = tmp_path / "api.key"
    key.write_text(vendor.key + "\n")
    key.chmod(0o600)
    yield from started({"HERMESOPS_API_URL": vendor.url, "HERMESOPS_API_KEY_FILE": str(key), "HOME": str(tmp_path)})


def started(environment: dict[str, str]) -> Iterator[Plugin]:
    """Start the console script as an engine does; end it and check that it said nothing but its port."""
    engine = FakeEngine()
    server = grpc.server(ThreadPoolExecutor(4))
    engine_pb2_grpc.add_EngineServicer_to_server(engine, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    process = subprocess.Popen(
        [PLUGIN, f"127.0.0.1:{port}"],
        env={"PATH": SEARCH_PATH, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        with grpc.insecure_channel(f"127.0.0.1:{int(process.stdout.readline())}") as channel:
            stub = provider_pb2_grpc.ResourceProviderStub(channel)
            stub.Handshake(proto.ProviderHandshakeRequest(engine_address=f"127.0.0.1:{port}"))
            stub.Configure(proto.ConfigureRequest())
            yield Plugin(process, stub, engine)
    finally:
        process.terminate()
        out, err = process.communicate()
        server.stop(None)
    assert (out, err) == ("", "")


@dataclass(frozen=True)
class Refusal:
    """How a call ended that did not succeed."""

    code: grpc.StatusCode
    text: str
    metadata: dict[str, bytes]

    @classmethod
    def of(cls, error: BaseException | None) -> "Refusal":
        assert isinstance(error, grpc.RpcError)
        call = cast("grpc.Call", error)
        return cls(call.code(), call.details() or "", {str(k): cast("bytes", v) for k, v in call.trailing_metadata()})

    @property
    def half_made(self) -> proto.ErrorResourceInitFailed:
        """What the engine learns about a resource that exists and is not ready."""
        status = status_pb2.Status.FromString(self.metadata["grpc-status-details-bin"])
        detail = proto.ErrorResourceInitFailed()
        assert status.details[0].Unpack(detail)
        assert (status.code, status.message) == (self.code.value[0], self.text)
        return detail


def test_a_machine_is_ordered_once_and_waited_for(plugin: Plugin, vendor: FakeJustAvps) -> None:
    answer = plugin.create()
    outputs = values.read(answer.properties)
    assert vendor.orders == [INPUTS]
    assert answer.id in vendor.machines
    assert outputs.items() >= INPUTS.items()
    assert outputs["status"] == "ready"
    assert outputs["slug"] == f"m-{answer.id[:8]}"
    assert outputs["port_template"] == "https://{port}--{slug}.example.test"
    assert outputs.keys() == {*INPUTS, "slug", "status", "ip", "port_template", "created_at"}


def test_the_root_key_and_the_api_key_stay_out_of_the_state(plugin: Plugin, vendor: FakeJustAvps) -> None:
    answer = plugin.create()
    read = plugin.read(answer.id)
    output = f"{answer}{read}{plugin.engine.lines}"
    assert PRIVATE_KEY.splitlines()[1] not in output
    assert vendor.key not in output


def test_a_machine_that_exists_is_adopted(plugin: Plugin, vendor: FakeJustAvps) -> None:
    machine_id = vendor.add(NAME, image_id="img")
    assert plugin.create().id == machine_id
    assert vendor.orders == []


def test_an_order_whose_answer_was_lost_makes_one_machine(plugin: Plugin, vendor: FakeJustAvps) -> None:
    vendor.lose_orders = 1
    answer = plugin.create()
    assert list(vendor.machines) == [answer.id]
    assert len(vendor.orders) == 1


def test_a_machine_that_answers_404_at_first_is_waited_for(plugin: Plugin, vendor: FakeJustAvps) -> None:
    vendor.hidden_looks, vendor.looks_until_ready = 2, 3
    assert values.read(plugin.create().properties)["status"] == "ready"


def test_a_machine_that_is_not_ready_in_time_is_kept_with_its_id(plugin: Plugin, vendor: FakeJustAvps) -> None:
    vendor.looks_until_ready = -1
    with pytest.raises(grpc.RpcError) as caught:
        plugin.create(timeout=0.5)
    detail = Refusal.of(caught.value).half_made
    assert detail.id in vendor.machines
    assert "did not become ready in time" in detail.reasons[0]
    assert values.read(detail.properties)["status"] == "provisioning"
    assert values.read(detail.inputs) == INPUTS

    vendor.looks_until_ready = 0
    finished = plugin.update(detail.id, INPUTS)
    assert values.read(finished.properties)["status"] == "ready"
    assert len(vendor.orders) == 1


def test_cancelling_ends_a_wait_and_keeps_the_machine(plugin: Plugin, vendor: FakeJustAvps) -> None:
    vendor.looks_until_ready = -1
    call = plugin.stub.Create.future(proto.CreateRequest(urn=URN, properties=values.write(INPUTS)))
    wait_for(lambda: any("provisioning" in line.message for line in plugin.engine.lines))
    plugin.stub.Cancel(Empty())
    assert Refusal.of(call.exception()).half_made.id in vendor.machines
    with pytest.raises(grpc.RpcError) as caught:
        plugin.create({**INPUTS, "name": NAME[:-1] + "c"})
    assert Refusal.of(caught.value).code == grpc.StatusCode.CANCELLED
    assert len(vendor.orders) == 1


def test_the_engine_hears_what_is_waited_for(plugin: Plugin, vendor: FakeJustAvps) -> None:
    vendor.looks_until_ready = 2
    plugin.create()
    lines = [(line.urn, line.message, line.ephemeral) for line in plugin.engine.lines]
    assert (URN, f"waiting for {NAME} to be ready: provisioning server_creating", True) in lines


def test_a_refused_order_says_why_and_leaves_nothing(plugin: Plugin, vendor: FakeJustAvps) -> None:
    vendor.refuse_orders = True
    with pytest.raises(grpc.RpcError) as caught:
        plugin.create()
    assert Refusal.of(caught.value).code == grpc.StatusCode.FAILED_PRECONDITION
    assert "402" in Refusal.of(caught.value).text
    assert "grpc-status-details-bin" not in Refusal.of(caught.value).metadata


def test_a_machine_is_resized(plugin: Plugin, vendor: FakeJustAvps) -> None:
    machine_id = plugin.create().id
    answer = plugin.update(machine_id, INPUTS | {"server_type": "pro"})
    assert vendor.machines[machine_id]["server_type"] == "pro"
    assert values.read(answer.properties)["server_type"] == "pro"


def test_an_api_that_cannot_resize_is_a_clear_refusal(plugin: Plugin, vendor: FakeJustAvps) -> None:
    machine_id = plugin.create().id
    vendor.can_resize = False
    with pytest.raises(grpc.RpcError) as caught:
        plugin.update(machine_id, INPUTS | {"server_type": "pro"})
    assert Refusal.of(caught.value).code == grpc.StatusCode.FAILED_PRECONDITION
    assert "this API cannot resize" in Refusal.of(caught.value).text


def test_reading_tells_what_is_there_and_an_empty_id_when_nothing_is(plugin: Plugin, vendor: FakeJustAvps) -> None:
    machine_id = plugin.create().id
    vendor.machines[machine_id]["server_type"] = "ultra"
    there = plugin.read(machine_id, INPUTS)
    assert there.id == machine_id
    assert values.read(there.inputs) == INPUTS | {"server_type": "ultra"}
    imported = plugin.read(machine_id)
    assert values.read(imported.inputs) == INPUTS | {"server_type": "ultra"}
    vendor.machines.clear()
    assert plugin.read(machine_id, INPUTS).id == ""


def test_a_deleted_machine_is_gone_and_deleting_again_is_fine(plugin: Plugin, vendor: FakeJustAvps) -> None:
    machine_id = plugin.create().id
    plugin.delete(machine_id)
    assert vendor.machines == {}
    plugin.delete(machine_id)


def test_a_machine_that_is_named_otherwise_is_not_deleted(plugin: Plugin, vendor: FakeJustAvps) -> None:
    machine_id = vendor.add("hermes-local-cell1-ffffffffffff")
    with pytest.raises(grpc.RpcError, match="not changed"):
        plugin.delete(machine_id)
    with pytest.raises(grpc.RpcError, match="does not say how"):
        plugin.delete(machine_id, {})
    assert machine_id in vendor.machines


def test_previews_ask_the_vendor_nothing(plugin: Plugin, vendor: FakeJustAvps) -> None:
    vendor.key = "another"
    created = values.read(plugin.create(preview=True).properties)
    assert created["slug"] == values.UNKNOWN
    assert created["name"] == NAME
    updated = values.read(plugin.update("id", INPUTS | {"server_type": "pro"}, preview=True).properties)
    assert updated == INPUTS | {"server_type": "pro"}


def test_an_image_is_saved_read_and_deleted(plugin: Plugin, vendor: FakeJustAvps) -> None:
    machine_id = vendor.add(NAME, status="ready")
    urn = f"urn:pulumi:cell1::fleet::{IMAGE.token}::base-1"
    inputs = {"name": "base-1", "machine_id": machine_id}
    created = plugin.stub.Create(proto.CreateRequest(urn=urn, properties=values.write(inputs)))
    assert values.read(created.properties).items() >= {**inputs, "status": "ready"}.items()
    assert plugin.stub.Create(proto.CreateRequest(urn=urn, properties=values.write(inputs))).id == created.id
    imported = plugin.stub.Read(proto.ReadRequest(id=created.id, urn=urn))
    assert values.read(imported.inputs) == inputs
    old, new = values.write(inputs), values.write(inputs | {"machine_id": "another"})
    answer = plugin.stub.Diff(proto.DiffRequest(id=created.id, urn=urn, olds=old, old_inputs=old, news=new))
    assert (list(answer.replaces), answer.deleteBeforeReplace) == (["machine_id"], True)
    with pytest.raises(grpc.RpcError, match="not changed"):
        plugin.stub.Delete(proto.DeleteRequest(id=created.id, urn=urn, properties=values.write({"name": "base-2"})))
    plugin.stub.Delete(proto.DeleteRequest(id=created.id, urn=urn, properties=created.properties))
    assert vendor.images == {}
    assert plugin.stub.Read(proto.ReadRequest(id=created.id, urn=urn)).id == ""


def test_the_schema_has_both_resources(plugin: Plugin) -> None:
    schema = json.loads(plugin.stub.GetSchema(proto.GetSchemaRequest()).schema)
    assert set(schema["resources"]) == {MACHINE.token, IMAGE.token}


def test_check_fills_the_name_and_refuses_what_cannot_be(plugin: Plugin) -> None:
    answer = plugin.check({"region": "hel1", "server_type": "starter"})
    assert values.read(answer.inputs) == {"name": NAME, "region": "hel1", "server_type": "starter"}
    assert list(answer.failures) == []
    assert [failure.property for failure in plugin.check({"server_type": "starter"}).failures] == ["region"]


def test_a_new_image_means_a_new_machine_after_the_old_one(plugin: Plugin) -> None:
    old, new = values.write(INPUTS), values.write(INPUTS | {"image_id": "newer"})
    answer = plugin.stub.Diff(proto.DiffRequest(id="1", urn=URN, olds=old, old_inputs=old, news=new))
    assert (answer.changes, list(answer.replaces)) == (proto.DiffResponse.DIFF_SOME, ["image_id"])
    assert answer.deleteBeforeReplace
    assert answer.detailedDiff["image_id"].kind == proto.PropertyDiff.UPDATE_REPLACE
    same = plugin.stub.Diff(proto.DiffRequest(id="1", urn=URN, olds=old, old_inputs=old, news=old))
    assert same.changes == proto.DiffResponse.DIFF_NONE


def test_a_key_is_refused_as_configuration(plugin: Plugin) -> None:
    answer = plugin.stub.CheckConfig(proto.CheckRequest(news=values.write({"apiKey": "x", "version": "0.1.0"})))
    assert [failure.property for failure in answer.failures] == ["apiKey"]


def test_a_type_that_is_not_ours_is_named(plugin: Plugin) -> None:
    with pytest.raises(grpc.RpcError, match="no resource type 'justavps:index:Volume'"):
        plugin.stub.Check(proto.CheckRequest(urn="urn:pulumi:a::b::justavps:index:Volume::v"))


def test_a_wrong_key_is_one_line_with_what_to_do(plugin: Plugin, vendor: FakeJustAvps) -> None:
    vendor.key = "another"
    with pytest.raises(grpc.RpcError) as caught:
        plugin.create()
    assert Refusal.of(caught.value).code == grpc.StatusCode.FAILED_PRECONDITION
    assert "401" in Refusal.of(caught.value).text
    assert "Traceback" not in Refusal.of(caught.value).text


def test_a_world_that_is_not_up_is_said_when_a_machine_is_asked_for(tmp_path: Path) -> None:
    for plugin in started({"HOME": str(tmp_path)}):
        plugin.create(preview=True)
        with pytest.raises(grpc.RpcError) as caught:
            plugin.create()
        assert Refusal.of(caught.value).code == grpc.StatusCode.UNAVAILABLE
        assert "hermesops local up" in Refusal.of(caught.value).text


def test_ctrl_c_reaches_the_engine_and_not_the_plugin(plugin: Plugin) -> None:
    plugin.process.send_signal(signal.SIGINT)
    assert plugin.stub.GetPluginInfo(Empty()).version


def test_a_plugin_does_not_outlive_whoever_started_it(tmp_path: Path) -> None:
    starter = subprocess.run(
        [sys.executable, "-c", _START_AND_GO, str(PLUGIN)],
        env={"PATH": SEARCH_PATH, "HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    pid = int(starter.stdout)
    wait_for(lambda: not Path(f"/proc/{pid}").exists())


_START_AND_GO = """
import subprocess, sys
plugin = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE)
plugin.stdout.readline()
print(plugin.pid)
"""


def test_a_plugin_whose_engine_died_before_it_was_up_ends_too(tmp_path: Path) -> None:
    with socket.socket() as bound:  # bound and not listening: nobody answers, and nobody else takes the port
        bound.bind(("127.0.0.1", 0))
        plugin = subprocess.Popen(
            [PLUGIN, f"127.0.0.1:{bound.getsockname()[1]}"],
            env={"PATH": SEARCH_PATH, "HOME": str(tmp_path)},
            stdout=subprocess.DEVNULL,
        )
        assert plugin.wait(10) == 0


def test_nothing_heavy_is_loaded_before_the_port_is_told() -> None:
    heavy = ["pulumi.resource", "httpx", "pydantic", "structlog"]
    program = (
        "import sys; from hermesops.cli import provider; provider.stubs.load_only_stubs();"
        f"import hermesops.infra.provider.server; print([name for name in {heavy} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def wait_for(holds: Callable[[], bool], timeout_s: float = 10) -> None:
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)  # noqa: TID251 - a test of another process
