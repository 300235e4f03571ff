"""Settings changed under a newer form of the configuration: carried over where they are the same, else named."""

import copy
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hermesops.programs.node.state.config_changes import SettingsResult, migrate_changes

OLDER = """# mine
_config_version: 33
agent:
  # few
  max_turns: 17   # by hand
display: {busy: queue}
custom_providers:
- name: mine
  base_url: http://127.0.0.1:9/v1
toolsets:
  - web
  - files
greeting: |
  Hello.
  # not a comment
voice: "quiet"
"""
BASE = """_config_version: 50
agent:
  max_turns: 17
display: {busy: queue}
providers:
  mine:
    base_url: http://127.0.0.1:9/v1
toolsets:
- web
- files
greeting: |
  Hello.
  # not a comment
voice: quiet
theme:
  name: dark
"""


def result_of(newer: str, *, older: str = OLDER, base: str = BASE) -> tuple[Any, SettingsResult]:
    text, settings = migrate_changes(base, newer, older)
    return yaml.safe_load(text), settings


def changed(*changes: tuple[str, str]) -> str:
    text = BASE
    for before, after in changes:
        assert text.count(before) == 1
        text = text.replace(before, after)
    return text


def test_a_setting_that_the_migration_left_as_it_was_is_carried_over_and_comments_stay() -> None:
    newer = changed(("max_turns: 17", "max_turns: 30"), ("voice: quiet", "voice: 'loud'"))
    text, settings = migrate_changes(BASE, newer, OLDER)
    expected = OLDER.replace("max_turns: 17   # by hand", "max_turns: 30").replace('"quiet"', "'loud'")
    assert (text, settings) == (expected, SettingsResult(2))


def test_lists_texts_and_new_settings_are_carried_over_whole() -> None:
    newer = changed(("- files\n", "- files\n- browser\n"), ("  Hello.\n", "  Hello!\n\n    # still\n"))
    newer = newer.replace("  max_turns: 17\n", "  max_turns: 17\n  style:\n    tone: dry\n    words:\n    - few\n")
    document, settings = result_of(newer + "new:\n  - 1\n")
    assert settings == SettingsResult(5)
    old = yaml.safe_load(OLDER)
    assert document == {
        **old,
        "agent": {"max_turns": 17, "style": {"tone": "dry", "words": ["few"]}},
        "toolsets": ["web", "files", "browser"],
        "greeting": "Hello!\n\n  # still\n# not a comment\n",
        "new": [1],
    }


def test_a_setting_that_the_migration_moved_or_that_is_of_the_newer_agent_alone_is_named() -> None:
    newer = changed(("127.0.0.1:9/v1", "127.0.0.1:10/v1"), ("name: dark", "name: light"), ("17", "18"))
    text, settings = migrate_changes(BASE, newer, OLDER)
    assert settings == SettingsResult(1, ("providers.mine.base_url", "theme.name"))
    assert yaml.safe_load(text) == {**yaml.safe_load(OLDER), "agent": {"max_turns": 18}}


def test_a_removed_setting_is_removed_unless_its_mapping_would_be_left_empty() -> None:
    document, settings = result_of(changed(("voice: quiet\n", "")))
    assert "voice" not in document
    assert settings == SettingsResult(1)
    document, settings = result_of(changed(("agent:\n  max_turns: 17\n", "")))
    assert document == yaml.safe_load(OLDER)
    assert settings == SettingsResult(0, ("agent.max_turns",))


def test_the_same_again_changes_nothing_more() -> None:
    newer = changed(("max_turns: 17", "max_turns: 30")) + "new: 1\n"
    text, settings = migrate_changes(BASE, newer, OLDER)
    assert migrate_changes(BASE, newer, text) == (text, settings)


@pytest.mark.parametrize(
    "odd",
    [
        "a: &x 1\nb: *x\n",
        "a: !!python/name:os.system\n",
        "- a\n- b\n",
        "a: 1\na: 2\n",
        "\ta: 1\n",
        "a:\n    b: 1\n  c: 2\n",
        "a: 'x\n",
        "? a\n: b\n",
        "a: b: c\n",
        "a: 1\r\nb: 2\r\n",
        "a: 1\u2028b: 2\n",
        "a: x\n  # y\n  z\n",
        "x" * 100_000,
        "a:\n" * 30_000,
        "".join(f"{' ' * n}a:\n" for n in range(100)),
        "<<: {a: 1}\n",
        "%YAML 1.1\n",
        "a: [1,\n  2]\n",
    ],
)
def test_a_file_in_another_style_is_left_alone_and_its_changes_are_named(odd: str) -> None:
    assert migrate_changes(BASE, odd, OLDER) == (OLDER, SettingsResult(0, ("config.yaml",)))
    assert migrate_changes(odd, odd, OLDER) == (OLDER, SettingsResult())
    newer = changed(("max_turns: 17", "max_turns: 30"))
    assert migrate_changes(BASE, newer, odd) == (odd, SettingsResult(0, ("agent.max_turns",)))


def test_names_are_few_short_and_printable() -> None:
    keys = [f"'\x1b[31m{'k' * 300}{number}'" for number in range(80)]
    _, settings = migrate_changes("a: 1\n", "a: 1\n" + "".join(f"{key}: [1\n" for key in keys), OLDER)
    assert settings.lost == ("config.yaml",)
    newer = "a: 1\n" + "".join(f"{key}:\n  b: 2\n" for key in keys)
    _, settings = migrate_changes("a: 1\n", newer, "- odd\n")
    assert len(settings.lost) == 50
    assert all(len(name) <= 120 and name.isprintable() for name in settings.lost)


_SCALARS = st.one_of(
    st.integers(-5, 99),
    st.booleans(),
    st.none(),
    st.sampled_from(
        ["a", "no", "12", "x: y", "# c", "it's", 'a "b"', "", "- a", "long " * 30, "two\nlines\n", "é☕", " s"]
    ),
    st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=12),
)
_KEYS = st.sampled_from(["a", "b", "c", "1", "yes", "a b", "d.e"])
_VALUES = st.recursive(
    _SCALARS | st.lists(_SCALARS, max_size=3), lambda inner: st.dictionaries(_KEYS, inner, max_size=3), max_leaves=8
)
_DOCUMENTS = st.dictionaries(_KEYS, _VALUES, max_size=4)


@pytest.mark.turns(5)
@given(_DOCUMENTS, _DOCUMENTS, _DOCUMENTS)
def test_whatever_agents_write_the_result_has_each_change_or_names_it(
    base: dict[str, Any], newer: dict[str, Any], more: dict[str, Any]
) -> None:
    older = {**copy.deepcopy(base), **more}
    texts = [yaml.dump(document, allow_unicode=True, sort_keys=False) for document in (base, newer, older)]
    text, settings = migrate_changes(*texts)
    result = yaml.safe_load(text) if text else {}
    if not settings.migrated:
        assert result == older
    if not settings.lost and not more and settings.migrated:
        assert result == newer
    for path, value in _leaves(result).items():
        assert value in (_leaves(newer).get(path, _ABSENT), _leaves(older).get(path, _ABSENT)), (texts, text)


_ABSENT = object()


def _leaves(document: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:  # noqa: ANN401 - YAML
    if not isinstance(document, dict) or not document:
        return {path: document}
    leaves: dict[tuple[str, ...], Any] = {}
    for key, value in document.items():
        leaves |= _leaves(value, (*path, key))
    return leaves
