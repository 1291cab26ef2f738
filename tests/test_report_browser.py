"""Pages in headless Chromium: a quiet console, every chart drawn, no page wider than its window, light and dark."""

import numpy as np
import pytest

import confmax
from tests.browser import CHROMIUM, look
from tests.report_helpers import sample

pytest.importorskip("vl_convert")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")]

EVIL = [
    "</script><img src=x onerror=alert(1)>",
    "a class whose name is rather long, far longer than a column",
    "ordinary",
]


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    P, y = sample(400, sharp=1.5)
    confmax.report.write_cross_fitted(
        folder / "three.html", "g_mean", P, np.array(EVIL)[y], classes=EVIL, n_replicates=99
    )
    P, y = sample(1500, 40)
    found = confmax.maximize("macro_f1", P[:800], y[:800], calibration=None)
    found.report(folder / "forty.html", P[800:], y[800:], n_replicates=99)
    P, y = sample(600, 2)
    found = confmax.maximize("f1", P[:300], y[:300], confusion="model")
    found.report(folder / "two.html", P[300:], y[300:], n_replicates=99)
    P, y = sample(600)
    confmax.report.write_cross_fitted(
        folder / "limits.html", "accuracy", P, np.array(EVIL)[y], classes=EVIL, n_replicates=99,
        constraints=[confmax.constraints.recall(EVIL[0]) >= 0.8, f"rate[{EVIL[1]}] <= 0.3"],
    )  # fmt: skip
    return folder


@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize("name", ["three", "forty", "two", "limits"])
def test_a_page_is_drawn_without_a_word_on_the_console(pages, name, width):
    found = look(pages / f"{name}.html", width)
    assert found["console"] == [] and found["loaded"] == []
    assert found["charts"] == found["drawn"] >= 6
    assert found["inner"] == width and found["width"] <= width and found["wider"] == 0
    assert "alert" not in found["title"]


def test_dark_follows_the_reader(pages):
    light, dark = (look(pages / "three.html", 1400, dark=dark) for dark in (False, True))
    assert dark["console"] == [] and dark["drawn"] == dark["charts"]
    assert light["page"] != dark["page"] and light["ink"] != dark["ink"]


def test_the_probe_sees_what_is_wrong(tmp_path):
    path = tmp_path / "bad.html"
    path.write_text(
        "<!DOCTYPE html><html><head><title>x</title></head><body><h1>x</h1><div class='chart'></div>"
        "<div style='width:3000px'>wide</div><script>console.error('no');missing();</script></body></html>"
    )
    found = look(path, 400)
    assert found["width"] > 2900 and found["drawn"] == 0 and found["charts"] == 1
    assert len(found["console"]) == 2
