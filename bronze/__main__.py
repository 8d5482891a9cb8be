"""`python -m bronze`, and the console script of the same name: run the bronze layer."""

from cdc_lakehouse.cli import layer_main


def main() -> None:
    """Run it with the process's own arguments."""
    layer_main("bronze")


if __name__ == "__main__":
    main()
