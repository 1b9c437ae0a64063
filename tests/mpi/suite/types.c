/* Datatypes in messages between two ranks: every kind, sender and receiver seeing the same bytes differently, a matrix
 * turned over on its way, parts of an element, packed contents. */
#include <stdlib.h>
#include <string.h>

#include "kinds.h"

/* Every kind, as it is, in several numbers of elements. */
static void every_kind(void)
{
    static const size_t counts[] = {1, 2, 100, 9000};
    int kind_count, to = after_us(1), from = after_us(-1);
    const struct kind *all = kinds(&kind_count);
    for (int k = 0; k < kind_count; k++)
        for (int c = 0; c < 4; c++) {
            size_t count = counts[c];
            char *out = kind_room(&all[k], count), *in = kind_room(&all[k], count + 1);
            MPI_Status status;
            MPI_Request request;
            int got = -1;
            MARK();
            kind_fill(&all[k], out, count, key_of('T', (uint64_t)rank, (uint64_t)k, count));
            MPI_Irecv(in, (int)count + 1, all[k].type, from, k, world, &request);
            MPI_Send(out, (int)count, all[k].type, to, k, world);
            MPI_Wait(&request, &status);
            MPI_Get_count(&status, all[k].type, &got);
            CHECK(got == (int)count, "%d elements of %s came, wanted %zu", got, all[k].name, count);
            CHECK(kind_holds(&all[k], in, count, key_of('T', (uint64_t)from, (uint64_t)k, count)),
                  "%zu elements of %s came differently", count, all[k].name);
            leave(in);
            leave(out);
        }
}

/* Sent as one kind, received as bytes, and the other way round: the bytes of the pieces in their order. */
static void as_bytes(void)
{
    enum { COUNT = 700 };
    int kind_count, to = after_us(1), from = after_us(-1);
    const struct kind *all = kinds(&kind_count);
    for (int k = 0; k < kind_count; k++) {
        const struct kind *kind = &all[k];
        size_t bytes = COUNT * kind->size;
        char *out = kind_room(kind, COUNT), *plain = room(bytes), *in = kind_room(kind, COUNT);
        uint64_t theirs = key_of('A', (uint64_t)from, (uint64_t)k, 0);
        MARK();
        kind_fill(kind, out, COUNT, key_of('A', (uint64_t)rank, (uint64_t)k, 0));
        MPI_Sendrecv(out, COUNT, kind->type, to, 1, plain, (int)bytes, MPI_BYTE, from, 1, world, MPI_STATUS_IGNORE);
        CHECK_IS(plain, bytes, theirs, "elements of %s received as bytes differ", kind->name);
        fill(plain, bytes, key_of('A', (uint64_t)rank, (uint64_t)k, 0));
        MPI_Sendrecv(plain, (int)bytes, MPI_BYTE, to, 2, in, COUNT, kind->type, from, 2, world, MPI_STATUS_IGNORE);
        CHECK(kind_holds(kind, in, COUNT, theirs), "bytes received as elements of %s differ", kind->name);
        leave(in);
        leave(plain);
        leave(out);
    }
}

/* Rows go out, columns come in. The type of a column is resized so that columns lie between each other. */
static void turned_matrix(void)
{
    enum { ROWS = 61, COLUMNS = 83 };
    double *out = room(sizeof(double) * ROWS * COLUMNS), *in = room(sizeof(double) * ROWS * COLUMNS);
    double *wanted = room(sizeof(double) * ROWS * COLUMNS);
    MPI_Datatype column, narrow;
    MPI_Type_vector(COLUMNS, 1, ROWS, MPI_DOUBLE, &column);
    MPI_Type_create_resized(column, 0, sizeof(double), &narrow);
    MPI_Type_commit(&narrow);
    for (int row = 0; row < ROWS; row++)
        for (int k = 0; k < COLUMNS; k++) {
            out[row * COLUMNS + k] = rank * 1e6 + row * 1e3 + k;
            wanted[k * ROWS + row] = after_us(-1) * 1e6 + row * 1e3 + k;
        }
    MARK();
    MPI_Sendrecv(out, ROWS * COLUMNS, MPI_DOUBLE, after_us(1), 3, in, ROWS, narrow, after_us(-1), 3, world,
                 MPI_STATUS_IGNORE);
    CHECK(same(in, wanted, sizeof(double) * ROWS * COLUMNS), "the matrix was not turned over");
    MPI_Type_free(&column);
    MPI_Type_free(&narrow);
    leave(wanted);
    leave(in);
    leave(out);
}

/* A message that ends within an element: no whole number of elements, but a number of basic ones. */
static void part_of_element(void)
{
    int triple[6] = {-1, -1, -1, -1, -1, -1}, out[4] = {rank, rank + 1, rank + 2, rank + 3}, count = 0, basic = 0;
    int from = after_us(-1), wanted[6] = {from, from + 1, from + 2, from + 3, -1, -1};
    MPI_Datatype three;
    MPI_Status status;
    MPI_Type_contiguous(3, MPI_INT, &three);
    MPI_Type_commit(&three);
    MARK();
    MPI_Sendrecv(out, 4, MPI_INT, after_us(1), 3, triple, 2, three, from, 3, world, &status);
    MPI_Get_count(&status, three, &count);
    MPI_Get_elements(&status, three, &basic);
    CHECK(count == MPI_UNDEFINED && basic == 4, "4 of 3 each are %d elements and %d ints", count, basic);
    CHECK(same(triple, wanted, sizeof wanted), "the ints came differently");
    MPI_Type_free(&three);
}

/* Packed on one side, unpacked on the other, or received as what it was packed from. */
static void packed(void)
{
    enum { COUNT = 50 };
    int kind_count, to = after_us(1), from = after_us(-1);
    const struct kind *all = kinds(&kind_count);
    for (int k = 0; k < kind_count; k++) {
        const struct kind *kind = &all[k];
        int bytes, at = 0, got = 0;
        MPI_Pack_size(COUNT, kind->type, world, &bytes);
        char *out = kind_room(kind, COUNT), *in = kind_room(kind, COUNT), *pack = room((size_t)bytes);
        char *theirs = room((size_t)bytes);
        MPI_Status status;
        MARK();
        kind_fill(kind, out, COUNT, key_of('P', (uint64_t)rank, (uint64_t)k, 0));
        MPI_Pack(out, COUNT, kind->type, pack, bytes, &at, world);
        MPI_Sendrecv(pack, at, MPI_PACKED, to, 1, theirs, bytes, MPI_PACKED, from, 1, world, &status);
        MPI_Get_count(&status, MPI_PACKED, &got);
        at = 0;
        MPI_Unpack(theirs, got, &at, in, COUNT, kind->type, world);
        CHECK(kind_holds(kind, in, COUNT, key_of('P', (uint64_t)from, (uint64_t)k, 0)), "packed %s came differently",
              kind->name);
        MPI_Sendrecv(pack, got, MPI_PACKED, to, 2, in, COUNT, kind->type, from, 2, world, &status);
        CHECK(kind_holds(kind, in, COUNT, key_of('P', (uint64_t)from, (uint64_t)k, 0)), "%s from packed differs",
              kind->name);
        leave(theirs);
        leave(pack);
        leave(in);
        leave(out);
    }
}

/* Places relative to the whole of memory: pieces that lie in different allocations. */
static void absolute_places(void)
{
    enum { PIECES = 5, BYTES = 3000 };
    char *out[PIECES], *in[PIECES];
    MPI_Aint out_places[PIECES], in_places[PIECES];
    int lengths[PIECES];
    MPI_Datatype out_type, in_type;
    for (int i = 0; i < PIECES; i++) {
        out[i] = room(BYTES);
        in[i] = room(BYTES);
        fill(out[i], BYTES, key_of('Z', (uint64_t)rank, (uint64_t)i, 0));
        MPI_Get_address(out[i], &out_places[i]);
        MPI_Get_address(in[i], &in_places[i]);
        lengths[i] = BYTES;
    }
    MPI_Type_create_hindexed(PIECES, lengths, out_places, MPI_BYTE, &out_type);
    MPI_Type_create_hindexed(PIECES, lengths, in_places, MPI_BYTE, &in_type);
    MPI_Type_commit(&out_type);
    MPI_Type_commit(&in_type);
    MARK();
    MPI_Sendrecv(MPI_BOTTOM, 1, out_type, after_us(1), 1, MPI_BOTTOM, 1, in_type, after_us(-1), 1, world,
                 MPI_STATUS_IGNORE);
    for (int i = 0; i < PIECES; i++) {
        CHECK_IS(in[i], BYTES, key_of('Z', (uint64_t)after_us(-1), (uint64_t)i, 0), "piece %d came differently", i);
        leave(in[i]);
        leave(out[i]);
    }
    MPI_Type_free(&out_type);
    MPI_Type_free(&in_type);
}

const struct test_case types_cases[] = {{"every_kind", 1, every_kind},
                                        {"as_bytes", 1, as_bytes},
                                        {"turned_matrix", 1, turned_matrix},
                                        {"part_of_element", 1, part_of_element},
                                        {"packed", 1, packed},
                                        {"absolute_places", 1, absolute_places},
                                        {0}};
