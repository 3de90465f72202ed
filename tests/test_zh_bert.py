"""The Chinese sentences and the package that is made of them."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest
from conftest import ROOT

from lockgen.verify import run

sys.path.insert(0, str(run.PAYLOAD.parent))
from lockgen_checks import _chinese, _sentences

RECIPE = ROOT / "recipes" / "zh-bert"


def module(file: Path) -> ModuleType:
    specification = importlib.util.spec_from_file_location(file.parent.name.replace("-", "_"), file)
    assert specification is not None
    assert specification.loader is not None
    found = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(found)
    return found


def test_half_of_the_sentences_praise_and_none_comes_twice() -> None:
    rows = _sentences.corpus()
    assert Counter(label for _, label in rows) == {0: 150, 1: 150}
    assert len({text for text, _ in rows}) == 300
    assert all(12 <= len(text) <= 48 for text, _ in rows)


def test_the_vocabulary_has_every_character_of_the_sentences() -> None:
    tokens = _chinese.vocabulary()
    assert tokens[:5] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert len(tokens) == len(set(tokens))
    assert sum("\u4e00" <= token <= "\u9fff" for token in tokens) >= 3755
    assert {character for text, _ in _sentences.corpus() for character in text} <= set(tokens)


def test_one_seed_holds_out_the_same_third_and_no_text_is_in_both() -> None:
    train, held = _chinese.split(_sentences.corpus(), 0)
    assert (len(train), len(held)) == (200, 100)
    assert not {text for text, _ in train} & {text for text, _ in held}
    assert _chinese.split(_sentences.corpus(), 0) == (train, held)
    assert _chinese.split(_sentences.corpus(), 1)[1] != held


def test_the_package_built_without_a_network_reads_back_what_was_put_in(tmp_path: Path) -> None:
    subprocess.run([sys.executable, RECIPE / "build.py", tmp_path, "--own"], check=True, capture_output=True)
    built = module(tmp_path / "lockgen_zh_bert" / "__init__.py")
    assert built.corpus() == _sentences.corpus()
    assert built.vocabulary() == _chinese.vocabulary()
    assert _chinese.load(str(tmp_path / "lockgen_zh_bert"))[:2] == (_sentences.corpus(), _chinese.vocabulary())


def test_reviews_with_both_labels_are_left_out_and_doubles_come_once() -> None:
    build = module(RECIPE / "build.py")
    rows = build.without_contradictions(["好", "好", "一般", "a\tb"], ["坏", "一般"])
    assert rows == [("坏", 0), ("a b", 1), ("好", 1)]


def test_a_download_with_another_hash_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pip is given a folder with an archive of that name, as an own index would."""
    build = module(RECIPE / "build.py")
    with zipfile.ZipFile(tmp_path / "small-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("small-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: small\nVersion: 1.0\n")
        wheel.writestr("small-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("small-1.0.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(SystemExit, match="expected 00"):
        build.download({"name": "small", "version": "1.0", "sha256": "00"})
