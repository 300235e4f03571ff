import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from hermesops.base import assets
from hermesops.errors import BrokenInvariantError, RefusedError, UsageError
from hermesops.localcloud.drivers.nspawn.disks.base_image import ensure_base, find_definition, read_definition

IMAGES = assets.folder("images")
SHIPPED = IMAGES / "base-debian12"
BASES = sorted(path.parent for path in IMAGES.glob("base-*/definition.toml"))


@pytest.mark.parametrize("folder", BASES, ids=lambda folder: folder.name)
def test_a_shipped_definition_is_readable_and_holds_what_a_machine_cannot_do_without(folder: Path) -> None:
    definition = read_definition(folder)
    assert definition.name == folder.name
    assert {"systemd-sysv", "dbus", "python3", "nftables", "iproute2", "openssh-server"} <= set(definition.packages)
    assert "systemd-logind.service" in definition.masked


def test_a_base_is_named_after_what_is_in_it() -> None:
    definition = read_definition(SHIPPED)
    assert definition.digest == read_definition(SHIPPED).digest
    assert definition.digest != replace(definition, packages=(*definition.packages, "less")).digest


def test_packages_of_the_platform_are_in_a_base_of_their_own() -> None:
    definition = read_definition(SHIPPED)
    whole = definition.for_platform()
    assert set(whole.packages) - set(definition.packages) == set(definition.platform_packages)
    assert (whole.name, whole.masked, whole.excluded) == (
        f"{definition.name}-platform",
        definition.masked,
        definition.excluded,
    )
    assert len({definition.digest, whole.digest}) == 2
    assert replace(definition, platform_packages=()).digest == definition.digest
    assert whole.for_platform() is whole


ANY_CLOCK = "__hermes_base_clock_packages"
"""One of these is enough."""


def packages_of(roles: str) -> set[str]:
    """The packages that roles of such names install, by their variables."""
    packages = set[str]()
    for file in assets.folder("roles").glob(f"{roles}/*/main.yml"):
        variables = yaml.safe_load(file.read_text()) if file.parent.name in {"defaults", "vars"} else {}
        for name, value in variables.items():
            if name.endswith("_packages") and name != ANY_CLOCK:
                packages.update(*value.values()) if isinstance(value, dict) else packages.update(value)
    return packages


def test_the_default_base_has_each_package_that_a_role_installs() -> None:
    definition = read_definition(SHIPPED)
    assert packages_of("hermes_[!p]*") <= {*definition.packages}
    assert "prometheus" in packages_of("hermes_[!p]*")
    assert packages_of("hermes_platform_[!a]*") <= {*definition.for_platform().packages}
    assert {*definition.platform_packages} <= packages_of("hermes_platform_[!a]*"), "no role needs it"


def test_a_definition_that_is_not_there_is_a_damaged_installation() -> None:
    with pytest.raises(BrokenInvariantError, match=r"definition\.toml"):
        read_definition(SHIPPED / "nowhere")


def test_each_shipped_base_is_of_another_distribution() -> None:
    assert {read_definition(folder).suite for folder in BASES} == {"bookworm", "noble", "trixie"}
    assert len({read_definition(folder).digest for folder in BASES}) == len(BASES)


def test_a_machine_of_any_base_holds_no_more_inotify_instances_than_another() -> None:
    assert len({read_definition(folder).masked for folder in BASES}) == 1


def test_no_base_names_a_mirror() -> None:
    for folder in BASES:
        keys = set(tomllib.loads((folder / "definition.toml").read_text()))
        assert keys <= {"suite", "components", "packages", "platform_packages", "masked", "excluded", "kept", "needs"}
        assert "://" not in (folder / "definition.toml").read_text()


def test_a_base_is_found_by_its_name_and_an_unknown_one_lists_them() -> None:
    assert find_definition(IMAGES, "base-ubuntu2404") == IMAGES / "base-ubuntu2404"
    for name in ("ubuntu", "hermes-base", "../images/base-debian12", ""):
        with pytest.raises(UsageError, match="no base") as caught:
            find_definition(IMAGES, name)
        assert "base-debian12, base-debian13, base-ubuntu2404" in str(caught.value.hint)


def test_what_this_computer_lacks_for_a_base_is_named_with_its_package_before_anything_is_made(tmp_path: Path) -> None:
    wants = {str(tmp_path): "there", "/nowhere/keyring.gpg": "some-keyring"}
    definition = replace(read_definition(SHIPPED), needs=wants)
    with pytest.raises(RefusedError, match=r"/nowhere/keyring\.gpg.*base-debian12") as caught:
        ensure_base(definition, tmp_path / "cache", lambda _: None)
    assert "apt-get install some-keyring " in str(caught.value.hint)
    assert not (tmp_path / "cache").exists()


def test_what_a_base_needs_of_this_computer_does_not_make_it_another_one() -> None:
    definition = read_definition(SHIPPED)
    assert replace(definition, needs={"/a": "b"}).digest == definition.digest
