"""A real browser for the tests of the pictures, and the two npm packages that they load into it.

Each is skipped, with the reason, where it cannot be had. Under `CI` a missing one fails instead: `.ci/run` installs the
browser, and the pictures count as untested without it.
"""

import json
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
WANTED = {"mermaid": "dist/mermaid.min.js", "axe-core": "axe.min.js"}


def missing(reason: str) -> None:
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="module")
def browser():
    """A headless Chromium, driven by Playwright. Its event loop runs as long as the fixture: no other module's test
    may meet it, whatever order the workers take."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("playwright is not installed: pip install 'stranded[test]'")
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        missing("no Chromium is installed: apt-get install chromium")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield opened
        opened.close()


class Opened:
    """A page and everything it complained about or asked of the network."""

    def __init__(self, page):
        self.page, self.errors, self.requests, self.dialogs = page, [], [], []
        page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("dialog", lambda dialog: (self.dialogs.append(dialog.message), dialog.dismiss()))

    @property
    def outside(self):
        """What was asked of anything but the file itself."""
        return [url for url in self.requests if not url.startswith(("file:", "data:"))]


@pytest.fixture
def opened(browser):
    """A function that opens a file in a fresh browser context of the given size and colour scheme."""
    contexts = []

    def go(path: Path, fragment: str = "", *, width=1280, height=900, scheme="light", script=True) -> Opened:
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, java_script_enabled=script
        )
        contexts.append(context)
        found = Opened(context.new_page())
        found.page.goto(f"file://{path}{fragment}")
        return found

    yield go
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def npm_script(request, tmp_path_factory):
    """A function that returns the path of a script of an npm package, in the version that package.json pins."""
    versions = json.loads(Path(__file__).with_name("package.json").read_text())["dependencies"]
    cache = getattr(request.config, "cache", None)
    store = Path(cache.mkdir("stranded-npm")) if cache else tmp_path_factory.mktemp("npm")

    def find(package: str) -> Path:
        version = versions[package]
        script = store / f"{package}-{version}.js"
        if not script.exists():
            if shutil.which("npm") is None:
                missing("npm is not installed: apt-get install npm")
            folder = tmp_path_factory.mktemp(package)
            command = ["npm", "pack", f"{package}@{version}", "--silent", "--pack-destination", str(folder)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=folder)
            if done.returncode:
                missing(f"npm pack {package}@{version} failed: {done.stderr.strip()[-200:]}")
            with tarfile.open(next(folder.glob("*.tgz"))) as archive:
                member = archive.extractfile(f"package/{WANTED[package]}")
                partial = script.with_suffix(f".{os.getpid()}")
                partial.write_bytes(member.read())
                partial.replace(script)
        return script

    return find
