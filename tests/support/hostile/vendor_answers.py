"""What a hostile vendor answers, whatever it is asked."""

from collections.abc import Callable
from typing import Any

import httpx

OURS = "hermes-local-cell1-ffffffffffff"
THEIRS = "somebody-elses-database"


def machine(**changes: object) -> dict[str, Any]:
    """A machine as the vendor lists it."""
    return {"id": "m-9", "name": OURS, "status": "ready", "server_type": "starter", "region": "hel1", **changes}


def _json(value: object, status: int = 200) -> Callable[[], httpx.Response]:
    return lambda: httpx.Response(status, json=value)


def _text(body: str, status: int = 200, **headers: str) -> Callable[[], httpx.Response]:
    return lambda: httpx.Response(
        status, headers={name.replace("_", "-"): text for name, text in headers.items()}, content=body.encode()
    )


def _many() -> httpx.Response:
    return httpx.Response(200, json={"machines": [machine(id=f"m-{number}") for number in range(100_000)]})


ANSWERS: dict[str, Callable[[], httpx.Response]] = {
    "another_thing": _json(machine(id="m-666", name=THEIRS)),
    "another_name": _json(machine(id="m-1", name=THEIRS)),
    "another_id": _json(machine(id="m-666")),
    "others_listed": _json({"machines": [machine(id="m-1", name=THEIRS)], "images": []}),
    "one_id_twice": _json({"machines": [machine(id="m-1"), machine(id="m-1", name=THEIRS)]}),
    "one_name_twice": _json({"machines": [machine(id="m-1"), machine(id="m-2")]}),
    "a_path_for_an_id": _json({"machines": [machine(id="../account")], "id": "../../x"}),
    "a_command_for_an_id": _json({"machines": [machine(id="$(reboot)")], "id": "`id`"}),
    "a_line_in_an_id": _json({"machines": [machine(id="m-1\r\nHost: attacker.example")], "id": "m-1\n"}),
    "a_status_nobody_knows": _json(machine(id="m-1", status="\u001b[2Jhaunted", region=None)),
    "a_price_of_nan": _text('{"id": "m-1", "price_monthly": NaN}'),
    "a_price_of_1e400": _text('{"id": "m-1", "price_monthly": 1e400}'),
    "a_date_of_nowhen": _json(machine(id="m-1", created_at="9999999999999-13-45")),
    "moved_elsewhere": _text("", 302, Location="https://attacker.example/api/v1/machines"),
    "moved_in_the_clear": _text("", 301, Location="http://vendor.example/api/v1/machines"),
    "moved_keeping_the_method": _text("", 307, Location="https://attacker.example/api/v1/machines"),
    "a_page": _text("<html><script>alert(1)</script>", Content_Type="text/html"),
    "a_page_of_an_error": _text("<html>\x1b]52;c;eA==\x07", 404),
    "a_key": _json({"message": "-----BEGIN OPENSSH PRIVATE KEY-----\nx"}, 409),
    "packed": _text("x", Content_Encoding="gzip"),
    "nothing": _text(""),
    "null": _text("null"),
    "a_list": _json([]),
    "nested": _text("[" * 100_000),
    "a_name_twice": _text('{"id": "m-1", "id": "m-2", "name": "x"}'),
    "bytes": lambda: httpx.Response(200, content=bytes(range(256)) * 64),
    "many": _many,
}
