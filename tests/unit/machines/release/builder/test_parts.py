"""What a wheel of the agent says of itself."""

import io
import zipfile

import pytest

from hermesops.errors import RefusedError
from hermesops.machines.release.builder.parts import Agent, read_agent
from tests.support.releases.package_index import agent_wheel


def test_a_wheel_says_what_it_is() -> None:
    assert read_agent("w", agent_wheel("0.19.0")) == Agent("0.19.0", 33, notifies=True)
    assert read_agent("w", agent_wheel("0.18.2", schema=20, notifies=False)) == Agent("0.18.2", 20, notifies=False)


def test_a_newer_one_says_its_schema_elsewhere_and_its_pythons() -> None:
    content = io.BytesIO(agent_wheel("0.22.0"))
    with zipfile.ZipFile(content, "a") as archive:
        archive.writestr("hermes_cli/config_defaults.py", 'DEFAULT_CONFIG = {\n    "_config_version": 50,\n}\n')
    assert read_agent("w", content.getvalue()).config_schema == 50


@pytest.mark.parametrize("kept", [0, 10, 100, -30])
def test_a_truncated_wheel_is_refused(kept: int) -> None:
    with pytest.raises(RefusedError, match="no whole wheel"):
        read_agent("w", agent_wheel("0.19.0")[:kept])


def test_a_wheel_with_a_changed_byte_is_refused() -> None:
    wheel = bytearray(agent_wheel("0.19.0"))
    wheel[wheel.index(b"DEFAULT_CONFIG")] ^= 1
    with pytest.raises(RefusedError, match="damaged"):
        read_agent("w", bytes(wheel))


def test_another_packages_wheel_is_refused() -> None:
    with pytest.raises(RefusedError, match="a wheel of aiohttp, not of hermes-agent"):
        read_agent("w", agent_wheel("3.14.1", name="aiohttp"))


def test_a_wheel_that_hides_its_schema_is_refused() -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(agent_wheel("0.19.0"))) as old, zipfile.ZipFile(content, "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name).replace(b"_config_version", b"_schema_version"))
    with pytest.raises(RefusedError, match="does not name its configuration version"):
        read_agent("w", content.getvalue())


def test_a_later_agent_keeps_its_configurations_version_elsewhere() -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(agent_wheel("0.21.5", schema=45))) as old, zipfile.ZipFile(content, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name == "hermes_cli/config.py":
                new.writestr("hermes_cli/config_defaults.py", data.replace(b"45,", b"45,  # raised with each key"))
                data = b"from hermes_cli.config_defaults import DEFAULT_CONFIG\n"
            new.writestr(name, data)
    assert read_agent("w", content.getvalue()) == Agent("0.21.5", 45, notifies=True)
