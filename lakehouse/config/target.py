"""What `conf/targets/NAME.yml` says: where a lakehouse lies and which Spark works on it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from lakehouse.config.table import Strict
from lakehouse.errors import Problem

Layer = Literal["bronze", "silver", "gold"]
LAYERS: tuple[Layer, ...] = ("bronze", "silver", "gold")
Kind = Literal["local", "connect", "databricks"]
Sensitive = Literal["hash", "omit", "separate"]


def _absolute(path: str) -> str:
    """Delta refuses relative paths in SQL: make them absolute, from the working directory."""
    return path if "://" in path else str(Path(path).expanduser().absolute())


def _below_root(inner: str) -> Callable[[dict[str, Any]], str]:
    """Default of a folder: below the root, or empty where there is no root."""
    return lambda given: f"{given['root']}/{inner}" if given.get("root") else ""


Folder = Annotated[str, AfterValidator(_absolute)]


class Schemas(Strict):
    """Name of each layer's schema in the catalog."""

    bronze: str = Field(default="bronze", description="The schema of bronze.")
    silver: str = Field(default="silver", description="The schema of silver.")
    gold: str = Field(default="gold", description="The schema of gold.")


class Target(Strict):
    """One place to run. Without a catalog its tables are Delta folders under `root`/lake."""

    name: str = Field(default="local", description="The target's name; default: its file's name.")
    kind: Kind = Field(
        default="local",
        description="`local` starts Spark on this machine. `connect` uses a Spark Connect server."
        " `databricks` uses the session of the job, or databricks-connect's.",
    )
    root: Folder | None = Field(default=None, description="The folder of a lake without a catalog.")
    catalog: str | None = Field(
        default=None, description="The catalog of the three schemas, in place of `root`."
    )
    schemas: Schemas = Field(default=Schemas(), description="The names of the schemas.")
    landing: Folder = Field(
        default_factory=_below_root("landing"),
        description="The folder that every table's `source.path` starts from.",
    )
    checkpoints: Folder = Field(
        default_factory=_below_root("lake/_checkpoints"),
        description="The folder of the streams' checkpoints.",
    )
    remote: str | None = Field(
        default=None, description="The Spark Connect server, `sc://host:port`."
    )
    master: str = Field(default="local[*]", description="Spark's master, with kind `local`.")
    driver_memory: str = Field(
        default="2g", description="The memory of Spark's Java, with kind `local`."
    )
    sensitive: Sensitive = Field(
        default="hash",
        description="What gold shows of sensitive columns. `hash`: the SHA-256. `omit`: nothing."
        " `separate`: nothing, and those of snapshot tables in `gold.T_sensitive`.",
    )

    @property
    def lake(self) -> str:
        """Folder of the tables of a target without a catalog."""
        return f"{self.root}/lake"

    @property
    def aside(self) -> str | None:
        """What silver's tables are called by when they are not the live ones; None for those."""
        return None


class Aside(Target):
    """The same target with silver tables of its own beside the live ones, all else shared."""

    rebuild: str

    @property
    def aside(self) -> str | None:
        """The rebuild that the tables belong to."""
        return self.rebuild


def contradictions(target: Target) -> Iterator[Problem]:
    """Keys that are fine alone and make no sense together."""
    if target.root and target.catalog:
        yield Problem("catalog", "catalog and root", "one of them", "remove one of the two")
    if not target.root and not target.catalog:
        expected = "root (a folder) or catalog"
        yield Problem("root", "neither root nor catalog", expected, "add the one that fits")
    if target.kind == "local" and target.catalog:
        yield Problem("catalog", target.catalog, "no catalog on kind: local", "name a root")
    if target.kind == "databricks" and target.root:
        yield Problem("root", target.root, "catalog and schemas", "remove root")
    if target.kind == "connect" and not target.remote:
        yield Problem("remote", "nothing", "a url such as sc://localhost:15002", "add remote")
    if target.kind != "connect" and target.remote:
        yield Problem("remote", target.remote, "kind: connect", "change kind or remove remote")
    for key in ("landing", "checkpoints"):
        if target.catalog and not getattr(target, key):
            yield Problem(key, "nothing", "a volume's folder", f"add {key}")
