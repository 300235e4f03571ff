from pathlib import Path

from tests.support.documents.provider_matrix import not_offered, offered

PAGE = Path(__file__).parents[4] / "runbooks" / "own-model-providers.md"


def test_the_page_has_the_tables_of_the_code() -> None:
    page = PAGE.read_text()
    for table in (offered(), not_offered()):
        assert f"\n\n{table}" in page, f"write it into {PAGE.name}:\n{table}"
