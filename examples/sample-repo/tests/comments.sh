# Comments and empty lines do not reach the output.
actual=$(sh src/parse_config.sh <<'CONF'
# the server
host = example.org

   # not yet
port = 80   # kept: a comment has a line of its own
CONF
) || exit 1
expected='host=example.org
port=80   # kept: a comment has a line of its own'
[ "$actual" = "$expected" ] || { echo "got: $actual"; exit 1; }
