/* The datatypes of the suite: each with a map of its bytes, written down here independently of the MPI library. */
#include "kinds.h"

#include <stdlib.h>
#include <string.h>
#include <wchar.h>

enum { MOST_KINDS = 48 };

static struct kind table[MOST_KINDS];
static int kind_count, derived_from;

static struct kind *add(const char *name, MPI_Datatype type, size_t extent)
{
    struct kind *kind = &table[kind_count++];
    *kind = (struct kind){.name = name, .type = type, .extent = extent};
    return kind;
}

static void add_piece(struct kind *kind, size_t at, size_t bytes)
{
    kind->pieces[kind->count++] = (struct piece){at, bytes};
    kind->size += bytes;
}

#define BASIC(type, c_type) add_piece(add(#type, type, sizeof(c_type)), 0, sizeof(c_type))

static void add_basic(void)
{
    BASIC(MPI_CHAR, char);
    BASIC(MPI_SHORT, short);
    BASIC(MPI_INT, int);
    BASIC(MPI_LONG, long);
    BASIC(MPI_FLOAT, float);
    BASIC(MPI_DOUBLE, double);
    BASIC(MPI_LONG_DOUBLE, long double);
    BASIC(MPI_C_FLOAT_COMPLEX, float _Complex);
    BASIC(MPI_C_DOUBLE_COMPLEX, double _Complex);
    BASIC(MPI_C_LONG_DOUBLE_COMPLEX, long double _Complex);
    BASIC(MPI_SIGNED_CHAR, signed char);
    BASIC(MPI_UNSIGNED_CHAR, unsigned char);
    BASIC(MPI_UNSIGNED_SHORT, unsigned short);
    BASIC(MPI_UNSIGNED, unsigned);
    BASIC(MPI_UNSIGNED_LONG, unsigned long);
    BASIC(MPI_LONG_LONG, long long);
    BASIC(MPI_WCHAR, wchar_t);
    BASIC(MPI_C_BOOL, bool);
    BASIC(MPI_INT8_T, int8_t);
    BASIC(MPI_INT16_T, int16_t);
    BASIC(MPI_UINT32_T, uint32_t);
    BASIC(MPI_INT64_T, int64_t);
    BASIC(MPI_AINT, MPI_Aint);
    BASIC(MPI_OFFSET, MPI_Offset);
    BASIC(MPI_BYTE, unsigned char);
}

#define PAIR(type, c_type)                                                                                             \
    do {                                                                                                               \
        struct pair {                                                                                                  \
            c_type value;                                                                                              \
            int index;                                                                                                 \
        };                                                                                                             \
        struct kind *kind = add(#type, type, sizeof(struct pair));                                                     \
        add_piece(kind, 0, sizeof(c_type));                                                                            \
        add_piece(kind, offsetof(struct pair, index), sizeof(int));                                                    \
    } while (0)

static void add_pairs(void)
{
    PAIR(MPI_2INT, int);
    PAIR(MPI_SHORT_INT, short);
    PAIR(MPI_LONG_INT, long);
    PAIR(MPI_FLOAT_INT, float);
    PAIR(MPI_DOUBLE_INT, double);
    PAIR(MPI_LONG_DOUBLE_INT, long double);
}

/* Four columns of five rows of seven doubles; and the same bytewise, with a stride that no basic type divides. */
static void add_vectors(void)
{
    MPI_Datatype type;
    MPI_Type_vector(5, 4, 7, MPI_DOUBLE, &type);
    struct kind *kind = add("vector", type, (4 * 7 + 4) * sizeof(double));
    for (size_t i = 0; i < 5; i++)
        add_piece(kind, i * 7 * sizeof(double), 4 * sizeof(double));
    MPI_Type_create_hvector(6, 1, 11, MPI_SHORT, &type);
    /* 57 bytes, rounded up to what a short is aligned to. */
    kind = add("hvector", type, 58);
    for (size_t i = 0; i < 6; i++)
        add_piece(kind, i * 11, sizeof(short));
}

/* Blocks of several lengths, not in the order in which they lie. */
static void add_indexed(void)
{
    static const int lengths[] = {3, 1, 0, 5, 2}, places[] = {20, 0, 7, 9, 2};
    MPI_Datatype type;
    MPI_Type_indexed(5, lengths, places, MPI_INT, &type);
    struct kind *kind = add("indexed", type, 23 * sizeof(int));
    for (int i = 0; i < 5; i++)
        add_piece(kind, (size_t)places[i] * sizeof(int), (size_t)lengths[i] * sizeof(int));
    MPI_Type_create_indexed_block(4, 2, (const int[]){0, 8, 4, 12}, MPI_CHAR, &type);
    kind = add("indexed block", type, 14);
    for (size_t i = 0; i < 4; i++)
        add_piece(kind, ((const size_t[]){0, 8, 4, 12})[i], 2);
}

struct record {
    char letter;
    double number;
    int three[3];
    short last;
};

static void add_records(void)
{
    static const MPI_Aint places[] = {offsetof(struct record, letter), offsetof(struct record, number),
                                      offsetof(struct record, three), offsetof(struct record, last)};
    MPI_Datatype plain, type, types[] = {MPI_CHAR, MPI_DOUBLE, MPI_INT, MPI_SHORT};
    MPI_Type_create_struct(4, (const int[]){1, 1, 3, 1}, places, types, &plain);
    MPI_Type_create_resized(plain, 0, sizeof(struct record) + 24, &type);
    MPI_Type_free(&plain);
    struct kind *kind = add("struct, resized", type, sizeof(struct record) + 24);
    add_piece(kind, offsetof(struct record, letter), 1);
    add_piece(kind, offsetof(struct record, number), sizeof(double));
    add_piece(kind, offsetof(struct record, three), 3 * sizeof(int));
    add_piece(kind, offsetof(struct record, last), sizeof(short));
}

/* A part of a table, and a vector of vectors. */
static void add_nested(void)
{
    MPI_Datatype type, inner;
    MPI_Type_create_subarray(2, (const int[]){5, 9}, (const int[]){3, 4}, (const int[]){1, 2}, MPI_ORDER_C, MPI_FLOAT,
                             &type);
    struct kind *kind = add("subarray", type, 45 * sizeof(float));
    for (size_t row = 1; row < 4; row++)
        add_piece(kind, (row * 9 + 2) * sizeof(float), 4 * sizeof(float));
    MPI_Type_vector(2, 1, 2, MPI_INT, &inner);
    MPI_Type_create_hvector(3, 2, 40, inner, &type);
    MPI_Type_free(&inner);
    /* The inner one reaches over three ints, so two of them lie one behind the other. */
    kind = add("vector of vectors", type, 2 * 40 + 6 * sizeof(int));
    for (size_t block = 0; block < 3; block++)
        for (size_t k = 0; k < 4; k++)
            add_piece(kind, block * 40 + (k / 2 * 3 + k % 2 * 2) * sizeof(int), sizeof(int));
    MPI_Type_contiguous(17, MPI_SHORT, &type);
    add_piece(add("contiguous", type, 17 * sizeof(short)), 0, 17 * sizeof(short));
}

const struct kind *kinds(int *count)
{
    if (kind_count == 0) {
        add_basic();
        add_pairs();
        derived_from = kind_count;
        add_vectors();
        add_indexed();
        add_records();
        add_nested();
        for (int i = derived_from; i < kind_count; i++)
            MPI_Type_commit(&table[i].type);
    }
    *count = kind_count;
    return table;
}

int first_derived(void)
{
    int count;
    kinds(&count);
    return derived_from;
}

char *kind_room(const struct kind *kind, size_t count)
{
    return room(count * kind->extent);
}

static bool is_plain(const struct kind *kind)
{
    return kind->count == 1 && kind->size == kind->extent;
}

/* Contents of kinds with gaps are made in one piece and dealt out, or collected. */
static void deal(const struct kind *kind, char *memory, size_t count, char *stream, bool out)
{
    for (size_t i = 0; i < count; i++)
        for (int p = 0; p < kind->count; p++) {
            char *at = memory + i * kind->extent + kind->pieces[p].at;
            if (out)
                memcpy(at, stream, kind->pieces[p].bytes);
            else {
                memcpy(stream, at, kind->pieces[p].bytes);
                memset(at, GAP, kind->pieces[p].bytes);
            }
            stream += kind->pieces[p].bytes;
        }
}

void kind_fill(const struct kind *kind, void *memory, size_t count, uint64_t key)
{
    if (is_plain(kind)) {
        fill(memory, count * kind->size, key);
        return;
    }
    char *stream = room(count * kind->size);
    fill(stream, count * kind->size, key);
    deal(kind, memory, count, stream, true);
    leave(stream);
}

bool kind_holds(const struct kind *kind, void *memory, size_t count, uint64_t key)
{
    if (is_plain(kind))
        return holds(memory, count * kind->size, key);
    char *stream = room(count * kind->size);
    deal(kind, memory, count, stream, false);
    bool right = holds(stream, count * kind->size, key);
    leave(stream);
    size_t written = 0;
    for (size_t i = 0; i < count * kind->extent; i++)
        written += ((unsigned char *)memory)[i] != GAP;
    CHECK(written == 0, "%zu bytes in the gaps of %zu elements of %s were written", written, count, kind->name);
    return right;
}
