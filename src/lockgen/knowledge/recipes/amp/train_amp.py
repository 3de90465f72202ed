"""One process, one GPU: automatic mixed precision, gradient accumulation and clipping, a checkpoint to go on from."""

import os

import task
import torch


def main():
    parser = task.options(__doc__)
    parser.add_argument("--precision", choices=("bf16", "fp16", "fp32"), help="bf16 where the GPU has it, else fp16")
    parser.add_argument("--accumulate", type=int, default=1, help="batches a step")
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dtype = precision(options.precision, device)
    model, data = task.load(options)
    model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr)
    # float16 has few exponent bits, so its gradients are scaled; with the others the scaler does nothing.
    scaler = torch.amp.GradScaler(device.type, enabled=dtype == torch.float16)
    checkpoint = os.path.join(options.output, "amp.pt")
    done = restore(checkpoint, model, optimizer, scaler)

    model.train()
    supply = task.batches(data, options)
    for step in range(done + 1, done + options.steps + 1):
        total = 0.0
        for _ in range(options.accumulate):
            batch = {name: value.to(device) for name, value in next(supply).items()}
            with torch.autocast(device.type, dtype=dtype, enabled=dtype != torch.float32):
                loss = model(**batch).loss / options.accumulate
            scaler.scale(loss).backward()
            total += loss.item()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        task.say(0, f"step {step}: loss {total:.4f}")

    os.makedirs(options.output, exist_ok=True)
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scaler": scaler.state_dict()}
    torch.save({**state, "step": done + options.steps}, checkpoint)
    task.say(0, f"{device.type} in {dtype}: wrote {checkpoint}")


def precision(name, device):
    """The type that matrices are multiplied in."""
    if name is None:
        name = "bf16" if device.type == "cpu" or torch.cuda.get_device_capability() >= (8, 0) else "fp16"
    return {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}[name]


def restore(path, model, optimizer, scaler):
    """Go on from a checkpoint, if there is one; the number of steps that are done."""
    if not os.path.exists(path):
        return 0
    state = torch.load(path, map_location="cpu", weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    if state["scaler"]:  # empty where the checkpoint was not written in float16
        scaler.load_state_dict(state["scaler"])
    return state["step"]


if __name__ == "__main__":
    main()
