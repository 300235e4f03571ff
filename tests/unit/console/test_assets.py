"""Files of the pages: the vendored script is the one that was read, and nothing is inline or remote."""

import hashlib
import re
from pathlib import Path

import hermesops.console

FOLDER = Path(hermesops.console.__file__).parent
HTMX = FOLDER / "assets" / "htmx-2.0.11.min.js"


def test_the_vendored_script_is_that_of_its_page() -> None:
    page = (FOLDER / "assets" / "README.md").read_text()
    assert hashlib.sha256(HTMX.read_bytes()).hexdigest() in page
    assert f'version:"{HTMX.name.split("-")[1].removesuffix(".min.js")}"' in HTMX.read_text()
    assert "`htmx.org` 2.0.11" in page
    assert (FOLDER / "assets" / "htmx-LICENSE.txt").read_text().startswith("Zero-Clause BSD")


def test_the_base_page_names_it_and_switches_off_what_the_policy_forbids() -> None:
    base = (FOLDER / "templates" / "base.html").read_text()
    assert HTMX.name in base
    for setting in ('"allowEval":false', '"includeIndicatorStyles":false', '"selfRequestsOnly":true'):
        assert setting in base


def test_no_template_has_a_script_a_style_or_an_address_of_others() -> None:
    files = sorted((FOLDER / "templates").glob("*.html"))
    assert len(files) > 10
    inline = re.compile(r"""<style|\sstyle=|\son[a-z]+=|<script(?![^>]*\ssrc=)|https?://|\|\s*safe|hx-on|autoescape""")
    assert [(file.name, match[0]) for file in files for match in inline.finditer(file.read_text())] == []


def test_scripts_and_styles_ask_nobody_else_and_write_no_html() -> None:
    text = "".join((FOLDER / "assets" / name).read_text() for name in ("console.js", "console.css"))
    assert not re.search(
        r"https?://|@import|url\(|innerHTML|insertAdjacentHTML|document\.write|eval\(|Function\(", text
    )
