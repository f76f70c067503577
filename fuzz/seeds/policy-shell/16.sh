cargo test & ls | grep rm
rm -rf ./a