import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hermesops.errors import BrokenInvariantError
from hermesops.machines.image.manifest import Manifest, find, write
from hermesops.model.ids import ImageId

MANIFEST = Manifest(
    name="hermes-base",
    image_id=ImageId("i-1"),
    digest="d" * 64,
    created_at=datetime(2026, 1, 2, tzinfo=UTC),
    base={"distribution": "debian", "version": "12"},
    inputs={"image/clean.sh": "e" * 64},
    packages={"debian": {"nftables": "1.0.6"}, "agent": {}},
    versions={"uv": "1"},
    seconds={"roles": 41.5},
)


def test_a_manifest_is_found_by_what_it_was_made_from(tmp_path: Path) -> None:
    write(MANIFEST, tmp_path)
    assert find(tmp_path, "hermes-base", "d" * 64) == MANIFEST
    assert find(tmp_path, "hermes-base", "d" * 63 + "e") is None
    assert find(tmp_path, "other", "d" * 64) is None


def test_a_later_manifest_of_the_same_inputs_replaces_the_first(tmp_path: Path) -> None:
    write(MANIFEST, tmp_path)
    write(replace(MANIFEST, image_id=ImageId("i-2")), tmp_path)
    manifest = find(tmp_path, "hermes-base", "d" * 64)
    assert manifest is not None
    assert manifest.image_id == "i-2"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_manifest_of_another_schema_is_not_taken_for_ours(tmp_path: Path) -> None:
    path = write(MANIFEST, tmp_path)
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema": 2}))
    assert find(tmp_path, "hermes-base", "d" * 64) is None


@pytest.mark.parametrize("content", ["", "[]", '{"schema": 1}', "{"])
def test_a_damaged_manifest_is_named_with_what_to_do(tmp_path: Path, content: str) -> None:
    path = write(MANIFEST, tmp_path)
    path.write_text(content)
    with pytest.raises(BrokenInvariantError, match="is not a manifest") as broken:
        find(tmp_path, "hermes-base", "d" * 64)
    assert str(path) in str(broken.value.hint)
