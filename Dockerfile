# Made by lockgen from conda-lock.yml; do not edit: it is written anew by `lockgen resolve`.
# Build it from this folder:  docker build -t pytorch-2.9-nlp .
# Another base or a mirror:   --build-arg BASE=… --build-arg INSTALLER=…
ARG BASE=docker.io/library/debian:bookworm-slim@sha256:7c7b2c966bc9ee8cedfeef67e0e279108992c77681fa595db4a9d65c06ccc587
ARG INSTALLER=docker.io/mambaorg/micromamba:2.3.3@sha256:800e7ade3ffe29c9a9ac2026163131495f8197c3852e572c5835beb4e8a33cd6

FROM ${INSTALLER} AS build
# hadolint ignore=DL3002
USER 0
COPY envs/pytorch-2.9-nlp/linux-64.explicit.lock /tmp/lock/
RUN micromamba create --yes --quiet --prefix /opt/env --file /tmp/lock/linux-64.explicit.lock \
 && micromamba clean --all --yes --quiet

FROM ${BASE}
COPY --from=build /opt/env /opt/env
RUN mkdir -p /work /home/lockgen && chown 1000:1000 /work /home/lockgen
ENV PATH=/opt/env/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    CONDA_PREFIX=/opt/env \
    HOME=/home/lockgen \
    LANG=C.UTF-8
# The host's driver comes in through the NVIDIA container toolkit, which refuses one older than 525.60.13.
ENV NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    NVIDIA_REQUIRE_CUDA="cuda>=12.0"
LABEL "io.lockgen.fingerprint"="054f8004797a803572aa112dcfc902567408fd94ce51d937588b82c69f51408b"
LABEL "io.lockgen.spec"="pytorch-2.9-nlp"
USER 1000:1000
WORKDIR /work
CMD ["python"]
