import os
import subprocess
from pathlib import Path

import pytest

from lakehouse.spark.java import java_version, system_java, use_java, wheel_home


def java_that_says(folder: Path, line: str) -> str:
    script = folder / "bin" / "java"
    script.parent.mkdir(parents=True)
    script.write_text(f"#!/bin/sh\necho '{line}' >&2\n")
    script.chmod(0o755)
    return str(script)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ("no such thing", None),
    ],
)
def test_the_feature_release_is_read(tmp_path: Path, line: str, expected: int | None) -> None:
    assert java_version(java_that_says(tmp_path, line)) == expected


def test_java_home_goes_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert system_java() == str(tmp_path / "bin" / "java")


def test_a_new_enough_java_is_left_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java_that_says(tmp_path, 'openjdk version "17.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    use_java()
    assert os.environ["JAVA_HOME"] == str(tmp_path)


def test_an_old_java_gives_way_to_the_one_of_the_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java_that_says(tmp_path, 'java version "1.8.0_392"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    use_java()
    assert os.environ["JAVA_HOME"].endswith("cdc-lakehouse-java")


def test_the_wheels_java_starts_without_the_module_it_lacks(tmp_path: Path) -> None:
    java = wheel_home(tmp_path) / "bin" / "java"
    arguments = [java, "--add-modules=jdk.incubator.vector", "-version"]
    ran = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert (ran.returncode, "version" in ran.stderr) == (0, True)


def test_the_script_is_made_once(tmp_path: Path) -> None:
    first = (wheel_home(tmp_path) / "bin" / "java").stat().st_mtime_ns
    assert (wheel_home(tmp_path) / "bin" / "java").stat().st_mtime_ns == first
