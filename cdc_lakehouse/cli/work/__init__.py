"""Commands that write: run, rebuild, rebootstrap, maintain, erase."""
