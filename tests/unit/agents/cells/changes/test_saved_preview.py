"""A saved preview counts for exactly what was looked at."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest

from hermesops.agents.cells.changes.preview import (
    ChangePreview,
    SavedPreview,
    change_preview_of,
    refuse_moved,
    refuse_stale,
    saved,
    saved_platform,
)
from hermesops.errors import RefusedError
from hermesops.model.fleet.cell import CellMachine, CellSpec
from hermesops.model.ids import CellName, MachineName
from hermesops.model.stack import Change, ChangeKind, Preview, StackRef
from tests.support.suite.cases import each_case

CELL = CellName("cell1")
NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
VERSIONS = {"hermesops": "1", "engine": "embedded"}
GONE = Change(ChangeKind.DELETE, "urn:b", "justavps:index:Machine", "b", "id-b")
DRIFT = Change(ChangeKind.UPDATE, "urn:a", "justavps:index:Machine", "a", properties=("status",))


def change_preview(
    *changes: Change, rows: str = "r", state: str = "s", drift: tuple[Change, ...] = (DRIFT,)
) -> ChangePreview:
    return ChangePreview(
        CELL, Preview(StackRef("fleet", CELL), changes), CellSpec(CELL, ()), (), frozenset(), rows, state, drift
    )


def signed(change_preview: ChangePreview, **versions: str) -> SavedPreview:
    return saved(change_preview, environment="production", versions={**VERSIONS, **versions}, cost="$1", now=NOW)


def preview() -> SavedPreview:
    return signed(change_preview(GONE))


def test_who_signs_a_preview_names_the_machines_that_it_destroys() -> None:
    assert preview().named == {MachineName("b")}


def test_the_same_preview_is_the_same_bytes_in_whatever_order_changes_came() -> None:
    other = Change(ChangeKind.CREATE, "urn:c", "t", "c", properties=("y", "x"))
    saved_preview = saved(change_preview(GONE, other), environment="e", versions=VERSIONS, cost="", now=NOW)
    two = saved(
        change_preview(replace(other, properties=("x", "y")), GONE),
        environment="e",
        versions=VERSIONS,
        cost="",
        now=NOW,
    )
    assert saved_preview.to_bytes() == two.to_bytes()


def test_what_has_not_moved_may_run() -> None:
    later = replace(preview(), made_at=NOW + timedelta(hours=1), cost="$2")
    refuse_moved(preview(), later)


@each_case(
    ("now", "words"),
    [
        (change_preview(GONE, rows="other"), "the rows"),
        (change_preview(GONE, state="other"), "the state"),
        (change_preview(GONE, drift=()), "the world"),
        (change_preview(), "the changes"),
        (change_preview(GONE, replace(GONE, urn="urn:z", name="z")), "the changes"),
    ],
)
def test_what_moved_is_named(now: ChangePreview, words: str) -> None:
    with pytest.raises(RefusedError, match=words):
        refuse_moved(preview(), signed(now))


def test_another_version_is_another_run() -> None:
    with pytest.raises(RefusedError, match="the version of engine"):
        refuse_moved(preview(), signed(change_preview(GONE), engine="cli"))


@dataclass(frozen=True)
class Program:
    """Stands for the platform's."""

    size: str


def test_a_preview_of_the_platform_is_of_its_settings_too() -> None:
    """A change names properties, and no values: those are in the digest of the program."""

    def made(program: Program, state: dict[str, object]) -> SavedPreview:
        changes = Preview(StackRef("platform", "production"), (DRIFT,))
        return saved_platform(program, state, changes, (), environment="production", versions=VERSIONS, now=NOW)

    before = made(Program("small"), {})
    assert (before.cell, before.changes) == ("platform", (DRIFT,))
    refuse_moved(before, made(Program("small"), {}))
    with pytest.raises(RefusedError, match=r"platform has changed since .*: the settings"):
        refuse_moved(before, made(Program("large"), {}))
    state: dict[str, object] = {"deployment": {"resources": [{"urn": "urn:a"}]}}
    with pytest.raises(RefusedError, match="preview was signed: the state"):
        refuse_moved(before, made(Program("small"), state))


def test_an_old_one_another_environments_one_and_one_of_the_future_are_refused() -> None:
    day = timedelta(hours=24)
    refuse_stale(preview(), environment="production", now=NOW + day, life=day)
    for environment, now, words in (
        ("staging", NOW, "environment production; this is staging"),
        ("production", NOW + 2 * day, "it is valid for 24 h"),
        ("production", NOW - day, "it is valid for 24 h"),
    ):
        with pytest.raises(RefusedError, match=words):
            refuse_stale(preview(), environment=environment, now=now, life=day)


def test_times_and_ciphertexts_are_no_part_of_the_state() -> None:
    def state(created: str, ciphertext: str, size: str) -> dict[str, object]:
        inputs = {"server_type": size, "region": "hel1", "secret": {"4dab": "1b47", "ciphertext": ciphertext}}
        resource = {
            "urn": "urn:x::a", "type": "justavps:index:Machine", "inputs": inputs, "created": created
        }  # fmt: skip
        return {"deployment": {"resources": [resource]}}

    def digest(*words: str) -> str:
        spec = CellSpec(CELL, (CellMachine(MachineName("a"), "s", "r", None, None),))
        return change_preview_of(spec, frozenset(), state(*words), Preview(StackRef("fleet", CELL), ())).state

    assert digest("1", "x", "starter") == digest("2", "y", "starter")
    assert digest("1", "x", "starter") != digest("1", "x", "basic")
