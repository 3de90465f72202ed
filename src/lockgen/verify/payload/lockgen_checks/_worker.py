"""One process of the distributed check: a few steps of a small BERT; the first writes the answer as JSON."""

import json
import os
import sys

STEPS, BATCH, LENGTH, TOKENS = 5, 8, 32, 1000


def model_of(torch, hidden, layers, positions):
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    return BertForSequenceClassification(
        BertConfig(
            vocab_size=TOKENS, hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=4,
            intermediate_size=4 * hidden, max_position_embeddings=positions, num_labels=2,
            hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        )
    )  # fmt: skip


def train(torch, mode, device, world):
    """The loss of each step over all processes, each of which takes its part of the same batches."""
    import torch.distributed as dist

    rank, parts = (0, 1) if mode == "single" else (dist.get_rank(), world)
    model = wrapped(torch, model_of(torch, 64, 2, 64).to(device), mode, device, world)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(1)
    losses = []
    for _ in range(STEPS):
        tokens = torch.randint(5, TOKENS, (BATCH, LENGTH), generator=generator)
        labels = torch.randint(0, 2, (BATCH,), generator=generator)
        loss = model(input_ids=tokens[rank::parts].to(device), labels=labels[rank::parts].to(device)).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        total = loss.detach().clone()
        if mode != "single":
            dist.all_reduce(total)
        losses.append(round(total.item() / parts, 6))
    return losses


def wrapped(torch, model, mode, device, world):
    if mode == "ddp":
        return torch.nn.parallel.DistributedDataParallel(model)
    if mode == "fsdp2":
        from torch.distributed.device_mesh import init_device_mesh

        try:
            from torch.distributed.fsdp import fully_shard
        except ImportError:  # before PyTorch 2.6
            from torch.distributed._composable.fsdp import fully_shard
        mesh = init_device_mesh(device.type, (world,))
        for layer in model.bert.encoder.layer:
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
    return model


def peak_memory(torch, device):
    """Most bytes in use beyond those before one step: with checkpointing and then, which takes more, without."""
    import resource

    def peak():
        if device.type == "cuda":
            return torch.cuda.max_memory_allocated()
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

    model = model_of(torch, 128, 6, 128).to(device).train()
    tokens, labels = torch.randint(5, TOKENS, (24, 128)).to(device), torch.zeros(24, dtype=torch.int64, device=device)
    model(input_ids=tokens[:1], labels=labels[:1]).loss.backward()
    before, found = peak(), {}
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    for mode in ("checkpointing", "plain"):
        model(input_ids=tokens, labels=labels).loss.backward()
        found[mode] = peak() - before
        model.gradient_checkpointing_disable()
    return found


def main():
    backend, answer = sys.argv[1:]
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group(backend)
    rank, world = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", rank) if backend == "nccl" else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    found = {"peak_memory": peak_memory(torch, device), "losses": {}, "errors": {}}
    for mode in ("single", "ddp", "fsdp2"):
        try:
            found["losses"][mode] = train(torch, mode, device, world)
        except Exception as error:
            found["errors"][mode] = f"{type(error).__name__}: {error}".split("\n")[0]
    if rank == 0:
        with open(answer, "w", encoding="utf-8") as file:
            json.dump(found, file)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ["HF_HUB_OFFLINE"] = "1"
    main()
