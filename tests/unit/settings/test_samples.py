"""Samples by which tests hand all settings on: a setting of a pattern that has none stops them only in their turn."""

from pathlib import Path

from tests.support.platform.setting_samples import environment


def test_every_setting_has_a_value_that_it_takes(tmp_path: Path) -> None:
    env = environment(tmp_path)
    assert env.settings != type(env.settings).model_validate({"operators": "verified"})
