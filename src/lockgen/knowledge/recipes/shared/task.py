"""What every training script here shares: the options, the sentences, the model. Replace this file by your own task."""

import argparse
import os
import random

# Label and sentence: 1 is praise, 0 is complaint. `--data FILE` reads your own, one "label<tab>text" a line.
SENTENCES = [
    (1, "这家店的面条筋道爽滑"), (0, "这家店的面条煮得太烂"),
    (1, "房间宽敞又明亮"), (0, "房间又小又暗"),
    (1, "店员总是笑着招呼客人"), (0, "店员说话很冲"),
    (1, "电池耐用，一整天也不慌"), (0, "电池半天就没电"),
    (1, "情节环环相扣，舍不得放下"), (0, "情节拖沓，看到一半就想放弃"),
    (1, "画面美得像一幅画"), (0, "画面昏暗，看得头晕"),
    (1, "早餐新鲜可口"), (0, "早餐只有冷馒头"),
    (1, "系统流畅，从来没卡过"), (0, "系统动不动就死机"),
]  # fmt: skip
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def options(description):
    """The command line; every script takes the same options."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--model", default="google-bert/bert-base-chinese", help="a folder or a hub id")
    parser.add_argument("--data", help="a file of lines: label, tab, text; without it, a few sentences of this file")
    parser.add_argument("--tiny", action="store_true", help="a tiny model with random weights: nothing is downloaded")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=16, help="sentences a step and process")
    parser.add_argument("--length", type=int, default=64, help="tokens a sentence")
    parser.add_argument("--lr", type=float, default=5e-5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", default="output", help="folder for the checkpoint")
    return parser


def rows(options):
    """Pairs of label and text."""
    if options.data is None:
        return SENTENCES
    with open(options.data, encoding="utf-8") as file:
        pairs = [line.rstrip("\n").split("\t", 1) for line in file if line.strip()]
    return [(int(label), text) for label, text in pairs]


def load(options):
    """
    The model and its data.

    Returns:
        The model with random (`--tiny`) or downloaded weights, and a data set of
        {"input_ids", "attention_mask": (length,), "labels": ()}, all int64.
    """
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    torch.manual_seed(options.seed)
    pairs = rows(options)
    labels = 1 + max(label for label, _ in pairs)
    if options.tiny:
        model, tokenizer = tiny(pairs, labels, options.length)
    else:
        tokenizer = AutoTokenizer.from_pretrained(options.model)
        model = AutoModelForSequenceClassification.from_pretrained(options.model, num_labels=labels)
    encoded = tokenizer(
        [text for _, text in pairs],
        padding="max_length", truncation=True, max_length=options.length, return_tensors="pt",
    )  # fmt: skip
    columns = (encoded["input_ids"], encoded["attention_mask"], torch.tensor([label for label, _ in pairs]))
    names = ("input_ids", "attention_mask", "labels")
    return model, [dict(zip(names, values)) for values in zip(*columns)]


def tiny(pairs, labels, length):
    """A BERT of two small layers, and a tokenizer whose words are the characters of the sentences."""
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizer

    characters = sorted({character for _, text in pairs for character in text if not character.isspace()})
    vocabulary = {token: number for number, token in enumerate([*SPECIAL, *characters])}
    config = BertConfig(
        vocab_size=len(vocabulary), hidden_size=64, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=128, max_position_embeddings=length, num_labels=labels,
    )  # fmt: skip
    return BertForSequenceClassification(config), tokenizer_of(BertTokenizer, vocabulary)


def tokenizer_of(kind, vocabulary):
    """Transformers 5 takes the vocabulary itself, transformers 4 a file."""
    import tempfile

    import transformers

    if int(transformers.__version__.split(".")[0]) >= 5:
        return kind(vocab=vocabulary)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "vocab.txt")
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(vocabulary) + "\n")
        return kind(path)


def batches(data, options, rank=0, processes=1):
    """Batches of one process, without end, shuffled anew each time around; processes never share a sentence."""
    from torch.utils.data import default_collate

    order = random.Random(options.seed)
    whole = options.batch * processes
    while True:
        numbers = order.sample(range(len(data)), len(data))
        numbers *= 1 + whole // len(numbers)  # fewer sentences than one step takes: some come again
        for start in range(0, len(numbers) - whole + 1, whole):
            mine = numbers[start + rank : start + whole : processes]
            yield default_collate([data[number] for number in mine])


def say(rank, text):
    """Print, in the first process only."""
    if rank == 0:
        print(text, flush=True)
