#!/bin/sh
# Start a training script in every process, with torchrun.
#
#   one machine, all its GPUs    sh launch.sh train_ddp.py
#   two processes, no GPU        PROCESSES=2 sh launch.sh train_ddp.py --tiny --steps 2
#   two machines, on each        NODES=2 HEAD=node1:29400 sh launch.sh train_ddp.py
#
# HEAD is one of the machines, and a free port there. Under Slurm, `srun` starts this once on each machine.
set -eu
processes="${PROCESSES:-gpu}"
if [ "${NODES:-1}" = 1 ]; then
    exec torchrun --standalone --nproc-per-node="$processes" "$@"
fi
exec torchrun --nnodes="$NODES" --nproc-per-node="$processes" \
    --rdzv-backend=c10d --rdzv-endpoint="${HEAD:?name a machine and a port: HEAD=node1:29400}" \
    --rdzv-id="${SLURM_JOB_ID:-train}" "$@"
