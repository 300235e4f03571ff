"""The command line's client of a world's server; the other side of ``control``."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hermesops.errors import Hint, NotWrittenError, RefusedError, UnavailableError, UsageError

_TIMEOUT_S = 10.0
_START_S = 150.0


@dataclass(frozen=True)
class WorldStatus:
    """The state of a world; the texts are empty while it is down.

    Attributes:
        driver: Driver of its machines: ``nspawn`` or ``sim``.
        machines: ``id``, ``name``, ``slug``, ``status``, ``message``, ``image_id``, ``ip`` of each.
        images: ``id``, ``name``, ``status``, ``bytes_used`` of each.
        unsettled: Names of machines that are still being started, stopped or deleted.
        room: How many more machines would boot; ``None`` while it is down.
        figures: What that is counted from.
        unlimited: Limits of a server type that this computer cannot enforce.
        object_store: ``endpoint``, ``iam_endpoint``, ``region`` and ``key_file`` of it; ``None`` until it is needed.
        monitoring_url: Of the platform's monitoring; empty while there is none.
        users_url: Of the users' API, which the first browser starts.
        phone_url: Of the phone, by which a person writes to an agent; empty in a world without vendors.
        connector_url: Of the connector, which the first agent's socket or message starts; empty as ``phone_url``.
        model_provider_url: Of the stand-in of a model provider for users' own keys; empty as ``phone_url``.
        model_provider_keys_file: Has its keys, a key a line; empty as ``phone_url``.
    """

    is_up: bool
    api_url: str = ""
    api_key_file: str = ""
    pid: int = 0
    model_base_url: str = ""
    model_secret_file: str = ""
    subnet: str = ""
    base: str = ""
    driver: str = ""
    machines: tuple[Mapping[str, object], ...] = ()
    images: tuple[Mapping[str, object], ...] = ()
    unsettled: tuple[str, ...] = ()
    room: int | None = None
    figures: str = ""
    unlimited: tuple[str, ...] = ()
    object_store: Mapping[str, object] | None = None
    monitoring_url: str = ""
    users_url: str = ""
    phone_url: str = ""
    connector_url: str = ""
    model_provider_url: str = ""
    model_provider_keys_file: str = ""


class ControlClient:
    """A client of a world's server.

    Args:
        api_key_file: Holds its key; read at each call.
    """

    def __init__(self, api_url: str, api_key_file: Path) -> None:
        self._api_url = api_url
        self._api_key_file = api_key_file

    async def status(self) -> WorldStatus | None:
        """The world's status, without base and driver; ``None`` if its own server does not answer."""
        try:
            answer = dict(await self._ask("GET", "/local/status"))
        except UnavailableError:
            return None
        # The server may be of another version than this command: a field that it lacks has its default.
        fields = {name: answer[name] for name in WorldStatus.__dataclass_fields__ if name in answer}
        lists = {name: tuple(value) for name, value in fields.items() if isinstance(value, list)}
        return WorldStatus(is_up=True, **{**fields, **lists})

    async def faults(self) -> list[Mapping[str, object]]:
        """The faults that may still strike."""
        return list((await self._ask("GET", "/local/faults"))["faults"])

    async def set_fault(self, body: Mapping[str, object]) -> Mapping[str, object]:
        """Order a fault.

        Raises:
            UsageError: The server knows no such fault.
        """
        return dict(await self._ask("POST", "/local/faults", body))

    async def clear_faults(self) -> int:
        """Remove all faults; return their number."""
        return int((await self._ask("DELETE", "/local/faults"))["cleared"])

    async def start_object_store(self) -> Mapping[str, str]:
        """Run the object store, and return where it is once it answers.

        Raises:
            UnavailableError: Its program has not been built, or it does not come up.
        """
        return dict(await self._ask("POST", "/local/object-store", timeout_s=_START_S))

    async def _ask(
        self, method: str, path: str, body: Mapping[str, object] | None = None, *, timeout_s: float = _TIMEOUT_S
    ) -> Any:  # noqa: ANN401 - JSON
        import httpx  # noqa: PLC0415 - slow to load; a question about a world that is down ends before this

        from hermesops.base.network.http import own_client  # noqa: PLC0415 - as above

        try:
            key = self._api_key_file.read_text().strip()
        except FileNotFoundError as error:
            raise UnavailableError(f"{self._api_key_file} is missing", hint=Hint(("local", "up"))) from error
        except PermissionError as error:
            raise RefusedError(f"{self._api_key_file} belongs to another user", hint="run as its owner") from error
        async with own_client(base_url=self._api_url, timeout=timeout_s) as http:
            try:
                answer = await http.request(method, path, headers={"Authorization": f"Bearer {key}"}, json=body)
            except httpx.TransportError as error:
                raise UnavailableError(
                    f"the local world at {self._api_url} does not answer", hint=Hint(("local", "status"))
                ) from error
        if answer.status_code == httpx.codes.BAD_REQUEST:
            raise UsageError(str(answer.json().get("message")))
        if answer.is_error:
            try:
                why = f": {answer.json()['message']}"
            except (ValueError, KeyError, TypeError):
                why = ""
            if answer.status_code == httpx.codes.INSUFFICIENT_STORAGE:
                hint = Hint(
                    "make room or have it mounted writable;", ("doctor",), "tries disks; then repeat the command"
                )
                raise NotWrittenError(f"the local world's disk{why}", hint=hint)
            raise UnavailableError(
                f"the local world answered {answer.status_code}{why}", hint=Hint(("local", "status"))
            )
        return answer.json()
