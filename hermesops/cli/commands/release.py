"""``hermesops release``: the software of instances, locked and signed."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.base.narration import counted
from hermesops.cli import context
from hermesops.cli.console import Why, Yes, advice, agree, complain, require_reason, result, say, table
from hermesops.cli.groups.noun import Noun
from hermesops.cli.options import dry_run as dry_runs
from hermesops.cli.options import files
from hermesops.cli.options.dry_run import DryRun
from hermesops.cli.views import release as release_view
from hermesops.errors import Hint, RefusedError, UsageError
from hermesops.views.machines import releases as shapes

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from hermesops.app import Container
    from hermesops.machines.release.builder.build import BuildRequest, Built
    from hermesops.wire.documents.lock import Lock, Managed

app = Noun(no_args_is_help=True)
signers = Noun(no_args_is_help=True)
app.add_typer(signers, name="signers", help="Whose signatures count for releases.")

Release = Annotated[str, typer.Argument(help="Id of a release, or the agent's version where one release has it.")]
Python = Annotated[
    list[str] | None,
    typer.Option("--python", help="Only for machines of this Python; may be repeated.", show_default=False),
]


@app.command(waits=True)
def build(
    agent: Annotated[str, typer.Option(help="Version on the package index; default: the image's.")] = "",
    wheel: Annotated[
        Path | None, typer.Option("--from", help="Wheel of an agent that no index has.", show_default=False)
    ] = None,
    source: Annotated[
        str,
        typer.Option(
            help="Archive of a tag, path or https address, of which the agent is built; with --from: only its skills.",
            show_default=False,
        ),
    ] = "",
    sha256: Annotated[str, typer.Option(help="SHA-256 of that archive.", show_default=False)] = "",
    interpreter: Annotated[
        str,
        typer.Option(
            help="A Python that the release brings: SOURCE#sha256=…, several by commas; none: the machines' own. "
            "Default with --source: setting release.interpreter. With --lock its hash is known.",
            show_default=False,
        ),
    ] = "",
    lock: Annotated[
        Path | None, typer.Option(help="Build exactly this release again: a file of locks/.", show_default=False)
    ] = None,
    python: Python = None,
    managed: Annotated[
        str, typer.Option(help="JSON file with config and environment, laid over every agent's.", show_default=False)
    ] = "",
    note: Annotated[str, typer.Option(help="Why; stands in the list.")] = "",
    dry_run: DryRun = False,
) -> None:
    """Build a release: resolve its packages once, gather them, lock, sign and keep it.

    What was built before is not built again: the same content is the same release.
    """
    is_of_source = bool(source) and not wheel and not lock
    if sum(map(bool, (agent, wheel, lock, is_of_source))) > 1:
        raise UsageError(
            "a release is built of --agent, of --from, of --source or of --lock",
            hint=Hint(("release", "build", "--help")),
        )
    container = context.compose()
    if lock is not None and dry_run:
        from hermesops.machines.release.builder.build import BuildRequest

        known = _lock_in(lock)
        _preview_build(container, BuildRequest(known.agent_version, pythons=tuple(sorted(known.pythons))))
        return
    if lock is not None:
        work = _rebuild(container, _lock_in(lock), wheel, source, sha256, interpreter, note)
    else:
        from hermesops.machines.release.pinned import PinnedFile
        from hermesops.machines.release.service import usual_request

        usual, of_setting = usual_request(container.agent_pins), container.env.settings.release.interpreter
        order = replace(
            usual,
            agent="" if wheel or is_of_source else agent or usual.agent,
            wheel=wheel,
            source=Path(source) if source and wheel else None,
            archive=PinnedFile.parse(source, sha256) if is_of_source else None,
            interpreter=PinnedFile.chosen(interpreter, of_setting if is_of_source else ""),
            pythons=tuple(python or usual.pythons),
            managed=_managed(managed),
        )
        if dry_run:
            _preview_build(container, order)
            return
        work = container.release_changes.build(order, note=note)
    built = context.run(work)
    shape = shapes.built(built.lock, is_new=built.made)
    size = f"{shape['files']} files, {sum(blob.size for blob in built.lock.all_blobs()) / 1e6:.0f} MB"
    result("release-build", {"release": shape}, [f"{built.lock.id} {'built' if built.made else 'is there'}: {size}"])


def _preview_build(container: "Container", order: "BuildRequest") -> None:
    preview = container.release_changes.preview_build(order)
    same = [f"release {release} has that version" for release in preview.same_agent]
    lines = [f"agent {order.agent or 'of the named file'} for Python {', '.join(order.pythons)}", *same]
    dry_runs.show("release-build-preview", shapes.build_preview(preview), lines)


def _rebuild(
    container: "Container", lock: "Lock", wheel: Path | None, source: str, sha256: str, interpreter: str, note: str
) -> "Coroutine[None, None, Built]":
    """The work of building a release again from its lock."""
    from hermesops.machines.release.pinned import PinnedFile

    changes = container.release_changes
    is_pinned = bool(source) and PinnedFile.is_named(source, sha256)
    files = [*([wheel] if wheel else []), *([Path(source)] if source and not is_pinned else [])]
    pins = [PinnedFile.parse(source, sha256) if is_pinned else None, changes.interpreter_of(lock, interpreter)]
    return changes.rebuild(lock, files, [pin for pin in pins if pin], note=note)


@app.command("list")
def list_() -> None:
    """List releases, newest first, and how many running agents were last observed to run each."""
    container = context.compose()
    users = container.instance_list.agents_by_release()
    rows = [shapes.kept(release, users.get(release.id, ())) for release in container.releases.list()]
    columns = ("id", "agents", "state", "agent", "created_at", "note", "origin", "who", "pythons")
    elsewhere = shapes.elsewhere(users, {str(row["id"]) for row in rows})
    table("release-list", "releases", columns, rows, advice("no releases;", ("release", "build")), beside=elsewhere)
    for line in release_view.elsewhere_lines(elsewhere):
        say(line)


@app.command()
def show(
    release: Release,
    against: Annotated[str, typer.Option(help="What differs from this release to the shown one.")] = "",
) -> None:
    """Show the contents of a release, or its differences from another."""
    from hermesops.machines.release.diff import compare

    container = context.compose()
    releases = container.releases
    shown = releases.find(release)
    if not against:
        users = container.instance_list.agents_by_release().get(shown.id, ())
        data = {**shapes.lock(shown), "users": list(users)}
        result("release", {"release": data}, [*release_view.lock_lines(shown), release_view.agents_line(users)])
        return
    other = releases.find(against)
    differences = compare(other, shown)
    shape = shapes.compared(other.id, shown.id, differences)
    result("release-difference", shape, [f"{other.id} -> {shown.id}", *release_view.difference_lines(differences)])


@app.command()
def verify(release: Release) -> int:
    """Check a release without a network: its signature, and the hash of every file."""
    releases = context.compose().releases
    lock = releases.find(release)
    damage = releases.verify(lock.id)
    shape = shapes.verified(lock, damage)
    lines = [f"{file.name} {file.what}" for file in damage]
    result("release-verify", shape, lines or [f"{lock.id} is intact: {shape['files']} files, signature valid"])
    if not damage:
        return 0
    failure = RefusedError(
        f"{counted(len(damage), 'file')} of {lock.id} missing or damaged",
        hint=Hint(("release", "build", "--lock", "FILE"), f", where FILE is locks/{lock.id}.json of the store"),
    )
    complain(failure)
    return failure.exit_code


@app.command()
def revoke(
    release: Annotated[str, typer.Argument(help="Its whole id.")],
    reason: Why = "",
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Revoke a release: no machine installs it any more; machines that run it keep it until another is deployed.

    This cannot be undone: build another release of the same agent.
    """
    container = context.compose()
    if dry_run:
        revoked = container.release_changes.preview_revocation(release)
        users = container.instance_list.agents_by_release().get(release, ())
        lines = [f"revoked already: {revoked}"] if revoked else []
        lines += [f"{counted(len(users), 'agent')} of it: they keep it until another release is deployed"]
        dry_runs.show("release-revoke-preview", shapes.revocation_preview(release, users, revoked), lines)
        return
    require_reason(reason, "release", "revoke", release)
    container.release_changes.require_known(release)
    agree(f"No machine will install {release} any more.", expect=release, spared="nothing was revoked", yes=yes)
    number = context.run(container.release_changes.revoke(release, reason=reason)).number
    line = advice(
        f"{release} is revoked; machines that run it:",
        ("rollout", "preview", "RELEASE", "--where", f"release={release}"),
    )
    result("release-revoke", shapes.revoked(release, reason, number), [line])


@app.command()
def floor(
    version: Annotated[str, typer.Argument(help="Oldest version of the agent; none takes the floor away.")] = "",
    reason: Why = "",
) -> None:
    """Show or set the oldest version of the agent that machines install."""
    container = context.compose()
    revocations = container.releases.revocations()
    if version:
        oldest = "" if version == "none" else version
        revocations = context.run(container.release_changes.set_floor(oldest, reason=reason))
    line = f"machines install no agent older than {revocations.floor}" if revocations.floor else "there is no floor"
    result("release-floor", shapes.revocations(revocations), [line])


@signers.command("show")
def show_signers() -> None:
    """Show the allowed signers of releases in OpenSSH's format, and the number of their changes."""
    trust = context.compose().releases.trust
    number, text = len(trust.chain()), trust.current()
    lines = text.splitlines() or [advice("nobody has signed a release yet;", ("release", "build"))]
    result("release-signers", {"signers": text.splitlines(), "number": number}, lines)


@signers.command("set")
def set_signers(
    file: Annotated[str, typer.Argument(help="Allowed signers, in OpenSSH's format; - reads standard input.")],
    reason: Why,
    sign_again: Annotated[
        bool, typer.Option(help="Sign again with your key what a removed signer had signed.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Change the allowed signers of releases. Your key must be valid before and after, so that nobody is locked out.

    Machines take the new signers with the next release that is deployed to them.
    """
    container = context.compose()
    allowed = files.read(file)
    agree(
        "This replaces the allowed signers of releases.", expect="signers", spared="the signers are unchanged", yes=yes
    )
    left = context.run(container.release_changes.set_signers(allowed, sign_again=sign_again, reason=reason))
    lines = [f"allowed signers from now on: {counted(len(allowed.splitlines()), 'line')}"]
    lines += [f"{release} is signed by none of them: machines refuse it" for release in left]
    result("release-signers-set", {"signers": allowed.splitlines(), "unsigned": list(left)}, lines)


@signers.command("restore")
def restore_signers(reason: Why, yes: Yes = False) -> None:
    """Write the signers and revocations that this computer remembers into a store that lost them or was restored.

    The numbers of a store's signers and revocations only ever rise; a lower one means that somebody changed the store.
    """
    container = context.compose()
    agree(
        "This replaces what the store says of signers and revocations by what this computer remembers.",
        expect="signers",
        spared="the store is unchanged",
        yes=yes,
    )
    written = context.run(container.release_changes.restore(reason=reason))
    lines = [f"restored: {', '.join(written)}"] if written else ["the store has all that this computer remembers"]
    result("release-signers-restored", {"restored": list(written)}, lines)


def _lock_in(file: Path) -> "Lock":
    from hermesops.wire.documents.lock import Lock
    from hermesops.wire.errors import NodeError

    try:
        return Lock.from_json(file.read_bytes())
    except OSError as error:
        raise RefusedError(f"{file} cannot be read: {error.strerror}", hint=Hint(("release", "list"))) from error
    except NodeError as error:
        raise RefusedError(f"{file} is no lock of a release: {error}", hint="a file of locks/ in a store") from error


def _managed(source: str) -> "Managed":
    import json

    from hermesops.wire.documents.lock import Managed, managed_from
    from hermesops.wire.errors import NodeError

    if not source:
        return Managed()
    try:
        parsed = json.loads(files.read(source))
        return managed_from({"config": {}, "environment": {}, **parsed})  # either may be left out
    except (TypeError, ValueError, NodeError) as error:
        raise UsageError(f"{source}: {error}", hint='{"config": {…}, "environment": {…}}') from error


@app.command(
    "check-upstream",
    epilog="\b\nExamples:\n  hermesops release check-upstream tags.json\n"
    "  git ls-remote --tags URL | hermesops release check-upstream -",
)
def check_upstream(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE|URL", help="Upstream's tags: GitHub's JSON, or one tag a line; - reads standard input."
        ),
    ],
    ours: Annotated[str, typer.Option(help="Compare with this version of the agent; default: the image's.")] = "",
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit 7 when a newer tag is out.")] = False,
) -> int:
    """List upstream's tags that are newer than an agent, what changes with each, and the commands that take it.

    Exit 0: nothing is newer, or without --exit-code; 3: the list or the version is not understood; 4: the address does
    not answer; 7: a newer tag is out.
    """
    from hermesops.machines.capabilities import upstream, upstream_list

    if upstream_list.is_address(source):
        text = upstream_list.fetch(source)
    else:
        text = files.read_bytes(source, most=upstream.LARGEST)
    comparison = upstream.compare(ours or _agent_of_image(), text)
    result("release-upstream", shapes.upstream(comparison), release_view.upstream_lines(comparison))
    return 7 if exit_code and comparison.newer else 0


def _agent_of_image() -> str:
    from hermesops.machines.release.service import usual_request

    return usual_request(context.compose().agent_pins).agent
