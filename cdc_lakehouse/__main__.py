"""`python -m cdc_lakehouse`: as `lakehouse`, and `lakehouse run` where no command is named.

Databricks starts a wheel task by an entry point of the distribution `cdc_lakehouse`. What starts
the module of that name instead gets the task's command, or all three layers for a layer's task.
"""

import sys

from cdc_lakehouse.cli import main

if __name__ == "__main__":
    if not sys.argv[1:] or sys.argv[1].startswith("-"):
        sys.argv.insert(1, "run")
    main()
