#!/bin/sh
# Draws the secrets of a deployment into deploy/secrets, once. Keep user_secret safe and away from backups: without it the
# store cannot be read, and it cannot be changed. Nothing is overwritten.
set -eu
cd "$(dirname "$0")"
umask 077
mkdir -p secrets
for name in user_secret app_key admin_key reader_key database_password grafana_password; do
    [ -e "secrets/$name" ] || openssl rand -hex 32 > "secrets/$name"
done
[ -e secrets/database_url ] || printf 'postgresql+psycopg://reticent:%s@database/reticent\n' "$(cat secrets/database_password)" > secrets/database_url
# Compose mounts these files as they are: the users of the service (10001), of PostgreSQL and of Grafana must be able to read
# them, and nobody else on this machine, who does not get past the folder.
chmod 700 secrets
chmod 444 secrets/*
