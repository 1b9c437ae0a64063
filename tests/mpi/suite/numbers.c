/* The elements of reductions and the oracle of their results: see numbers.h. */
#include "numbers.h"

#include <string.h>

enum {
    ORDERED = 1 << SUM | 1 << PROD | 1 << MAX | 1 << MIN,
    LOGIC = 1 << LAND | 1 << LOR | 1 << LXOR,
    BITS = 1 << BAND | 1 << BOR | 1 << BXOR,
    WHOLE = ORDERED | LOGIC | BITS,
    PLACE = 1 << MINLOC | 1 << MAXLOC
};

#define NUMBER(name, c_type)                                                                                           \
    static void set_##name(void *memory, size_t i, int64_t value) { ((c_type *)memory)[i] = (c_type)value; }           \
    static bool is_##name(const void *memory, size_t i, int64_t value)                                                 \
    {                                                                                                                  \
        return ((const c_type *)memory)[i] == (c_type)value;                                                           \
    }

NUMBER(schar, signed char)
NUMBER(uchar, unsigned char)
NUMBER(short, short)
NUMBER(ushort, unsigned short)
NUMBER(int, int)
NUMBER(uint, unsigned)
NUMBER(long, int64_t)
NUMBER(ulong, uint64_t)
NUMBER(bool, bool)
NUMBER(float, float)
NUMBER(double, double)
NUMBER(ldouble, long double)

/* A value and its place: the place is the lowest byte. */
#define PAIR(name, c_type)                                                                                             \
    struct pair_##name {                                                                                               \
        c_type value;                                                                                                  \
        int place;                                                                                                     \
    };                                                                                                                 \
    static void set_pair_##name(void *memory, size_t i, int64_t value)                                                 \
    {                                                                                                                  \
        struct pair_##name *at = (struct pair_##name *)memory + i;                                                     \
        at->value = (c_type)(value >> 8);                                                                              \
        at->place = (int)(value & 255);                                                                                \
    }                                                                                                                  \
    static bool is_pair_##name(const void *memory, size_t i, int64_t value)                                            \
    {                                                                                                                  \
        const struct pair_##name *at = (const struct pair_##name *)memory + i;                                         \
        return at->value == (c_type)(value >> 8) && at->place == (int)(value & 255);                                   \
    }

PAIR(int, int)
PAIR(short, short)
PAIR(long, long)
PAIR(float, float)
PAIR(double, double)
PAIR(ldouble, long double)

/* A complex number with another imaginary part; only sums of them stay simple. */
#define COMPLEX(name, c_type)                                                                                          \
    static void set_c##name(void *memory, size_t i, int64_t value)                                                     \
    {                                                                                                                  \
        ((c_type *)memory)[2 * i] = (c_type)value;                                                                     \
        ((c_type *)memory)[2 * i + 1] = (c_type)(-3 * value);                                                          \
    }                                                                                                                  \
    static bool is_c##name(const void *memory, size_t i, int64_t value)                                                \
    {                                                                                                                  \
        const c_type *at = (const c_type *)memory + 2 * i;                                                             \
        return at[0] == (c_type)value && at[1] == (c_type)(-3 * value);                                                \
    }

COMPLEX(float, float)
COMPLEX(double, double)
COMPLEX(ldouble, long double)

static struct number table[32];
static int number_count;

static void add(const char *name, MPI_Datatype type, size_t bytes, unsigned operations,
                void (*set)(void *, size_t, int64_t), bool (*is)(const void *, size_t, int64_t))
{
    table[number_count++] = (struct number){name, type, bytes, operations, set, is};
}

#define ADD(type, name, bytes, operations) add(#type, type, bytes, operations, set_##name, is_##name)

static void fill_table(void)
{
    ADD(MPI_SIGNED_CHAR, schar, 1, WHOLE);
    ADD(MPI_UNSIGNED_CHAR, uchar, 1, WHOLE);
    ADD(MPI_SHORT, short, sizeof(short), WHOLE);
    ADD(MPI_UNSIGNED_SHORT, ushort, sizeof(short), WHOLE);
    ADD(MPI_INT, int, sizeof(int), WHOLE);
    ADD(MPI_UNSIGNED, uint, sizeof(int), WHOLE);
    ADD(MPI_LONG, long, sizeof(long), WHOLE);
    ADD(MPI_UINT64_T, ulong, sizeof(uint64_t), WHOLE);
    ADD(MPI_BYTE, uchar, 1, BITS);
    ADD(MPI_C_BOOL, bool, sizeof(bool), LOGIC);
    ADD(MPI_FLOAT, float, sizeof(float), ORDERED);
    ADD(MPI_DOUBLE, double, sizeof(double), ORDERED);
    ADD(MPI_LONG_DOUBLE, ldouble, sizeof(long double), ORDERED);
    ADD(MPI_C_FLOAT_COMPLEX, cfloat, 2 * sizeof(float), 1 << SUM);
    ADD(MPI_C_DOUBLE_COMPLEX, cdouble, 2 * sizeof(double), 1 << SUM);
    ADD(MPI_C_LONG_DOUBLE_COMPLEX, cldouble, 2 * sizeof(long double), 1 << SUM);
    ADD(MPI_2INT, pair_int, sizeof(struct pair_int), PLACE);
    ADD(MPI_SHORT_INT, pair_short, sizeof(struct pair_short), PLACE);
    ADD(MPI_LONG_INT, pair_long, sizeof(struct pair_long), PLACE);
    ADD(MPI_FLOAT_INT, pair_float, sizeof(struct pair_float), PLACE);
    ADD(MPI_DOUBLE_INT, pair_double, sizeof(struct pair_double), PLACE);
    ADD(MPI_LONG_DOUBLE_INT, pair_ldouble, sizeof(struct pair_ldouble), PLACE);
    ADD(MPI_UINT64_T, ulong, sizeof(uint64_t), 1u << COMPOSE);
}

const struct number *numbers(int *count)
{
    if (number_count == 0)
        fill_table();
    *count = number_count;
    return table;
}

/* Two maps x -> ax + b of 32-bit numbers, one after the other: associative, but the order counts. */
static uint64_t compose(uint64_t left, uint64_t right)
{
    uint32_t a = (uint32_t)(left >> 32), b = (uint32_t)left, c = (uint32_t)(right >> 32), d = (uint32_t)right;
    return (uint64_t)(a * c) << 32 | (uint32_t)(a * d + b);
}

static void compose_all(void *left, void *right, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *count; i++)
        ((uint64_t *)right)[i] = compose(((uint64_t *)left)[i], ((uint64_t *)right)[i]);
}

MPI_Op handle_of(enum operation operation)
{
    static MPI_Op ours = MPI_OP_NULL;
    const MPI_Op known[] = {MPI_SUM,  MPI_PROD, MPI_MAX, MPI_MIN,  MPI_LAND,   MPI_LOR,
                            MPI_LXOR, MPI_BAND, MPI_BOR, MPI_BXOR, MPI_MINLOC, MPI_MAXLOC};
    if (operation < COMPOSE)
        return known[operation];
    if (ours == MPI_OP_NULL)
        MPI_Op_create(compose_all, 0, &ours);
    return ours;
}

const char *operation_name(enum operation operation)
{
    static const char *const names[OPERATIONS] = {"sum",        "product", "maximum",    "minimum",   "logical and",
                                                  "logical or", "logical xor", "and",    "or",        "xor",
                                                  "minimum's place", "maximum's place", "composition"};
    return names[operation];
}

int64_t input(enum operation operation, uint64_t key, int r, size_t i)
{
    uint64_t state = key + (uint64_t)r * 1000003u + i * 64;
    uint64_t any = next_random(&state);
    if (operation == COMPOSE)
        return (int64_t)any;
    if (operation == MINLOC || operation == MAXLOC)
        return (int64_t)(any % 5 << 8) | r;
    if (operation == PROD)
        return 1 + (int64_t)(any % 3);
    if (operation == BAND || operation == BOR || operation == BXOR)
        return (int64_t)(any % 128);
    return (int64_t)(any % (operation == LAND || operation == LOR || operation == LXOR ? 2 : 10));
}

/* The better value, or of equal ones the lower place. */
static int64_t place(bool least, int64_t left, int64_t right)
{
    int64_t a = left >> 8, b = right >> 8;
    if (a == b)
        return left < right ? left : right;
    return (a < b) == least ? left : right;
}

int64_t combine(enum operation operation, int64_t left, int64_t right)
{
    switch (operation) {
    case SUM: return left + right;
    case PROD: return left * right;
    case MAX: return left > right ? left : right;
    case MIN: return left < right ? left : right;
    case LAND: return left && right;
    case LOR: return left || right;
    case LXOR: return !left != !right;
    case BAND: return left & right;
    case BOR: return left | right;
    case BXOR: return left ^ right;
    case MINLOC: return place(true, left, right);
    case MAXLOC: return place(false, left, right);
    default: return (int64_t)compose((uint64_t)left, (uint64_t)right);
    }
}
