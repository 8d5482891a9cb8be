"""What `conf/targets/NAME.yml` says: where a lakehouse lies and which Spark works on it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from lakehouse.config.strict import Strict
from lakehouse.config.table import Duration
from lakehouse.errors import Problem

Layer = Literal["bronze", "silver", "gold"]
LAYERS: tuple[Layer, ...] = ("bronze", "silver", "gold")
Kind = Literal["local", "cluster", "connect", "databricks"]
Sensitive = Literal["hash", "omit", "separate"]
MEMORY = r"^[1-9]\d*[mgMG]$"
WEBHOOK = r"^(https?://.+|env:\w+)$"
"""A URL, or the variable that holds it."""


def _make_absolute(path: str) -> str:
    """An absolute path from the working directory, as Delta's SQL refuses relative ones."""
    return path if "://" in path else str(Path(path).expanduser().absolute())


def _below_root(inner: str) -> Callable[[dict[str, Any]], str]:
    """The default of a folder: below the root, or empty without a root."""
    return lambda given: f"{given['root']}/{inner}" if given.get("root") else ""


Folder = Annotated[str, AfterValidator(_make_absolute)]


class Schemas(Strict):
    """Name of each layer's schema in the catalog."""

    bronze: str = Field(default="bronze", description="The schema of bronze.")
    silver: str = Field(default="silver", description="The schema of silver.")
    gold: str = Field(default="gold", description="The schema of gold.")


class AlarmReceiver(Strict):
    """Who receives alarms."""

    webhook: str = Field(
        pattern=WEBHOOK,
        description='A URL that takes `{"text": …}` as Slack\'s webhooks do, or `env:NAME` for a'
        " variable that holds the URL.",
    )


class CleanLanding(Strict):
    """What `maintain` does with landing files that bronze holds."""

    after: Duration = Field(description="How old a file must be, such as `30 days`.")
    move_to: Folder | None = Field(
        default=None, description="The folder that the files are moved to; without it they go."
    )


class Target(Strict):
    """One place to run. Without a catalog its tables are Delta folders under `root`/lake."""

    name: str = Field(default="local", description="The target's name; default: its file's name.")
    kind: Kind = Field(
        default="local",
        description="`local` starts Spark on this machine. `cluster` starts Spark's driver here and"
        " works on the cluster of `master`. `connect` uses a Spark Connect server."
        " `databricks` uses the session of the job, or databricks-connect's.",
    )
    root: Folder | None = Field(
        default=None,
        description="The folder of a lake without a catalog, or its URL in an object store:"
        " `s3a://`, `abfss://` or `gs://`.",
    )
    shared: bool = Field(
        default=False,
        description="Whether `root` is a folder that every machine of a cluster sees under this"
        " very path, with kind `cluster`.",
    )
    catalog: str | None = Field(
        default=None, description="The catalog of the three schemas, in place of `root`."
    )
    schemas: Schemas = Field(default=Schemas(), description="The names of the schemas.")
    project: str | None = Field(
        default=None,
        description="The project that the lake belongs to. The first run marks the lake with it,"
        " and runs of another project are refused.",
    )
    landing: Folder = Field(
        default_factory=_below_root("landing"),
        description="The folder that every table's `source.path` starts from.",
    )
    checkpoints: Folder = Field(
        default_factory=_below_root("lake/_checkpoints"),
        description="The folder of the notes of what bronze has read.",
    )
    remote: str | None = Field(
        default=None, description="The Spark Connect server, `sc://host:port`."
    )
    master: str = Field(
        default="local[*]",
        description="Spark's master, with kind `local`; with kind `cluster` `spark://HOST:PORT`,"
        " `k8s://…` or `yarn`.",
    )
    driver_memory: str = Field(
        default="2g",
        pattern=MEMORY,
        description="The memory of Spark's Java, with kind `local` or `cluster`: `512m` or `4g`.",
    )
    packages: list[str] | None = Field(
        default=None,
        description="Maven coordinates of the jars that Spark needs for object stores; by default"
        " those that the URLs ask for, and none where the list is empty.",
    )
    settings: dict[str, str] = Field(
        default_factory=dict,
        description="Further settings of Spark, with kind `local` or `cluster`, such as"
        " `spark.hadoop.fs.s3a.endpoint`; `env:NAME` stands for a variable's value.",
    )
    sensitive: Sensitive = Field(
        default="hash",
        description="What gold shows of sensitive columns. `hash`: the SHA-256. `omit`: nothing."
        " `separate`: nothing, and those of snapshot tables in `gold.T_sensitive`.",
    )
    serve: Literal["auto"] | None = Field(
        default=None,
        description="`auto`: a command that asks starts `lakehouse serve` by itself, which ends"
        " when idle for ten minutes. With kind `local`; it takes `driver_memory`.",
    )
    alarms: AlarmReceiver | None = Field(
        default=None,
        description="`webhook`: the URL to which runs post what is wrong with a table, once as it"
        " begins and once as it ends; or `env:NAME`.",
    )
    clean_landing: CleanLanding | None = Field(
        default=None,
        description="`maintain` removes landing files that bronze holds: `after` says when,"
        " `move_to` where to; without `move_to` they are deleted.",
    )
    defaults: dict[str, Any] = Field(
        default_factory=dict,
        description="What every table has here that its own file does not say otherwise, before"
        " `conf/defaults.yml`.",
    )

    @property
    def lake(self) -> str:
        """Folder of the tables of a target without a catalog."""
        return f"{self.root}/lake"

    @property
    def aside(self) -> str | None:
        """The id of the rebuild that silver's tables belong to; None for the live tables."""
        return None


class Aside(Target):
    """A target for a rebuild: its silver tables are separate, all else is that of the live lake."""

    rebuild: str

    @property
    def aside(self) -> str | None:
        """The rebuild that the tables belong to."""
        return self.rebuild


def find_contradictions(target: Target) -> list[Problem]:
    """Problems of keys that are valid alone but contradict each other."""
    return [*_check_lake(target), *_check_kind(target), *_check_folders(target)]


def _check_lake(target: Target) -> Iterator[Problem]:
    if target.root and target.catalog:
        yield Problem("catalog", "catalog and root", "one of them", "remove one of the two")
    if not (target.root or target.catalog):
        expected = "root (a folder) or catalog"
        yield Problem("root", "neither root nor catalog", expected, "add the one that fits")


def _check_kind(target: Target) -> Iterator[Problem]:
    kind = target.kind
    if kind in ("local", "cluster") and target.catalog:
        yield Problem("catalog", target.catalog, f"no catalog on kind: {kind}", "name a root")
    if kind == "cluster" and target.master.startswith("local"):
        expected = "a cluster such as spark://HOST:7077"
        yield Problem("master", target.master, expected, "name the cluster's master")
    if kind == "cluster" and not target.shared:
        yield from _check_reach(target)
    if kind == "databricks" and target.root:
        yield Problem("root", target.root, "catalog and schemas", "remove root")
    if kind == "connect" and not target.remote:
        yield Problem("remote", "nothing", "a url such as sc://localhost:15002", "add remote")
    if kind != "connect" and target.remote:
        yield Problem("remote", target.remote, "kind: connect", "change kind or remove remote")


def _check_reach(target: Target) -> Iterator[Problem]:
    """Problems of folders that only this machine can read."""
    folders = {"root": target.root}
    if not target.landing.startswith(str(target.root)):
        folders["landing"] = target.landing
    expected = "a place that every machine of the cluster sees"
    action = "name an object store, or set shared: true if all see the folder"
    for key, folder in folders.items():
        if folder and "://" not in folder:
            yield Problem(key, folder, expected, action)


def _check_folders(target: Target) -> Iterator[Problem]:
    moved = target.clean_landing.move_to if target.clean_landing else None
    if moved and target.landing and Path(moved).is_relative_to(target.landing):
        key, expected = "clean_landing.move_to", "a folder outside of landing"
        yield Problem(key, moved, expected, "name another folder")
    for key in ("landing", "checkpoints") if target.catalog else ():
        if not getattr(target, key):
            yield Problem(key, "nothing", "a volume's folder", f"add {key}")
