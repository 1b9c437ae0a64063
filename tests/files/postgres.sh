# PostgreSQL over the folder $1: recovers, says all numbers there are after "found", then inserts the next ones, each in a
# transaction of its own, and says each when it is committed. With "check" it looks at every table and index after "found", ends in
# order and looks at every page's checksum.
set -eu
data=$1/data
programs=$(dirname "$(ls /usr/lib/postgresql/*/bin/initdb | tail -1)")
as() { setpriv --reuid postgres --regid postgres --clear-groups -- "$@"; }
sockets=$(mktemp -d)
chown postgres:postgres "$sockets"
# Whatever goes wrong: nothing of it runs on.
trap 'as "$programs/pg_ctl" -D "$data" -m immediate stop >/dev/null 2>&1 || true; rm -rf "$sockets"' EXIT
if [ ! -e "$data" ]; then
    mkdir "$data"
    chown postgres:postgres "$data"
    as "$programs/initdb" --data-checksums --auth trust -D "$data" >/dev/null
fi
rm -f "$data/postmaster.pid"
as "$programs/pg_ctl" -D "$data" -w -t 120 -l "$sockets/log" -o "-k $sockets -c listen_addresses= -c fsync=on" start >/dev/null ||
    { cat "$sockets/log" >&2; exit 1; }
ask() { as "$programs/psql" -h "$sockets" -qAt -v ON_ERROR_STOP=1 "$@" postgres; }
ask -c "CREATE TABLE IF NOT EXISTS rows (number integer PRIMARY KEY, text text)" 2>/dev/null
echo found
ask -c "SELECT number FROM rows WHERE length(text) = number % 3000"
echo end
if [ "${2:-}" = check ]; then
    as "$programs/pg_amcheck" -h "$sockets" --install-missing --heapallindexed postgres
    as "$programs/pg_ctl" -D "$data" -w -m fast stop >/dev/null
    as "$programs/pg_checksums" --check -D "$data" >/dev/null && echo sound
    exit
fi
highest=$(ask -c "SELECT coalesce(max(number), 0) FROM rows")
seq $((highest + 1)) $((highest + 100000)) |
    sed "s/.*/INSERT INTO rows VALUES (&, repeat('x', & % 3000)) RETURNING number;/" | ask -f -
