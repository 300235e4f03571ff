"""Runbooks of this installation, as pages."""

import asyncio
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pyromark
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hermesops.base import assets
from hermesops.console.actions.action import About
from hermesops.console.front import PREFIX
from hermesops.console.parts import console_of
from hermesops.console.sources import Topic
from hermesops.observability.runbook.document import load, names
from hermesops.views.observability import runbooks as shapes

_LINK = re.compile(r'<a href="([^"]*)"')
_TITLE = re.compile(r"<h1>.*?</h1>", re.DOTALL)
_IMAGE = re.compile(r"<img [^>]*>")
_RUNBOOK = re.compile(r"([a-z0-9-]+)\.md(#[\w-]*)?")
_OPTIONS = pyromark.Options.ENABLE_TABLES


async def list_(request: Request) -> Response:
    """All runbooks."""
    rows = await asyncio.to_thread(_listed, assets.folder("runbooks"))
    return console_of(request).pages.page("runbooks", rows=rows)


async def show(request: Request) -> Response:
    """One runbook with its steps, by its name or by that of an alert; ``instance`` of the address fills them."""
    console, user, folder = console_of(request), request.query_params.get("instance", ""), assets.folder("runbooks")
    document = await asyncio.to_thread(load, folder, request.path_params["name"])
    instance = await asyncio.to_thread(console.container.instances.find, user) if user else None
    fill = console.container.runbook_records.filled
    filled = await asyncio.to_thread(fill, document, instance) if instance else document
    # Runbooks are files of hermesops itself, so their HTML is not hostile.
    pages = await asyncio.to_thread(lambda: [console.page_of(step.command) for step in filled.steps])
    text = Markup(_html(document.text, frozenset(names(folder))))  # noqa: S704 - as above
    return console.pages.page(
        "runbook",
        title=document.title,
        text=text,
        name=document.name,
        left=console.left(About.RUNBOOK),
        steps=[{**shapes.step(step), "page": page} for step, page in zip(filled.steps, pages, strict=True)],
        user=instance.title if instance else "",
    )


async def run(request: Request) -> Response:
    """A run of a runbook in this process: its lines so far, then each step with its outcome."""
    console, topic = console_of(request), Topic("run", request.path_params["id"])
    snapshot = await console.sources.snapshot(topic)
    return console.pages.page("run", topic=topic, digest=snapshot.digest, **snapshot.shape)


@cache
def _listed(folder: Path) -> Sequence[tuple[str, str, Sequence[str]]]:
    """Name, title and alerts of each runbook; the files do not change while the process runs."""
    return [(runbook.name, runbook.title, runbook.alerts) for runbook in (load(folder, name) for name in names(folder))]


def _html(text: str, known: frozenset[str]) -> str:
    """A document as HTML without its title. Links to other runbooks lead to their pages, links to files nowhere."""

    def link(match: re.Match[str]) -> str:
        target = match[1]
        runbook = _RUNBOOK.fullmatch(target)
        if runbook and runbook[1] in known:
            return f'<a href="{PREFIX}runbooks/{runbook[1]}{runbook[2] or ""}"'
        return f'<a rel="noopener noreferrer" href="{target}"' if target.startswith("https://") else "<a"

    return _LINK.sub(link, _IMAGE.sub("", _TITLE.sub("", pyromark.html(text, options=_OPTIONS), count=1)))


PAGES = (Route(f"{PREFIX}runbooks", list_), Route(f"{PREFIX}runbooks/{{name}}", show))
"""Of the documents alone."""

ROUTES = (*PAGES, Route(f"{PREFIX}runs/{{id}}", run))
