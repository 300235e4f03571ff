"""What a platform's stack exports, and how it is read again."""

from dataclasses import fields

import pytest

from hermesops.errors import RefusedError
from hermesops.infra.stacks.platform.outputs import PlatformOutputs, platform_outputs

EXPORTED = {field.name: f"the {field.name}" for field in fields(PlatformOutputs)}


def test_outputs_come_back_as_they_were_exported() -> None:
    read = platform_outputs(EXPORTED)

    assert read.router_url == "the router_url"
    assert read.by_name() == EXPORTED


def test_an_output_that_we_do_not_know_is_left_alone() -> None:
    assert platform_outputs({**EXPORTED, "later": 3}).by_name() == EXPORTED


@pytest.mark.parametrize("value", [None, 5432, {"secret": "x"}])
def test_an_output_that_is_missing_or_no_text_is_named(value: object) -> None:
    with pytest.raises(RefusedError, match="has no output database_port"):
        platform_outputs({**EXPORTED, "database_port": value})
