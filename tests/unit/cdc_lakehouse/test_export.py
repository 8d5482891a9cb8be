"""`lakehouse export`: what is refused before Spark starts."""

from pathlib import Path

import pytest

from tests.unit.cdc_lakehouse.test_mended import exit_code

TABLE = "table: orders\nsource: {format: debezium, path: shop}\nkeys: [id]\n"


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    (tmp_path / "conf" / "tables").mkdir(parents=True)
    (tmp_path / "conf" / "targets").mkdir()
    (tmp_path / "conf" / "targets" / "local.yml").write_text(f"root: {tmp_path}\n")
    (tmp_path / "conf" / "tables" / "orders.yml").write_text(TABLE)
    return tmp_path / "conf"


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (("orders", "full"), "DEST"),
        (("ordres", "new"), "ordres"),
        (("orders_history", "new"), "orders_history"),
        (("orders", "new", "--format", "xml"), "xml"),
        (("orders", "new"), "no lake"),
    ],
)
def test_what_cannot_be_exported_is_told_at_once(
    conf: Path, given: tuple[str, ...], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (conf.parent / "full").mkdir()
    (conf.parent / "full" / "file").touch()
    name, folder, *more = given
    assert exit_code(conf, "export", name, str(conf.parent / folder), *more) == 2
    assert named in capsys.readouterr().err
    assert not (conf.parent / "new").exists()
