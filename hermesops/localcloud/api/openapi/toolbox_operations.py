"""The calls of a machine's toolbox: what each takes and answers. Pure data."""

from hermesops.localcloud.api.openapi.operation import ONE, TOOLBOX, Operation
from hermesops.localcloud.api.openapi.schemas import (
    EVENT,
    FLAG,
    INTEGER,
    MAYBE_FILE_TYPE,
    NUMBER,
    TEXT,
    Schema,
    many,
    ref,
    shape,
)

_PATH: dict[str, Schema] = {"path": {"type": "string", "pattern": "^/"}}

_OCTAL: Schema = {"type": "string", "pattern": "^[0-7]{1,4}$"}

TOOLBOX_OPERATIONS: tuple[Operation, ...] = (
    Operation("POST", f"{ONE}/exec", "Run a command", ref("Execution"), body=ref("Command"), refusals=(400, 408)),
    Operation(
        "POST",
        f"{TOOLBOX}/process/execute",
        "Run a command",
        ref("Execution"),
        body=ref("Command"),
        refusals=(400, 408),
    ),
    Operation(
        "POST",
        f"{TOOLBOX}/process/execute/stream",
        "Run a command, its output as it comes",
        EVENT,
        body=ref("Command"),
        refusals=(400,),
        media="text/event-stream",
    ),
    Operation(
        "POST", f"{TOOLBOX}/process/code-run", "Run some code", ref("Execution"), body=ref("Code"), refusals=(400, 408)
    ),
    Operation("GET", f"{TOOLBOX}/process/list", "The processes", shape({"processes": many(ref("Process"))})),
    Operation(
        "POST",
        f"{TOOLBOX}/process/kill",
        "Signal a process",
        shape({"killed": {"const": True}, "pid": INTEGER}),
        body=shape({"pid": {**INTEGER, "minimum": 1}}, signal=TEXT),
        refusals=(400, 403),
    ),
    Operation(
        "GET",
        f"{TOOLBOX}/files",
        "What is in a folder",
        shape({"entries": many(ref("File"))}),
        query={**_PATH, "depth": INTEGER},
        refusals=(400,),
    ),
    Operation(
        "DELETE",
        f"{TOOLBOX}/files",
        "Delete a file or folder",
        shape({"deleted": {"const": True}, "path": TEXT}),
        query={**_PATH, "recursive": TEXT},
        required=("path",),
        refusals=(400, 403),
    ),
    Operation(
        "GET", f"{TOOLBOX}/files/info", "What a path is", ref("File"), query=_PATH, required=("path",), refusals=(400,)
    ),
    Operation(
        "GET",
        f"{TOOLBOX}/files/exists",
        "Whether a path exists",
        shape({"exists": FLAG, "type": MAYBE_FILE_TYPE}),
        query=_PATH,
        required=("path",),
        refusals=(400,),
    ),
    Operation(
        "GET",
        f"{TOOLBOX}/files/download",
        "A file as it is",
        TEXT,
        query=_PATH,
        required=("path",),
        refusals=(400,),
        media="application/octet-stream",
    ),
    Operation(
        "POST",
        f"{TOOLBOX}/files/upload",
        "Write a file",
        shape({"path": TEXT, "size": NUMBER}),
        body=TEXT,
        query={**_PATH, "mode": TEXT, "overwrite": TEXT},
        required=("path",),
        refusals=(400, 403, 409, 411, 413, 507),
        raw_body="application/octet-stream",
    ),
    Operation(
        "GET",
        f"{TOOLBOX}/files/find",
        "Search in files",
        shape(
            {
                "matches": many(shape({"file": TEXT, "line": NUMBER, "content": TEXT})),
                "truncated": FLAG,
                "total": NUMBER,
            }
        ),
        query={**_PATH, "pattern": TEXT, "include": TEXT, "max_results": INTEGER},
        required=("path", "pattern"),
        refusals=(400,),
    ),
    Operation(
        "POST",
        f"{TOOLBOX}/files/replace",
        "Replace in files",
        shape({"results": many(shape({"file": TEXT, "replacements": NUMBER}))}),
        body=shape({"files": many(TEXT), "pattern": TEXT, "new_value": TEXT}),
        refusals=(400, 403),
    ),
    Operation(
        "POST",
        f"{TOOLBOX}/files/folder",
        "Make a folder",
        shape({"path": TEXT, "created": FLAG}),
        query={**_PATH, "mode": TEXT},
        required=("path",),
        refusals=(400, 403, 409),
    ),
    Operation(
        "POST",
        f"{TOOLBOX}/files/move",
        "Move a file or folder",
        shape({"source": TEXT, "destination": TEXT}),
        query={"source": TEXT, "destination": TEXT},
        required=("source", "destination"),
        refusals=(400, 403, 409),
    ),
    Operation(
        "POST",
        f"{TOOLBOX}/files/permissions",
        "Change mode and owner",
        shape({"path": TEXT, "mode": _OCTAL, "owner": TEXT, "group": TEXT}),
        query=_PATH,
        required=("path",),
        body=shape({}, mode=TEXT, owner=TEXT, group=TEXT),
        refusals=(400, 403),
    ),
    Operation(
        "POST",
        f"{TOOLBOX}/files/bulk-download",
        "Several files in a zip",
        TEXT,
        body=shape({"paths": many(TEXT)}),
        refusals=(400,),
        media="application/zip",
    ),
)
"""Every call that a machine's daemon answers."""
