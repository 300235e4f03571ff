from dataclasses import replace

import pytest

from hermesops import assets
from hermesops.errors import BrokenInvariantError
from hermesops.localcloud.nspawn.base import read_definition

SHIPPED = assets.folder("images") / "base-debian12"


def test_the_shipped_definition_is_readable_and_holds_what_a_machine_cannot_do_without() -> None:
    definition = read_definition(SHIPPED)
    assert definition.name == "base-debian12"
    assert {"systemd-sysv", "dbus", "python3", "nftables", "iproute2", "openssh-server"} <= set(definition.packages)
    assert "systemd-logind.service" in definition.masked


def test_a_base_is_named_after_what_is_in_it() -> None:
    definition = read_definition(SHIPPED)
    assert definition.digest == read_definition(SHIPPED).digest
    assert definition.digest != replace(definition, packages=(*definition.packages, "less")).digest


def test_a_definition_that_is_not_there_is_a_damaged_installation() -> None:
    with pytest.raises(BrokenInvariantError, match=r"definition\.toml"):
        read_definition(SHIPPED / "nowhere")
