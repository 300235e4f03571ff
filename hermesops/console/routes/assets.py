"""Files of the pages, read once from the package: no request names a path of this computer."""

from collections.abc import Mapping
from functools import cache
from http import HTTPStatus
from importlib.resources import files

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hermesops.console.front import PREFIX

_MEDIA_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}


async def show(request: Request) -> Response:
    """One file."""
    name = request.path_params["name"]
    content = _assets().get(name)
    if content is None:
        raise HTTPException(HTTPStatus.NOT_FOUND)
    return Response(content, media_type=_MEDIA_TYPES[name[name.rindex(".") :]])


@cache
def _assets() -> Mapping[str, bytes]:
    folder = files("hermesops.console") / "assets"
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.name.endswith(tuple(_MEDIA_TYPES))}


ROUTES = (Route(f"{PREFIX}assets/{{name}}", show),)
