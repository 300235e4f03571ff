"""What short commands do without: each of these libraries takes longer to import than the command to do its work."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

NOT_NEEDED = {
    "alembic",
    "ansible",
    "boto3",
    "grpc",
    "httpx",
    "jinja2",
    "paramiko",
    "psycopg",
    "pulumi",
    "rich",
    "sqlalchemy.dialects.postgresql",
    "sqlalchemy.orm",
    "structlog",
    "yaml",
}
WINGS = {"app", "base", "cli", "errors", "model", "settings", "views", "wire"}
"""Wings of which any module may be imported: they are small, and need no library of the list above."""

PACKAGES = {
    *("access.identity", "access.registry_place", "access.secrets", "agents.health", "agents.instances"),
    *("automation.doctor", "store.operations", "store.registry"),
}
"""Packages of other wings that answer from the registry."""

WHETHER_MONITORED = {
    *("hermesops.localcloud", "hermesops.localcloud.world", "hermesops.localcloud.world.files"),
    *("hermesops.observability", "hermesops.observability.telemetry", "hermesops.observability.telemetry.addresses"),
    *("hermesops.observability.telemetry.endpoint", "hermesops.observability.telemetry.platform_monitoring"),
}
"""Modules that say whether there is monitoring to ask for alerts; its client is imported only then."""

INSTANCES = {"hermesops.agents.instances", "hermesops.agents.instances.directory"}
"""Modules of ``instances`` that answer from the registry; the others reach machines."""

PROGRAM = """
import sys
from hermesops.cli.main import main
sys.argv = ["hermesops", *sys.argv[1:]]
code = main()
sys.stderr.write(" ".join(sys.modules))
sys.exit(code)
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    modules_of(folder, "fleet", "status")  # makes the registry
    return folder


@pytest.mark.parametrize("words", [("fleet", "status"), ("operation", "list"), ("instance", "list")], ids=" ".join)
def test_a_command_that_asks_the_registry_imports_no_more_than_that(home: Path, words: tuple[str, ...]) -> None:
    loaded = modules_of(home, *words)
    assert loaded & NOT_NEEDED == set()
    ours = [name.split(".")[1:] for name in loaded - WHETHER_MONITORED if name.startswith("hermesops.")]
    assert {".".join(parts[:2]) for parts in ours if len(parts) > 1 and parts[0] not in WINGS} <= PACKAGES
    assert {name for name in loaded if name.startswith("hermesops.agents.instances")} <= INSTANCES


def test_a_command_about_rows_of_certificates_loads_no_library_of_certificates(home: Path) -> None:
    assert not modules_of(home, "relay", "list") & {"cryptography.x509", "httpx"}


def modules_of(home: Path, *words: str) -> set[str]:
    """What a command has imported by its end."""
    environ = {key: value for key, value in os.environ.items() if not key.startswith("HERMESOPS_")}  # noqa: TID251 - as a user has it
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words],
        env={**environ, "HERMESOPS_HOME": str(home)},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(ran.stderr.split())
