"""What the pages say of a deploy, where nothing in the bundle's files could tell it."""

import pytest

from cdc_lakehouse.project.rendering import ProjectAnswers, render_project
from tests.helpers.wheel import PROJECT

GUIDE, COSTS = "docs/guides/databricks.md", "docs/guides/costs-on-databricks.md"
UPKEEP = "docs/guides/maintain.md"


@pytest.mark.parametrize(
    ("page", "sentence"),
    [
        (GUIDE, "the trigger **ends at 10,000 objects**. With `clean_landing: {after: 30 days}`"),
        (GUIDE, "A deploy that is refused may have uploaded `conf/` and the wheel already"),
        (GUIDE, "run and stop every job; read gold, the reports and the dashboard"),
        (GUIDE, "it starts itself again, and has no queue"),
        (GUIDE, "refused while `prod` names it; else **deletes it**, after asking"),
        (GUIDE, "**Whoever else deploys** needs the role *Service Principal User*"),
        (GUIDE, "make it in the account console, add it to the workspace"),
        (GUIDE, "For `lakehouse upgrade` run `lakehouse init --bundle` in its folder once."),
        (UPKEEP, "gold's view cannot be read until the next `run` or `maintain` pins it anew"),
        (COSTS, "a 2X-Small warehouse for the alert, hourly: 4 DBU an hour | 4 | 16 |"),
    ],
)
def test_a_page_says_what_happens(page: str, sentence: str) -> None:
    text = " ".join((PROJECT / page).read_text(encoding="utf-8").split())
    assert sentence in text


def test_a_project_tells_of_landing_files_and_how_to_clean_them() -> None:
    texts = render_project(ProjectAnswers("shop", "0.3.0"))
    assert "# clean_landing: {after: 30 days}" in texts["conf/targets/prod.yml"]
    for path in ("README.md", "resources/cdc_arrival.job.yml"):
        text = " ".join(texts[path].replace("#", "").split())
        assert "10,000 objects" in text and "clean_landing" in text
