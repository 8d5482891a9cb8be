"""Files of a lake in an object store, asked of a real S3-compatible server."""

import io
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bronze.files.cleaning import clean_files
from bronze.files.json_files import has_other_records, read_records
from bronze.files.listing import DroppedFile, list_here
from gold.source_check.verified import Verified, read_verified, write_verified
from lakehouse.config.target import Target, find_contradictions
from lakehouse.errors import LakeNotWritable
from lakehouse.places.objects import ObjectPlace
from lakehouse.places.place import list_folder, open_file, remove_tree, to_place, write_whole
from lakehouse.places.settings import access_of, is_object_url, jars_of_stores, spark_settings
from lakehouse.remedies import check_writable
from lakehouse.spark.local_settings import local_settings
from lakehouse.storage import locks
from lakehouse.storage.delta_log import forget_old_log
from lakehouse.storage.locks import Holder, hold_commit_lock, hold_locks
from lakehouse.storage.names import is_delta_table, list_tables_in
from lakehouse.storage.settled import digest_of_lake, inputs_of
from lakehouse.storage.traces import find_traces
from tests.helpers.object_store import BUCKET, object_store, store_target
from tests.unit.lakehouse.test_locks import check_commit_waits_until_killed

ROOT = Path(__file__).parents[3]
HOLD = """
import sys
from lakehouse.storage.locks import {what}
from lakehouse.config.target import Target
target = Target.model_validate_json(sys.argv[1])
with {call}:
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with object_store(tmp_path_factory.mktemp("store")) as found:
        yield found


@pytest.fixture
def target(url: str) -> Iterator[Target]:
    found = store_target(url)
    yield found
    remove_tree(to_place(found, str(found.root)))


def put(target: Target, path: str, text: str = "x") -> ObjectPlace:
    file = to_place(target, str(target.root), *path.split("/"))
    assert isinstance(file, ObjectPlace)
    file.write_bytes(text.encode())
    return file


def other_process(target: Target, what: str, call: str) -> "subprocess.Popen[str]":
    code = HOLD.format(what=what, call=call)
    started = subprocess.Popen(
        [sys.executable, "-c", code, target.model_dump_json()], text=True, cwd=ROOT,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert started.stdout is not None
    assert started.stdout.readline() == "held\n"
    return started


def test_a_place_in_a_store_is_asked_like_a_path(target: Target) -> None:
    root = to_place(target, str(target.root))
    assert not root.exists() and list_folder(root) == []
    file = put(target, "a/b=1/ü %20x.json", "12345")
    assert str(file) == f"{target.root}/a/b=1/ü %20x.json"
    assert (file.name, file.stem, file.suffix) == ("ü %20x.json", "ü %20x", ".json")
    assert file.is_file() and not file.is_dir() and root.is_dir() and not root.is_file()
    assert file.read_text() == "12345" and file.stat().st_size == 5
    assert [str(each) for each in root.rglob("*.json")] == [str(file)]
    assert [(each.name, each.is_dir()) for each in list_folder(root)] == [("a", True)]
    assert [str(each) for each in root.glob("a/b=*/*.json")] == [str(file)]
    file.unlink()
    file.unlink(missing_ok=True)
    with pytest.raises(FileNotFoundError):
        file.read_bytes()


def test_a_parquet_file_is_read_in_parts(target: Target) -> None:
    written = io.BytesIO()
    pq.write_table(pa.table({"a": [1, 2], "b": ["one", "two"]}), written)
    file = put(target, "a.parquet")
    file.write_bytes(written.getvalue())
    assert pq.read_table(open_file(file), columns=["b"]).to_pydict() == {"b": ["one", "two"]}
    assert pq.read_metadata(open_file(file)).num_rows == 2
    found = find_traces(to_place(target, str(target.root)), ["two"])
    assert [(Path(each.file).name, each.places) for each in found] == [("a.parquet", 1)]


def test_a_table_is_there_with_its_first_commit(target: Target) -> None:
    put(target, "lake/silver/a/_delta_log/00000000000000000000.json")
    put(target, "lake/silver/b/part-0.parquet")
    layer = to_place(target, target.lake, "silver")
    assert list_tables_in(layer) == ["a"] and not is_delta_table(layer / "b")
    before = digest_of_lake(target)
    put(target, "lake/silver/a/_delta_log/00000000000000000001.json")
    assert digest_of_lake(target) != before


def test_dropped_files_are_listed_as_spark_names_them(target: Target, url: str) -> None:
    put(target, "landing/t/2026/a.json", '{"a": 1}\n{"a": 2}\n')
    put(target, "landing/t/_aside/b.json")
    put(target, "landing/t/.c.json")
    put(target, "landing/t/_h=1/d.json", '[{"a": 1}]')
    put(target, "landing/t/known.json")
    marker = f"{url}/{BUCKET}/shop/landing/t/empty/"  # Hadoop's, of an empty folder
    with urllib.request.urlopen(urllib.request.Request(marker, b"", method="PUT")):
        pass
    folder = f"{target.landing}/t"
    found = sorted(list_here(target, folder, lambda path: path.endswith("known.json")))
    assert [file.path for file in found] == [f"{folder}/2026/a.json", f"{folder}/_h=1/d.json"]
    assert [has_other_records(file.here) for file in found] == [False, True]
    assert read_records(found[0].here) == [(0, b'{"a": 1}'), (1, b'{"a": 2}')]
    assert DroppedFile("file:/a b.json", 0, 0).here == Path("/a b.json")


def test_inputs_differ_with_each_write_of_a_dropped_file(target: Target) -> None:
    put(target, "landing/t/a.json", "1")
    before = inputs_of(target, [], [f"{target.landing}/t"])
    assert inputs_of(target, [], [f"{target.landing}/t"]) == before
    put(target, "landing/t/a.json", "2")
    assert inputs_of(target, [], [f"{target.landing}/t"]) != before


def test_a_second_run_is_told_who_holds_the_table(target: Target) -> None:
    other = other_process(target, "hold_locks", 'hold_locks(target, ["silver.t"], "theirs")')
    with hold_locks(target, ["silver.t", "silver.u"], "ours") as refused:
        assert list(refused) == ["silver.t"]
        assert str(refused["silver.t"]).startswith("run theirs on ")
    other.communicate("")
    with hold_locks(target, ["silver.t"], "ours") as refused:
        assert refused == {}


def test_a_killed_runs_lock_is_taken_over(target: Target) -> None:
    other = other_process(target, "hold_locks", 'hold_locks(target, ["silver.t"], "theirs")')
    other.kill()
    other.communicate()
    with hold_locks(target, ["silver.t"], "ours") as refused:
        assert refused == {}


def elsewhere(target: Target) -> ObjectPlace:
    """A lock of a run on another machine."""
    holder = Holder.model_validate(
        {"host": "far", "pid": 1, "born": "", "run_id": "far", "since": 0}
    )
    return put(target, "lake/_locks/silver.t.lock", holder.model_dump_json())


def test_a_lock_elsewhere_is_taken_over_once_it_stands_still(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "BEAT_SECONDS", 0.05)
    file = elsewhere(target)
    with hold_locks(target, ["silver.t"], "ours") as refused:
        assert refused == {}
        beats = set()
        while len(beats) < 3:
            beats.add(Holder.model_validate_json(file.read_text()).beat)


def test_of_two_that_take_over_a_lock_one_gets_it(target: Target) -> None:
    file = elsewhere(target)
    seen, tag = file.read_with_tag()
    assert file.swap(b"one", tag)
    assert not file.swap(b"two", tag)
    assert not file.create(b"three")
    assert file.read_text() == "one" and seen != b"one"


def test_a_lock_elsewhere_that_beats_is_respected(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = elsewhere(target)

    def beats(_: float) -> None:
        holder = Holder.model_validate_json(file.read_text())
        holder = holder.model_copy(update={"beat": holder.beat + 1})
        file.write_bytes(holder.model_dump_json().encode())

    monkeypatch.setattr(locks.time, "sleep", beats)
    with hold_locks(target, ["silver.t"], "ours") as refused:
        assert list(refused) == ["silver.t"]


def test_a_commit_waits_for_another_processs_and_not_for_a_killed_ones(target: Target) -> None:
    waiting = other_process(target, "hold_commit_lock", "hold_commit_lock(target)")
    check_commit_waits_until_killed(target, waiting)
    with hold_commit_lock(target):
        pass


def test_what_is_known_of_the_source_lies_in_the_store(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_verified(target, "orders", Verified("0/1A"))
    assert read_verified(target, "orders").through == "0/1A"
    assert [*tmp_path.iterdir()] == []


def test_a_store_that_says_no_is_told_of(target: Target) -> None:
    check_writable(target)
    with pytest.raises(LakeNotWritable, match="s3a://elsewhere/x"):
        check_writable(target.model_copy(update={"root": "s3a://elsewhere/x"}))


def test_spark_and_this_process_are_told_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://here:1")
    monkeypatch.setenv("AWS_REGION", "r")
    monkeypatch.setenv("STORE_KEY", "k")
    key = "spark.hadoop.fs.s3a.access.key"
    found = Target(root="s3a://b/x", settings={key: "env:STORE_KEY"})
    told = spark_settings(found)
    assert told["spark.hadoop.fs.s3a.endpoint"] == "http://here:1" and told[key] == "k"
    access = access_of(found, "s3a")
    assert access.allow_http
    assert {("endpoint", "http://here:1"), ("region", "r"), ("access_key_id", "k")} <= {
        *access.options
    }
    assert "spark.hadoop.fs.file.impl" not in local_settings(found, cores=2)  # S3A casts it
    assert jars_of_stores(found) == ["org.apache.hadoop:hadoop-aws:3.5.0"]
    assert jars_of_stores(found.model_copy(update={"packages": []})) == []
    assert spark_settings(Target(root="/r")) == {} and jars_of_stores(Target(root="/r")) == []


def test_urls_of_stores_and_their_parts(tmp_path: Path) -> None:
    assert is_object_url("abfss://c@a.dfs.core.windows.net/x") and is_object_url("gs://b")
    assert not is_object_url("dbfs:/x") and not is_object_url("hdfs://n/x")
    local = Target(root=str(tmp_path))
    assert to_place(local, "/a", "b") == Path("/a/b") and to_place(local, "s3a", "/c") == Path("/c")
    write_whole(to_place(local, str(tmp_path), "n", "f.json"), b"1")
    assert [f.name for f in (tmp_path / "n").iterdir()] == ["f.json"]


def test_a_cluster_takes_no_folder_that_only_this_machine_sees() -> None:
    def wrong(**given: object) -> list[str]:
        whole = {"kind": "cluster", "master": "spark://m:7077", **given}
        return [each.key for each in find_contradictions(Target.model_validate(whole))]

    assert wrong(root="/r") == ["root"]
    assert wrong(root="/r", shared=True) == [] == wrong(root="s3a://b/x")
    assert wrong(root="s3a://b/x", landing="/here") == ["landing"]
    assert wrong(root="s3a://b/x", master="local[2]") == ["master"]
    assert wrong(catalog="c", landing="/Volumes/l", checkpoints="/Volumes/c")[0] == "catalog"


def test_landing_files_in_a_store_are_moved_and_deleted(target: Target) -> None:
    put(target, "landing/t/d/a.json", "1")
    put(target, "landing/t/b.json", "2")
    first, second = sorted(list_here(target, f"{target.landing}/t", lambda _: False))[::-1]
    assert clean_files(target, [first], f"{target.root}/old") == 1
    assert clean_files(target, [second], None) == 1
    left = [str(file) for file in to_place(target, str(target.root)).rglob("*")]
    assert left == [f"{target.root}/old/t/d/a.json"]


def test_the_log_before_a_checkpoint_goes_from_a_store(target: Target) -> None:
    for number in range(3):
        put(target, f"t/_delta_log/{number:020}.json")
    put(target, "t/_delta_log/_last_checkpoint", '{"version": 2}')
    forget_old_log(to_place(target, str(target.root), "t"))
    left = [
        file.name for file in list_folder(to_place(target, str(target.root), "t", "_delta_log"))
    ]
    assert left == [f"{2:020}.json", "_last_checkpoint"]
