rm \
 -rf x # rm -rf y