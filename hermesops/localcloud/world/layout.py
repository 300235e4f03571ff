"""Where things are in a world's folder. Pure."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Places:
    """The files of one world; everything else in the folder is the driver's.

    Attributes:
        folder: The world's folder.
    """

    folder: Path

    @property
    def world(self) -> Path:
        """Where the running world is reachable; absent when it is down."""
        return self.folder / "world.json"

    @property
    def api_key(self) -> Path:
        """The vendor's API key."""
        return self.folder / "api.key"

    @property
    def model_key(self) -> Path:
        """Signs instances' router tokens."""
        return self.folder / "model.key"

    @property
    def database(self) -> Path:
        """What the server remembers."""
        return self.folder / "world.db"

    @property
    def base(self) -> Path:
        """Names the base that machines and images of this world stand on, once it has been up."""
        return self.folder / "base"

    @property
    def lock(self) -> Path:
        """Held by the server; holds its process id."""
        return self.folder / "server.lock"

    @property
    def log(self) -> Path:
        """What the server has to say."""
        return self.folder / "server.log"

    @property
    def object_store(self) -> Path:
        """What the object store keeps, and its log."""
        return self.folder / "object-store"

    @property
    def object_store_key(self) -> Path:
        """The object store's root credential, as AWS's programs read one."""
        return self.folder / "object-store.key"
