#!/bin/sh
# Prints the configuration on stdin as `key=value` lines; README.md has the rules.
set -u

# Removes spaces at both ends of $1 and leaves the rest in $trimmed.
trim() {
    trimmed=$1
    while :; do
        case $trimmed in
            ' '*) trimmed=${trimmed# } ;;
            *' ') trimmed=${trimmed% } ;;
            *) return ;;
        esac
    done
}

output=
while IFS= read -r line || [ -n "$line" ]; do
    trim "$line"
    case $trimmed in
        '' | '#'*) continue ;;
    esac
    line=$trimmed
    trim "${line%%=*}"
    key=$trimmed
    trim "${line#*=}"
    output="$output$key=$trimmed
"
done
printf '%s' "$output"
