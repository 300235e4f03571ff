"""A table fits its terminal, and what is most important in it stays whole; a pipe gets everything."""

from hermesops.cli.printing import table

COLUMNS = ("user", "status", "machine_name", "machine_id", "at", "reason", "hint")
COMMAND = " ".join(["hermesops"] * 12)
AT = "2026-11-28T17:34:49+00:00"
ADA = ["ada", "running", "hermes-local-cell1-f04703153cb9", "edd79c03-1443-42f6-9a4c-16d911d4fbaa", AT, "-", "-"]
BEN = ["ben", "failed", "hermes-local-cell1-0123456789ab", "f0470315-3cb9-4f77-9f3f-50ef073a394b", AT]
ROWS = [ADA, [*BEN, "the gateway did not answer " * 5, f"{COMMAND} says why"]]


def test_no_line_is_wider_than_the_terminal_but_a_command() -> None:
    for width in (40, 60, 80, 120, 200, 400):
        shown = table.fitted(COLUMNS, ROWS, width, commands=[COMMAND])
        wide = [line for line in shown.lines if len(line) > width and "hermesops hermesops" not in line]
        assert wide == [], width
        text = "\n".join(shown.lines)
        for whole in ("ada", "ben", "running", "failed", COMMAND):
            assert whole in text, (width, whole)
        assert "\N{NO-BREAK SPACE}" not in text


def test_columns_give_way_in_the_order_of_their_importance() -> None:
    head, first, *_ = table.fitted(COLUMNS, ROWS, 120).lines
    assert head == "USER  STATUS   MACHINE NAME                     MACHINE ID  AT                 REASON"
    assert first == "ada   running  hermes-local-cell1-f04703153cb9  edd79c03…   2026-11-28 17:34Z  -"
    head, first, *_ = table.fitted(COLUMNS, ROWS, 80).lines
    assert head == "USER  STATUS   MACHINE NAME     MACHINE ID  AT                 REASON"
    assert first == "ada   running  hermes-…3153cb9  edd79c03…   2026-11-28 17:34Z  -"
    people = [[cell.replace(AT, "2026-11-28 17:34:49Z") for cell in row] for row in ROWS]
    assert table.fitted(COLUMNS, people, 80) == table.fitted(COLUMNS, ROWS, 80)
    narrow = table.fitted(COLUMNS, ROWS, 40)
    assert narrow.lines[1] == "ada   running  hermes…153cb9  edd79c03…"
    assert narrow.left_out == ("at", "reason")


def test_ids_that_name_the_rows_keep_their_beginnings_so_that_state_and_time_have_room() -> None:
    columns = ("id", "kind", "about", "status", "step", "updated_at")
    ids = ("72dbaadb-ab09-441c-81dd-bf516f1e981e", "87f3d76d-b363-4776-bd69-84c0ad9f979c")
    rows = [[each, "schedule_termination", "cleo-longer-name", "done", "the agent is suspended", AT] for each in ids]
    shown = table.fitted(columns, rows, 80)
    assert shown.left_out == ()
    assert shown.lines[1] == "72dbaadb  schedule_termination  cleo-longer-name  done    2026-11-28 17:34Z"
    alike = [[each.replace("87f3d76d", "72dbaadb"), *row[1:]] for each, row in zip(ids, rows, strict=True)]
    assert table.fitted(columns, alike, 80).lines[1].startswith(ids[0]), "beginnings that are the same name nothing"
    machines = table.fitted(("machine_id", *columns[1:]), rows, 80)
    assert machines.lines[1].startswith(ids[0]), "no command knows a machine by the beginning of its id"


def test_a_next_time_is_no_next_step() -> None:
    rows = [["tokens", "3", "when something is due", "one agent was handed its token, another was not"]]
    assert len(table.fitted(("job", "due", "next", "done"), rows, 60).lines) > 2
    assert "when something is due" in table.fitted(("job", "due", "next", "done"), rows, 60).lines[1]


def test_a_short_cell_never_goes_below_its_row() -> None:
    rows = [["ada", "health", "commands and workers", "hermes-local-cell1-f04703153cb9", AT]]
    shown = table.fitted(("user", "purpose", "holder", "machine_name", "at"), rows, 60)
    assert shown.lines[0].startswith("USER  PURPOSE  HOLDER")
    assert len(shown.lines) == 3, "the holder folds"


def test_a_sentence_is_folded_between_words_and_not_without_end() -> None:
    assert table.fold("one two three", 7) == ["one two", "three"]
    assert table.fold("/var/lib/hermes x", 6) == ["/var/l", "ib/her", "mes x"]
    assert table.fold("", 5) == [""]
    rows = [["ada", "word " * 1_000]]
    lines = table.fitted(("user", "reason"), rows, 40).lines
    assert len(lines) == 9
    assert lines[-1].endswith("…")


def test_letters_of_two_columns_are_measured_as_such() -> None:
    lines = table.fitted(("user", "machine_name", "reason"), [["愛" * 10, "機" * 60, "x"]], 60).lines
    assert lines[1].startswith("愛" * 10)
    assert all(table._length(line) <= 60 for line in lines)
    assert lines[1].split("…")[1].strip() == "x"


def test_a_pipe_gets_every_cell_whole() -> None:
    lines = table.plain(COLUMNS, ROWS)
    assert lines[1].startswith(
        "ada   running  hermes-local-cell1-f04703153cb9  edd79c03-1443-42f6-9a4c-16d911d4fbaa  2026-"
    )
    assert "…" not in "".join(lines)


def test_a_sentence_goes_below_its_row_where_it_would_be_narrow() -> None:
    columns, rows = ("key", "value", "description"), [["monitoring.replacements_per_day", "1", "Replacements " * 4]]
    narrow = table.fitted(columns, rows, 60).lines
    assert narrow == [
        "KEY                              VALUE",
        "monitoring.replacements_per_day  1",
        "    Replacements Replacements Replacements Replacements",
    ]
    assert table.fitted(columns, rows, 85).lines[0].endswith("DESCRIPTION"), "forty columns are enough beside it"


def test_a_path_goes_below_its_row_so_that_it_can_be_copied() -> None:
    path = "/home/you/.hermesops/local/registry-copies/20261130T060019Z-hourly.db"
    row = ["2026-11-30 06:00Z", "20 min", "hourly", "26", "950272", path]
    shown = table.fitted(["taken_at", "age", "reason", "instances", "size_bytes", "file"], [row], 80)
    assert shown.lines[-1] == f"    {path}"
    assert not shown.left_out
    narrow = table.fitted(
        ["taken_at", "reason", "instances", "file"], [["2026-11-30 06:00Z", "hourly", "26", path]], 60
    )
    assert narrow.lines[-1] == f"    {path}", "longer than a line, and whole"
