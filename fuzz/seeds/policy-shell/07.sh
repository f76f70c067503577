cat <<-'E'
	rm -rf x
	E
