"""The ledger's accounts: what became of all records over all runs."""

from collections import Counter

from lakehouse.run import ledger
from lakehouse.storage.lake import Lake
from silver.contract import ACCOUNT_NOTES

BESIDE = ("records", *ACCOUNT_NOTES)


def sums(lake: Lake) -> tuple[Counter[str], Counter[str]]:
    """Records and notes, and the classes, over all silver runs; each run must add up by itself."""
    total: Counter[str] = Counter()
    for row in ledger.read_entries(lake).where("layer = 'silver'").collect():
        classes = {name: n for name, n in row["counts"].items() if name not in BESIDE}
        assert sum(classes.values()) == row["counts"].get("records", 0)
        total.update(row["counts"])
    beside = Counter({name: total.pop(name) for name in BESIDE if name in total})
    return beside, +total
