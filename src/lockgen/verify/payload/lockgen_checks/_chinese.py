"""The Chinese text and the WordPiece vocabulary to train on: the installed ones, else those that come along."""

import importlib
import os
import random

from lockgen_checks import _sentences

PACKAGE = "lockgen_zh_bert"
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def load(folder):
    """
    The corpus to train on.

    Args:
        folder: one with `corpus.tsv` (label, tab, text) and `vocab.txt`; None takes the installed package, if any.

    Returns:
        Rows of text and label, the vocabulary, and where they come from.
    """
    if folder is None:
        try:
            folder = os.path.dirname(importlib.import_module(PACKAGE).__file__)
        except ImportError:
            return _sentences.corpus(), vocabulary(), f"the {len(_sentences.corpus())} sentences of lockgen"
    with open(os.path.join(folder, "corpus.tsv"), encoding="utf-8") as file:
        pairs = [line.split("\t", 1) for line in file.read().split("\n") if line]
    with open(os.path.join(folder, "vocab.txt"), encoding="utf-8") as file:
        tokens = file.read().split("\n")[:-1]
    return [(text, int(label)) for label, text in pairs], tokens, os.path.basename(folder)


def vocabulary():
    """Special tokens, ASCII, punctuation, the 3,755 characters of GB 2312's first level, and those of our sentences."""
    first_level = (
        bytes((row, cell)).decode("gb2312", "ignore") for row in range(0xB0, 0xD8) for cell in range(0xA1, 0xFF)
    )
    ours = sorted({character for text, _ in _sentences.corpus() for character in text})
    ascii_text = [chr(code) for code in range(33, 127) if not chr(code).isupper()]
    pieces = ["##" + character for character in ascii_text if character.isalnum()]
    return list(
        dict.fromkeys(
            [*SPECIAL, *ascii_text, *pieces, *"，。！？：；、（）《》“”…—", *filter(None, first_level), *ours]
        )
    )


def split(rows, seed):
    """Rows to train on and rows held out: a third of a small corpus, 1,000 of a large one; the same for one seed."""
    rows = list(rows)
    random.Random(seed).shuffle(rows)
    held = min(1000, len(rows) // 3)
    return rows[held:], rows[:held]
