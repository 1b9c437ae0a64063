# Runs the tests named in the file $2 of the suite in $1, in the folder $3; says for each how many cases it had and which failed,
# with what they got where that is the same each time: an error, a mode, a small number.
suite=$1 list=$2 place=$3
cd "$place" || exit 9
umask 022
# The suite asks `df` what its file system is, and leaves out a file of cases on those that it does not know.
PATH=$suite/bin:$PATH
while read -r name; do
    said=$(sh "$suite/tests/$name" 2>&1)
    bad=$(printf '%s\n' "$said" | sed -n \
        -e 's/^not ok \([0-9]*\) .*, got \(E[A-Z0-9]*\|[a-z]*,*[0-7]\{1,5\}\)$/\1=\2/p' -e t \
        -e 's/^not ok \([0-9]*\).*/\1/p' | tr '\n' ' ')
    planned=$(printf '%s\n' "$said" | sed -n 's/^1\.\.\([0-9]*\).*/\1/p' | tail -1)
    count=$(printf '%s\n' "$said" | grep -c '^\(not \)\?ok ')
    echo "$name $count/$planned: $bad"
done < "$list"
