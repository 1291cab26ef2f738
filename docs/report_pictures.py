"""Make the pictures of a report: ``python -m docs.report_pictures`` in the root of the repository.

It tunes a rule on the table of docs/first-steps.md, opens the report in Chromium, and writes its first screen at 1400
and at 400 pixels into docs/_static. It needs Chromium, Pillow and the extras ``cli`` and ``report``.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

from tests.browser import CHROMIUM
from tests.test_first_steps import PAGE, SCRIPT

STATIC = Path(__file__).parent / "_static"
SCREENS = {"report.png": (1400, 900), "report-narrow.png": (400, 900)}
COLOURS = 64  # enough for text and a few flat colours
TUNE = ("tune", "validation.csv", "--label", "truth", "--metric", "macro_f1", "-o", "rule.json")
# windows are at least 500 pixels wide, frames are not
FRAME = """<!DOCTYPE html><body style="margin:0"><iframe id="f" style="border:0;width:%dpx;height:%dpx"></iframe>
<script>document.getElementById("f").srcdoc = %s;</script></body>"""


def shoot(page, width, height, target):
    """Write the top of a page, so wide and high, as a picture of few colours."""
    with tempfile.TemporaryDirectory() as name:
        frame, picture = Path(name) / "frame.html", Path(name) / "picture.png"
        text = json.dumps(page.read_text()).replace("<", "\\u003c")
        frame.write_text(FRAME % (width, height, text))
        subprocess.run(
            [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
             "--hide-scrollbars", "--blink-settings=preferredColorScheme=1", "--virtual-time-budget=20000",
             f"--user-data-dir={name}/profile", f"--window-size={max(width, 500)},{height}",
             f"--screenshot={picture}", frame.as_uri()],
            check=True, capture_output=True,
        )  # fmt: skip
        image = Image.open(picture).convert("RGB").crop((0, 0, width, height))
        image.quantize(COLOURS, dither=Image.Dither.NONE).save(target, optimize=True)


def main():
    """Make all pictures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for script, text in SCRIPT.findall(PAGE.read_text()):
            (folder / script).write_text(text)
            subprocess.run([sys.executable, script], cwd=folder, check=True)
        subprocess.run([sys.executable, "-m", "confmax", *TUNE, "--report", "report.html"], cwd=folder, check=True)
        for target, (width, height) in SCREENS.items():
            shoot(folder / "report.html", width, height, STATIC / target)
            print(STATIC / target, (STATIC / target).stat().st_size, "bytes")


if __name__ == "__main__":
    main()
