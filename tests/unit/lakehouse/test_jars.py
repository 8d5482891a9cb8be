import hashlib
from pathlib import Path

import pytest

from lakehouse.errors import SparkUnavailable
from lakehouse.spark.local_settings import Jar, fetch_jars, jar_settings


def jar(content: bytes) -> Jar:
    return Jar("org.a", "b", "1", hashlib.sha256(content).hexdigest())


def test_a_jar_lies_where_maven_keeps_it() -> None:
    assert jar(b"").url == "https://repo1.maven.org/maven2/org/a/b/1/b-1.jar"


def test_a_jar_that_is_there_takes_its_modules_place(tmp_path: Path) -> None:
    (tmp_path / "b-1.jar").write_bytes(b"x")
    settings = jar_settings([jar(b"x")], tmp_path)
    assert settings == {"spark.jars.excludes": "org.a:b", "spark.jars": f"{tmp_path}/b-1.jar"}


def test_another_file_of_that_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "b-1.jar").write_bytes(b"y")
    with pytest.raises(SparkUnavailable, match="is not the jar of that name"):
        fetch_jars([jar(b"x")], tmp_path)


def test_no_jars_no_settings(tmp_path: Path) -> None:
    assert jar_settings([], tmp_path) == {}
