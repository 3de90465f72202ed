"""A training loop that accelerate's configuration turns into DDP, FSDP2 or ZeRO. Started by `accelerate launch`."""

import os

import task
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed


def main():
    options = task.options(__doc__).parse_args()
    accelerator = Accelerator()
    set_seed(options.seed)
    model, data = task.load(options)
    loader = torch.utils.data.DataLoader(data, batch_size=options.batch, shuffle=True, drop_last=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    checkpoint = os.path.join(options.output, "accelerate")
    if os.path.isdir(checkpoint):
        accelerator.load_state(checkpoint)

    model.train()
    step = 0
    while step < options.steps:
        for batch in loader:
            step += 1
            loss = model(**batch).loss
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            mean = accelerator.reduce(loss.detach(), reduction="mean")
            accelerator.print(f"step {step}: loss {mean.item():.4f}", flush=True)
            if step == options.steps:
                break

    accelerator.save_state(checkpoint)
    kind = accelerator.distributed_type.value
    accelerator.print(f"{accelerator.num_processes} processes, {kind}: wrote {checkpoint}", flush=True)
    accelerator.end_training()


if __name__ == "__main__":
    main()
