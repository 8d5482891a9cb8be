"""`python -m lakehouse`: the same as the console script."""

from cdc_lakehouse.cli import main

if __name__ == "__main__":
    main()
