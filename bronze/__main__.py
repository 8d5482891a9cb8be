"""`python -m bronze`, and the console script of the same name: run the bronze layer."""

from functools import partial

from cdc_lakehouse.cli import layer_main

main = partial(layer_main, "bronze")

if __name__ == "__main__":
    main()
