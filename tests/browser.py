"""A page in headless Chromium: what it says on the console, loads and draws, and how wide it is."""

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
# runs beside the page, in a frame of exactly the width asked for; windows cannot be that narrow
PROBE = """
<!DOCTYPE html><html><body style="margin:0">
<iframe id="f" style="border:0;display:block;width:%(width)dpx;height:2000px"></iframe><pre id="found">none</pre>
<script>
var frame = document.getElementById("f"), told = {};
frame.srcdoc = %(page)s;
frame.addEventListener("load", function () {
  var page = frame.contentDocument, root = page.documentElement, window = frame.contentWindow, waited = 0;
  (function wait() {
    var boxes = Array.from(page.querySelectorAll(".chart"));
    if (root.dataset.drawn === undefined && waited++ < 200) { return setTimeout(wait, 50); }
    told.charts = boxes.length;
    told.drawn = boxes.filter(function (box) {
      var svg = box.querySelector("svg");
      return svg && svg.getBoundingClientRect().width > 50 && svg.querySelector(".role-mark path, .role-mark line");
    }).length;
    told.wider = boxes.filter(function (box) { return box.scrollWidth > box.clientWidth + 1; }).length;
    told.inner = window.innerWidth;
    told.width = Math.max(root.scrollWidth, page.body.scrollWidth);
    told.loaded = window.performance.getEntriesByType("resource").map(function (e) { return e.name; });
    told.title = page.title;
    told.headings = Array.from(page.querySelectorAll("h1,h2,h3")).map(function (h) { return +h.tagName[1]; });
    told.page = window.getComputedStyle(page.body).backgroundColor;
    var text = page.querySelector(".chart svg text");
    told.ink = text ? window.getComputedStyle(text).fill : "";
    document.getElementById("found").textContent = JSON.stringify(told);
  })();
});
</script></body></html>
"""


def look(path, width=1400, dark=False, seconds=60):
    """Open a report and return what was found: console, charts, drawn, width, inner, loaded, headings, colours."""
    page = json.dumps(Path(path).read_text()).replace("<", "\\u003c")
    with tempfile.TemporaryDirectory() as folder:
        probe = Path(folder) / "probe.html"
        probe.write_text(PROBE % {"width": width, "page": page})
        command = [
            CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
            "--no-first-run", f"--user-data-dir={folder}/profile",
            f"--blink-settings=preferredColorScheme={0 if dark else 1}",
            "--virtual-time-budget=20000", f"--window-size={max(width, 500)},2100", "--enable-logging=stderr", "--v=0",
            "--dump-dom", probe.as_uri(),
        ]  # fmt: skip
        ran = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    dom = ran.stdout
    found = dom[dom.index('<pre id="found">') + len('<pre id="found">') : dom.index("</pre>", dom.index('id="found"'))]
    for code, sign in (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")):
        found = found.replace(code, sign)
    told = json.loads(found)
    told["console"] = [line for line in ran.stderr.splitlines() if "CONSOLE" in line]
    return told
