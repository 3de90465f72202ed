"""FSDP2: weights, gradients and optimizer state are split among the processes. Started by torchrun."""

import os

import task
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard


def main():
    options = task.options(__doc__).parse_args()
    device = start()
    rank, processes = dist.get_rank(), dist.get_world_size()
    model, data = task.load(options)
    model.to(device)
    shard(model, init_device_mesh(device.type, (processes,)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr)  # after the split: it sees this process's part
    checkpoint = os.path.join(options.output, "fsdp")
    restore(checkpoint, model, optimizer)

    model.train()
    supply = task.batches(data, options, rank, processes)
    for step in range(1, options.steps + 1):
        batch = {name: value.to(device) for name, value in next(supply).items()}
        loss = model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        mean = loss.detach().float()
        dist.all_reduce(mean)
        task.say(rank, f"step {step}: loss {mean.item() / processes:.4f}")

    weights, state = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optimizer": state}, checkpoint_id=checkpoint)
    held = sum(value.to_local().numel() for value in model.parameters())
    whole = sum(value.numel() for value in model.parameters())
    task.say(rank, f"{processes} processes over {dist.get_backend()}, {held:,} of {whole:,} weights each")
    task.say(rank, f"wrote {checkpoint}")
    dist.barrier()
    dist.destroy_process_group()


def shard(model, mesh):
    """Split each layer, then what is left: a layer's weights are gathered when it runs and dropped after it."""
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in layers(model):
        fully_shard(layer, mesh=mesh, mp_policy=policy, reshard_after_forward=True)
    fully_shard(model, mesh=mesh, mp_policy=policy, reshard_after_forward=True)


def layers(model):
    """The blocks of a transformer: the longest list of modules in the model."""
    lists = [module for module in model.modules() if isinstance(module, torch.nn.ModuleList)]
    return max(lists, key=len, default=())


def restore(checkpoint, model, optimizer):
    """Go on from a checkpoint, if there is one; it may have been written by another number of processes."""
    if not os.path.exists(os.path.join(checkpoint, ".metadata")):
        return
    weights, state = get_state_dict(model, optimizer)
    dcp.load({"model": weights, "optimizer": state}, checkpoint_id=checkpoint)
    set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=state)


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
