"""The description of the users' API, ``runbooks/api/openapi.json``, written from its routes by ``make reference``."""

import json
from pathlib import Path

from hermesops.api.application import openapi
from hermesops.base import assets


def file() -> Path:
    """Where it is."""
    return assets.folder("runbooks") / "api" / "openapi.json"


def text() -> str:
    """What it has to say."""
    return json.dumps(openapi(), indent=1, sort_keys=True) + "\n"


def main() -> None:
    """Write it."""
    file().parent.mkdir(exist_ok=True)
    file().write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    main()
