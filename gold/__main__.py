"""`python -m gold`, and the console script of the same name: run the gold layer."""

from functools import partial

from cdc_lakehouse.cli import layer_main

main = partial(layer_main, "gold")

if __name__ == "__main__":
    main()
