"""A provider plugin for engine tests: the same semantics as the one that the CLI's recordings were made with.

Run as a program it is a plugin; what it manages is a JSON file. Types: Machine (``region`` replaces, new first;
``hostname`` replaces, old first; all else updates) and Image (``source`` replaces). Faults come from a file.
"""

import contextlib
import fcntl
import json
import os
import socket
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from zlib import crc32

import grpc
from google.protobuf import any_pb2, empty_pb2
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.struct_pb2 import Struct
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc, status_pb2

Message = Any
"""Of the protocol: importing the engine's own word for it would load the whole engine with each plugin."""

SIGNATURE = "4dabf18193072939515e22adb298388d"
SECRET = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105  the protocol's mark, no secret
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
REPLACES = {"justavps:index:Machine": {"region", "hostname"}, "justavps:index:Image": {"source"}}


def struct(value: dict[str, Any]) -> Struct:
    return ParseDict(value, Struct())


def plain(value: Struct) -> dict[str, Any]:
    return dict(MessageToDict(value))


def address_of(name: str) -> str:
    """By its name: which of independent things is made first is chance."""
    return f"10.0.0.{crc32(name.encode()) % 250 + 1}"


class FakeProvider(provider_pb2_grpc.ResourceProviderServicer):
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def _note(self, rpc: str, request: Message) -> None:
        with (self.folder / "calls.jsonl").open("a") as out:
            out.write(
                json.dumps({"rpc": rpc, "request": MessageToDict(request, preserving_proto_field_name=True)}) + "\n"
            )

    @contextlib.contextmanager
    def _world(self) -> Iterator[dict[str, Any]]:
        """The world, for one caller at a time: threads and other plugins change it too."""
        file = self.folder / "world.json"
        with (self.folder / "world.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            world = json.loads(file.read_text()) if file.exists() else {"counters": {}, "objects": {}}
            yield world
            spare = self.folder / "world.json.new"
            spare.write_text(json.dumps(world))
            spare.replace(file)

    def _fault(self, rpc: str, name: str, context: grpc.ServicerContext) -> dict[str, Any] | None:
        file = self.folder / "faults.json"
        for fault in json.loads(file.read_text()) if file.exists() else []:
            if (fault["rpc"], fault["name"]) != (rpc, name):
                continue
            match fault["action"]:
                case "slow":
                    time.sleep(fault["seconds"])  # noqa: TID251  a plugin process of its own
                case "error":
                    context.abort(getattr(grpc.StatusCode, fault.get("code", "UNKNOWN")), fault["message"])
                case "crash":
                    sys.stderr.write("the plugin falls over\n")
                    sys.stderr.flush()
                    os._exit(3)
                case _:
                    return dict(fault)
        return None

    def Handshake(self, _request: Message, _context: grpc.ServicerContext) -> Message:  # noqa: N802
        return provider_pb2.ProviderHandshakeResponse(accept_secrets=True, accept_resources=True)

    def GetPluginInfo(self, _request: Message, _context: grpc.ServicerContext) -> Message:  # noqa: N802
        return plugin_pb2.PluginInfo(version="0.1.0")

    def CheckConfig(self, request: Message, _context: grpc.ServicerContext) -> Message:  # noqa: N802
        return provider_pb2.CheckResponse(inputs=request.news)

    def DiffConfig(self, request: Message, _context: grpc.ServicerContext) -> Message:  # noqa: N802
        same = plain(request.old_inputs) == plain(request.news)
        none, some = provider_pb2.DiffResponse.DIFF_NONE, provider_pb2.DiffResponse.DIFF_SOME
        return provider_pb2.DiffResponse(changes=none if same else some, hasDetailedDiff=True)

    def Configure(self, _request: Message, _context: grpc.ServicerContext) -> Message:  # noqa: N802
        return provider_pb2.ConfigureResponse(acceptSecrets=True, acceptResources=True, supportsPreview=True)

    def Check(self, request: Message, _context: grpc.ServicerContext) -> Message:  # noqa: N802
        self._note("Check", request)
        news, olds = plain(request.news), plain(request.olds)
        if news.get("size") == "bogus":
            failure = provider_pb2.CheckFailure(property="size", reason="size must be one of starter, basic, pro")
            return provider_pb2.CheckResponse(inputs=request.news, failures=[failure])
        defaults = {"size": "starter", "region": "fra"} if request.type.endswith("Machine") else {}
        inputs = {**defaults, "name": olds.get("name", request.name), **news}
        return provider_pb2.CheckResponse(inputs=struct(inputs))

    def Diff(self, request: Message, _context: grpc.ServicerContext) -> Message:  # noqa: N802
        self._note("Diff", request)
        olds, news = plain(request.old_inputs), plain(request.news)
        changed = sorted(key for key in {*olds, *news} if olds.get(key) != news.get(key))
        replaces = [key for key in changed if key in REPLACES[request.type]]
        return provider_pb2.DiffResponse(
            changes=provider_pb2.DiffResponse.DIFF_SOME if changed else provider_pb2.DiffResponse.DIFF_NONE,
            diffs=changed,
            replaces=replaces,
            deleteBeforeReplace="hostname" in replaces,
        )

    def Create(self, request: Message, context: grpc.ServicerContext) -> Message:  # noqa: N802
        self._note("Create", request)
        inputs = plain(request.properties)
        if request.preview:
            return provider_pb2.CreateResponse(properties=struct({**inputs, "ip": UNKNOWN, "status": UNKNOWN}))
        self._fault("Create", request.name, context)
        with self._world() as world:
            machine_id = next((k for k, v in world["objects"].items() if v["name"] == inputs["name"]), None)
            if machine_id is None:
                number = world["counters"][request.name] = world["counters"].get(request.name, 0) + 1
                machine_id = f"machine-{request.name}-{number}"
                world["objects"][machine_id] = {"name": inputs["name"], "inputs": inputs}
            outputs = {**inputs, "ip": address_of(request.name), "status": "running"}
        if inputs.get("password"):
            outputs["rootPassword"] = {SIGNATURE: SECRET, "value": f"pw-{machine_id}"}
        self._partial("Create", request, context, machine_id, outputs)
        return provider_pb2.CreateResponse(id=machine_id, properties=struct(outputs))

    def _partial(
        self, rpc: str, request: Message, context: grpc.ServicerContext, resource_id: str, outputs: dict[str, Any]
    ) -> None:
        fault = self._fault(rpc + "-after", request.name, context)
        if fault is None or fault["action"] != "partial":
            return
        detail = provider_pb2.ErrorResourceInitFailed(
            id=resource_id, properties=struct(outputs), reasons=["machine did not become ready"]
        )
        packed = any_pb2.Any()
        packed.Pack(detail)
        status = status_pb2.Status(code=2, message="machine did not become ready", details=[packed])
        context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
        context.abort(grpc.StatusCode.UNKNOWN, "machine did not become ready")

    def Update(self, request: Message, context: grpc.ServicerContext) -> Message:  # noqa: N802
        self._note("Update", request)
        news, olds = plain(request.news), plain(request.olds)
        if not request.preview:
            self._fault("Update", request.name, context)
            with self._world() as world:
                world["objects"][request.id]["inputs"] = news
        return provider_pb2.UpdateResponse(properties=struct({**news, "ip": olds["ip"], "status": "running"}))

    def Read(self, request: Message, context: grpc.ServicerContext) -> Message:  # noqa: N802
        """By id, or without one by the name in the inputs."""
        self._note("Read", request)
        self._fault("Read", request.name, context)
        name = plain(request.inputs).get("name")
        with self._world() as world:
            objects = world["objects"]
            machine_id = request.id or next((key for key, thing in objects.items() if thing["name"] == name), "")
            if machine_id not in objects:
                return provider_pb2.ReadResponse()
            inputs = objects[machine_id]["inputs"]
            status = objects[machine_id].get("status", "running")
        given = plain(request.properties)
        outputs = {**given, **inputs, "ip": given.get("ip", "10.0.0.1"), "status": status}
        if inputs.get("password"):
            outputs["rootPassword"] = {SIGNATURE: SECRET, "value": f"pw-{machine_id}"}
        return provider_pb2.ReadResponse(id=machine_id, inputs=struct(inputs), properties=struct(outputs))

    def Delete(self, request: Message, context: grpc.ServicerContext) -> Message:  # noqa: N802
        self._note("Delete", request)
        self._fault("Delete", request.name, context)
        with self._world() as world:
            world["objects"].pop(request.id, None)
        return empty_pb2.Empty()

    def Cancel(self, _request: Message, _context: grpc.ServicerContext) -> Message:  # noqa: N802
        return empty_pb2.Empty()


def main() -> None:
    server = grpc.server(ThreadPoolExecutor(max_workers=16))
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(FakeProvider(Path.cwd()), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    wait_for_the_engine_to_end(server, sys.argv[-1])


def wait_for_the_engine_to_end(server: grpc.Server, engine: str) -> None:
    """A killed engine takes no plugin with it; its address is asked too, as it may die before the parent is noted."""
    host, _, port = engine.rpartition(":")
    parent, unanswered = os.getppid(), 0
    while os.getppid() == parent and unanswered < 2:  # one may be lost to a busy computer
        server.wait_for_termination(timeout=1)
        if port.isdecimal():
            try:
                socket.create_connection((host, int(port)), timeout=5).close()
                unanswered = 0
            except OSError:
                unanswered += 1


if __name__ == "__main__":
    main()
