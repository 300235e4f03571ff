"""What a world looks like to whoever asks. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class WorldStatus:
    """What a world looks like now; the texts are empty while it is down.

    Attributes:
        base: Name of the base that it stands on.
        driver: What runs its machines: ``nspawn`` or ``sim``.
        machines: ``id``, ``name``, ``slug``, ``status``, ``message``, ``image_id``, ``ip`` of each.
        images: ``id``, ``name``, ``status``, ``bytes_used`` of each.
        unsettled: Names of machines that are still on their way up, down or out.
        room: How many more machines would boot; ``None`` while it is down.
        figures: What that is counted from.
        unlimited: What of a server type this computer holds no machine to.
        object_store: ``endpoint``, ``iam_endpoint``, ``region`` and ``key_file`` of it; ``None`` until it is needed.
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


def status_of(seen: Mapping[str, object]) -> WorldStatus:
    """The status of a world whose server said this."""
    # The server may be of another version than this command: what it does not say has its default.
    fields = {name: seen[name] for name in WorldStatus.__dataclass_fields__ if name in seen}
    lists = {name: tuple(value) for name, value in fields.items() if isinstance(value, list)}
    return WorldStatus(is_up=True, **{**fields, **lists})  # type: ignore[arg-type]
