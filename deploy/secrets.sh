#!/bin/sh
# Makes what compose.yaml needs to be told in secret: an API key and passwords, under secrets/ beside this file. What is
# there already stays. The folder is closed to others; the files are readable, because the user in a container is
# another one than you, and sees the file alone.
set -eu
cd "$(dirname "$0")"
umask 077
mkdir -p secrets
random() { od -An -N 32 -t x1 /dev/urandom | tr -d ' \n'; }
[ -e secrets/postgres-password ] || random > secrets/postgres-password
[ -e secrets/grafana-password ] || random > secrets/grafana-password
[ -e secrets/switchboard.toml ] || cat > secrets/switchboard.toml <<END
api_key = "$(random)"
database_url = "postgresql://switchboard:$(cat secrets/postgres-password)@postgres:5432/switchboard"
END
chmod 0444 secrets/*
echo "Ready in $PWD/secrets. Callers send the api_key of secrets/switchboard.toml."
