. /opt/lockgen/activate.sh
