"""What is kept of comparisons with the source: files below the checkpoints."""

import json
from pathlib import Path

import pytest

from gold.source_check.verified import (
    InFlight,
    Unfinished,
    Verified,
    add_proof,
    cut_proof,
    describe_verified,
    keep_proof,
    list_verified,
    read_verified,
    sweep_tables,
    write_verified,
)
from lakehouse.config.target import Target
from lakehouse.storage.views import View, load_views

PROVED = Verified("0/1A", "9999-01-01T00:00:00Z", "shop.orders")
ALL = ["orders", "items", "new"]


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return Target(root=str(tmp_path))


def test_what_is_kept_is_read_again_and_shown(target: Target) -> None:
    going = Unfinished("a", 3, 26).with_part(2, 10, 11).with_part(0, 1, 1)
    write_verified(target, "orders", PROVED.with_unfinished(going))
    kept = read_verified(target, "orders")
    assert kept.look is None
    assert kept.unfinished == Unfinished("a", 3, 26, (2, 0), 11, 12)
    assert list_verified(target, ["orders", "new"]) == {
        "orders": {
            "verified_through": "0/1A",
            "verified_at": "9999-01-01T00:00:00Z",
            "verified_against": "shop.orders",
        },
        "new": {"verified_through": None, "verified_at": None, "verified_against": None},
    }


def test_what_a_second_look_finds_in_flight_again_lasts_once_nothing_can_explain_it() -> None:
    first, again = InFlight(500, "70", ("a", "b")), InFlight(510, "70", ("b", "c"))
    assert first.after(None, 900).lasting == ()
    assert again.after(first, 0).lasting == ("b",)  # nothing was written at the source since
    moved = InFlight(600, "71", ("b", "c"))
    assert moved.after(first, 499).lasting == ()
    assert moved.after(first, 500).lasting == ("b",)  # what is captured has passed the first look
    assert moved.after(again.after(first, 0), 0).lasting == ("b",)  # and stays so
    assert again.after(first, 0, behind=True).lasting == ()  # files wait to be read
    assert moved.after(first, 500, behind=True).lasting == ("b",)


def test_a_comparison_with_bronze_never_replaces_one_with_the_source(target: Target) -> None:
    for _ in range(2):
        keep_proof(target, "items", "batch 3")
    write_verified(target, "orders", PROVED)
    keep_proof(target, "orders", "batch 3")
    told = {name: describe_verified(of) for name, of in list_verified(target, ALL).items()}
    assert told["orders"] == "equal to shop.orders through 0/1A, found 9999-01-01 00:00Z"
    assert told["items"].startswith("equal to bronze through batch 3, found 20")
    assert told["new"] == "never verified"


def test_the_comment_of_gold_ends_with_the_newest_proof(target: Target) -> None:
    view = View("orders", {"id": None}, "orders; all of them", ("id",), "SELECT 1 AS id")
    never = list_verified(target, ["orders"])["orders"]
    shown = add_proof(add_proof(view, never), never)
    assert shown.comment == "orders; all of them; never verified"
    file = Path(target.lake, "gold", "_views.json")
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps([shown._asdict()]))
    keep_proof(target, "orders", "batch 3")
    comment = load_views(target, "gold")["orders"].comment
    assert comment.startswith("orders; all of them; equal to bronze through batch 3, found ")
    assert cut_proof(comment) == view.comment == cut_proof(view.comment)


def test_a_file_that_is_damaged_tells_nothing(target: Target) -> None:
    write_verified(target, "orders", PROVED)
    (file,) = Path(target.checkpoints).rglob("orders.json")
    file.write_text("{")
    assert read_verified(target, "orders") == Verified()


def test_only_a_comparison_of_the_same_goes_on() -> None:
    going = Unfinished("a", 3, 26).with_part(0, 1, 1)
    kept = PROVED.with_unfinished(going)
    assert kept.resume(Unfinished("a", 4, 30)) == going
    assert kept.resume(Unfinished("b", 4, 30)) == Unfinished("b", 4, 30)
    assert PROVED.resume(Unfinished("a", 4, 30)) == Unfinished("a", 4, 30)


def test_a_sweep_that_was_broken_off_leaves_out_what_it_found_equal(target: Target) -> None:
    with pytest.raises(KeyboardInterrupt), sweep_tables(target, ["a", "b"], "url") as equal:
        assert equal == {}
        write_verified(target, "a", PROVED)
        raise KeyboardInterrupt
    with pytest.raises(ValueError), sweep_tables(target, ["b", "a"], "url") as equal:
        assert equal == {"a": PROVED.at}
        raise ValueError
    with sweep_tables(target, ["a", "b"], "url") as equal:
        assert equal == {"a": PROVED.at}
    write_verified(target, "a", Verified("0/1A", "2020-01-01T00:00:00Z", "shop.a"))
    with sweep_tables(target, ["a", "b"], "url") as equal:
        assert equal == {}


def test_a_sweep_compares_what_was_found_equal_to_bronze_alone(target: Target) -> None:
    with pytest.raises(KeyboardInterrupt), sweep_tables(target, ["a", "b"], "url"):
        raise KeyboardInterrupt
    write_verified(target, "a", Verified(unfinished=Unfinished("a", 3)))
    keep_proof(target, "a", "batch 3")
    assert read_verified(target, "a").unfinished == Unfinished("a", 3)
    with sweep_tables(target, ["a", "b"], "url") as equal:
        assert equal == {}


def test_a_sweep_of_another_source_begins_anew(target: Target) -> None:
    with pytest.raises(KeyboardInterrupt), sweep_tables(target, ["a", "b"], "url"):
        write_verified(target, "a", Verified("0/1A", "2020-01-01T00:00:00Z", "shop.a"))
        raise KeyboardInterrupt
    with sweep_tables(target, ["a", "b"], "other") as equal:
        assert equal == {}
