"""Alarms reach a real receiver: once as they begin, once as they end."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gold.status.alarms import raise_alarms
from lakehouse.config.target import AlarmReceiver, Target
from lakehouse.config.unpacking import unpack_target
from lakehouse.errors import ManyConfigurationErrors
from tests.helpers.receiver import Receiver, receiving
from tests.unit.cdc_lakehouse.test_output import FAILING, REJECTED, record

CALM = record("orders")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as listening:
        yield listening


def target_of(folder: Path, webhook: str) -> Target:
    return Target(root=str(folder), alarms=AlarmReceiver(webhook=webhook))


def test_an_alarm_is_told_once_and_so_is_its_end(tmp_path: Path, receiver: Receiver) -> None:
    target = target_of(tmp_path, receiver.url)
    for records in ([CALM], [FAILING], [FAILING], [FAILING]):
        assert raise_alarms(target, records) == []
    assert len(receiver.texts) == 1
    assert receiver.texts[0].startswith("orders: FAILED: the last run failed")
    for records in ([CALM], [CALM]):
        assert raise_alarms(target, records) == []
    assert receiver.texts[1:] == ["orders: FAILED is over"]
    raise_alarms(target, [FAILING])
    assert len(receiver.texts) == 3


def test_a_run_of_other_tables_ends_no_alarm(tmp_path: Path, receiver: Receiver) -> None:
    target = target_of(tmp_path, receiver.url)
    raise_alarms(target, [FAILING])
    raise_alarms(target, [REJECTED])
    assert [text.partition(":")[0] for text in receiver.texts] == ["orders", "items"]


def test_what_the_receiver_refuses_is_told_again(tmp_path: Path, receiver: Receiver) -> None:
    target = target_of(tmp_path, receiver.url)
    receiver.status = 500
    (failure,) = raise_alarms(target, [FAILING, REJECTED])
    assert "500" in failure
    receiver.status = 200
    assert raise_alarms(target, [FAILING, REJECTED]) == []
    assert len(receiver.texts) == 2


def test_a_receiver_that_is_gone_is_a_line_and_no_failure(tmp_path: Path) -> None:
    with receiving() as gone:
        url = gone.url
    (failure,) = raise_alarms(target_of(tmp_path, url), [FAILING])
    assert "refused" in failure


def test_the_url_may_stand_in_the_environment(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = target_of(tmp_path, "env:HOOK_OF_A_TEST")
    (missing,) = raise_alarms(target, [FAILING])
    assert "HOOK_OF_A_TEST" in missing
    monkeypatch.setenv("HOOK_OF_A_TEST", receiver.url)
    raise_alarms(target, [FAILING])
    assert len(receiver.texts) == 1


def test_without_a_receiver_nothing_is_kept(tmp_path: Path) -> None:
    target = Target(root=str(tmp_path))
    assert raise_alarms(target, [FAILING]) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("wrong", ["file:///etc/passwd", "slack", "env:", "ftp://host/x"])
def test_only_web_addresses_and_variables_are_webhooks(wrong: str) -> None:
    with pytest.raises(ManyConfigurationErrors, match="env:NAME"):
        unpack_target({"root": ".", "alarms": {"webhook": wrong}}, "local.yml", "local")
