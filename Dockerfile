# Made by lockgen from conda-lock.yml; do not edit: `lockgen resolve` and `lockgen dockerfile` write it anew.
# Build it from this folder:  docker build -t pytorch-2.9-nlp .
# With buildah:               buildah build --layers --format docker -t pytorch-2.9-nlp .
# Another base or a mirror:   --build-arg BASE=… --build-arg INSTALLER=…
# A private channel:          --secret id=netrc,src=…  is read while packages are fetched, and is in no layer
ARG BASE=docker.io/library/debian:bookworm-slim@sha256:7c7b2c966bc9ee8cedfeef67e0e279108992c77681fa595db4a9d65c06ccc587
ARG INSTALLER=docker.io/mambaorg/micromamba:2.3.3@sha256:800e7ade3ffe29c9a9ac2026163131495f8197c3852e572c5835beb4e8a33cd6
ARG SOURCE_DATE_EPOCH=1790580024

FROM ${INSTALLER} AS build
# hadolint ignore=DL3002
USER 0
WORKDIR /build
COPY envs/pytorch-2.9-nlp/linux-64.explicit.lock lock/
RUN --mount=type=cache,target=/var/cache/conda,sharing=locked --mount=type=secret,id=netrc \
    if [ -e /run/secrets/netrc ]; then export NETRC=/run/secrets/netrc; fi \
 && CONDA_PKGS_DIRS=/var/cache/conda \
    micromamba create --yes --quiet --no-rc --no-pyc --prefix /opt/env --file lock/linux-64.explicit.lock
COPY envs/pytorch-2.9-nlp/image/ ./
# A folder a layer, each file's time and mode fixed: what an update leaves alone keeps its digest.
RUN /opt/env/bin/python stage.py --prefix /opt/env --groups groups.json --out /layers --epoch 315532800
RUN install -d /layers/own/system/home/lockgen \
 && install -d -m 0755 /layers/own/user-2/lockgen \
 && install -d /layers/own/system/work \
 && install -d -m 0755 /layers/own/user-1/work \
 && install -D -m 0644 files/etc/bash.bashrc /layers/own/system/etc/bash.bashrc \
 && install -D -m 0644 files/etc/profile.d/lockgen.sh /layers/own/system/etc/profile.d/lockgen.sh \
 && install -D -m 0644 files/opt/lockgen/activate.sh /layers/own/system/opt/lockgen/activate.sh \
 && install -D -m 0755 files/opt/lockgen/entrypoint /layers/own/system/opt/lockgen/entrypoint \
 && find /layers/own -exec touch --no-dereference --date=@315532800 {} +

FROM ${BASE} AS system

FROM system AS account
# hadolint ignore=DL3002
USER 0
RUN mkdir -p /account/etc \
 && sed -e '/^[^:]*:[^:]*:1000:/d' -e '/^lockgen:/d' /etc/passwd > /account/etc/passwd \
 && echo 'lockgen:x:1000:1000::/home/lockgen:/bin/bash' >> /account/etc/passwd \
 && sed -e '/^lockgen:/d' /etc/group > /account/etc/group \
 && if ! grep -q '^[^:]*:[^:]*:1000:' /account/etc/group; then echo 'lockgen:x:1000:' >> /account/etc/group; fi \
 && find /account -exec touch --date=@315532800 {} +

FROM system
COPY --from=account /account/ /
COPY --from=build /layers/libcublas/ /
COPY --from=build /layers/libcudnn/ /
COPY --from=build /layers/libcufft/ /
COPY --from=build /layers/libcusolver/ /
COPY --from=build /layers/libcusparse/ /
COPY --from=build /layers/nccl/ /
COPY --from=build /layers/cuda-1/ /
COPY --from=build /layers/libmagma/ /
COPY --from=build /layers/libtorch/ /
COPY --from=build /layers/triton/ /
COPY --from=build /layers/pytorch-1/ /
COPY --from=build /layers/mkl/ /
COPY --from=build /layers/compiled-1/ /
COPY --from=build /layers/compiled-2/ /
COPY --from=build /layers/compiled-3/ /
COPY --from=build /layers/compiled-4/ /
COPY --from=build /layers/python-1/ /
COPY --from=build /layers/python-2/ /
COPY --from=build /layers/python-3/ /
COPY --from=build /layers/python-4/ /
COPY --from=build /layers/python-5/ /
COPY --from=build /layers/python-6/ /
COPY --from=build /layers/python-7/ /
COPY --from=build /layers/own/system/ /
COPY --from=build --chown=1000:1000 /layers/own/user-1/ /
COPY --from=build --chown=1000:1000 /layers/own/user-2/ /home/
ARG SOURCE_DATE_EPOCH
# The host's driver comes in through the NVIDIA container toolkit, which refuses one older than 525.60.13.
ENV PATH="/opt/env/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" \
    CONDA_PREFIX="/opt/env" \
    HOME="/home/lockgen" \
    LANG="C.UTF-8" \
    ENV="/opt/lockgen/activate.sh" \
    BASH_ENV="/opt/lockgen/activate.sh" \
    NVIDIA_VISIBLE_DEVICES="all" \
    NVIDIA_DRIVER_CAPABILITIES="compute,utility" \
    NVIDIA_REQUIRE_CUDA="cuda>=12.0" \
    PYTORCH_ALLOC_CONF="expandable_segments:True" \
    PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True"
LABEL "io.lockgen.cuda"="12.9" \
      "io.lockgen.fingerprint"="054f8004797a803572aa112dcfc902567408fd94ce51d937588b82c69f51408b" \
      "io.lockgen.licenses"="GPL-2.0-or-later, GPL-3.0-only, LicenseRef-IntelSimplifiedSoftwareOct2022, LicenseRef-NVIDIA-End-User-License-Agreement, LicenseRef-cuDNN-Software-License-Agreement" \
      "io.lockgen.min-driver"="525.60.13" \
      "io.lockgen.pytorch"="2.9.1" \
      "io.lockgen.spec"="pytorch-2.9-nlp" \
      "org.opencontainers.image.base.digest"="sha256:7c7b2c966bc9ee8cedfeef67e0e279108992c77681fa595db4a9d65c06ccc587" \
      "org.opencontainers.image.base.name"="docker.io/library/debian:bookworm-slim" \
      "org.opencontainers.image.created"="2026-09-28T07:20:24Z" \
      "org.opencontainers.image.title"="pytorch-2.9-nlp"
USER 1000:1000
WORKDIR /work
ENTRYPOINT ["/opt/lockgen/entrypoint"]
CMD ["python"]
