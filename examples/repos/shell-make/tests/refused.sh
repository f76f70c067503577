# What is not a version is refused with status 2.
for text in '' 1 1.2 1.2.3.4 1.02.3 v1.2.3 1.2.x 1..3 12345678901.0.0; do
    sh src/version.sh "$text" 1.0.0 2>/dev/null
    [ $? -eq 2 ] || { echo "accepted: $text"; exit 1; }
done
