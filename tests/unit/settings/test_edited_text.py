"""A settings.toml that is pointed at a platform keeps everything else that stands in it."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermesops.errors import UsageError
from hermesops.settings.edited_text import edited

OURS = """# ours
region = "nbg1" # where we are
cell_size = 20

[backup]
# two weeks
keep_daily = 14
bucket = "old"

[monitoring]
actions = "none"
"""


def test_values_are_changed_where_they_stand_and_comments_stay() -> None:
    text = edited(OURS, {"releases": "s3://releases", "backup.bucket": "backups", "registry.url": "postgresql://x"})
    for line in ("# ours", 'region = "nbg1" # where we are', "# two weeks", "keep_daily = 14"):
        assert line in text.splitlines()
    assert tomllib.loads(text) == {
        "releases": "s3://releases",
        "region": "nbg1",
        "cell_size": 20,
        "backup": {"keep_daily": 14, "bucket": "backups"},
        "monitoring": {"actions": "none"},
        "registry": {"url": "postgresql://x"},
    }


def test_the_same_once_more_changes_nothing() -> None:
    wanted = {"releases": "s3://releases", "backup.bucket": "backups", "platform_url": "https://10.0.0.1:1"}
    once = edited(OURS, wanted)
    assert edited(once, wanted) == once


def test_an_empty_file_gets_the_values_alone() -> None:
    changed = edited("", {"releases": "1", "backup.bucket": "2"})
    assert tomllib.loads(changed) == {"releases": "1", "backup": {"bucket": "2"}}


def test_a_file_that_is_written_otherwise_is_left_alone() -> None:
    for text in ("backup = 3\n", "[backup\n"):
        with pytest.raises(UsageError, match="cannot be changed here"):
            edited(text, {"backup.bucket": "new"})


def test_an_inline_table_stays_one() -> None:
    text = edited('backup = { bucket = "old" } # ours\n', {"backup.bucket": "new"})
    assert text == 'backup = { bucket = "new" } # ours\n'


NAMES = st.sampled_from(["releases", "backup.bucket", "backup.region", "registry.url", "platform_url"])


@given(st.dictionaries(NAMES, st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=20)))
def test_what_is_written_is_what_is_read(values: dict[str, str]) -> None:
    read = tomllib.loads(edited(OURS, values))
    for name, value in values.items():
        table, _, key = name.rpartition(".")
        assert (read[table] if table else read)[key] == value
