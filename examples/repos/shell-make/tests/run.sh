#!/bin/sh
# Runs every test beside it, each in a shell of its own; ends with status 1 when one failed.
cd "$(dirname "$0")/.." || exit 2
passed=0
failed=0
for test in tests/*.sh; do
    [ "$test" = tests/run.sh ] && continue
    name=${test#tests/}
    name=${name%.sh}
    if output=$(sh "$test" 2>&1); then
        passed=$((passed + 1))
        echo "ok - $name"
    else
        failed=$((failed + 1))
        echo "not ok - $name"
        printf '%s\n' "$output" | sed 's/^/    /'
    fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
