"""`python -m gold`, and the console script of the same name: run the gold layer."""

from cdc_lakehouse.cli import layer_main


def main() -> None:
    """Run it with the process's own arguments."""
    layer_main("gold")


if __name__ == "__main__":
    main()
