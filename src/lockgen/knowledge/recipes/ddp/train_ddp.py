"""Distributed data parallel: every process holds the whole model, and gradients are averaged. Started by torchrun."""

import os

import task
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main():
    options = task.options(__doc__).parse_args()
    device = start()
    rank, processes = dist.get_rank(), dist.get_world_size()
    model, data = task.load(options)
    model.to(device)
    checkpoint = os.path.join(options.output, "ddp.pt")
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr)
    if os.path.exists(checkpoint):
        state = torch.load(checkpoint, map_location="cpu", weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    parallel = DistributedDataParallel(model, device_ids=[device.index] if device.type == "cuda" else None)

    parallel.train()
    supply = task.batches(data, options, rank, processes)
    for step in range(1, options.steps + 1):
        batch = {name: value.to(device) for name, value in next(supply).items()}
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = parallel(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parallel.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        task.say(rank, f"step {step}: loss {mean.item() / processes:.4f}")

    if rank == 0:
        os.makedirs(options.output, exist_ok=True)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, checkpoint)
    task.say(rank, f"{processes} processes over {dist.get_backend()}: wrote {checkpoint}")
    dist.barrier()
    dist.destroy_process_group()


def start():
    """Join the other processes: one GPU each over NCCL, or the processor over Gloo; the device of this process."""
    if not torch.cuda.is_available():
        dist.init_process_group("gloo")
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    return device


if __name__ == "__main__":
    main()
