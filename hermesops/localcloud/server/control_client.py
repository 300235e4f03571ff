"""Asks a world's server for what only its own command line asks; the other side of ``control``."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermesops.errors import RefusedError, UnavailableError, UsageError

if TYPE_CHECKING:
    import httpx

_TIMEOUT_S = 10.0
_START_S = 150.0


@dataclass(frozen=True)
class Access:
    """Where the server is and where its key lies."""

    api_url: str
    api_key_file: Path


async def status(access: Access) -> Mapping[str, object] | None:
    """What the world looks like; ``None`` while the server does not answer, or is another world's."""
    try:
        return dict(await _ask(access, "GET", "/local/status"))
    except UnavailableError:
        return None


async def faults(access: Access) -> list[Mapping[str, object]]:
    """Faults that wait to happen."""
    return list((await _ask(access, "GET", "/local/faults"))["faults"])


async def set_fault(access: Access, body: Mapping[str, object]) -> Mapping[str, object]:
    """Order a fault.

    Raises:
        UsageError: The server knows no such fault.
    """
    return dict(await _ask(access, "POST", "/local/faults", body))


async def clear_faults(access: Access) -> int:
    """Forget all faults."""
    return int((await _ask(access, "DELETE", "/local/faults"))["cleared"])


async def start_object_store(access: Access) -> Mapping[str, str]:
    """Run the object store, and return where it is once it answers.

    Raises:
        UnavailableError: Its program has not been built, or it does not come up.
    """
    return dict(await _ask(access, "POST", "/local/object-store", timeout_s=_START_S))


async def _ask(
    access: Access,
    method: str,
    path: str,
    body: Mapping[str, object] | None = None,
    *,
    timeout_s: float = _TIMEOUT_S,
) -> Any:  # noqa: ANN401 - JSON
    import httpx  # noqa: PLC0415 - slow to load; a look at a world that is down ends before this

    try:
        key = access.api_key_file.read_text().strip()
    except FileNotFoundError as error:
        raise UnavailableError(f"{access.api_key_file} is missing", hint="hermesops local up") from error
    except PermissionError as error:
        raise RefusedError(f"{access.api_key_file} belongs to somebody else", hint="run as its owner") from error
    # trust_env: a proxy for the internet is no way to this computer's own loopback.
    async with httpx.AsyncClient(base_url=access.api_url, timeout=timeout_s, trust_env=False) as http:
        try:
            answer = await http.request(
                method, path, headers={"Authorization": f"Bearer {key}"}, json=body if body is not None else None
            )
        except httpx.TransportError as error:
            raise UnavailableError(
                f"the local world at {access.api_url} does not answer", hint="hermesops local status"
            ) from error
    if answer.status_code == httpx.codes.BAD_REQUEST:
        raise UsageError(str(answer.json().get("message")))
    if answer.is_error:
        raise UnavailableError(
            f"the local world answered {answer.status_code}{_why(answer)}", hint="hermesops local status"
        )
    return answer.json()


def _why(answer: "httpx.Response") -> str:
    """Its own words, where it has any."""
    try:
        return f": {answer.json()['message']}"
    except (ValueError, KeyError, TypeError):
        return ""
