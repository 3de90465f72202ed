# Activates the environment for a shell that reads this: sh, dash, bash. Reading it again changes nothing.
case "${LOCKGEN_SESSION-}" in
/*) # a session of sshd, which starts without the variables of the container
  if [ -r "$LOCKGEN_SESSION" ]; then . "$LOCKGEN_SESSION"; fi
  unset LOCKGEN_SESSION ;;
esac
case ":${PATH-}:" in
*:/opt/env/bin:*) ;;
*) unset LOCKGEN_ACTIVE
   export PATH=/opt/env/bin"${PATH:+:$PATH}" ;;
esac
if [ "${LOCKGEN_ACTIVE-}" != /opt/env ]; then
  export LOCKGEN_ACTIVE=/opt/env CONDA_PREFIX=/opt/env CONDA_DEFAULT_ENV=env CONDA_SHLVL=1
  lockgen_options=$-
  set +eu # scripts of packages are not written for them
  # in a function, so that a script's own `set --` or `return` ends there; what it prints is no output of a command
  lockgen_read() { . "$1" >&2; }
  for lockgen_file in /opt/env/etc/conda/activate.d/*.sh; do
    [ -r "$lockgen_file" ] || continue
    # a script that only bash can read would end another shell: it is tried apart first
    if [ -n "${BASH_VERSION-}" ] || (lockgen_read "$lockgen_file"; exit 0) >/dev/null 2>&1; then
      lockgen_read "$lockgen_file"
    fi
  done
  for lockgen_file in /opt/env/etc/conda/env_vars.d/*.json /opt/env/conda-meta/state; do
    [ -r "$lockgen_file" ] && [ -x /opt/env/bin/python ] || continue
    eval "$(/opt/env/bin/python -I -S -c '
import json, re, shlex, sys
try:
    found = json.load(open(sys.argv[1], encoding="utf-8"))
    found = found.get("env_vars", {}) if sys.argv[1].endswith("/state") else found
    for name, value in found.items():
        if re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) and name != "PATH":
            print(f"export {name}={shlex.quote(str(value))}")
except (OSError, ValueError, AttributeError):
    pass
' "$lockgen_file")"
  done
  unset -f lockgen_read
  case $lockgen_options in *u*) set -u ;; esac
  case $lockgen_options in *e*) set -e ;; esac
  unset lockgen_file lockgen_options
fi
