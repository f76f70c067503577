cat <<E
$(rm -rf y)
E
