"""Does a Chinese BERT learn: fine-tuned on sentiment under automatic mixed precision, judged on held-out text."""

import itertools
import os
import resource
import sys
import tempfile
import time

from lockgen_checks import _chinese

ORDER = 60
SECONDS = 1800
SIZES = {
    "tiny": {"layers": 2, "hidden": 128, "heads": 2, "rate": 1e-3},
    "base": {"layers": 12, "hidden": 768, "heads": 12, "rate": 1e-4},
}
RATE_OF_WEIGHTS = 3e-5
"""Learning rate for weights that were trained before."""
WINDOW = 0.1
"""Part of the steps over which the loss is averaged at the start and at the end."""


def check(plan):
    """Train, and fail unless the loss falls and the accuracy beats chance by the plan's margin."""
    settings = plan["bert"]
    prepare(settings)
    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cpu" and settings["require_gpu"]:
        return {"problems": ["a GPU is required, and PyTorch sees none"]}
    rows, vocabulary, source = _chinese.load(settings["corpus"])
    train, held = _chinese.split(rows, settings["seed"])
    found, notes = halving(lambda batch: run(settings, batch, device, vocabulary, (train, held)), settings["batch"])
    facts = dict(found, corpus=source, train=len(train), held_out=len(held), seed=settings["seed"])
    facts["chance"] = chance(held)
    return {
        "problems": list(judge(facts, settings["margin"])),
        "summary": "{steps} steps in {dtype} on {device_name}: loss {first:.2f} → {last:.2f}, held-out accuracy "
        "{before:.2f} → {after:.2f}".format(
            **dict(facts, before=facts["accuracy_before"], after=facts["accuracy_after"])
        ),
        "notes": notes,
        "facts": dict(facts, margin=settings["margin"]),
    }


def prepare(settings):
    """Let the model hub be reached only when the model is one of its names."""
    if settings["model"] not in SIZES and not os.path.isdir(settings["model"]):
        os.environ.pop("HF_HUB_OFFLINE", None)


def halving(train, batch):
    """The answer of `train(batch)`, where memory runs out with half the batch, and notes on what was halved."""
    notes = []
    while True:
        try:
            return train(batch), notes
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error) or batch == 1:
                raise
        notes.append(f"out of memory with batch {batch}: halved to {batch // 2}")
        batch //= 2
        empty_cache()


def out_of_memory(error):
    return isinstance(error, MemoryError) or "out of memory" in str(error) or "can't allocate memory" in str(error)


def empty_cache():
    import gc

    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def run(settings, batch, device, vocabulary, texts):
    """One whole training: build, judge, train, judge again."""
    import torch

    train, held = texts
    if device.type == "cpu":
        torch.set_num_threads(settings["threads"] or os.cpu_count() or 1)
    torch.manual_seed(settings["seed"])
    model, tokenizer, rate = build(settings, vocabulary)
    model.to(device)
    dtype = precision(torch, device)
    encode = encoder(tokenizer, settings["seq_len"], device)
    loader = batches(train, batch, settings["seed"], encode)
    before = accuracy(model, held, encode, device, dtype)
    outcome = fit(model, loader, settings["steps"], (device, dtype, rate))
    return dict(
        outcome,
        model=settings["model"],
        parameters=sum(each.numel() for each in model.parameters()),
        vocabulary=len(tokenizer),
        device=device.type,
        device_name=torch.cuda.get_device_name() if device.type == "cuda" else "the processor",
        dtype=str(dtype).split(".")[1],
        threads=torch.get_num_threads(),
        batch=min(batch, len(train)),
        seq_len=settings["seq_len"],
        steps=settings["steps"],
        accuracy_before=before,
        accuracy_after=accuracy(model, held, encode, device, dtype),
    )


def build(settings, vocabulary):
    """A classifier with two classes, its tokenizer and learning rate: new in one of our sizes, or from safetensors."""
    from transformers import (
        AutoModelForSequenceClassification,
        AutoTokenizer,
        BertConfig,
        BertForSequenceClassification,
    )

    name = settings["model"]
    if name not in SIZES:
        model = AutoModelForSequenceClassification.from_pretrained(name, num_labels=2, use_safetensors=True)
        return model, AutoTokenizer.from_pretrained(name), RATE_OF_WEIGHTS
    tokenizer = tokenizer_of(vocabulary)
    size = SIZES[name]
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=size["hidden"], num_hidden_layers=size["layers"],
        num_attention_heads=size["heads"], intermediate_size=4 * size["hidden"], num_labels=2,
        pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    return BertForSequenceClassification(config), tokenizer, size["rate"]


def tokenizer_of(vocabulary):
    """BERT's WordPiece tokenizer with these tokens."""
    from transformers import BertTokenizerFast

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "vocab.txt")
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(vocabulary) + "\n")
        return BertTokenizerFast.from_pretrained(folder, do_lower_case=True)


def encoder(tokenizer, length, device):
    """Rows of text and label → the model's arguments: input_ids (batch, length) int64, and so on, on the device."""
    import torch

    def encode(rows):
        found = tokenizer(
            [text for text, _ in rows], padding=True, truncation=True, max_length=length, return_tensors="pt"
        )
        return dict(found, labels=torch.tensor([label for _, label in rows]))

    encode.to = lambda arguments: {name: value.to(device) for name, value in arguments.items()}
    return encode


def batches(rows, batch, seed, encode):
    """Batches without end, in an order that the seed fixes."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    loader = torch.utils.data.DataLoader(
        rows, batch_size=min(batch, len(rows)), shuffle=True, drop_last=True, generator=generator, collate_fn=encode
    )
    return (encode.to(each) for each in itertools.chain.from_iterable(itertools.repeat(loader)))


def precision(torch, device):
    """bfloat16 where the device has it, else float16; the processor runs bfloat16."""
    if device.type == "cpu" or torch.cuda.is_bf16_supported(including_emulation=False):
        return torch.bfloat16
    return torch.float16


def fit(model, loader, steps, how):
    """Train with AdamW, a rate that rises and falls, autocast, scaled gradients for float16, and clipping."""
    import torch

    device, dtype, rate = how
    model.train()
    scaler = torch.amp.GradScaler(device.type, enabled=dtype is torch.float16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01)
    rise = max(1, steps // 10)
    factor = lambda step: min((step + 1) / rise, (steps - step) / max(1, steps - rise))  # noqa: E731
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    losses, tokens = [], 0
    begun = time.perf_counter()
    for arguments in itertools.islice(loader, steps):
        with torch.autocast(device.type, dtype=dtype):
            loss = model(**arguments).loss
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
        tokens += int(arguments["attention_mask"].sum())
    seconds = time.perf_counter() - begun
    return {
        "losses": [round(each, 6) for each in losses],
        "first": mean(losses[: window(steps)]),
        "last": mean(losses[-window(steps) :]),
        "seconds": round(seconds, 2),
        "tokens_per_second": round(tokens / seconds),
        "peak_memory": peak_memory(torch, device),
    }


def window(steps):
    return max(1, int(steps * WINDOW))


def mean(values):
    return sum(values) / len(values)


def accuracy(model, rows, encode, device, dtype):
    """The part of the rows that the model gets right."""
    import torch

    model.eval()
    right = 0
    with torch.inference_mode(), torch.autocast(device.type, dtype=dtype):
        for start in range(0, len(rows), 50):
            arguments = encode.to(encode(rows[start : start + 50]))
            labels = arguments.pop("labels")
            right += int((model(**arguments).logits.argmax(-1) == labels).sum())
    return right / len(rows)


def peak_memory(torch, device):
    """Most bytes in use so far: of the GPU's memory, or of this process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def chance(rows):
    """What always naming the more frequent label gets right."""
    praise = sum(label for _, label in rows)
    return max(praise, len(rows) - praise) / len(rows)


def judge(facts, margin):
    """Sentences on what a model that learns would have done."""
    import math

    if not all(math.isfinite(loss) for loss in facts["losses"]):
        yield "the loss is not a number from step {} on".format(
            next(index for index, loss in enumerate(facts["losses"]) if not math.isfinite(loss)) + 1
        )
    elif facts["last"] >= facts["first"]:
        yield "the loss does not fall: {first:.3f} in the first steps, {last:.3f} in the last".format(**facts)
    needed = facts["chance"] + margin
    if facts["accuracy_after"] < needed:
        yield (
            "held-out accuracy {:.3f} after training with seed {}, needed {:.3f}: chance {:.3f} and a margin of {:.2f}"
        ).format(facts["accuracy_after"], facts["seed"], needed, facts["chance"], margin)
