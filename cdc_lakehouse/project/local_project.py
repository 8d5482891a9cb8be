"""The files of a project on this machine, as `init` without options makes them."""

import os
from pathlib import Path

from lakehouse.config.unpacking import table_schema

TARGET = """\
# A lake in local folders: lake/ and landing/ below root.
kind: local
root: .
master: local[*]
driver_memory: 2g
"""
SERVED = """\
# A question starts a server that answers the next ones at once; it ends after ten idle minutes.
serve: auto
"""
ENOUGH_MEMORY = 8 << 30
"""Bytes of a machine on which Spark may stay in memory between questions."""
IGNORED = "lake/\nlanding/\n"
README = """\
# A lakehouse

    conf/targets/local.yml    where the lake lies, and which Spark works on it
    conf/tables/NAME.yml      one file per table
    conf/table.schema.json    helps the editor with these files
    landing/                  files of changes, each in the folder of source.path
    lake/                     what the lakehouse writes: bronze, silver, gold

1. Describe the tables:

       lakehouse init --from landing/shop/events.jsonl
       lakehouse init --source postgresql://me:env:PASSWORD@host/database

2. Look at the lines in conf/tables that say `check`, then:

       lakehouse validate
       lakehouse run
       lakehouse status
       lakehouse sql "SHOW TABLES IN gold"
"""


def is_project(conf: Path) -> bool:
    """Whether there is a configuration in the folder."""
    return (conf / "targets").is_dir() or (conf / "tables").is_dir()


def make_project(conf: Path) -> list[Path]:
    """Write a project's files beside and below the configuration's folder; returns them.

    Files that are there are left alone.
    """
    root = conf.absolute().parent
    has_room = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >= ENOUGH_MEMORY
    texts = {
        conf / "targets" / "local.yml": TARGET + (SERVED if has_room else ""),
        conf / "table.schema.json": table_schema(),
        conf / "tables" / ".gitkeep": "",
        root / "README.md": README,
        root / ".gitignore": IGNORED,
    }
    new = [file for file in texts if not file.exists()]
    for file in new:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(texts[file], encoding="utf-8")
    (root / "landing").mkdir(exist_ok=True)
    return [*new, root / "landing"]
