"""Can a model leave the training code: safetensors and back, torch.export, ONNX; the outputs must agree."""

import importlib.util
import os

from lockgen_checks import bert

ORDER = 80
SECONDS = 420
TOLERANCE = 1e-4
SHAPES = ((2, 32), (5, 17))
"""Batch and length of the inputs: one to export with, one that only a dynamic shape can take."""


def check(plan):
    """Save a small BERT in each way and compare with the model itself; ONNX where it is installed."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(plan["bert"]["seed"])
    model = bert.build(dict(plan["bert"], model="tiny"), bert._chinese.vocabulary())[0].eval()
    problems, facts, notes = [], {}, []
    for name, way in (("safetensors", safetensors), ("torch.export", exported), ("ONNX", onnx)):
        missing = [each for each in NEEDS[name] if not installed(each)]
        if missing:
            notes.append("{}: not tried, {} not installed".format(name, ", ".join(missing)))
            continue
        try:
            facts[name] = way(torch, model)
        except Exception as error:
            problems.append("{}: {}: {}".format(name, type(error).__name__, str(error).strip().split("\n")[0][:300]))
    problems += [f"{name} differs by {error:.1e}" for name, error in facts.items() if not error <= TOLERANCE]
    agree = " and ".join("{} ({:.0e})".format(*pair) for pair in facts.items())
    return {
        "problems": problems,
        "summary": f"outputs agree after {agree}",
        "notes": notes,
        "facts": {"largest difference": facts, "tolerance": TOLERANCE},
    }


NEEDS = {"safetensors": ("safetensors",), "torch.export": (), "ONNX": ("onnx", "onnxscript", "onnxruntime")}


def installed(name):
    return importlib.util.find_spec(name) is not None


def inputs(torch, shape):
    """input_ids and attention_mask: (batch, length) int64."""
    tokens = torch.randint(5, 2000, shape, generator=torch.Generator().manual_seed(shape[0]))
    return tokens, torch.ones_like(tokens)


def logits_of(torch, model):
    """The model as a function of two tensors, as exporters want it."""

    class Logits(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, input_ids, attention_mask):
            return self.model(input_ids=input_ids, attention_mask=attention_mask).logits

    return Logits().eval()


def largest_difference(torch, left, right):
    """Over both shapes, of two functions of the two inputs."""
    with torch.no_grad():
        pairs = [(left(*inputs(torch, shape)), right(*inputs(torch, shape))) for shape in SHAPES]
    return max((a - b).abs().max().item() for a, b in pairs)


def safetensors(torch, model):
    model.save_pretrained("saved")
    if not os.path.exists("saved/model.safetensors"):
        raise FileNotFoundError("saved without safetensors: {}".format(", ".join(sorted(os.listdir("saved")))))
    again = type(model).from_pretrained("saved", use_safetensors=True).eval()
    return largest_difference(torch, logits_of(torch, model), logits_of(torch, again))


def dynamic_shapes(torch):
    batch, length = torch.export.Dim("batch", min=1, max=64), torch.export.Dim("length", min=2, max=512)
    return {"input_ids": {0: batch, 1: length}, "attention_mask": {0: batch, 1: length}}


def exported(torch, model):
    program = torch.export.export(
        logits_of(torch, model), inputs(torch, SHAPES[0]), dynamic_shapes=dynamic_shapes(torch)
    )
    torch.export.save(program, "model.pt2")
    return largest_difference(torch, logits_of(torch, model), torch.export.load("model.pt2").module())


def onnx(torch, model):
    import onnxruntime

    torch.onnx.export(
        logits_of(torch, model), inputs(torch, SHAPES[0]), "model.onnx", dynamo=True,
        dynamic_shapes=dynamic_shapes(torch), input_names=["input_ids", "attention_mask"], output_names=["logits"],
        verbose=False,
    )  # fmt: skip
    session = onnxruntime.InferenceSession("model.onnx", providers=["CPUExecutionProvider"])

    def run(tokens, mask):
        answer = session.run(None, {"input_ids": tokens.numpy(), "attention_mask": mask.numpy()})[0]
        return torch.tensor(answer)

    return largest_difference(torch, logits_of(torch, model), run)
