#!/bin/sh
# Compares two versions: prints lt, eq or gt.
set -u

refuse() {
    echo "not a version: $1" >&2
    exit 2
}

# Splits $1 into $major, $minor and $patch.
split() {
    major=${1%%.*}
    rest=${1#*.}
    minor=${rest%%.*}
    patch=${rest#*.}
    [ "$1" = "$major.$minor.$patch" ] || refuse "$1"
    for number in "$major" "$minor" "$patch"; do
        case $number in
            '' | *[!0-9]* | 0?* | ??????????*) refuse "$1" ;;
        esac
    done
}

[ $# -eq 2 ] || { echo "usage: version.sh A B" >&2; exit 2; }
split "$1"
left_major=$major left_minor=$minor left_patch=$patch
split "$2"

compare() {
    [ "$1" -eq "$2" ] && return
    if [ "$1" -lt "$2" ]; then echo lt; else echo gt; fi
    exit 0
}
compare "$left_major" "$major"
compare "$left_minor" "$minor"
compare "$left_patch" "$patch"
echo eq
