"""What people and CI systems see of evidence: the screen, JUnit XML, the page."""

from __future__ import annotations

import dataclasses
import io
import math
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from lockgen.report import evidence as screen
from lockgen.report.html import page
from lockgen.report.junit import junit
from lockgen.report.losses import braille, smoothed, thinned
from lockgen.report.treemap import treemap
from lockgen.verify.evidence import CheckResult, Evidence

LOSSES = [0.7 - 0.5 * step / 99 + 0.05 * math.sin(step) for step in range(100)]
BERT: dict[str, Any] = {
    "losses": LOSSES, "steps": 100, "first": 0.69, "last": 0.21, "accuracy_before": 0.5, "accuracy_after": 0.86,
    "chance": 0.54, "margin": 0.15, "model": "tiny", "parameters": 3_200_000, "dtype": "bfloat16", "device": "cpu",
    "device_name": "the processor", "tokens_per_second": 12_120, "peak_memory": 545_000_000, "seconds": 23.4,
    "train": 200, "held_out": 100, "seed": 0, "corpus": "the 300 sentences of lockgen",
}  # fmt: skip
PASSED = Evidence(
    environment="nlp",
    variant="cpu",
    platform="linux-64",
    fingerprint="ab" * 32,
    machine={
        "processor": "Some CPU", "processors": 2, "memory": 25_000_000_000, "libc": "glibc 2.36", "python": "3.12.1",
    },
    checks=(
        CheckResult(
            name="lock", status="passed", seconds=0.31, summary="3 packages, 40 files, all as locked",
            facts={
                "packages": 3, "files": 40, "bytes": 900_000_000,
                "largest": [["pytorch", 800_000_000], ["numpy", 60_000_000]],
            },
        ),
        CheckResult(
            name="libraries", status="passed", seconds=2.0, summary="2 shared objects resolve",
            facts={"objects": 2, "mapped": 1, "largest": [["lib/libtorch_cpu.so", 434_000_000], ["lib/a.so", 1]]},
        ),
        CheckResult(name="cuda", status="skipped", seconds=1.2, summary="no GPU here; PyTorch is a CPU build"),
        CheckResult(
            name="bert", status="passed", seconds=31.0, summary="100 steps", facts=BERT,
            notes=("out of memory with batch 32: halved to 16",),
        ),
    ),
)  # fmt: skip
FAILED = dataclasses.replace(
    PASSED,
    checks=(
        CheckResult(
            name="imports", status="failed", seconds=1.0, summary="import a: <b> & \x00",
            problems=("import a: <b> & \x00", "import b: no"), output="Traceback",
        ),
        *PASSED.checks,
    ),
)  # fmt: skip


def shown(evidence: Evidence) -> str:
    console = Console(file=io.StringIO(), width=120, color_system=None)
    console.print(screen.shown(evidence))
    assert isinstance(console.file, io.StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())


def test_the_screen_shows_a_table_and_the_loss_curve() -> None:
    lines = shown(PASSED).splitlines()
    assert lines[:5] == [
        "✓  lock        0.3 s  3 packages, 40 files, all as locked",
        "✓  libraries   2.0 s  2 shared objects resolve",
        "–  cuda        1.2 s  no GPU here; PyTorch is a CPU build",
        "✓  bert       31.0 s  100 steps",
        "                      out of memory with batch 32: halved to 16",
    ]
    assert lines[-1] == "proved: nlp · cpu, 3 checks passed, 1 skipped"
    assert (
        "tiny BERT, 3.2 million parameters, bfloat16 on the processor; 12,120 tokens a second, peak memory 545 MB"
        in (line.strip() for line in lines)
    )
    drawn = [line for line in lines if any("\u2800" < character < "\u2900" for character in line)]
    assert len(drawn) == 7
    assert drawn[0].split()[0] == "0.72"


def test_the_screen_shows_every_problem_of_a_check_that_failed() -> None:
    lines = shown(FAILED).splitlines()
    assert lines[1] == "                      import b: no"
    assert lines[-1] == "not proved: nlp · cpu, failed: imports, 1 skipped"


def test_junit_has_one_case_a_check() -> None:
    suite = ElementTree.fromstring(junit(FAILED).encode()).find("testsuite")
    assert suite is not None
    assert {key: suite.get(key) for key in ("tests", "failures", "skipped")} == {
        "tests": "5", "failures": "1", "skipped": "1",
    }  # fmt: skip
    cases = {case.get("name"): [child.tag for child in case] for case in suite.iter("testcase")}
    assert cases == {"imports": ["failure", "system-err"], "lock": [], "libraries": [], "cuda": ["skipped"], "bert": []}
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert failure.text == "import a: <b> & \ufffd\nimport b: no"


def test_the_page_needs_no_network_and_no_script() -> None:
    found = page(PASSED)
    assert not re.search(r"https?://|<script|<link|@import|url\(|src=", found)
    assert "default-src &#39;none&#39;" in found or "default-src 'none'" in found


def test_the_page_escapes_what_packages_say() -> None:
    assert "import a: &lt;b&gt; &amp;" in page(FAILED)
    assert "<b> &" not in page(FAILED)


def test_the_same_evidence_gives_the_same_page() -> None:
    assert page(PASSED) == page(dataclasses.replace(PASSED))


def test_a_page_without_training_or_lock_is_still_a_page() -> None:
    bare = Evidence(
        environment=None, variant=None, platform=None, fingerprint=None, machine={},
        checks=(CheckResult(name="versions", status="passed", seconds=1.0, summary="torch 2.9.1"),),
    )  # fmt: skip
    assert "torch 2.9.1" in page(bare)
    assert "<svg" not in page(bare)


def test_the_page_is_drawn_in_a_browser(tmp_path: Path) -> None:
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        pytest.skip("no Chromium on PATH")
    file, picture = tmp_path / "report.html", tmp_path / "report.png"
    file.write_text(page(PASSED), encoding="utf-8")
    command = [
        browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
        f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1000,1600", f"--screenshot={picture}", file.as_uri(),
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, timeout=60, env={**os.environ, "HOME": str(tmp_path)})
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert picture.stat().st_size > 40_000  # an empty page takes a tenth of it


@given(st.lists(st.floats(min_value=1, max_value=1e9), min_size=1, max_size=40))
def test_a_treemap_gives_each_size_its_part_of_the_area(sizes: list[float]) -> None:
    ordered = sorted(sizes, reverse=True)
    boxes = treemap(ordered, 960, 330)
    assert len(boxes) == len(ordered)
    for size, box in zip(ordered, boxes, strict=True):
        assert box.width * box.height == pytest.approx(960 * 330 * size / sum(ordered), rel=1e-6)
        assert -1e-6 <= box.x <= box.x + box.width <= 960 + 1e-3
        assert -1e-6 <= box.y <= box.y + box.height <= 330 + 1e-3


def test_a_falling_line_in_braille_goes_from_the_top_left_to_the_bottom_right() -> None:
    assert braille([3, 2, 1, 0], 2, 1) == ("⠑⢄",)
    assert braille([1, 1], 2, 1) == ("⣀⣀",)
    assert smoothed([4, 2, 0], span=2) == (4, 3, 1)
    assert thinned([1, 3, 5, 7], 2) == (2, 6)


def test_the_page_of_an_image_names_it() -> None:
    proved = dataclasses.replace(PASSED, image="team/nlp:1 (sha256:1234)")
    assert '<p class="soft">image <code>team/nlp:1 (sha256:1234)</code></p>' in page(proved)
    assert ">image <code>" not in page(PASSED)
