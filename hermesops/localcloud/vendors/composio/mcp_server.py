"""The MCP server of one session at the local Composio: streamable HTTP, with a tool for each connected account.

Source: Model Context Protocol, revision 2025-06-18, "Transports" (streamable HTTP) and "Lifecycle".
"""

import json
import secrets
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

PROTOCOL = "2025-06-18"
_BOTH = ("application/json", "text/event-stream")


class McpServer:
    """One session's server.

    Args:
        user: Composio's name of the owner.
        accounts: Ids of connected accounts by toolkit.
    """

    def __init__(self, user: str, accounts: Mapping[str, tuple[str, ...]]) -> None:
        self.user = user
        self.accounts = accounts
        self._sessions: set[str] = set()
        self.calls: list[Mapping[str, Any]] = []

    async def answer(self, request: Request) -> Response:
        """Answer one request of an MCP client."""
        if request.method == "GET":
            return _refusal(HTTPStatus.METHOD_NOT_ALLOWED, "no stream of the server's own")
        session = request.headers.get("mcp-session-id", "")
        if request.method == "DELETE":
            self._sessions.discard(session)
            return Response(status_code=HTTPStatus.NO_CONTENT)
        if not all(kind in request.headers.get("accept", "") for kind in _BOTH):
            return _refusal(HTTPStatus.NOT_ACCEPTABLE, "a client takes JSON and event streams")
        message = json.loads(await request.body())
        if message.get("method") == "initialize":
            session = secrets.token_hex(16)
            self._sessions.add(session)
            return JSONResponse(_result(message, _about()), headers={"mcp-session-id": session})
        if session not in self._sessions:
            return _refusal(HTTPStatus.NOT_FOUND, "no such session")
        if "id" not in message:
            return Response(status_code=HTTPStatus.ACCEPTED)
        return self._result_of(message)

    def _result_of(self, message: Mapping[str, Any]) -> Response:
        match message["method"]:
            case "ping":
                return JSONResponse(_result(message, {}))
            case "tools/list":
                return JSONResponse(_result(message, {"tools": [_tool(name) for name in self._tools()]}))
            case "tools/call":
                return self._called(message)
        error = {"code": -32601, "message": "no such method"}
        return JSONResponse({"jsonrpc": "2.0", "id": message["id"], "error": error})

    def _called(self, message: Mapping[str, Any]) -> Response:
        """Carry out a call, and stream its result."""
        params = message["params"]
        self.calls.append(params)
        account = self._tools().get(params["name"])
        text = f"{params['name']} as {self.user} with {account}" if account else "no such tool"
        result = {"content": [{"type": "text", "text": text}], "isError": account is None}
        stream = f": one result\n\nevent: message\ndata: {json.dumps(_result(message, result))}\n\n"
        return Response(stream, media_type="text/event-stream")

    def _tools(self) -> dict[str, str]:
        return {f"{toolkit.upper()}_WHO_AM_I": ids[0] for toolkit, ids in sorted(self.accounts.items())}


def _about() -> dict[str, object]:
    server = {"name": "composio", "version": "1"}
    return {"protocolVersion": PROTOCOL, "capabilities": {"tools": {}}, "serverInfo": server}


def _tool(name: str) -> dict[str, object]:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    return {"name": name, "description": "Say which account is used.", "inputSchema": schema}


def _result(message: Mapping[str, Any], result: Mapping[str, object]) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": message["id"], "result": dict(result)}


def _refusal(status: HTTPStatus, words: str) -> JSONResponse:
    return JSONResponse({"error": {"message": words}}, status)
