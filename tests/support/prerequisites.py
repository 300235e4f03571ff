"""What a test needs of its computer: missing, it is skipped on a laptop and fails in CI."""

import os

import pytest


def require(present: object, what: str) -> None:
    """Go on if ``present`` is true, else skip the test, or fail it where ``CI`` is set."""
    if present:
        return
    if os.environ.get("CI"):  # noqa: TID251 - the switch between a laptop and CI is no setting of hermesops
        pytest.fail(f"this test needs {what}", pytrace=False)
    pytest.skip(f"needs {what}")
