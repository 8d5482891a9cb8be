"""What `--help` adds to a command's own text: its task group, and examples to type."""

from collections.abc import Mapping, Sequence

TASKS: Mapping[str, Sequence[str]] = {
    "Begin": ("demo", "init", "upgrade", "validate", "plan"),
    "Work": ("capture", "run", "job", "rebuild", "rebootstrap", "maintain", "erase"),
    "Ask": ("sql", "shell", "status", "report", "serve", "export"),
    "Check": ("quality", "verify", "explain", "dead-letters", "doctor"),
}

EXAMPLES: Mapping[str, Sequence[str]] = {
    "demo": ("lakehouse demo", "lakehouse demo --root /tmp/demo"),
    "init": (
        "lakehouse init",
        "lakehouse init --from landing/shop/events.jsonl",
        "lakehouse init orders --from landing/shop/events.jsonl",
        "lakehouse init --from landing",
        "lakehouse init --source postgresql://me:env:PW@host/shop",
        "lakehouse init --bundle shop --catalog shop",
    ),
    "upgrade": ("lakehouse upgrade --dry-run", "lakehouse upgrade --mode ticks"),
    "validate": ("lakehouse validate", "lakehouse validate --write-schema"),
    "plan": ("lakehouse plan", "lakehouse plan --table orders --format markdown"),
    "capture": (
        "lakehouse capture --check",
        "lakehouse capture",
        "lakehouse capture --once",
        "lakehouse capture --snapshot",
    ),
    "run": (
        "lakehouse run",
        "lakehouse run --again landing/shop/events.jsonl",
        "lakehouse run --table orders --layer silver",
        "lakehouse run --continuous --interval 30s",
        "lakehouse run --continuous --metrics 9100 --log json",
        "lakehouse run --table prices --extract data/day1 --effective-date 2026-01-31",
    ),
    "job": ("lakehouse job --step maintain", 'lakehouse job --step "rebuild orders"'),
    "rebuild": ("lakehouse rebuild orders",),
    "rebootstrap": ("lakehouse rebootstrap orders --source postgresql://me:env:PW@host/shop",),
    "maintain": ("lakehouse maintain --dry-run", "lakehouse maintain --table orders"),
    "erase": (
        "lakehouse erase customers --key '{\"id\": 7}'",
        "lakehouse erase customers --key 7 --dry-run",
        "lakehouse erase customers --key '{\"id\": 7}' --landing",
    ),
    "sql": (
        'lakehouse sql "SELECT * FROM gold.orders LIMIT 10"',
        'lakehouse sql --format json "SELECT * FROM gold.orders WHERE id = 7"',
        'lakehouse sql --as-of 2026-01-31 "SELECT count(*) FROM gold.orders"',
    ),
    "shell": ("lakehouse shell", "lakehouse shell < queries.sql"),
    "serve": (
        "lakehouse serve",
        "lakehouse serve --idle 2h --port 15002",
        'export SPARK_REMOTE="$(lakehouse serve)"',
        "lakehouse serve --stop",
    ),
    "status": (
        "lakehouse status",
        "lakehouse status --wide",
        "lakehouse status --format json",
        "lakehouse status --format prometheus",
    ),
    "report": ("lakehouse report", "lakehouse report --output report.html"),
    "export": (
        "lakehouse export orders /data/orders --format parquet",
        "lakehouse export orders_history /data/versions --format delta",
    ),
    "quality": ("lakehouse quality", "lakehouse quality --try rules.yml --table orders"),
    "verify": (
        "lakehouse verify",
        "lakehouse verify orders --all",
        "lakehouse verify orders --source postgresql://me:env:PW@host/shop",
    ),
    "explain": (
        "lakehouse explain orders --key 7",
        'lakehouse explain order_items --key \'{"order_id": 7, "line": 1}\'',
    ),
    "dead-letters": ("lakehouse dead-letters list", "lakehouse dead-letters replay"),
    "list": (
        "lakehouse dead-letters list --table orders --reason rule",
        "lakehouse dead-letters list --since 2026-01-31 --format json",
    ),
    "replay": ("lakehouse dead-letters replay --table orders --reason bad_value",),
    "acknowledge": (
        "lakehouse dead-letters acknowledge 'a picture' --file orders/logo.png",
        "lakehouse dead-letters acknowledge --undo --table orders",
    ),
    "edit": (
        "lakehouse dead-letters edit orders/2026-01-31.jsonl:12",
        "lakehouse dead-letters edit shop.orders/0/731 --file mended.json",
    ),
    "doctor": ("lakehouse doctor",),
    "bronze": ("bronze --conf conf --target prod",),
    "silver": ("silver --conf conf --target prod",),
    "gold": ("gold --conf conf --target prod",),
}


def find_task(name: str) -> str | None:
    """The task that a command serves; None for a command of a group."""
    return next((task for task, names in TASKS.items() if name in names), None)


def render_examples(name: str) -> str | None:
    """The examples of a command as the end of its help, line by line; None without any."""
    return "\n".join(["Examples:", *EXAMPLES[name]]) if name in EXAMPLES else None


def join_lines(text: str) -> str:
    """The text with each paragraph in one line, which `--help` breaks at the terminal's width."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))
