import pytest

from hermesops.access.secrets.keyring.key_ring import KeyRing
from hermesops.errors import RefusedError
from tests.support.suite.cases import each_case

ONE, TWO = b"1" * 32, b"2" * 32
PLACE = "instance_details/settings/a"


def test_what_was_sealed_opens_at_its_place() -> None:
    ring = KeyRing("k1", {"k1": ONE})
    assert ring.unseal(ring.seal("geheim ✓", place=PLACE), place=PLACE) == "geheim ✓"


def test_a_sealed_value_names_its_key_and_shows_nothing_else() -> None:
    ring = KeyRing("k1", {"k1": ONE})
    sealed = ring.seal("canary", place=PLACE)
    assert sealed.startswith("hs1.k1.")
    assert "canary" not in sealed
    assert ring.seal("canary", place=PLACE) != sealed


def test_the_current_key_seals_and_older_ones_still_open() -> None:
    old, both = KeyRing("k1", {"k1": ONE}), KeyRing("k2", {"k1": ONE, "k2": TWO})
    assert both.unseal(old.seal("x", place=PLACE), place=PLACE) == "x"
    assert both.seal("x", place=PLACE).startswith("hs1.k2.")
    with pytest.raises(RefusedError, match="k2"):
        old.unseal(both.seal("x", place=PLACE), place=PLACE)


@pytest.mark.parametrize("place", ["instance_details/settings/b", "instance_details/api_server_key/a", ""])
def test_a_value_does_not_open_at_another_place(place: str) -> None:
    ring = KeyRing("k1", {"k1": ONE})
    with pytest.raises(RefusedError, match="cannot be decrypted with key k1"):
        ring.unseal(ring.seal("x", place=PLACE), place=place)


@pytest.mark.parametrize(
    ("position", "words"),
    [
        (4, "which is not in memory"),
        (8, "cannot be decrypted with key k1"),
        (30, "cannot be decrypted with key k1"),
        (-3, "cannot be decrypted with key k1"),
    ],
)
def test_a_changed_value_is_refused(position: int, words: str) -> None:
    ring = KeyRing("k1", {"k1": ONE, "k2": ONE})
    letters = list(ring.seal("some text that is long enough", place=PLACE))
    letters[position] = "A" if letters[position] != "A" else "B"
    with pytest.raises(RefusedError, match=words):
        ring.unseal("".join(letters), place=PLACE)


def test_a_value_under_another_keys_name_is_refused() -> None:
    ring = KeyRing("k1", {"k1": ONE, "k2": ONE})
    renamed = ring.seal("x", place=PLACE).replace("hs1.k1.", "hs1.k2.")
    with pytest.raises(RefusedError, match="cannot be decrypted with key k2"):
        ring.unseal(renamed, place=PLACE)


@each_case(
    ("text", "words"),
    [
        ("", "holds no sealed value"),
        ("hs1", "holds no sealed value"),
        ("hs1.k1.", "holds no sealed value"),
        ("hs1.k1.%%%", "cannot be decrypted with key k1"),
        ("hs1.k1.AAAA", "cannot be decrypted with key k1"),
        ("hs2.k1.AAAA", "holds no sealed value"),
        ("plain", "holds no sealed value"),
    ],
)
def test_what_is_no_sealed_value_is_refused_without_repeating_it(text: str, words: str) -> None:
    with pytest.raises(RefusedError, match=words) as refused:
        KeyRing("k1", {"k1": ONE}).unseal(text, place=PLACE)
    assert PLACE in refused.value.message
