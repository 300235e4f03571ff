"""Releases in a store: found, believed only when signed, taken back."""

from dataclasses import replace
from datetime import timedelta

import pytest

from hermesops.errors import RefusedError, UsageError
from hermesops.machines.release import Releases
from hermesops.machines.release.blobs import place
from hermesops.machines.release.trust import Chain, StaleStoreError, Trust
from hermesops.wire.documents.signers import AllowedSigners
from tests.support.releases.package_index import AT, MemoryStore, check_name, releases_in
from tests.support.releases.signer import Remembered
from tests.support.releases.signer_lines import lines_of, names_in
from tests.unit.wire.documents.test_lock import LOCK

OTHER = replace(LOCK, config_schema=34)
OLD = replace(LOCK, agent_version="0.18.2")


@pytest.fixture
def store() -> MemoryStore:
    """A store with three releases that ada has signed."""
    store = MemoryStore()
    releases = releases_in(store)
    releases.replace_signers(lines_of("ada"), sign_again=False)
    for hours, lock in enumerate((LOCK, OTHER, OLD)):
        releases.put(lock, who="ada", note="", at=AT + timedelta(hours=hours))
    return store


def ids(releases: Releases) -> list[str]:
    return [kept.id for kept in releases.list()]


def test_releases_are_listed_newest_first_with_who_built_them(store: MemoryStore) -> None:
    assert ids(releases_in(store)) == [OLD.id, OTHER.id, LOCK.id]
    assert releases_in(store).list()[-1].about.created_at == AT


def test_a_release_is_found_by_what_names_it_alone(store: MemoryStore) -> None:
    releases = releases_in(store)
    assert releases.find(LOCK.id) == LOCK
    assert releases.find(LOCK.id[:12]) == LOCK
    assert releases.find("0.18.2") == OLD
    with pytest.raises(UsageError, match=r"more than one release is called 0\.19\.0"):
        releases.find("0.19.0")
    releases.revoke(OTHER.id, "no")
    assert releases.find("0.19.0") == LOCK
    for unknown in ("0.18", "0.20.0", "", "0.20.0-000000000000", "latest"):
        with pytest.raises(UsageError, match="no release") as refused:
            releases.find(unknown)
        assert str(refused.value.hint) == "hermesops release list"
    with pytest.raises(UsageError, match=f"nearest: .*{LOCK.id}"):
        releases.find(LOCK.id[:-1] + "_")


def test_a_version_means_an_operators_release_rather_than_that_of_an_image() -> None:
    store = MemoryStore()
    releases = releases_in(store)
    releases.replace_signers(lines_of("ada"), sign_again=False)
    releases.put(LOCK, who="ada", note="of image hermes-base", at=AT)
    assert releases.find("0.19.0") == LOCK
    releases.put(OTHER, who="ada", note="the first", at=AT)
    assert releases.find("0.19.0") == OTHER
    assert releases.find(LOCK.id) == LOCK


def _another_lock(store: MemoryStore) -> None:
    store.held[f"locks/{LOCK.id}.json"] = OTHER.to_json()


def _an_edited_lock(store: MemoryStore) -> None:
    store.held[f"locks/{LOCK.id}.json"] = LOCK.to_json().replace(b"33", b"34", 1)


def _half_a_lock(store: MemoryStore) -> None:
    store.held[f"locks/{LOCK.id}.json"] = LOCK.to_json()[:100]


def _anothers_signature(store: MemoryStore) -> None:
    store.held[f"locks/{LOCK.id}.sig"] = store.held[f"locks/{OTHER.id}.sig"]


def _no_signature(store: MemoryStore) -> None:
    del store.held[f"locks/{LOCK.id}.sig"]


@pytest.mark.parametrize("harm", [_another_lock, _an_edited_lock, _half_a_lock, _anothers_signature, _no_signature])
def test_a_lock_that_does_not_hold_is_neither_listed_nor_handed_out(store: MemoryStore, harm: object) -> None:
    assert callable(harm)
    harm(store)
    releases = releases_in(store)
    assert LOCK.id not in ids(releases)
    for use in (releases.read, releases.verify, lambda release: releases.handout(release, "3.11")):
        with pytest.raises(RefusedError, match=LOCK.id) as refused:
            use(LOCK.id)
        assert "release build --lock" in str(refused.value.hint)


def test_files_that_are_not_what_was_signed_are_named(store: MemoryStore) -> None:
    releases = releases_in(store)
    assert {damage.what for damage in releases.verify(LOCK.id)} == {"is missing"}
    store.held[place(LOCK.uv)] = b"x" * LOCK.uv.size
    store.held[place(LOCK.unit)] = b"x"
    what = {damage.name: damage.what for damage in releases.verify(LOCK.id)}
    assert what["uv"] == "is something else than was signed"
    assert what["hermes-gateway.service"] == "has 1 bytes instead of 2"
    with pytest.raises(RefusedError, match="is something else"):
        releases.blob(LOCK.uv)


def test_what_is_revoked_or_below_the_floor_is_not_handed_out(store: MemoryStore) -> None:
    releases = releases_in(store)
    assert releases.handout(LOCK.id, "3.11").read_lock() == LOCK
    revocations = releases.revoke(LOCK.id, "eats memories")
    with pytest.raises(RefusedError, match="was revoked: eats memories"):
        releases.handout(LOCK.id, "3.11")
    assert releases.handout(OTHER.id, "3.11").read_revocations() == revocations
    releases.set_floor("0.19.0")
    with pytest.raises(RefusedError, match="below the floor"):
        releases.handout(OLD.id, "3.11")
    assert [bool(kept.revoked) for kept in releases.list()] == [True, False, True]


def test_a_revoked_release_is_found_and_not_usable(store: MemoryStore) -> None:
    releases = releases_in(store)
    assert releases.find_usable(LOCK.id) == LOCK
    releases.revoke(LOCK.id, "eats memories")
    assert releases.find(LOCK.id) == LOCK
    with pytest.raises(RefusedError, match="was revoked: eats memories"):
        releases.find_usable(LOCK.id)


def test_a_release_is_revoked_before_it_is_known(store: MemoryStore) -> None:
    assert releases_in(store).revoke("0.20.0-000000000000", "no").number == 1


def test_what_no_revocation_can_say_is_refused(store: MemoryStore) -> None:
    releases = releases_in(store)
    for release, why, problem in (("0.19.0", "no", "not the id of a release"), (LOCK.id, "two\nlines", "line break")):
        with pytest.raises(UsageError, match=problem):
            releases.revoke(release, why)
    with pytest.raises(UsageError, match=r"revocations\.floor: not of the expected form"):
        releases.set_floor("newest")
    assert releases.revocations().number == 0


def test_revocations_of_somebody_else_are_refused_and_with_them_everything(store: MemoryStore) -> None:
    with pytest.raises(RefusedError, match=r"by nobody of \['ada'\]"):
        releases_in(store, "eve").revoke(LOCK.id, "no")
    releases_in(store).revoke(LOCK.id, "no")
    store.held["revocations.json"] = store.held["revocations.json"].replace(b"no", b"on")
    with pytest.raises(RefusedError, match=r"revocations\.json of memory does not hold"):
        releases_in(store).handout(OTHER.id, "3.11")


def test_a_handout_for_another_python_is_refused(store: MemoryStore) -> None:
    with pytest.raises(RefusedError, match=r"not for 3\.13"):
        releases_in(store).handout(LOCK.id, "3.13")


def test_a_store_that_names_no_signers_takes_no_release() -> None:
    empty = MemoryStore()
    with pytest.raises(RefusedError, match="memory names no signers yet"):
        releases_in(empty).put(LOCK, who="ada", note="", at=AT)
    assert empty.held == {}


def test_who_is_no_signer_adds_nothing(store: MemoryStore) -> None:
    before = dict(store.held)
    lock = replace(LOCK, config_schema=35)
    with pytest.raises(RefusedError, match=r"by nobody of \['ada'\]"):
        releases_in(store, "eve").put(lock, who="eve", note="", at=AT)
    assert store.held == before | {f"builds/{lock.id}.json": store.held[f"builds/{lock.id}.json"]}


def test_keys_are_changed_in_two_steps_and_what_was_signed_goes_on(store: MemoryStore) -> None:
    assert releases_in(store, "ada").replace_signers(lines_of("ada", "bob"), sign_again=False) == ()
    assert releases_in(store, "bob").replace_signers(lines_of("bob"), sign_again=True) == ()
    releases = releases_in(store, "bob")
    assert len(ids(releases)) == 3
    read_signers = [
        names_in(allowed_signers.lines) for allowed_signers in releases.handout(LOCK.id, "3.11").read_signers()
    ]
    assert read_signers == [["ada"], ["ada", "bob"], ["bob"]]


def test_what_a_former_signer_vouched_for_counts_no_more(store: MemoryStore) -> None:
    releases_in(store, "ada").revoke(OLD.id, "old")
    releases_in(store, "ada").replace_signers(lines_of("ada", "bob"), sign_again=False)
    left = releases_in(store, "bob").replace_signers(lines_of("bob"), sign_again=False)
    assert left == tuple(sorted([LOCK.id, OTHER.id, OLD.id]))
    releases = releases_in(store, "bob")
    assert ids(releases) == []
    assert releases.revocations().revoked == {OLD.id: "old"}
    releases.put(LOCK, who="bob", note="", at=AT)
    assert ids(releases) == [LOCK.id]


@pytest.mark.parametrize(
    ("who", "signers", "when"), [("ada", "bob", "afterwards"), ("eve", "ada eve", "now"), ("ada", "eve", "afterwards")]
)
def test_nobody_locks_themselves_or_others_out(store: MemoryStore, who: str, signers: str, when: str) -> None:
    before = dict(store.held)
    with pytest.raises(RefusedError, match=f"signs no releases {when}") as refused:
        releases_in(store, who).replace_signers(lines_of(*signers.split()), sign_again=True)
    assert "first let both keys sign" in str(refused.value.hint)
    assert store.held == before


def test_a_computer_follows_the_signers_that_it_knows_and_no_others(store: MemoryStore) -> None:
    memory = Remembered()
    ids(releases_in(store, memory=memory))
    assert names_in(Chain.from_json(memory.held["signers.json"]).lines) == ["ada"]
    releases_in(store, "ada").replace_signers(lines_of("ada", "bob"), sign_again=False)
    releases_in(store, "bob").replace_signers(lines_of("bob"), sign_again=True)
    assert len(ids(releases_in(store, memory=memory))) == 3
    assert names_in(Chain.from_json(memory.held["signers.json"]).lines) == ["bob"]
    eves = MemoryStore()
    releases_in(eves, "eve").replace_signers(lines_of("eve"), sign_again=False)
    store.held["signers.json"] = eves.held["signers.json"]
    with pytest.raises(RefusedError, match="do not follow those that this computer knows"):
        ids(releases_in(store, memory=memory))


def test_who_knows_nothing_yet_believes_those_whom_the_environment_allows(store: MemoryStore) -> None:
    with pytest.raises(RefusedError, match="not signed by an allowed signer"):
        ids(releases_in(store, vouchers=lines_of("carol")))
    releases_in(store, "ada").replace_signers(lines_of("ada", "carol"), sign_again=False)
    releases_in(store, "carol").replace_signers(lines_of("carol"), sign_again=True)
    assert len(ids(releases_in(store, vouchers=lines_of("carol")))) == 3


def test_a_link_of_the_chain_that_nobody_before_signed_is_refused(store: MemoryStore) -> None:
    releases_in(store, "ada").replace_signers(lines_of("ada", "bob"), sign_again=False)
    first, second = Chain.from_json(store.held["signers.json"]).signed
    other = AllowedSigners(2, lines_of("ada", "eve")).to_json().decode()
    store.held["signers.json"] = Chain((first, replace(second, text=other))).to_json()
    with pytest.raises(RefusedError, match="signers 2 of memory are not signed"):
        ids(releases_in(store))


@pytest.mark.parametrize(
    "text", [b"{}", b"[1]", b"[{}]", b"\xff", b"[", b"[" * 100_000, b"[" + b" " * (8 << 20) + b"]"]
)
def test_a_damaged_chain_is_named(store: MemoryStore, text: bytes) -> None:
    store.held["signers.json"] = text
    with pytest.raises(RefusedError, match=r"signers\.json of memory is damaged"):
        releases_in(store).read(LOCK.id)


JUNK = "ada ssh-ed25519 AAAA\n"


@pytest.mark.parametrize(
    "text",
    ["", "# nobody\n", "ada", JUNK, lines_of("ada") + "eve\n", lines_of("ada") * 65, '{"floor":""}', "x" * 70_000],
)
def test_signers_that_cannot_be_read_are_a_mistake_and_change_nothing(store: MemoryStore, text: str) -> None:
    before = dict(store.held)
    with pytest.raises(UsageError, match="signers: "):
        releases_in(store).replace_signers(text, sign_again=True)
    assert store.held == before


def test_nobody_is_believed_unnamed_where_somebody_has_to_be_named(store: MemoryStore) -> None:
    def production(store: MemoryStore, vouchers: str = "") -> Trust:
        return Trust(store, check_name, memory, vouchers, needs_vouchers=True)

    memory = Remembered()
    for place_ in (store, MemoryStore()):
        with pytest.raises(RefusedError, match="allowed_signers is not set") as refused:
            production(place_).chain()
        assert "HERMESOPS_ALLOWED_SIGNERS" in str(refused.value.hint)
    assert len(production(store, lines_of("ada")).chain()) == 1
    assert len(production(store).chain()) == 1  # it is known from now on


def _revoked(store: MemoryStore, memory: Remembered, times: int = 1) -> Releases:
    releases = releases_in(store, memory=memory)
    for _ in range(times):
        releases.revoke(OLD.id, "old")
    return releases


@pytest.mark.parametrize("harm", ["older", "gone"])
def test_revocations_that_were_put_back_are_refused_and_the_next_count_on(store: MemoryStore, harm: str) -> None:
    memory = Remembered()
    releases = _revoked(store, memory)
    older = store.held["revocations.json"]
    releases.revoke(OTHER.id, "it forgets")
    if harm == "older":
        store.held["revocations.json"] = older
    else:
        del store.held["revocations.json"]
    count = 1 if harm == "older" else 0
    for use in (
        lambda: releases.handout(LOCK.id, "3.11"),
        releases.revocations,
        lambda: releases.refuse_revoked(OTHER),
    ):
        with pytest.raises(StaleStoreError, match=f"are number {count}, and this computer knows number 2") as refused:
            use()
        assert str(refused.value.hint) == "hermesops release signers restore --reason WHY"
    assert releases.revoke(LOCK.id, "too").number == 3
    assert set(releases.revocations().revoked) == {OLD.id, OTHER.id, LOCK.id}


def test_what_was_put_back_is_restored_from_what_this_computer_remembers(store: MemoryStore) -> None:
    memory, before = Remembered(), dict(store.held)
    _revoked(store, memory, 2)
    releases_in(store, memory=memory).replace_signers(lines_of("ada", "bob"), sign_again=False)
    store.held = before | {"locks/x": b""}
    releases = releases_in(store, memory=memory)
    with pytest.raises(StaleStoreError, match="signers in memory are number 1, and this computer knows number 2"):
        releases.list()
    del store.held["signers.json"]
    with pytest.raises(StaleStoreError, match="signers in memory are number 0"):
        releases.put(LOCK, who="ada", note="", at=AT)
    assert releases.restore() == ("signers", "revocations")
    assert (len(releases.trust.chain()), releases.revocations().number) == (2, 2)
    assert releases.restore() == ()


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b"\xff", b"[" * 100_000])
def test_a_damaged_store_is_restored_too(store: MemoryStore, text: bytes) -> None:
    memory = Remembered()
    _revoked(store, memory)
    whole = dict(store.held)
    store.held |= {"signers.json": text, "revocations.json": text}
    with pytest.raises(RefusedError, match=r"signers\.json of memory is damaged|number 0"):
        releases_in(store, memory=memory).list()
    assert releases_in(store, memory=memory).restore() == ("signers", "revocations")
    assert store.held == whole


def test_other_revocations_of_the_same_number_are_refused(store: MemoryStore) -> None:
    memory, held = Remembered(), dict(store.held)
    _revoked(store, memory)
    store.held = dict(held)
    releases_in(store).revoke(LOCK.id, "another word")  # by a computer that did not know of the first
    with pytest.raises(RefusedError, match="are others than those of number 1"):
        releases_in(store, memory=memory).revocations()


def test_a_computers_own_memory_that_is_damaged_is_named(store: MemoryStore) -> None:
    for name, problem in (
        ("signers.json", "release signers is damaged"),
        ("revocations.json", "revocations is damaged"),
    ):
        memory = Remembered()
        memory.held[name] = b"nonsense"
        with pytest.raises(RefusedError, match=problem):
            releases_in(store, memory=memory).handout(LOCK.id, "3.11")
