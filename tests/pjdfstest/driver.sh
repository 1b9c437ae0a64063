# Runs the tests named in the file $2 of the suite in $1, in the folder $3; says for each what failed.
suite=$1 list=$2 place=$3
cd "$place" || exit 9
umask 022
while read -r name; do
    said=$(sh "$suite/tests/$name" 2>&1)
    bad=$(printf '%s\n' "$said" | sed -n 's/^not ok \([0-9]*\).*/\1/p' | tr '\n' ' ')
    planned=$(printf '%s\n' "$said" | sed -n 's/^1\.\.\([0-9]*\).*/\1/p' | tail -1)
    count=$(printf '%s\n' "$said" | grep -c '^\(not \)\?ok ')
    [ "$planned" = "$count" ] || bad="$bad($count of $planned)"
    echo "$name: $bad"
done < "$list"
