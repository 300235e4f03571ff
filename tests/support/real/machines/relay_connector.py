"""A connector of hermes-agent's relay for a test, which runs on the agent's machine under the agent's own Python.

It answers the gateway's handshake, sends messages of one chat at given times, takes whatever the gateway sends, and
writes each frame as a line of JSON, with the seconds since the first message.

Usage: ``python relay_connector.py PORT LOG AFTER TEXT [AFTER TEXT …]``; ends when its gateway has gone.

Source: hermes-agent 0.19.0, ``gateway/relay/ws_transport.py``: frames are lines of JSON in texts of one web socket.
"""

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

_DESCRIPTOR = {
    "contract_version": 1,
    "platform": "relay",
    "label": "Relay",
    "max_message_length": 4096,
    "supports_draft_streaming": False,
    "supports_edit": False,
    "supports_threads": False,
    "markdown_dialect": "plain",
    "len_unit": "chars",
}
_SOURCE = {"platform": "relay", "chat_id": "tg.111", "chat_type": "dm", "user_id": "111", "user_name": "ada"}


async def main(port: int, log: Path, messages: list[tuple[float, str]]) -> None:
    """Serve one gateway."""
    import websockets  # noqa: PLC0415 - the agent's, where this runs

    ended = asyncio.Event()

    async def serve(socket: Any) -> None:  # noqa: ANN401 - of a library that only machines have
        sending, began = None, 0.0
        async for chunk in socket:
            for frame in map(json.loads, filter(str.strip, chunk.split("\n"))):
                if frame["type"] == "hello":
                    await send(socket, {"type": "descriptor", "descriptor": _DESCRIPTOR})
                    began = began or time.monotonic()
                    sending = sending or asyncio.create_task(speak(socket, messages))
                if frame["type"] == "outbound":
                    result = {"success": True, "message_id": frame["requestId"][:8], "name": "ada", "type": "dm"}
                    await send(socket, {"type": "outbound_result", "requestId": frame["requestId"], "result": result})
                with log.open("a") as file:
                    file.write(json.dumps({"at": round(time.monotonic() - began, 2), **frame}) + "\n")
        ended.set()

    async with websockets.serve(serve, "127.0.0.1", port):
        await ended.wait()


async def speak(socket: Any, messages: list[tuple[float, str]]) -> None:  # noqa: ANN401 - as above
    """Send the user's messages."""
    for number, (after, text) in enumerate(messages):
        await asyncio.sleep(after)  # noqa: TID251 - the user's own pause, on a machine without hermesops
        event = {"text": text, "message_type": "text", "message_id": f"m{number}", "source": _SOURCE}
        await send(socket, {"type": "inbound", "event": event})


async def send(socket: Any, frame: dict[str, Any]) -> None:  # noqa: ANN401 - as above
    """Send one frame."""
    await socket.send(json.dumps(frame) + "\n")


if __name__ == "__main__":
    words = sys.argv[3:]
    pairs = [(float(after), text) for after, text in zip(words[::2], words[1::2], strict=True)]
    asyncio.run(main(int(sys.argv[1]), Path(sys.argv[2]), pairs))
