# Versions are compared number by number.
expect() {
    actual=$(sh src/version.sh "$1" "$2") || { echo "refused: $1 $2"; exit 1; }
    [ "$actual" = "$3" ] || { echo "$1 $2: expected $3, got $actual"; exit 1; }
}

expect 1.2.3 1.2.3 eq
expect 1.2.3 1.2.4 lt
expect 1.10.0 1.9.0 gt
expect 2.0.0 10.0.0 lt
