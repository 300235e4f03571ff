"""A gRPC server on loopback to which plugins send their log lines."""

from concurrent.futures import ThreadPoolExecutor

import grpc

from hermesops.engine.embedded.protocol.opaque import Message

SERVICE = "pulumirpc.Engine"


class LogServer:
    """Serves the engine's log to plugins; other calls are answered as unimplemented.

    Messages are parsed on the first line that comes, so that starting the server does not load the SDK.

    Args:
        log: Takes a parsed ``LogRequest``.
    """

    def __init__(self, log: Message) -> None:
        self._log = log
        self._server = grpc.server(ThreadPoolExecutor(max_workers=1))
        handler = grpc.unary_unary_rpc_method_handler(self._take)
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {"Log": handler}),))
        port = self._server.add_insecure_port("127.0.0.1:0")
        self.address = f"127.0.0.1:{port}"
        self._server.start()

    def _take(self, raw: bytes, _context: Message) -> bytes:
        from pulumi.runtime.proto import engine_pb2  # noqa: PLC0415  see the class

        self._log(engine_pb2.LogRequest.FromString(raw))
        return b""

    def close(self) -> None:
        """Stop serving at once."""
        self._server.stop(None)
