"""What a program of the platform registers and exports, noted without an engine, as policies take it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pulumi

from hermesops.infra.stacks.dry_run import Notes, noting
from hermesops.infra.stacks.platform.aws.answers import AwsAnswers
from hermesops.infra.stacks.platform.policy_check import Program
from hermesops.infra.stacks.platform.spec import PROJECT, Place
from hermesops.infra.stacks.registered import Registered
from hermesops.model.stack import StackRef

PLACE = Place("staging", "111122223333", "eu-central-1", "hermesops-staging-state")


@dataclass
class Run:
    """What a program registered and exported."""

    place: Place
    resources: Sequence[Registered]
    exports: Mapping[str, object] = field(default_factory=dict)

    @property
    def judged(self) -> Program:
        """As policies take it."""
        return Program(self.place, self.resources)

    def one(self, kind: str, name: str = "") -> Registered:
        """The one resource of a kind, and name where one is given."""
        (resource,) = [each for each in self.judged.of(kind) if name in {"", each.name}]
        return resource


@contextmanager
def mocked(place: Place = PLACE) -> Iterator[Notes]:
    with noting(StackRef(PROJECT, place.environment), AwsAnswers()) as notes:
        yield notes


def run(program: Callable[[], None], place: Place = PLACE) -> Run:
    """Run a program to its end."""
    exported: dict[str, object] = {}
    export = pulumi.export

    def note(name: str, value: object) -> None:
        pulumi.Output.from_input(value).apply(lambda known: exported.__setitem__(name, known))

    with mocked(place) as monitor:
        pulumi.export = note
        try:
            pulumi.runtime.test(program)()  # type: ignore[no-untyped-call]  # the SDK's is untyped
        finally:
            pulumi.export = export
        return Run(place, monitor.registered(with_secrets=True), exported)
