# lockgen as it is in this checkout, with Debian's Python.
ARG BASE
FROM ${BASE}
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends python3-venv \
 && rm -rf /var/lib/apt/lists/*
COPY requirements.txt /
RUN python3 -m venv /opt/installer && /opt/installer/bin/pip install --quiet --no-cache-dir -r /requirements.txt
COPY src/ /opt/source/
RUN printf '#!/bin/sh\nPYTHONPATH=/opt/source exec /opt/installer/bin/python -m lockgen.cli.main "$@"\n' \
      > /usr/local/bin/lockgen \
 && chmod 755 /usr/local/bin/lockgen
