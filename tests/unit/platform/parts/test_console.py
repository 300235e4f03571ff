"""The operators' console on a host of a local world's platform."""

from pathlib import Path

from hermesops.platform.parts.console import console_part, console_settings
from hermesops.settings.environment import Environment

ISSUER, PORT = "http://127.0.0.1:7001/issuer", 7001
ORIGIN = "https://console.localhost:18091"


def env(home: Path, **settings: str) -> Environment:
    variables = {f"HERMESOPS_CONSOLE_{name.upper()}": value for name, value in settings.items()}
    return Environment.load("local", {"HOME": str(home), "HERMESOPS_HOME": str(home), **variables})


def test_without_an_origin_there_is_none(tmp_path: Path) -> None:
    assert console_part(env(tmp_path), ISSUER, PORT) is None
    assert console_settings(env(tmp_path), ISSUER) == {}


def test_its_operators_sign_in_at_the_worlds_issuer_and_workers_hear_of_it(tmp_path: Path) -> None:
    of_world = env(tmp_path, origin=ORIGIN)
    part = console_part(of_world, ISSUER, PORT)
    assert part is not None
    assert part.settings == {
        "console": {
            "origin": ORIGIN,
            "issuer": ISSUER,
            "client_id": "hermes-console",
            **{f"{name}_url": f"{ISSUER}/{name}" for name in ("keys", "authorize", "token")},
            **{name: name for name in ("viewers", "operators", "admins")},
        }
    }
    assert list(part.loopback_ports) == [PORT]
    table = part.settings["console"]
    assert isinstance(table, dict)
    assert set(console_settings(of_world, ISSUER)) == {f"console.{name}" for name in table if name != "origin"}


def test_the_operators_own_issuer_wins(tmp_path: Path) -> None:
    own = env(tmp_path, origin=ORIGIN, issuer="https://login.example.com", operators="on-call")
    part = console_part(own, ISSUER, PORT)
    assert part is not None
    assert part.settings["console"] == {
        "origin": ORIGIN,
        "issuer": "https://login.example.com",
        "operators": "on-call",
    }
    assert console_settings(own, ISSUER) == {}
