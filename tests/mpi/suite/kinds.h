/* Datatypes as the suite sees them: where the bytes of an element lie and where its gaps are.
 *
 * An element is a list of pieces, in the order in which MPI sends them. Contents run through the pieces; the gaps must
 * keep their value. A basic datatype is one piece.
 */
#ifndef BULKHEAD_MPI_KINDS_H
#define BULKHEAD_MPI_KINDS_H

#include "fixture.h"

enum { MOST_PIECES = 24 };

struct piece {
    size_t at, bytes;
};

struct kind {
    const char *name;
    MPI_Datatype type;
    size_t extent, size; /* bytes from one element to the next, bytes of content */
    int count;
    struct piece pieces[MOST_PIECES];
};

/* Basic datatypes of C, pair types, then derived ones. Committed at the first call, there until the end. */
const struct kind *kinds(int *count);
/* The derived ones begin here. */
int first_derived(void);

/* Memory for so many elements, all gaps. */
char *kind_room(const struct kind *kind, size_t count);
/* The content of a key into the pieces of so many elements. */
void kind_fill(const struct kind *kind, void *memory, size_t count, uint64_t key);
/* Whether the pieces hold the content of a key and all the rest of the elements is gap. */
bool kind_holds(const struct kind *kind, void *memory, size_t count, uint64_t key);

#endif
