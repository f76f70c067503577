# Keys and values are found, with and without spaces around them.
expect() {
    actual=$(printf '%s' "$1" | sh src/parse_config.sh) || { echo "refused: $1"; exit 1; }
    [ "$actual" = "$2" ] || { echo "for: $1"; echo "expected: $2"; echo "got: $actual"; exit 1; }
}

expect 'port=80' 'port=80'
expect '  host  =  example.org  ' 'host=example.org'
expect 'query=a=b' 'query=a=b'
expect 'empty=' 'empty='
expect 'one=1
two=2' 'one=1
two=2'
