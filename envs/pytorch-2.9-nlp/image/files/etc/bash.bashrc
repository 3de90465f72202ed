# For interactive shells, and for the commands of sshd; written by lockgen.
. /opt/lockgen/activate.sh
if [ -n "${PS1-}" ]; then
  shopt -s checkwinsize
  PS1='\u@\h:\w\$ '
fi
