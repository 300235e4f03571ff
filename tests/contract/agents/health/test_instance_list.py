"""The list of instances, whole and by parts, on both databases."""

import pytest

from hermesops.agents.health.instance_list import InstanceList, ListedInstance
from hermesops.errors import UsageError
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.rollout.release import ReleaseId
from hermesops.store.registry import Registry
from tests.support.fleets.filled_registry import beat, fill

COUNT = 90
"""In three cells."""


def test_a_part_is_that_of_the_whole_list(registry: Registry) -> None:
    fill(registry, COUNT)
    beat(registry, silent_every=10)
    listing, rows = InstanceList(registry), registry.instances.list()
    registry.instances.set_status(rows[7].id, InstanceStatus.SUSPENDED)
    registry.terminations.terminate(rows[3].id)
    registry.rollout_targets.record_releases({rows[5].id: ReleaseId("r1"), rows[50].id: ReleaseId("r1")})
    for where in (
        "",
        "cell=cell2",
        "health=down",
        "release=r1",
        "status=suspended",
        "user=user9,user=user41",
        "plan=heavy",
    ):
        selector = listing.selector(where)
        whole = listing.read(selector)
        for begin in (0, 30, 60, 90):
            part = listing.part(selector, begin, 30)
            assert part.rows == whole[begin : begin + 30], (where, begin)
            assert part.ids == tuple(row.instance.id for row in whole), where
    assert len(listing.read()) == COUNT - 1


def _names(row: ListedInstance) -> str:
    """What names an instance, as one small text."""
    instance = row.instance
    texts = (
        instance.user_alias or "",
        instance.id,
        instance.user_id,
        instance.plan.value,
        instance.status.value,
        instance.cell,
        row.region,
        instance.machine_name,
        instance.machine_id or "",
        row.release.id if row.release else "",
    )
    return "\n".join(texts).casefold()


def test_each_word_of_a_search_occurs_in_what_names_an_instance(registry: Registry) -> None:
    fill(registry, COUNT)
    listing, rows = InstanceList(registry), registry.instances.list()
    registry.terminations.terminate(rows[3].id)
    registry.instances.set_status(rows[7].id, InstanceStatus.SUSPENDED)
    registry.rollout_targets.record_releases({rows[5].id: ReleaseId("0.19.0-a1"), rows[50].id: ReleaseId("0.19.0-b2")})
    whole = listing.read()
    known = rows[41]
    texts = (
        *("", "  ", "user4", "USER41", "user4 cell2", "cell2 USER4 heavy", "suspended", "hel1", "0.19.0-A", "nothing"),
        *(known.id, known.id[5:20], known.id[:8].upper(), known.id.replace("-", ""), known.user_id[9:]),
        *(known.machine_name, known.machine_id or "", known.machine_name[-12:], "hermes-local-cell1"),
        *("%", "_", "user_1", "user%", "\\", "'", "' or 1=1 --", "user4\x00", "\x00", "é", "ß", "user4\u200b"),
        f"{known.user_alias}{known.id[:4]}",
    )
    counts: set[int] = set()
    for text in texts:
        part = listing.part(listing.selector(""), 0, COUNT, text=text)
        expected = tuple(row for row in whole if all(word in _names(row) for word in text.casefold().split()))
        assert part.rows == expected, repr(text)
        assert part.ids == tuple(row.instance.id for row in expected), repr(text)
        counts.add(len(expected))
    assert {0, 1, 2, COUNT - 1} <= counts, "the texts tell rows apart"


def test_a_search_and_a_selector_choose_together_and_a_page_has_its_own_rows(registry: Registry) -> None:
    fill(registry, COUNT)
    beat(registry, silent_every=10)
    listing = InstanceList(registry)
    for where in ("cell=cell2", "health=down", "plan=light"):
        selector = listing.selector(where)
        expected = tuple(row for row in listing.read(selector) if "user4" in _names(row))
        assert expected, where
        assert listing.part(selector, 0, COUNT, text="user4").rows == expected, where
        assert listing.part(selector, 1, 1, text="user4").rows == expected[1:2], where
        assert listing.part(selector, 0, 0, text="user4").ids == tuple(row.instance.id for row in expected), where


@pytest.mark.parametrize("text", ["x " * 9, "x" * 201])
def test_a_search_is_bounded(registry: Registry, text: str) -> None:
    with pytest.raises(UsageError, match="at most 8 words and 200 characters"):
        registry.fleet.search(text)
