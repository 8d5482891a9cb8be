"""`python -m silver`, and the console script of the same name: run the silver layer."""

from functools import partial

from cdc_lakehouse.cli import layer_main

main = partial(layer_main, "silver")

if __name__ == "__main__":
    main()
