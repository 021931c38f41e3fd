"""Chromium without a screen, driven through chromedriver by the WebDriver protocol, which is JSON over HTTP."""

import base64
import json
import shutil
import subprocess
import urllib.request
from pathlib import Path

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
WHY_NOT = "Chromium and chromedriver are not installed (Debian: chromium, chromium-driver)"
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


class Browser:
    """One session."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [DRIVER, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=folder
        )
        port = next(line for line in self.process.stdout if "started successfully on port" in line).split()[-1]
        self.base = f"http://127.0.0.1:{port.rstrip('.')}"
        # A page has no business with shared memory, a sandbox needs a user that is not root, and nothing to fetch.
        flags = ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars"]
        options = {"binary": CHROMIUM, "args": [*flags, f"--user-data-dir={folder / 'profile'}"]}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        found = self._call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self.session = f"/session/{found['sessionId']}"

    def close(self) -> None:
        try:
            self._call("DELETE", self.session)
        finally:
            self.process.terminate()
            self.process.wait(20)
            self.process.stdout.close()

    def open(self, path: Path, width: int, height: int = 900) -> None:
        """Show a file as on a screen of this size, phones included."""
        self.devtools(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        self._post("/url", url=path.resolve().as_uri())

    def run(self, script: str, *arguments):
        """The value of a script's `return`."""
        return self._post("/execute/sync", script=script, args=list(arguments))

    def wait(self, script: str):
        """The first value of a script's `return` that is not empty; pages draw their pictures by and by."""
        asked = "const done = arguments[0], ask = () => {{ const found = (() => {{ {} }})(); found ? done(found) : "
        asked = asked.format(script) + "requestAnimationFrame(ask); }; ask();"
        return self._post("/execute/async", script=asked, args=[])

    def texts(self, selector: str) -> list[str]:
        return self.run("return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)", selector)

    def click(self, selector: str, place: int = 0) -> None:
        found = self._post("/elements", using="css selector", value=selector)[place][ELEMENT]
        self._post(f"/element/{found}/click")

    def type(self, selector: str, text: str) -> None:
        found = self._post("/element", using="css selector", value=selector)[ELEMENT]
        self._post(f"/element/{found}/clear")
        if text:
            self._post(f"/element/{found}/value", text=text)

    def hover(self, selector: str, x: float, y: float) -> None:
        """Move the mouse to a point of an element, from its upper left corner."""
        self.run("document.querySelector(arguments[0]).scrollIntoView({block: 'center'})", selector)
        box = self.run(
            "const b = document.querySelector(arguments[0]).getBoundingClientRect(); return [b.x, b.y]", selector
        )
        self.devtools("Input.dispatchMouseEvent", type="mouseMoved", x=box[0] + x, y=box[1] + y)

    def press(self, key: str, times: int = 1) -> None:
        """A key of the keyboard, for whatever has the focus."""
        code = {"Tab": 9, "Enter": 13, " ": 32, "ArrowRight": 39, "ArrowDown": 40}[key]
        text = {"Enter": "\r", " ": " "}.get(key, "")
        for _ in range(times):
            for kind in ("keyDown", "keyUp"):
                how = {"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code}
                self.devtools("Input.dispatchKeyEvent", **how, **({"text": text} if text and kind == "keyDown" else {}))

    def console(self) -> list[str]:
        """Everything the page has logged as a warning or an error."""
        entries = self._post("/se/log", type="browser")
        return [entry["message"] for entry in entries if entry["level"] in ("SEVERE", "WARNING")]

    def screenshot(self, path: Path, height: int | None = None) -> None:
        """Of the whole page, or of its first so many pixels."""
        width, full = self.run("return [innerWidth, document.documentElement.scrollHeight]")
        clip = {"x": 0, "y": 0, "width": width, "height": min(full, height or full), "scale": 1}
        shot = self.devtools("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(shot["data"]))

    def devtools(self, command: str, **parameters):
        return self._post("/goog/cdp/execute", cmd=command, params=parameters)

    def _post(self, path: str, **body):
        return self._call("POST", self.session + path, body)

    def _call(self, method: str, path: str, body: dict | None = None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["value"]
