"""What machines of tests boot from, kept between test runs."""

import os
from pathlib import Path

from hermesops.base import assets
from hermesops.localcloud.drivers.nspawn.disks.base_image import find_definition, read_definition
from hermesops.settings.fields import FIELDS
from tests.support.suite.kept import cached_bases


def tested_base() -> Path:
    """The definition of the base that machines boot from: the default's, unless the environment names another."""
    named = os.environ.get("HERMESOPS_TEST_BASE")  # noqa: TID251 - the tests' own switch, not a setting
    return find_definition(assets.folder("images"), named or FIELDS["local.base"].default)


def manifest(*, for_platform: bool = False) -> Path:
    """What that base consists of, with the platform's packages or without; there once it has been built."""
    definition = read_definition(tested_base())
    definition = definition.for_platform() if for_platform else definition
    return cached_bases() / f"{definition.name}-{definition.digest}" / "base.json"
