import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
INSTALL = "apt-get install chromium chromium-driver"


class Opened:
    """A page in a browser of its own: what it looks like, what it asked for, what it said."""

    def __init__(self, driver: Chrome) -> None:
        self.driver = driver

    def ask(self, expression: str) -> Any:
        """The value of a JavaScript expression."""
        return self.driver.execute_script(f"return {expression}")

    def texts(self, selector: str) -> list[str]:
        """The visible texts of the elements."""
        found = self.driver.find_elements("css selector", selector)
        return [element.text for element in found if element.is_displayed()]

    def click(self, selector: str) -> None:
        """Clicks the element once it is in sight."""
        found = self.driver.find_element("css selector", selector)
        self.driver.execute_script(
            "arguments[0].scrollIntoView({behavior: 'instant', block: 'center'})", found
        )
        found.click()

    def requests(self) -> list[str]:
        """Everything that was loaded besides the page itself."""
        return self.ask("performance.getEntriesByType('resource').map(e => e.name)")

    def complaints(self) -> list[dict[str, Any]]:
        """What stands in the console."""
        return self.driver.get_log("browser")


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    browser, control = shutil.which("chromium"), shutil.which("chromedriver")
    if browser is None or control is None:
        pytest.skip(f"no browser to look at the report with: {INSTALL}")
    options = Options()
    options.binary_location = browser
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('browser')}"):
        options.add_argument(flag)
    started = Chrome(options=options, service=Service(control))
    yield started
    started.quit()


def look(driver: Chrome, page: Path, width: int, scheme: str) -> Opened:
    """The page in a window of this width, in the light or dark colour scheme."""
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 700}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    wanted = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", wanted)
    driver.get_log("browser")
    driver.get(page.as_uri())
    return Opened(driver)
